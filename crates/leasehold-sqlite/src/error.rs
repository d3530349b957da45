use std::fmt;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::{Effect, ErrorKind, Key, StoreError};
use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::path;

/// Why a request failed, before it is said to whom: everybody in one commit gets the same.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    effect: Effect,
    cause: String,
    source: Option<Arc<rusqlite::Error>>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, effect: Effect, cause: impl Into<String>) -> Self {
        Self {
            kind,
            effect,
            cause: cause.into(),
            source: None,
        }
    }

    /// The request certainly had no effect.
    pub(crate) fn not_applied(error: rusqlite::Error) -> Self {
        Self::of(error, Effect::NotApplied)
    }

    pub(crate) fn of(error: rusqlite::Error, effect: Effect) -> Self {
        let (kind, cause) = describe(&error);
        Self {
            kind,
            effect,
            cause,
            source: Some(Arc::new(error)),
        }
    }

    pub(crate) fn stopped(effect: Effect) -> Self {
        Self::new(
            ErrorKind::Internal,
            effect,
            "the store's thread has stopped",
        )
    }

    pub(crate) fn too_late(effect: Effect) -> Self {
        Self::new(
            ErrorKind::Unavailable,
            effect,
            "no answer in time; the disk or another process keeps the database from going on",
        )
    }

    /// The error as the caller sees it.
    pub(crate) fn during(self, what: impl fmt::Display, path: &Path) -> StoreError {
        let mut message = format!("{what} in {}: {}", path.display(), self.cause);
        if matches!(self.kind, ErrorKind::Unauthorized)
            && let Some(obstacle) = path::obstacle(path)
        {
            message = format!("{message}: {obstacle}");
        }
        let error = StoreError::new(self.kind, self.effect, message);
        match self.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    pub(crate) fn while_doing(self, verb: &str, key: &Key, path: &Path) -> StoreError {
        self.during(format_args!("{verb} {key}"), path)
    }
}

/// What keeps one command from being carried out.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The row is not one that this library writes. Nothing was changed, and other keys are not concerned.
    Row(&'static str),
    /// The transaction cannot go on.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => Self::Row("a column has an unexpected type"),
            other => Self::Sqlite(other),
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Row(what) => Self::new(
                ErrorKind::Corrupt,
                Effect::NotApplied,
                format!("the record is not one that leasehold writes: {what}"),
            ),
            Trouble::Sqlite(error) => Self::not_applied(error),
        }
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn extended_code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(0, |error| error.extended_code)
}

fn describe(error: &rusqlite::Error) -> (ErrorKind, String) {
    let Some(code) = error.sqlite_error_code() else {
        return (ErrorKind::Internal, error.to_string());
    };
    match code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => (
            ErrorKind::Unavailable,
            "another process keeps the database locked".into(),
        ),
        ErrorCode::DiskFull => (ErrorKind::Unavailable, "the disk is full".into()),
        // What a full disk says when the index of the log cannot grow.
        ErrorCode::SystemIoFailure if extended_code(error) == SQLITE_IOERR_SHMSIZE => (
            ErrorKind::Unavailable,
            "there is no room for the files that SQLite keeps beside it; the disk may be full"
                .into(),
        ),
        ErrorCode::SystemIoFailure => (
            ErrorKind::Unavailable,
            format!("reading or writing the file failed: {error}"),
        ),
        ErrorCode::OutOfMemory => (ErrorKind::Unavailable, "out of memory".into()),
        ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied
        | ErrorCode::CannotOpen => (
            ErrorKind::Unauthorized,
            "the file, and those that SQLite keeps beside it, must be writable and are not".into(),
        ),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => (
            ErrorKind::Corrupt,
            format!("the file is damaged, or no SQLite database: {error}"),
        ),
        _ => (ErrorKind::Internal, error.to_string()),
    }
}

/// The outcomes of a batch, in which one bad row does not spoil the others.
pub(crate) fn each<T>(
    outcomes: impl Iterator<Item = Result<T, Trouble>>,
) -> Result<Vec<Result<T, Failure>>, Trouble> {
    outcomes
        .map(|outcome| match outcome {
            Err(Trouble::Sqlite(error)) => Err(Trouble::Sqlite(error)),
            settled => Ok(settled.map_err(Failure::from)),
        })
        .collect()
}
