//! **Leases as locks**: who may do this now, agreed on by many processes on many machines, on the storage
//! they already have.
//!
//! This crate holds what does not depend on any store: the [`LeaseStore`] trait and its types, the
//! [self-renewing guard](AutoRenewLease), [one-time work](DoOnce), and the [in-memory store](MemoryStore). Users depend on `leasehold`,
//! which re-exports all of it.
//!
//! A lease is a lock with a built-in time-out, so that a crash never blocks everyone for good. No lease can
//! stop a process that is paused: what must not be overtaken checks the [`FencingToken`].

mod capabilities;
mod client;
pub mod clock;
pub mod do_once;
mod driver;
mod error;
mod fencing_token;
mod guard;
mod holder;
mod invalid;
mod key;
pub mod lease;
mod lease_id;
mod memory;
mod metadata;
pub mod outcome;
mod precondition;
mod record;
mod store;
mod term;

pub use capabilities::{Capabilities, TermRange, TimeKeeper};
pub use client::{AcquireError, Leases, LeasesBuilder, TryAcquire};
pub use do_once::DoOnce;
pub use error::{Effect, ErrorKind, StoreError};
pub use fencing_token::FencingToken;
pub use guard::{AutoRenewLease, LeaseError, LeaseHandle, LeaseStatus, LossCause, Lost, RunError};
pub use holder::Holder;
pub use invalid::Invalid;
pub use key::Key;
pub use lease_id::LeaseId;
pub use memory::MemoryStore;
pub use metadata::{Iter as MetadataIter, Metadata};
pub use precondition::Precondition;
pub use record::{LeaseState, Record, Version};
pub use store::{Hints, LeaseStore};
pub use term::Term;
