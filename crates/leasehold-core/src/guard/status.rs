use std::fmt;

use crate::outcome::NotHeld;
use crate::{Key, LeaseState, StoreError};

/// Where a guard stands; sent on the channel of [`AutoRenewLease::status`](crate::AutoRenewLease::status).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Held, and every renewal so far was confirmed.
    Held,
    /// Still held, but the last renewal is unconfirmed. It is being repeated.
    Jeopardy {
        /// How long until the deadline, at the moment this was sent.
        remaining: std::time::Duration,
    },
    /// Gone, for good: a lost guard never renews again.
    Lost(LossCause),
    /// Let go of by its owner.
    Released,
}

/// Why a guard was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// No renewal was confirmed before the deadline, or the store says that the term ended.
    Expired,
    /// Somebody else was granted the lease.
    TakenOver,
    /// Somebody broke it.
    Broken,
    /// The record was deleted.
    Deleted,
    /// The store refused our credentials until the deadline.
    Unauthorized,
    /// The runtime that renewed it has ended.
    RenewalStopped,
}

impl LossCause {
    pub(crate) fn of(not_held: &NotHeld) -> Self {
        match not_held.state {
            None => Self::Deleted,
            Some(LeaseState::Expired) => Self::Expired,
            Some(LeaseState::Breaking | LeaseState::Broken) => Self::Broken,
            // It is free although we did not release it: a successor held it and let go.
            Some(LeaseState::Leased | LeaseState::Available) => Self::TakenOver,
        }
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired",
            Self::TakenOver => "somebody else holds it",
            Self::Broken => "it was broken",
            Self::Deleted => "its record was deleted",
            Self::Unauthorized => "the store refuses us",
            Self::RenewalStopped => "its runtime ended",
        })
    }
}

/// The lease is not held any more: stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease on {key} is lost: {cause}")]
pub struct Lost {
    /// The key whose lease was lost.
    pub key: Key,
    /// Why. [`LossCause::Expired`] also for a guard that was let go of.
    pub cause: LossCause,
}

/// Why a read or write under a lease failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease is gone. A write that was under way may have happened.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
