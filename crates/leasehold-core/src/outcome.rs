//! What a store answers. Being refused because somebody else holds the lease is an outcome, never an error.

use std::time::Duration;

use crate::{FencingToken, Holder, LeaseState, Record, Version};

/// Answer to [`acquire`](crate::LeaseStore::acquire).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// The lease is yours; the record is as of the grant.
    Granted(Record),
    /// Somebody else holds it.
    Held(HeldBy),
}

/// Who stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// [`LeaseState::Leased`] or [`LeaseState::Breaking`].
    pub state: LeaseState,
    /// The holder, where the store tells.
    pub holder: Option<Holder>,
    /// The holder's token, where the store tells.
    pub token: Option<FencingToken>,
    /// What remains of its term or break period, where the store tells; `None` when infinite.
    pub remaining: Option<Duration>,
}

/// Why an operation under a lease was refused: what the store found in place of that lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHeld {
    /// The state of the lease found; `None` when there is no record at the key.
    pub state: Option<LeaseState>,
    /// Who holds it instead, where the store tells.
    pub holder: Option<Holder>,
}

/// Answer to [`renew`](crate::LeaseStore::renew).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renew {
    /// The term starts again.
    Renewed,
    /// The lease is not held by this id.
    NotHeld(NotHeld),
}

/// Answer to [`change`](crate::LeaseStore::change).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The lease is held by the new id; token and what remains of the term are the same.
    Changed,
    /// The lease is not held by the old id, nor by the new one.
    NotHeld(NotHeld),
}

/// Answer to [`release`](crate::LeaseStore::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Free for others at once.
    Released,
    /// It was not held by this id (any more), which is as good.
    NotHeld,
}

/// Answer to [`break_lease`](crate::LeaseStore::break_lease).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// It ends after this long, and cannot be renewed.
    Breaking(Duration),
    /// It has ended: free for others at once.
    Broken,
    /// Nobody held it.
    NotHeld,
}

/// Answer to [`write`](crate::LeaseStore::write).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Written; this is the new version.
    Written(Version),
    /// The precondition does not hold. Carries the version found, where there is a record and the store
    /// tells.
    Conflict(Option<Version>),
    /// No lease id was given, and somebody holds the lease.
    Leased(HeldBy),
    /// A lease id was given, and it does not hold the lease.
    NotHeld(NotHeld),
}

/// Answer to [`delete`](crate::LeaseStore::delete).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// Deleted, and its lease with it. Fencing tokens go on from where they were.
    Deleted,
    /// There is no record at the key.
    Absent,
    /// The precondition does not hold. Carries the version found, where the store tells.
    Conflict(Option<Version>),
    /// No lease id was given, and somebody holds the lease.
    Leased(HeldBy),
    /// A lease id was given, and it does not hold the lease.
    NotHeld(NotHeld),
}
