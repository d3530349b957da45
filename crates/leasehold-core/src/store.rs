use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use crate::{Capabilities, Holder, Key, LeaseId, Metadata, Precondition, Record, StoreError, Term};

/// Hints that a key may have changed; see [`LeaseStore::watch`].
pub type Hints = BoxStream<'static, ()>;

/// A place that keeps leases: one record a key.
///
/// The table in section 3 of the design says what every operation answers in every state; the conformance
/// suite in `leasehold-testkit` runs all of it against any store.
///
/// # Errors
/// Every operation answers `Err` only when the request itself failed, with what became of it. Whatever the
/// state of the lease, the answer is an outcome. Input that a store does not accept (a term out of range,
/// [`Precondition::IfAbsent`] for a deletion) is [`InvalidInput`](crate::ErrorKind::InvalidInput), and nothing
/// was done.
///
/// # Cancel safety
/// Dropping any of these futures leaves the effect of its request unknown, as a lost answer would.
///
/// # For implementers
/// Every call is bounded in time. Retry nothing beyond what one call needs: the callers know how long their
/// lease lasts, and a store does not.
#[async_trait]
pub trait LeaseStore: Debug + Send + Sync + 'static {
    /// Asks for the lease under an id that the caller proposes.
    ///
    /// Repeated with the id that already holds it, it is granted again and its term starts anew. A new grant
    /// has a greater fencing token than any before it on this key. Creates the record where there is none.
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError>;

    /// Starts the term of a held lease anew, with the length it was acquired with.
    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError>;

    /// Hands the lease from one id to another, without a moment in which it is free.
    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError>;

    /// Lets go. The record stays, so that fencing tokens go on.
    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError>;

    /// Ends a lease without its id, after at most `after`; `None` is what remains of a finite term, and at
    /// once for an infinite one. A lease that is breaking already can only be shortened.
    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError>;

    /// The record, or `None` where there is none.
    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError>;

    /// Replaces the metadata, under a lease or, while nobody holds one, without.
    ///
    /// The lease is looked at before the precondition. Creates the record where there is none and the
    /// precondition allows it.
    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError>;

    /// Deletes the record and its lease, under the same rules as [`write`](Self::write).
    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError>;

    /// Every record whose key starts with `prefix`, each as of some moment after the call.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>>;

    /// What this store can do. Never changes.
    fn capabilities(&self) -> Capabilities;

    /// Renews a batch; one answer for each, in the same order. The default renews one after the other.
    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        let mut answers = Vec::with_capacity(leases.len());
        for (key, id) in leases {
            answers.push(self.renew(key, *id).await);
        }
        answers
    }

    /// A hint each time the key may have changed hands after this call returned: a reason to look, never a
    /// fact. Hints may be late, missing, merged or needless, so waiters also poll. `None`, the default, is a
    /// store that gives none.
    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        let _ = key;
        Ok(None)
    }
}
