//! One-time work: done once, whoever calls, fails or crashes.

mod callers;
mod failures;
mod faults;
mod record;
mod simulation;
mod waiting;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::clock::{Clock, Instant, TestClock};
use leasehold_core::do_once::{Attempt, Completion, DoOnceError};
use leasehold_core::outcome::Write;
use leasehold_core::{
    DoOnce, ErrorKind, FencingToken, Key, LeaseStore, Leases, MemoryStore, Metadata, Precondition,
    Record,
};
use leasehold_testkit::faulty::{Fault, FaultyStore};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const DOWN: Fault = Fault::Fail(ErrorKind::Unavailable);

type Outcome = Result<Completion, DoOnceError<String>>;

/// A store that all clients share, and what the work of all of them leaves behind.
struct Setup {
    clock: Arc<TestClock>,
    inner: Arc<MemoryStore>,
    key: Key,
    work: Work,
}

/// One process, with a way to the store of its own.
struct Client {
    store: Arc<FaultyStore>,
    leases: Leases,
    once: DoOnce,
}

#[derive(Clone, Default)]
struct Work {
    runs: Arc<AtomicU32>,
    /// When the work of each attempt began, and under which token.
    begun: Arc<Mutex<Vec<(Instant, FencingToken)>>>,
    /// When it was gone.
    ended: Arc<Mutex<Vec<Instant>>>,
}

/// Lives in the work, and notes when that is dropped.
struct Running {
    work: Work,
    clock: Arc<TestClock>,
}

impl Setup {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        Self {
            inner: Arc::new(MemoryStore::with_clock(Arc::<TestClock>::clone(&clock))),
            clock,
            key: Key::new("deploy/42").unwrap(),
            work: Work::default(),
        }
    }

    fn client(&self) -> Client {
        let store = Arc::new(FaultyStore::new(Arc::<MemoryStore>::clone(&self.inner)));
        let leases = Leases::builder(Arc::<FaultyStore>::clone(&store))
            .clock(Arc::<TestClock>::clone(&self.clock))
            .build()
            .unwrap();
        let once = DoOnce::new(&leases, self.key.clone());
        Client {
            store,
            leases,
            once,
        }
    }

    /// A call whose work takes this long and gives the number of its attempt.
    fn call(&self, once: &DoOnce, length: Duration) -> impl Future<Output = Outcome> + use<> {
        let (once, work, clock) = (once.clone(), self.work.clone(), Arc::clone(&self.clock));
        async move {
            once.run(move |attempt| async move {
                let _running = Running::new(work, clock, &attempt);
                sleep(length).await;
                Ok(Some(attempt.number().to_string()))
            })
            .await
        }
    }

    /// A call whose work fails.
    async fn fail(&self, once: &DoOnce, error: &str) -> Outcome {
        let (work, clock) = (self.work.clone(), Arc::clone(&self.clock));
        let error = error.to_owned();
        once.run(move |attempt| async move {
            let _running = Running::new(work, clock, &attempt);
            Err(error)
        })
        .await
    }

    /// A process that is killed at work: its store does not hear of it.
    async fn crash(&self, after: Duration) {
        let client = self.client();
        let call = tokio::spawn(self.call(&client.once, 3600 * SECOND));
        sleep(after).await;
        client.store.start_outage(Fault::Hang);
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }

    async fn record(&self) -> Record {
        self.inner.read(&self.key).await.unwrap().unwrap()
    }

    /// Puts metadata there before anybody begins.
    async fn put(&self, values: &[(&str, &str)]) {
        let mut metadata = Metadata::new();
        for (name, value) in values {
            metadata.set(*name, *value).unwrap();
        }
        let (key, any) = (&self.key, &Precondition::Any);
        let written = self.inner.write(key, &metadata, any, None).await;
        assert!(matches!(written, Ok(Write::Written(_))), "{written:?}");
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn runs(&self) -> u32 {
        self.work.runs.load(Ordering::Relaxed)
    }
}

impl Running {
    fn new(work: Work, clock: Arc<TestClock>, attempt: &Attempt) -> Self {
        work.runs.fetch_add(1, Ordering::Relaxed);
        let begun = (clock.now(), attempt.lease().fencing_token().unwrap());
        work.begun.lock().unwrap().push(begun);
        Self { work, clock }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work.ended.lock().unwrap().push(self.clock.now());
    }
}

/// The value under this name in the record.
fn value<'a>(record: &'a Record, name: &str) -> &'a str {
    record.metadata.get(name).unwrap_or("(none)")
}
