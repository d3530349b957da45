//! Work under a lease: it runs while the lease is held, and it is gone before the lease is released.

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use leasehold_core::clock::{Clock, Instant, TestClock, sleep_until};
use leasehold_core::outcome::Acquire;
use leasehold_core::{
    AutoRenewLease, ErrorKind, Holder, Key, LeaseHandle, LeaseId, LeaseState, LeaseStore, Leases,
    LossCause, MemoryStore, RunError, Term, TryAcquire,
};
use leasehold_testkit::faulty::{Fault, FaultyStore, Operation};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const DOWN: Fault = Fault::Fail(ErrorKind::Unavailable);

/// A term of 60 s, a deadline after 55 s, and a grace of 2 s.
struct Setup {
    clock: Arc<TestClock>,
    store: Arc<FaultyStore>,
    leases: Leases,
    key: Key,
}

impl Setup {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let inner = Arc::new(MemoryStore::with_clock(Arc::<TestClock>::clone(&clock)));
        let store = Arc::new(FaultyStore::new(inner));
        let leases = Leases::builder(Arc::<FaultyStore>::clone(&store))
            .clock(Arc::<TestClock>::clone(&clock))
            .grace(2 * SECOND)
            .build()
            .unwrap();
        let key = Key::new("k").unwrap();
        Self {
            clock,
            store,
            leases,
            key,
        }
    }

    async fn acquire(&self) -> AutoRenewLease {
        self.leases.acquire(&self.key).await.unwrap()
    }

    async fn state(&self) -> LeaseState {
        self.store.read(&self.key).await.unwrap().unwrap().state
    }

    fn witness(&self, lease: &AutoRenewLease) -> (Witness, Seen) {
        let seen = Seen::default();
        let witness = Witness {
            clock: Arc::<TestClock>::clone(&self.clock),
            store: Arc::clone(&self.store),
            lease: lease.handle(),
            seen: Arc::clone(&seen),
        };
        (witness, seen)
    }
}

type Seen = Arc<Mutex<Option<End>>>;

/// What was true when the work was gone.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    releases: u64,
    held: bool,
}

/// Lives in the work, and sees how things stand when that is dropped.
struct Witness {
    clock: Arc<dyn Clock>,
    store: Arc<FaultyStore>,
    lease: LeaseHandle,
    seen: Seen,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let end = End {
            at: self.clock.now(),
            releases: self.store.calls(Operation::Release),
            held: self.lease.check().is_ok(),
        };
        *self.seen.lock().unwrap() = Some(end);
    }
}

fn gone(seen: &Seen) -> End {
    seen.lock().unwrap().expect("the work is not gone")
}

