//! One-time work, for all callers on all machines; see [`DoOnce`].

mod attempt;
mod progress;

use std::fmt::{Debug, Display};
use std::num::NonZeroU32;
use std::time::Duration;

pub use attempt::Attempt;
pub use progress::{Progress, Stage};

use futures::FutureExt;
use tokio::time::timeout;

use crate::client::queue::Turn;
use crate::clock::{Instant, sleep_until_some};
use crate::{
    AcquireError, AutoRenewLease, Effect, ErrorKind, Invalid, Key, LeaseError, Leases, Lost,
    Metadata, Record, RunError, StoreError, TryAcquire,
};

/// Something to be done once, for all callers on all machines: a deployment's initialization, a migration.
///
/// Everybody calls [`run`](Self::run); one caller does the work under a lease, and all return when it is done.
/// What was done is kept in the record's metadata, so that later callers return at once. When the one that
/// does it crashes, the next caller takes over after the term, at the last [checkpoint](Attempt::checkpoint).
///
/// # What it does not guarantee
/// The work is *recorded as done* once. An attempt that crashes, or loses its lease before that is recorded,
/// is followed by another: make the work repeatable, or give the [fencing token](crate::FencingToken) to
/// what it changes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::sync::Arc;
/// # use leasehold_core::{DoOnce, Key, Leases, MemoryStore};
/// # let leases = Leases::new(Arc::new(MemoryStore::new()))?;
/// let migration = DoOnce::new(&leases, Key::new("deploy-42/migrate")?);
/// let done = migration
///     .run(|attempt| async move {
///         if !attempt.reached("schema") {
///             // … create the tables …
///             attempt.checkpoint("schema").await?;
///         }
///         // … fill them …
///         Ok::<_, leasehold_core::LeaseError>(Some("3 tables".into()))
///     })
///     .await?;
/// assert_eq!(done.result.as_deref(), Some("3 tables"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DoOnce {
    leases: Leases,
    key: Key,
    policy: FailurePolicy,
    wait_at_most: Option<Duration>,
}

/// What follows an attempt that failed. One that ended without a word (a crash, a lost lease) failed too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Its caller gets the error, and the next caller tries again, however often.
    #[default]
    RetryByNextCaller,
    /// As before, until this many attempts were made; then every caller gets [`DoOnceError::GivenUp`].
    Attempts(NonZeroU32),
    /// One attempt for all.
    GiveUp,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whether this very call did it.
    pub performed_here: bool,
    /// The number of the attempt that did it, from 1.
    pub attempt: u32,
    /// What the work gave as its result.
    pub result: Option<String>,
    /// Who did it, for people.
    pub holder: Option<String>,
    /// When it was done, RFC 3339, by the wall clock of who did it; for people.
    pub finished: Option<String>,
}

