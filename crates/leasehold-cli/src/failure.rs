use std::error::Error;
use std::fmt;

use leasehold::{AcquireError, ErrorKind, Invalid, OpenError, StoreError};

use crate::exit::Exit;

/// Why the program did not do what it was asked: one line for people, and how it ends.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// Something of this program or this machine failed, not of the store.
    pub(crate) fn internal(doing: &str, error: &dyn Error) -> Self {
        Self::new(Exit::INTERNAL, format!("{doing}: {}", in_one_line(error)))
    }

    pub(crate) fn of_store(error: &StoreError) -> Self {
        let exit = match error.kind() {
            ErrorKind::InvalidInput => Exit::USAGE,
            _ => Exit::STORE,
        };
        Self::new(exit, in_one_line(error))
    }

    pub(crate) fn of_acquiring(error: &AcquireError) -> Self {
        match error {
            AcquireError::Store(error) => Self::of_store(error),
            other => Self::internal("acquiring", other),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::USAGE, invalid.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of_store(&error)
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        Self::of_acquiring(&error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url(invalid) => invalid.into(),
            OpenError::Store(error) => error.into(),
            other => Self::new(Exit::STORE, in_one_line(&other)),
        }
    }
}

/// An error and all that caused it. A cause that the text before it ends with already is not said twice.
pub(crate) fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use leasehold::Effect;

    use super::*;

    #[test]
    fn every_cause_is_told_once_and_in_one_line() {
        let io = std::io::Error::other("disk\non fire");
        let inner =
            StoreError::new(ErrorKind::Unavailable, Effect::Unknown, "writing").with_source(io);
        let outer = StoreError::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            "acquiring k: writing",
        )
        .with_source(inner);
        assert_eq!(in_one_line(&outer), "acquiring k: writing: disk on fire");
    }
}