/// Drops the future after this many polls, unless it ends before.
async fn at_most_polls<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops the future after every other task had this many turns, unless it ends before.
async fn at_most_turns<T>(turns: usize, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = async { for _ in 0..turns { tokio::task::yield_now().await } } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn work_runs_under_the_lease_and_the_lease_is_released_after_it() {
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let token = lease.fencing_token();
    let (witness, seen) = setup.witness(&lease);
    let store = Arc::clone(&setup.store);
    let output = lease
        .run(move |lease| async move {
            let _witness = witness;
            assert_eq!(lease.fencing_token(), token);
            // Much longer than the term: it is renewed.
            for _ in 0..30 {
                sleep(10 * SECOND).await;
                lease.check().unwrap();
                let record = store.read(lease.key()).await.unwrap().unwrap();
                assert_eq!(record.state, LeaseState::Leased);
            }
            42
        })
        .await;
    assert_eq!(output.unwrap(), 42);
    let end = gone(&seen);
    assert_eq!((end.releases, end.held), (0, true));
    assert_eq!(setup.state().await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn output_of_work_that_ends_within_the_grace_is_kept() {
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let (witness, seen) = setup.witness(&lease);
    let begin = setup.clock.now();
    setup.store.plan(Operation::Renew, DOWN);
    let ran = lease
        .run(move |lease| async move {
            let _witness = witness;
            let lost = lease.lost().await;
            assert!(lease.cancellation_token().is_cancelled());
            sleep(SECOND).await;
            lost.cause
        })
        .await;
    let Err(RunError::Lost { lost, output }) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(lost.cause, LossCause::Expired);
    assert_eq!(output, Some(LossCause::Expired));
    let end = gone(&seen);
    assert!(end.at >= begin + 56 * SECOND && end.at < begin + 57 * SECOND);
    assert_eq!(end.releases, 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_ignores_its_cancellation_is_dropped_after_the_grace_and_before_the_term_is_over()
{
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let (witness, seen) = setup.witness(&lease);
    let begin = setup.clock.now();
    setup.store.plan(Operation::Renew, DOWN);
    let ran = lease
        .run(move |_| async move {
            let _witness = witness;
            pending::<()>().await;
        })
        .await;
    assert!(matches!(ran, Err(RunError::Lost { output: None, .. })));
    let end = gone(&seen);
    assert!(end.at >= begin + 57 * SECOND, "{end:?}");
    assert!(end.at < begin + 58 * SECOND, "{end:?}");
    assert_eq!(end.releases, 0);
    // What is held no more is let go of all the same: others need not wait for the term's end.
    setup.store.wait_for_calls(Operation::Release, 1).await;
    assert!(setup.clock.now() < begin + 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn work_under_a_broken_lease_has_its_grace_from_when_that_was_noticed() {
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let (witness, seen) = setup.witness(&lease);
    let begin = setup.clock.now();
    setup.store.break_lease(&setup.key, None).await.unwrap();
    let ran = lease
        .run(move |_| async move {
            let _witness = witness;
            pending::<()>().await;
        })
        .await;
    let Err(RunError::Lost { lost, output: None }) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(lost.cause, LossCause::Broken);
    // The first renewal finds it, after two thirds of the term.
    let end = gone(&seen);
    assert!(end.at >= begin + 42 * SECOND, "{end:?}");
    assert!(end.at < begin + 43 * SECOND, "{end:?}");
    assert_eq!(end.releases, 0);
}

#[tokio::test(start_paused = true)]
async fn work_has_no_grace_left_when_the_machine_slept_past_the_term() {
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let (witness, seen) = setup.witness(&lease);
    let running = tokio::spawn(lease.run(move |_| async move {
        let _witness = witness;
        pending::<()>().await;
    }));
    sleep(10 * SECOND).await;
    setup.clock.suspend(3600 * SECOND);
    let resumed = setup.clock.now();
    let ran = running.await.unwrap();
    assert!(matches!(ran, Err(RunError::Lost { output: None, .. })));
    // What a timer needs to notice, and no grace on top: somebody else may be at work.
    assert!(gone(&seen).at < resumed + SECOND, "{:?}", gone(&seen));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_sleeps_during_the_grace_does_not_make_it_longer() {
    let setup = Setup::new();
    let lease = setup.acquire().await;
    let (witness, seen) = setup.witness(&lease);
    let handle = lease.handle();
    setup.store.plan(Operation::Renew, DOWN);
    let running = tokio::spawn(lease.run(move |_| async move {
        let _witness = witness;
        pending::<()>().await;
    }));
    handle.lost().await;
    setup.clock.suspend(3600 * SECOND);
    let resumed = setup.clock.now();
    let ran = running.await.unwrap();
    assert!(
        matches!(ran, Err(RunError::Lost { output: None, .. })),
        "{ran:?}"
    );
    assert!(gone(&seen).at < resumed + SECOND, "{:?}", gone(&seen));
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_with_its_lease_is_told_so_and_a_moment_before_it_is_not() {
    for (early, kept) in [(Duration::from_millis(1), true), (Duration::ZERO, false)] {
        let setup = Setup::new();
        let lease = setup.acquire().await;
        setup.store.plan(Operation::Renew, DOWN);
        let clock = Arc::clone(&setup.clock);
        let ran = lease
            .run(move |lease| async move {
                sleep_until(&*clock, lease.deadline() - early).await;
                7
            })
            .await;
        match ran {
            Ok(output) => assert!(kept && output == 7),
            Err(RunError::Lost { lost, output }) => {
                assert_eq!((lost.cause, output), (LossCause::Expired, Some(7)));
                assert!(!kept);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_work_reaches_the_caller_and_the_lease_is_released() {
    for at_once in [true, false] {
        let setup = Setup::new();
        let lease = setup.acquire().await;
        let begin = setup.clock.now();
        let (witness, seen) = setup.witness(&lease);
        let running = lease.run(move |_| {
            let witness = witness;
            assert!(!at_once, "boom");
            async move {
                let _witness = witness;
                sleep(SECOND).await;
                panic!("boom");
            }
        });
        let panicked = AssertUnwindSafe(running).catch_unwind().await.unwrap_err();
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"boom"));
        let end = gone(&seen);
        assert_eq!((end.releases, end.held), (0, true));
        let again = setup.acquire().await;
        assert!(setup.clock.now() < begin + 5 * SECOND);
        again.release().await.unwrap();
    }
}

async fn dropped_early(
    setup: &Setup,
    limited: impl AsyncFnOnce(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) -> Option<()>,
) -> bool {
    let lease = setup.acquire().await;
    let begin = setup.clock.now();
    let (witness, seen) = setup.witness(&lease);
    let running = lease.run(move |_| async move {
        let _witness = witness;
        sleep(SECOND).await;
    });
    let running = running.map(|ran| ran.unwrap());
    let ended = limited(Box::pin(running)).await.is_some();
    let again = setup.acquire().await;
    let end = gone(&seen);
    assert_eq!((end.releases, end.held), (0, true));
    assert!(setup.clock.now() < begin + 5 * SECOND);
    again.release().await.unwrap();
    ended
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_poll_the_work_is_gone_before_the_lease_is_released() {
    let mut ended = false;
    for polls in 1..100 {
        let setup = Setup::new();
        ended = dropped_early(&setup, async |run| at_most_polls(polls, run).await).await;
        if ended {
            break;
        }
    }
    assert!(ended, "not every poll was tried");
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_turn_of_others_the_work_is_gone_before_the_lease_is_released() {
    for turns in 0..20 {
        let setup = Setup::new();
        dropped_early(&setup, async |run| at_most_turns(turns, run).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_time_the_work_is_gone_before_the_lease_is_released() {
    for step in 0..30 {
        let setup = Setup::new();
        for operation in [Operation::Acquire, Operation::Release] {
            let fault = Fault::DelayBefore(Duration::from_millis(200));
            setup.store.plan(operation, fault).times(1);
        }
        let limit = Duration::from_millis(50) * step;
        let limited = async |run| tokio::time::timeout(limit, run).await.ok();
        dropped_early(&setup, limited).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_at_the_release_does_not_cost_the_output() {
    for fault in [DOWN, Fault::Hang, Fault::Fail(ErrorKind::Unauthorized)] {
        let setup = Setup::new();
        let lease = setup.acquire().await;
        let begin = setup.clock.now();
        setup.store.plan(Operation::Release, fault);
        let output = lease.run(|_| async { "done" }).await;
        assert_eq!(output.unwrap(), "done");
        // No longer than the store can hold it against us.
        assert!(setup.clock.now() < begin + 70 * SECOND, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_not_released_under_work_that_blocks_and_the_caller_is_told() {
    let clock = leasehold_core::clock::SystemClock;
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let leases = Leases::builder(Arc::<FaultyStore>::clone(&store))
        .term(SECOND)
        .build()
        .unwrap();
    let key = Key::new("k").unwrap();
    store.plan(Operation::Renew, DOWN);
    let before = clock.now();
    let lease = leases.acquire(&key).await.unwrap();
    let (unblock, blocked) = mpsc::channel::<()>();
    let ran = lease
        .run(move |_| async move {
            // Whoever runs this blocks its thread until told otherwise.
            let _ = blocked.recv();
        })
        .await;
    let Err(RunError::WillNotStop { lost }) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(lost.cause, LossCause::Expired);
    assert!(clock.now() >= before + SECOND, "the term was not over");
    assert_eq!(store.calls(Operation::Release), 0);
    // The store has ended it by itself, so others go on.
    let (id, holder) = (
        LeaseId::from_random_bytes([9; 16]),
        Holder::new("other").unwrap(),
    );
    let granted = store.acquire(&key, id, Term::Finite(SECOND), &holder).await;
    assert!(matches!(granted, Ok(Acquire::Granted(_))), "{granted:?}");
    assert_eq!(store.calls(Operation::Release), 0);
    unblock.send(()).unwrap();
    store.wait_for_calls(Operation::Release, 1).await;
}

/// Takes its time to be dropped, and says how many releases there were by then.
struct SlowToGo {
    store: Arc<FaultyStore>,
    releases: Option<tokio::sync::oneshot::Sender<u64>>,
}

impl Drop for SlowToGo {
    fn drop(&mut self) {
        // Hands on what this thread was about to run next, the release among it.
        tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(200)));
        let releases = self.store.calls(Operation::Release);
        self.releases.take().unwrap().send(releases).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_not_released_while_the_work_is_being_dropped() {
    for lost in [true, false] {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let leases = Leases::builder(Arc::<FaultyStore>::clone(&store))
            .term(SECOND)
            .build()
            .unwrap();
        let lease = leases.acquire(&Key::new("k").unwrap()).await.unwrap();
        let (releases, at_the_end) = tokio::sync::oneshot::channel();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let going = SlowToGo {
            store: Arc::clone(&store),
            releases: Some(releases),
        };
        if lost {
            store.plan(Operation::Renew, DOWN);
        }
        let running = lease.run(move |_| async move {
            let _going = going;
            begun.send(()).unwrap();
            pending::<()>().await;
        });
        if lost {
            assert!(matches!(running.await, Err(RunError::Lost { .. })));
        } else {
            tokio::select! {
                _ = running => panic!("it does not end"),
                begun = has_begun => begun.unwrap(),
            }
        }
        assert_eq!(at_the_end.await.unwrap(), 0, "lost: {lost}");
        store.wait_for_calls(Operation::Release, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_kept_for_work_that_blocks_after_its_caller_has_gone() {
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let leases = Leases::builder(Arc::<FaultyStore>::clone(&store))
        .term(SECOND)
        .build()
        .unwrap();
    let key = Key::new("k").unwrap();
    let lease = leases.acquire(&key).await.unwrap();
    let (unblock, blocked) = mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let running = lease.run(move |_| async move {
        begun.send(()).unwrap();
        let _ = blocked.recv();
    });
    tokio::select! {
        _ = running => panic!("it is blocked"),
        begun = has_begun => begun.unwrap(),
    }
    // Well past the term: it is renewed as long as the work is there.
    store.wait_for_calls(Operation::Renew, 4).await;
    assert_eq!(store.calls(Operation::Release), 0);
    let other = Leases::new(Arc::<FaultyStore>::clone(&store)).unwrap();
    let held = other.try_acquire(&key).await.unwrap();
    assert!(matches!(held, TryAcquire::Held(_)), "{held:?}");
    unblock.send(()).unwrap();
    other.acquire(&key).await.unwrap().release().await.unwrap();
}

#[test]
fn work_is_stopped_when_the_runtime_that_renews_its_lease_has_ended() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap()
    };
    let (renewing, working) = (runtime(), runtime());
    let lease = renewing.block_on(async {
        let leases = Leases::new(Arc::new(MemoryStore::new())).unwrap();
        leases.acquire(&Key::new("k").unwrap()).await.unwrap()
    });
    let running = working.spawn(lease.run(|lease| async move { lease.lost().await.cause }));
    renewing.shutdown_background();
    let ran = working
        .block_on(running)
        .unwrap_or_else(|failed| resume_unwind(failed.into_panic()));
    let Err(RunError::Lost { lost, output }) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(lost.cause, LossCause::RenewalStopped);
    assert_eq!(output, Some(LossCause::RenewalStopped));
}