/// Why it is not done, or not known to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoOnceError<E> {
    /// This caller's attempt failed.
    #[error("attempt {attempt} at {key} failed: {error}")]
    Failed {
        /// What was to be done.
        key: Key,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// What the work said.
        error: E,
    },
    /// As many attempts failed as the policy allows.
    #[error("given up on {key} after {attempts} attempts; the last: {error}")]
    GivenUp {
        /// What was to be done.
        key: Key,
        /// How many attempts were made.
        attempts: u32,
        /// What the last one said.
        error: String,
    },
    /// This caller's attempt lost its lease before it was recorded as done, and the work has stopped. The next
    /// caller tries again.
    #[error("the attempt was stopped: {0}")]
    Interrupted(#[source] Lost),
    /// This caller's work went on after its lease was lost and cannot be stopped: it **may still run**.
    #[error("the attempt does not stop: {0}")]
    WillNotStop(#[source] Lost),
    /// It was not done within the time given by [`DoOnce::wait_at_most`].
    #[error("{0} was not done within the time allowed")]
    TimedOut(Key),
    /// The result is too large to be kept, with all else in the record; the attempt failed.
    #[error("the result cannot be kept: {0}")]
    Result(Invalid),
    /// Nothing could be acquired.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a caller gets.
type Settled<E> = Result<Completion, DoOnceError<E>>;

impl FailurePolicy {
    fn limit(self) -> u32 {
        match self {
            Self::RetryByNextCaller => u32::MAX,
            Self::Attempts(limit) => limit.get(),
            Self::GiveUp => 1,
        }
    }
}

impl DoOnce {
    /// Something to be done once under this key.
    pub fn new(leases: &Leases, key: Key) -> Self {
        Self {
            leases: leases.clone(),
            key,
            policy: FailurePolicy::default(),
            wait_at_most: None,
        }
    }

    /// What follows an attempt that failed. Each caller judges by its own policy.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Waits for others for at most this long; for ever unless set. The caller's own work may take any time.
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.wait_at_most = Some(limit);
        self
    }

    /// How far it is, as the record says; `None` when nobody has begun.
    ///
    /// # Errors
    /// When the store fails, or the record holds what this library does not write.
    pub async fn progress(&self) -> Result<Option<Progress>, StoreError> {
        match self.leases.store().read(&self.key).await? {
            Some(record) => Progress::of(&record),
            None => Ok(None),
        }
    }

    /// Returns when it is done: at once if it was done before, else by waiting for whoever does it or by
    /// running `work`, which is given the [`Attempt`] and may give a result to be kept in the record: a short
    /// one, for with all else there it must fit into [`Metadata::MAX_BYTES`].
    ///
    /// Of all callers in this process one at a time asks the store. The one that did the work returns when
    /// its lease is released as well, which takes up to a term if the store cannot be reached by then.
    ///
    /// # Errors
    /// When this caller's attempt failed or was stopped, when the policy gives up, or the store fails.
    ///
    /// # Panics
    /// When the work does (the attempt counts as failed), and outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropped early, the work is aborted as by [`AutoRenewLease::run`]; the attempt counts as failed.
    pub async fn run<F, Fut, E>(&self, work: F) -> Result<Completion, DoOnceError<E>>
    where
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Option<String>, E>> + Send + 'static,
        E: Debug + Display + Send + 'static,
    {
        let until = self
            .wait_at_most
            .map(|limit| self.leases.clock().now() + limit);
        // What was done long ago costs one read and no lease. A store that cannot be read now is given the
        // time that acquiring gives it.
        if let Some(settled) = self.look().await.or_else(unless_retryable)? {
            return settled;
        }
        // Kept until the end: whoever is next in this process has nothing to ask the store before.
        let _turn = if let Some(turn) = self.try_turn() {
            turn
        } else {
            let turn = self.turn(until).await?;
            if let Some(settled) = self.look().await.or_else(unless_retryable)? {
                return settled;
            }
            turn
        };
        let left = until.map(|until| until.saturating_duration_since(self.leases.clock().now()));
        let mut look = || self.look().boxed();
        let acquired = self.leases.acquire_unless(&self.key, left, &mut look);
        let lease = match acquired.await? {
            Ok(TryAcquire::Acquired(lease)) => lease,
            Ok(TryAcquire::Held(_)) => return Err(DoOnceError::TimedOut(self.key.clone())),
            Err(settled) => return settled,
        };
        // Again, under the lease: it may have been done between the first look and the grant.
        let found = Progress::of(&lease.record())?;
        if let Some(settled) = self.judge(found.as_ref()) {
            // The reaper sees to it; nothing here waits for that.
            drop(lease);
            return settled;
        }
        let made = found.as_ref().map_or(0, |found| found.attempt);
        if made >= self.policy.limit() {
            return self.give_up(lease, made).await;
        }
        let number = made.saturating_add(1);
        self.attempt(lease, number, work).await
    }

    /// The turn to ask the store, if no other caller of this process has it.
    fn try_turn(&self) -> Option<Turn> {
        self.leases.shared.doing.place(&self.key).try_turn().ok()
    }

    async fn turn<E>(&self, until: Option<Instant>) -> Result<Turn, DoOnceError<E>> {
        let shared = &self.leases.shared;
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => Err(AcquireError::ShutDown.into()),
            turn = shared.doing.place(&self.key).turn() => Ok(turn),
            () = sleep_until_some(&*shared.clock, until) => Err(DoOnceError::TimedOut(self.key.clone())),
        }
    }

    /// Looks once. `None` when there is something to do, or somebody does it.
    async fn look<E>(&self) -> Result<Option<Settled<E>>, StoreError> {
        let limit = self.leases.shared.timing.first_attempt_limit();
        match timeout(limit, self.progress()).await {
            Ok(found) => Ok(self.judge(found?.as_ref())),
            Err(_) => Err(StoreError::no_answer(
                "reading the record of",
                &self.key,
                limit,
            )),
        }
    }

    /// What a caller gets who finds this; `None` when there is something to do.
    fn judge<E>(&self, found: Option<&Progress>) -> Option<Settled<E>> {
        let found = found?;
        match found.stage {
            Stage::Done => Some(Ok(found.completion(false))),
            Stage::Failed if found.attempt >= self.policy.limit() => {
                Some(Err(DoOnceError::GivenUp {
                    key: self.key.clone(),
                    attempts: found.attempt,
                    error: found.error.clone().unwrap_or_default(),
                }))
            }
            Stage::Failed | Stage::Running => None,
        }
    }

    /// The last attempt allowed ended without a word: says so in the record, for all.
    async fn give_up<E>(
        &self,
        lease: AutoRenewLease,
        attempts: u32,
    ) -> Result<Completion, DoOnceError<E>> {
        let error = "it ended without a word: crashed, or lost its lease".to_owned();
        let failed = self.failed(&lease.record(), &error);
        lease.write(&failed).await.map_err(lease_error)?;
        drop(lease);
        Err(DoOnceError::GivenUp {
            key: self.key.clone(),
            attempts,
            error,
        })
    }

    async fn attempt<F, Fut, E>(
        &self,
        lease: AutoRenewLease,
        number: u32,
        work: F,
    ) -> Result<Completion, DoOnceError<E>>
    where
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Option<String>, E>> + Send + 'static,
        E: Debug + Display + Send + 'static,
    {
        let running = Progress::running(&lease.record(), self.now(), number, lease.holder())
            .map_err(|invalid| self.no_room(&invalid))?;
        lease.write(&running).await.map_err(lease_error)?;
        let once = self.clone();
        let ran = lease
            .run(move |handle| async move {
                let attempt = Attempt::new(handle.clone(), number);
                let outcome = work(attempt.clone()).await;
                attempt.close().await;
                let (ended, outcome) = once.end(&handle.record(), number, outcome);
                match (handle.write(&ended).await, outcome) {
                    (Ok(_), outcome) => outcome,
                    // Lost after the request was sent: it may have been written all the same.
                    (Err(LeaseError::Lost(lost)), outcome) => {
                        match once.leases.store().read(&once.key).await {
                            Ok(Some(found)) if found.metadata == ended => outcome,
                            _ => Err(DoOnceError::Interrupted(lost)),
                        }
                    }
                    // What the work says matters more than that it could not be recorded. Left as running,
                    // it counts as an attempt that ended without a word.
                    (Err(LeaseError::Store(_)), Err(failed)) => Err(failed),
                    (Err(LeaseError::Store(error)), Ok(_)) => Err(DoOnceError::Store(error)),
                }
            })
            .await;
        match ran {
            Ok(outcome)
            | Err(RunError::Lost {
                output: Some(outcome),
                ..
            }) => outcome,
            Err(RunError::Lost { lost, output: None }) => Err(DoOnceError::Interrupted(lost)),
            Err(RunError::WillNotStop { lost }) => Err(DoOnceError::WillNotStop(lost)),
        }
    }

    /// The metadata to be written when the work has ended, and what its caller gets then.
    fn end<E: Display>(
        &self,
        record: &Record,
        number: u32,
        outcome: Result<Option<String>, E>,
    ) -> (Metadata, Settled<E>) {
        match outcome {
            Ok(result) => match Progress::done(record, self.now(), result.as_deref()) {
                Ok(done) => {
                    let completion = Completion {
                        performed_here: true,
                        attempt: number,
                        result,
                        holder: done.get(progress::HOLDER).map(Into::into),
                        finished: done.get(progress::FINISHED).map(Into::into),
                    };
                    (done, Ok(completion))
                }
                Err(invalid) => (
                    self.failed(record, &invalid.to_string()),
                    Err(DoOnceError::Result(invalid)),
                ),
            },
            Err(error) => (
                self.failed(record, &error.to_string()),
                Err(DoOnceError::Failed {
                    key: self.key.clone(),
                    attempt: number,
                    error,
                }),
            ),
        }
    }

    /// The metadata of a failed attempt.
    fn failed(&self, record: &Record, error: &str) -> Metadata {
        Progress::failed(record, self.now(), error)
            .or_else(|_| Progress::failed(record, self.now(), ""))
            // Nothing fits any more. Left as running, it counts as an attempt that ended without a word.
            .unwrap_or_else(|_| record.metadata.clone())
    }

    fn no_room(&self, invalid: &Invalid) -> StoreError {
        StoreError::new(
            ErrorKind::InvalidInput,
            Effect::NotApplied,
            format!("recording an attempt at {}: {invalid}", self.key),
        )
    }

    fn now(&self) -> String {
        humantime::format_rfc3339_seconds(self.leases.clock().wall()).to_string()
    }
}

/// A store that does not answer now may still let us acquire.
fn unless_retryable<T>(error: StoreError) -> Result<Option<T>, StoreError> {
    if error.is_retryable() {
        return Ok(None);
    }
    Err(error)
}

fn lease_error<E>(error: LeaseError) -> DoOnceError<E> {
    match error {
        LeaseError::Lost(lost) => DoOnceError::Interrupted(lost),
        LeaseError::Store(error) => DoOnceError::Store(error),
    }
}
