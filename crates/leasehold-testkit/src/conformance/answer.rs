use std::fmt::Debug;
use std::time::Duration;

use leasehold_core::outcome::{
    Acquire, Break, Change, Delete, HeldBy, NotHeld, Release, Renew, Write,
};
use leasehold_core::{Effect, ErrorKind, Record, StoreError, Version};

/// What a store answered, with what it was asked: a message without the question helps nobody.
pub(super) struct Answer<T> {
    pub(super) asked: String,
    pub(super) got: Result<T, StoreError>,
}

impl<T: Debug> Answer<T> {
    /// The answer, when it is one at all.
    #[track_caller]
    pub(super) fn ok(self) -> T {
        self.expect("an answer", Some)
    }

    /// The message of the refusal of input that no store accepts.
    #[track_caller]
    pub(super) fn invalid(self) -> String {
        match self.got {
            Err(error)
                if error.kind() == ErrorKind::InvalidInput
                    && error.effect() == Effect::NotApplied =>
            {
                error.to_string()
            }
            got => panic!("{}: expected InvalidInput, got {got:?}", self.asked),
        }
    }

    #[track_caller]
    fn expect<U>(self, expected: &str, pick: impl FnOnce(T) -> Option<U>) -> U {
        let Self { asked, got } = self;
        // No closures: the panic has to name the line of the rule.
        match got {
            Ok(got) => {
                let shown = format!("{got:?}");
                match pick(got) {
                    Some(picked) => picked,
                    None => panic!("{asked}: expected {expected}, got {shown}"),
                }
            }
            Err(error) => {
                panic!("{asked}: expected {expected}, got the error {error} ({error:?})")
            }
        }
    }
}

impl Answer<Acquire> {
    #[track_caller]
    pub(super) fn granted(self) -> Record {
        self.expect("Granted", |got| match got {
            Acquire::Granted(record) => Some(record),
            Acquire::Held(_) => None,
        })
    }

    #[track_caller]
    pub(super) fn held(self) -> HeldBy {
        self.expect("Held", |got| match got {
            Acquire::Held(held_by) => Some(held_by),
            Acquire::Granted(_) => None,
        })
    }
}

impl Answer<Renew> {
    #[track_caller]
    pub(super) fn renewed(self) {
        self.expect("Renewed", |got| match got {
            Renew::Renewed => Some(()),
            Renew::NotHeld(_) => None,
        });
    }

    #[track_caller]
    pub(super) fn not_held(self) -> NotHeld {
        self.expect("NotHeld", |got| match got {
            Renew::NotHeld(not_held) => Some(not_held),
            Renew::Renewed => None,
        })
    }
}

impl Answer<Change> {
    #[track_caller]
    pub(super) fn changed(self) {
        self.expect("Changed", |got| match got {
            Change::Changed => Some(()),
            Change::NotHeld(_) => None,
        });
    }

    #[track_caller]
    pub(super) fn not_held(self) -> NotHeld {
        self.expect("NotHeld", |got| match got {
            Change::NotHeld(not_held) => Some(not_held),
            Change::Changed => None,
        })
    }
}

impl Answer<Release> {
    #[track_caller]
    pub(super) fn released(self) {
        self.expect("Released", |got| match got {
            Release::Released => Some(()),
            Release::NotHeld => None,
        });
    }

    #[track_caller]
    pub(super) fn not_held(self) {
        self.expect("NotHeld", |got| match got {
            Release::NotHeld => Some(()),
            Release::Released => None,
        });
    }
}

impl Answer<Break> {
    #[track_caller]
    pub(super) fn breaking(self) -> Duration {
        self.expect("Breaking", |got| match got {
            Break::Breaking(period) => Some(period),
            Break::Broken | Break::NotHeld => None,
        })
    }

    #[track_caller]
    pub(super) fn broken(self) {
        self.expect("Broken", |got| match got {
            Break::Broken => Some(()),
            Break::Breaking(_) | Break::NotHeld => None,
        });
    }

    #[track_caller]
    pub(super) fn not_held(self) {
        self.expect("NotHeld", |got| match got {
            Break::NotHeld => Some(()),
            Break::Breaking(_) | Break::Broken => None,
        });
    }
}

impl Answer<Write> {
    #[track_caller]
    pub(super) fn written(self) -> Version {
        self.expect("Written", |got| match got {
            Write::Written(version) => Some(version),
            Write::Conflict(_) | Write::Leased(_) | Write::NotHeld(_) => None,
        })
    }

    #[track_caller]
    pub(super) fn conflict(self) -> Option<Version> {
        self.expect("Conflict", |got| match got {
            Write::Conflict(found) => Some(found),
            Write::Written(_) | Write::Leased(_) | Write::NotHeld(_) => None,
        })
    }

    #[track_caller]
    pub(super) fn leased(self) -> HeldBy {
        self.expect("Leased", |got| match got {
            Write::Leased(held_by) => Some(held_by),
            Write::Written(_) | Write::Conflict(_) | Write::NotHeld(_) => None,
        })
    }

    #[track_caller]
    pub(super) fn not_held(self) -> NotHeld {
        self.expect("NotHeld", |got| match got {
            Write::NotHeld(not_held) => Some(not_held),
            Write::Written(_) | Write::Conflict(_) | Write::Leased(_) => None,
        })
    }
}

impl Answer<Delete> {
    #[track_caller]
    pub(super) fn deleted(self) {
        self.expect("Deleted", |got| match got {
            Delete::Deleted => Some(()),
            _ => None,
        });
    }

    #[track_caller]
    pub(super) fn absent(self) {
        self.expect("Absent", |got| match got {
            Delete::Absent => Some(()),
            _ => None,
        });
    }

    #[track_caller]
    pub(super) fn conflict(self) -> Option<Version> {
        self.expect("Conflict", |got| match got {
            Delete::Conflict(found) => Some(found),
            _ => None,
        })
    }

    #[track_caller]
    pub(super) fn leased(self) -> HeldBy {
        self.expect("Leased", |got| match got {
            Delete::Leased(held_by) => Some(held_by),
            _ => None,
        })
    }

    #[track_caller]
    pub(super) fn not_held(self) -> NotHeld {
        self.expect("NotHeld", |got| match got {
            Delete::NotHeld(not_held) => Some(not_held),
            _ => None,
        })
    }
}
