use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leasehold_core::clock::{Clock, Instant, TestClock};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{
    AutoRenewLease, Capabilities, Hints, Holder, Key, LeaseId, LeaseState, LeaseStatus, LeaseStore,
    Leases, LeasesBuilder, MemoryStore, Metadata, Precondition, Record, StoreError, Term,
    TryAcquire,
};
use leasehold_testkit::faulty::FaultyStore;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One store and one clock, as everybody in a test shares them.
pub(crate) struct World {
    pub(crate) clock: Arc<TestClock>,
    /// What is really stored.
    pub(crate) memory: Arc<MemoryStore>,
    /// The same, as the clients of this world see it.
    pub(crate) store: Arc<FaultyStore>,
    start: Instant,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let memory = Arc::new(MemoryStore::with_clock(Arc::<TestClock>::clone(&clock)));
        Self {
            store: Arc::new(FaultyStore::new(Arc::<MemoryStore>::clone(&memory))),
            start: clock.now(),
            memory,
            clock,
        }
    }

    /// A client with the default term of 60 s that sees the faults.
    pub(crate) fn client(&self) -> Leases {
        self.builder("us").build().unwrap()
    }

    pub(crate) fn builder(&self, holder: &str) -> LeasesBuilder {
        self.builder_on(Arc::<FaultyStore>::clone(&self.store), holder)
    }

    /// A client of another store, on the clock of this world.
    pub(crate) fn builder_on(&self, store: Arc<dyn LeaseStore>, holder: &str) -> LeasesBuilder {
        Leases::builder(store)
            .clock(Arc::<TestClock>::clone(&self.clock))
            .holder(Holder::new(holder).unwrap())
    }

    /// A client in another process, to which nothing ever happens.
    pub(crate) fn rival(&self) -> Leases {
        let memory = Arc::<MemoryStore>::clone(&self.memory);
        self.builder_on(memory, "rival").build().unwrap()
    }

    /// How long ago the world began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.start)
    }

    /// How long ago it was, as what [`elapsed`](Self::elapsed) said then.
    pub(crate) fn since(&self, then: Duration) -> Duration {
        self.elapsed().saturating_sub(then)
    }

    /// The instant this long after the beginning.
    pub(crate) fn at(&self, elapsed: Duration) -> Instant {
        self.start + elapsed
    }

    /// What is really stored.
    pub(crate) async fn record(&self, key: &Key) -> Option<Record> {
        self.memory.read(key).await.unwrap()
    }

    pub(crate) async fn state(&self, key: &Key) -> LeaseState {
        let record = self.record(key).await;
        record.map_or(LeaseState::Available, |record| record.state)
    }

    /// Waits until nobody holds the key at the store.
    pub(crate) async fn wait_until_free(&self, key: &Key) {
        while self.state(key).await.is_held() {
            sleep(ms(1)).await;
        }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) use tokio::time::sleep;

/// Asserts that something happened at a time or within the two ticks of tokio's timers after it.
#[track_caller]
pub(crate) fn assert_at(happened: Duration, expected: Duration) {
    assert!(
        happened >= expected && happened <= expected + ms(2),
        "at {happened:?} instead of {expected:?}"
    );
}

#[track_caller]
pub(crate) fn acquired(answer: TryAcquire) -> AutoRenewLease {
    match answer {
        TryAcquire::Acquired(lease) => lease,
        TryAcquire::Held(by) => panic!("held by {by:?}"),
    }
}

#[track_caller]
pub(crate) fn held(answer: TryAcquire) -> leasehold_core::outcome::HeldBy {
    match answer {
        TryAcquire::Acquired(lease) => panic!("acquired {lease:?}"),
        TryAcquire::Held(by) => by,
    }
}

/// A short word for each status.
pub(crate) fn word(status: LeaseStatus) -> &'static str {
    match status {
        LeaseStatus::Held => "held",
        LeaseStatus::Jeopardy { .. } => "jeopardy",
        LeaseStatus::Lost(_) => "lost",
        LeaseStatus::Released => "released",
    }
}

/// Everything that a guard's status is from now until it is over, without immediate repetitions.
pub(crate) fn history(lease: &AutoRenewLease) -> JoinHandle<Vec<&'static str>> {
    let mut status = lease.status();
    tokio::spawn(async move {
        let mut words = vec![word(*status.borrow_and_update())];
        while status.changed().await.is_ok() {
            words.push(word(*status.borrow_and_update()));
            words.dedup();
        }
        words
    })
}

/// When a store hints at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hinting {
    Never,
    WhenChanged,
    /// Every millisecond.
    Needlessly,
}

/// A store with some of its answers replaced.
#[derive(Debug)]
pub(crate) struct Shaped {
    inner: Arc<dyn LeaseStore>,
    /// Whether it claims that batches are cheaper.
    pub(crate) batches: bool,
    pub(crate) hints: Hinting,
    /// Renewals of these keys are never answered.
    pub(crate) hung: Mutex<HashSet<Key>>,
    /// This many renewals panic.
    pub(crate) panics: AtomicU64,
    /// The size of every batch, and 1 for every single renewal.
    pub(crate) renewals: watch::Sender<Vec<usize>>,
}

impl Shaped {
    pub(crate) fn new(inner: Arc<dyn LeaseStore>) -> Self {
        Self {
            inner,
            batches: false,
            hints: Hinting::WhenChanged,
            hung: Mutex::default(),
            panics: AtomicU64::new(0),
            renewals: watch::Sender::default(),
        }
    }

    /// How many leases were asked to be renewed so far.
    pub(crate) fn renewed(&self) -> usize {
        self.renewals.borrow().iter().sum()
    }

    async fn trouble(&self, key: &Key) {
        let panics = self.panics.load(Ordering::Relaxed);
        if panics > 0 {
            self.panics.store(panics - 1, Ordering::Relaxed);
            panic!("a defect in the store");
        }
        let hung = self.hung.lock().unwrap().contains(key);
        if hung {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl LeaseStore for Shaped {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        self.inner.acquire(key, id, term, holder).await
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        self.renewals.send_modify(|sizes| sizes.push(1));
        self.trouble(key).await;
        self.inner.renew(key, id).await
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        self.inner.change(key, id, new_id).await
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        self.inner.release(key, id).await
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        self.inner.break_lease(key, after).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner.read(key).await
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        self.inner.write(key, metadata, precondition, lease).await
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        self.inner.delete(key, precondition, lease).await
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        self.inner.list(prefix)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            batch_renewal: self.batches,
            watch: self.hints != Hinting::Never,
            ..self.inner.capabilities()
        }
    }

    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        self.renewals.send_modify(|sizes| sizes.push(leases.len()));
        let mut answers = Vec::with_capacity(leases.len());
        for (key, id) in leases {
            self.trouble(key).await;
            answers.push(self.inner.renew(key, *id).await);
        }
        answers
    }

    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        match self.hints {
            Hinting::Never => Ok(None),
            Hinting::WhenChanged => self.inner.watch(key).await,
            Hinting::Needlessly => {
                let ticks = stream::unfold((), |()| async { Some((sleep(ms(1)).await, ())) });
                Ok(Some(ticks.boxed()))
            }
        }
    }
}
