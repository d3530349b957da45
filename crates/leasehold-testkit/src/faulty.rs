//! A store that fails on request.

mod plan;

use std::future::{Future, pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{
    Capabilities, Effect, ErrorKind, Hints, Holder, Key, LeaseId, LeaseStore, Metadata,
    Precondition, Record, StoreError, Term,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use plan::{Fault, Operation, Planned};

/// Wraps a store and makes its operations late, lost, refused or stuck, as planned.
///
/// It waits on tokio's timers only, so it does what it says under paused time too. Without a plan it is the
/// store inside.
///
/// ```
/// use std::sync::Arc;
/// use leasehold_core::{ErrorKind, Key, LeaseStore, MemoryStore};
/// use leasehold_testkit::faulty::{Fault, FaultyStore, Operation};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = FaultyStore::new(Arc::new(MemoryStore::new()));
/// store.plan(Operation::Read, Fault::Fail(ErrorKind::Unavailable)).times(1);
///
/// let key = Key::new("nightly")?;
/// assert!(store.read(&key).await.is_err());
/// assert!(store.read(&key).await?.is_none());
/// assert_eq!(store.calls(Operation::Read), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn LeaseStore>,
    plans: Mutex<plan::Plans>,
    calls: watch::Sender<plan::Counts>,
    /// Requests that arrive after their caller was told that nothing is known of them. They end with this
    /// store.
    late: Mutex<JoinSet<()>>,
}

impl FaultyStore {
    /// A store without faults yet.
    pub fn new(inner: Arc<dyn LeaseStore>) -> Self {
        Self {
            inner,
            plans: Mutex::default(),
            calls: watch::Sender::default(),
            late: Mutex::default(),
        }
    }

    /// Makes this operation fail from its next call on; always, unless [`Planned::times`] says how often.
    ///
    /// Several plans for one operation are used up in the order they were made, one a call.
    pub fn plan(&self, operation: Operation, fault: Fault) -> Planned<'_> {
        Planned::add(&self.plans, operation, fault)
    }

    /// Forgets every plan, used up or not. An outage goes on.
    pub fn clear_plans(&self) {
        self.plans().clear();
    }

    /// From now on every operation has this fault, whatever is planned; plans are not used up by it.
    pub fn start_outage(&self, fault: Fault) {
        self.plans().outage = Some(fault);
    }

    /// Ends the outage. Calls that hang go on hanging.
    pub fn end_outage(&self) {
        self.plans().outage = None;
    }

    /// How often this operation was called, with or without a fault.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls.borrow().of(operation)
    }

    /// Waits until this operation was called at least this often, counted from the store's making.
    pub async fn wait_for_calls(&self, operation: Operation, at_least: u64) {
        let mut calls = self.calls.subscribe();
        // Fails only when the sender is gone, and this store owns it.
        let _ = calls
            .wait_for(|calls| calls.of(operation) >= at_least)
            .await;
    }

    /// Waits until every request made late by [`Fault::ApplyLate`] has been applied.
    pub async fn settle(&self) {
        while poll_fn(|context| self.late().poll_join_next(context))
            .await
            .is_some()
        {}
    }

    fn plans(&self) -> MutexGuard<'_, plan::Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one call through the fault that is its turn.
    async fn through<T, Call, Answer>(
        &self,
        operation: Operation,
        what: &str,
        call: Call,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Call: FnOnce(Arc<dyn LeaseStore>) -> Answer + Send,
        Answer: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let fault = self.plans().next(operation);
        self.calls.send_modify(|calls| calls.add(operation));
        let call = call(Arc::clone(&self.inner));
        let error = |kind, effect, became: &str| {
            let message = format!("{operation:?} of {what:?} at the faulty store: {became}");
            Err(StoreError::new(kind, effect, message))
        };
        match fault {
            None => call.await,
            Some(Fault::DelayBefore(length)) => {
                sleep(length).await;
                call.await
            }
            Some(Fault::DelayAfter(length)) => {
                let answer = call.await;
                sleep(length).await;
                answer
            }
            Some(Fault::Hang) => pending().await,
            Some(Fault::ApplyAndHang) => {
                let _ = call.await;
                pending().await
            }
            Some(Fault::Fail(kind)) => error(kind, Effect::NotApplied, "planned failure"),
            Some(Fault::LoseRequest) => error(
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the request was lost",
            ),
            Some(Fault::LoseAnswer) => {
                let _ = call.await;
                error(
                    ErrorKind::Unavailable,
                    Effect::Unknown,
                    "the answer was lost",
                )
            }
            Some(Fault::ApplyLate(length)) => {
                self.apply_late(length, Box::pin(call));
                error(
                    ErrorKind::Unavailable,
                    Effect::Unknown,
                    "the request is still under way",
                )
            }
        }
    }

    fn apply_late<T: Send + 'static>(
        &self,
        length: Duration,
        call: BoxFuture<'static, Result<T, StoreError>>,
    ) {
        let mut late = self.late();
        // Else a long test would keep every finished one until the end.
        while late.try_join_next().is_some() {}
        late.spawn(async move {
            sleep(length).await;
            let _ = call.await;
        });
    }
}

#[async_trait]
impl LeaseStore for FaultyStore {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        self.through(Operation::Acquire, key.as_str(), |store| {
            let (key, holder) = (key.clone(), holder.clone());
            async move { store.acquire(&key, id, term, &holder).await }
        })
        .await
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        self.through(Operation::Renew, key.as_str(), |store| {
            let key = key.clone();
            async move { store.renew(&key, id).await }
        })
        .await
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        self.through(Operation::Change, key.as_str(), |store| {
            let key = key.clone();
            async move { store.change(&key, id, new_id).await }
        })
        .await
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        self.through(Operation::Release, key.as_str(), |store| {
            let key = key.clone();
            async move { store.release(&key, id).await }
        })
        .await
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        self.through(Operation::BreakLease, key.as_str(), |store| {
            let key = key.clone();
            async move { store.break_lease(&key, after).await }
        })
        .await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.through(Operation::Read, key.as_str(), |store| {
            let key = key.clone();
            async move { store.read(&key).await }
        })
        .await
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        self.through(Operation::Write, key.as_str(), |store| {
            let (key, metadata, precondition) =
                (key.clone(), metadata.clone(), precondition.clone());
            async move { store.write(&key, &metadata, &precondition, lease).await }
        })
        .await
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        self.through(Operation::Delete, key.as_str(), |store| {
            let (key, precondition) = (key.clone(), precondition.clone());
            async move { store.delete(&key, &precondition, lease).await }
        })
        .await
    }

    /// The whole list is fetched before its first record is given.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        stream::once(async move {
            let listed = self
                .through(Operation::List, prefix, |store| {
                    let prefix = prefix.to_owned();
                    async move { Ok(store.list(&prefix).collect::<Vec<_>>().await) }
                })
                .await;
            stream::iter(listed.unwrap_or_else(|error| vec![Err(error)]))
        })
        .flatten()
        .boxed()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    /// One call, one fault: every lease of the batch gets the same error.
    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        let answers = self
            .through(Operation::RenewMany, "a batch", |store| {
                let leases = leases.to_vec();
                async move { Ok(store.renew_many(&leases).await) }
            })
            .await;
        answers.unwrap_or_else(|error| {
            let each = |_| {
                Err(StoreError::new(
                    error.kind(),
                    error.effect(),
                    error.to_string(),
                ))
            };
            leases.iter().map(each).collect()
        })
    }

    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        self.through(Operation::Watch, key.as_str(), |store| {
            let key = key.clone();
            async move { store.watch(&key).await }
        })
        .await
    }
}
