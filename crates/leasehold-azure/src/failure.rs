use azure_core::Error;
use azure_core::error::ErrorKind;
use leasehold_core::{Effect, ErrorKind as StoreErrorKind, StoreError};

/// Why one request got no answer of the kind it asked for.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    what: What,
    /// Whether an earlier request for the same got no answer: it may have had, or may still have, its effect.
    pub(crate) in_doubt: bool,
}

#[derive(Clone, Debug)]
enum What {
    /// The service said no.
    Refused { status: u16, code: String },
    /// Sent, perhaps, and never answered.
    Dropped(String),
    /// Never sent.
    Unreachable(String),
    /// An answer that makes no sense.
    Strange(String),
    /// The record is not one that we wrote; what is wrong with it.
    Corrupt(&'static str),
}

/// Answers to a creation: the blob is there. Which of them depends on its lease.
pub(crate) const IS_THERE: &[&str] = &["BlobAlreadyExists", "LeaseIdMissing", "ConditionNotMet"];
/// There is no blob.
pub(crate) const IS_ABSENT: &[&str] =
    &["BlobNotFound", "ContainerNotFound", "ContainerBeingDeleted"];
/// An acquisition found the lease taken.
pub(crate) const IS_TAKEN: &[&str] = &["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"];
/// A lease operation found that its id does not hold the lease.
pub(crate) const IS_NOT_THE_HOLDER: &[&str] = &[
    "LeaseIdMismatchWithLeaseOperation",
    "LeaseNotPresentWithLeaseOperation",
    "LeaseIsBrokenAndCannotBeRenewed",
    "LeaseIsBreakingAndCannotBeChanged",
    "LeaseAlreadyBroken",
    "LeaseLost",
];
/// An operation on the blob found that its lease id does not hold the lease, or that it needs one.
pub(crate) const IS_NOT_UNDER_THE_LEASE: &[&str] = &[
    "LeaseIdMissing",
    "LeaseIdMismatchWithBlobOperation",
    "LeaseNotPresentWithBlobOperation",
    "LeaseLost",
];

impl Failure {
    pub(crate) fn strange(why: &str) -> Self {
        What::Strange(why.to_owned()).into()
    }

    pub(crate) fn corrupt(what: &'static str) -> Self {
        What::Corrupt(what).into()
    }

    /// Whether the service said one of these. The status alone would tell too little: three different things
    /// are a 412.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        matches!(&self.what, What::Refused { code, .. } if codes.contains(&code.as_str()))
    }

    /// Whether it was sent, perhaps, and the connection gave no answer: repeated at once it may succeed.
    pub(crate) fn is_dropped(&self) -> bool {
        matches!(self.what, What::Dropped(_))
    }

    /// Whether the same again may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind() == StoreErrorKind::Unavailable
    }

    pub(crate) fn after_doubt(mut self, in_doubt: bool) -> Self {
        self.in_doubt |= in_doubt;
        self
    }

    pub(crate) fn effect(&self) -> Effect {
        let certainly_none = match &self.what {
            What::Refused { status, .. } => *status < 500 && *status != 408,
            What::Unreachable(_) | What::Corrupt(_) => true,
            What::Dropped(_) | What::Strange(_) => false,
        };
        if certainly_none && !self.in_doubt {
            Effect::NotApplied
        } else {
            Effect::Unknown
        }
    }

    /// As the caller's error.
    pub(crate) fn error(&self, doing: &str) -> StoreError {
        StoreError::new(
            self.kind(),
            self.effect(),
            format!("{doing}: {}", self.why()),
        )
    }

    fn kind(&self) -> StoreErrorKind {
        match &self.what {
            What::Refused {
                status: 401 | 403, ..
            } => StoreErrorKind::Unauthorized,
            What::Refused { code, .. } if code == "ContainerBeingDeleted" => {
                StoreErrorKind::Unavailable
            }
            What::Refused {
                status: 400 | 413, ..
            } => StoreErrorKind::InvalidInput,
            What::Refused {
                status: 408 | 429 | 500..,
                ..
            }
            | What::Dropped(_)
            | What::Unreachable(_) => StoreErrorKind::Unavailable,
            What::Refused { .. } | What::Strange(_) => StoreErrorKind::Internal,
            What::Corrupt(_) => StoreErrorKind::Corrupt,
        }
    }

    fn why(&self) -> String {
        match &self.what {
            What::Refused { status, code } => format!("the service answered {status} {code}"),
            What::Dropped(cause) => format!("the connection gave no answer: {cause}"),
            What::Unreachable(cause) => format!("the service cannot be reached: {cause}"),
            What::Strange(why) => format!("the service's answer makes no sense: {why}"),
            What::Corrupt(what) => (*what).into(),
        }
    }
}

impl From<What> for Failure {
    fn from(what: What) -> Self {
        Self {
            what,
            in_doubt: false,
        }
    }
}

impl From<Error> for Failure {
    /// Nothing of the answer's text comes along: where a signature is refused, the service repeats it.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::HttpResponse {
                status, error_code, ..
            } => What::Refused {
                status: (*status).into(),
                code: error_code
                    .as_deref()
                    .filter(|code| code.chars().all(|c| c.is_ascii_alphanumeric()))
                    .unwrap_or("(no code)")
                    .to_owned(),
            },
            // These were made by our transport, without URLs.
            ErrorKind::Io => What::Dropped(error.to_string()),
            ErrorKind::Connection => What::Unreachable(error.to_string()),
            other => What::Strange(other.to_string()),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        What::Refused {
            status,
            code: code.into(),
        }
        .into()
    }

    #[test]
    fn a_refusal_had_no_effect_unless_an_earlier_request_is_in_doubt() {
        for status in [400, 403, 404, 409, 412, 429] {
            assert_eq!(refused(status, "X").effect(), Effect::NotApplied);
            assert_eq!(
                refused(status, "X").after_doubt(true).effect(),
                Effect::Unknown
            );
        }
        for status in [408, 500, 503] {
            assert_eq!(refused(status, "X").effect(), Effect::Unknown);
        }
    }

    #[test]
    fn an_error_says_what_a_caller_can_do() {
        for (status, code, kind) in [
            (403, "AuthenticationFailed", StoreErrorKind::Unauthorized),
            (503, "ServerBusy", StoreErrorKind::Unavailable),
            (409, "ContainerBeingDeleted", StoreErrorKind::Unavailable),
            (400, "MetadataTooLarge", StoreErrorKind::InvalidInput),
            (409, "SnapshotsPresent", StoreErrorKind::Internal),
        ] {
            let error = refused(status, code).error("doing it");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(code), "{error}");
        }
    }
}
