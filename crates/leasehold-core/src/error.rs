use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::{Invalid, Key};

type Source = Box<dyn Error + Send + Sync>;

/// A request to a store that got no usable answer.
///
/// That somebody else holds a lease is never an error. An error says what happened *to the request*
/// ([`Effect`]) and what the caller can do about it ([`ErrorKind`]); its message names the operation, the
/// key and the store, and never a secret.
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    effect: Effect,
    message: String,
    source: Option<Source>,
}

/// Whether a request that failed may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It certainly had no effect.
    NotApplied,
    /// It may have had, or may still have. This never means "not held": repeat with the same lease id, or
    /// read back.
    Unknown,
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is not one that this store accepts. Mend the call.
    InvalidInput,
    /// The store refuses these credentials, or this user. Mend the set-up.
    Unauthorized,
    /// The store cannot be reached, is busy, full, or did not answer in time. Try again.
    Unavailable,
    /// The store cannot do this at all; see its capabilities.
    Unsupported,
    /// What is stored is not what this library writes. Somebody has to look.
    Corrupt,
    /// A defect in the store or in this library.
    Internal,
}

impl StoreError {
    /// An error of this kind. The message says what was being done, to which key, at which store.
    pub fn new(kind: ErrorKind, effect: Effect, message: impl Into<String>) -> Self {
        Self {
            kind,
            effect,
            message: message.into(),
            source: None,
        }
    }

    /// A request that was given up: whether it has arrived, or still will, is not known.
    pub(crate) fn no_answer(doing: &str, key: &Key, limit: Duration) -> Self {
        Self::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            format!("{doing} {key}: no answer within {limit:?}"),
        )
    }

    /// Keeps the error that caused this one.
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened to the request.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether the same request, with the same lease id, may succeed when it is sent again.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ErrorKind::Unavailable => true,
            ErrorKind::InvalidInput
            | ErrorKind::Unauthorized
            | ErrorKind::Unsupported
            | ErrorKind::Corrupt
            | ErrorKind::Internal => false,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Invalid> for StoreError {
    fn from(invalid: Invalid) -> Self {
        Self::new(
            ErrorKind::InvalidInput,
            Effect::NotApplied,
            invalid.to_string(),
        )
    }
}
