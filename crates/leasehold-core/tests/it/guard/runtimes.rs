//! Guards that outlive the runtime they were made in, or live in another one.

use std::sync::Arc;

use leasehold_core::{
    AcquireError, AutoRenewLease, Key, LeaseState, LeaseStore, Leases, LossCause, MemoryStore,
};
use leasehold_testkit::faulty::{FaultyStore, Operation};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::support::{key, ms, s};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap()
}

fn client(runtime: &Runtime, store: Arc<dyn LeaseStore>) -> Leases {
    let _inside = runtime.enter();
    Leases::new(store).unwrap()
}

fn acquire(runtime: &Runtime, leases: &Leases, key: &Key) -> AutoRenewLease {
    runtime.block_on(leases.acquire(key)).unwrap()
}

#[test]
fn a_guard_dropped_outside_of_any_runtime_is_released() {
    for runtime in [one_thread(), two_threads()] {
        let store = Arc::new(MemoryStore::new());
        let leases = client(&runtime, Arc::<MemoryStore>::clone(&store));
        let lease = acquire(&runtime, &leases, &key("k"));
        std::thread::spawn(move || drop(lease)).join().unwrap();
        assert!(runtime.block_on(leases.shutdown(s(5))).is_empty());
        let record = runtime.block_on(store.read(&key("k"))).unwrap().unwrap();
        assert_eq!(record.state, LeaseState::Available);
    }
}

#[test]
fn guards_and_acquisitions_dropped_with_their_runtime_do_not_panic() {
    for round in 0..40 {
        for runtime in [one_thread(), two_threads()] {
            let store = Arc::new(MemoryStore::new());
            let leases = client(&runtime, Arc::<MemoryStore>::clone(&store));
            let mut watched = Vec::new();
            for n in 0..8 {
                let lease = acquire(&runtime, &leases, &key(&n.to_string()));
                watched.push(lease.handle());
                runtime.spawn(async move {
                    lease.lost().await;
                    std::future::pending::<()>().await;
                });
                let leases = leases.clone();
                runtime.spawn(async move { leases.acquire(&key(&n.to_string())).await });
            }
            drop(leases);
            if round % 2 == 0 {
                drop(runtime);
            } else {
                runtime.shutdown_timeout(s(5));
            }
            for handle in watched {
                assert!(handle.check().is_err());
                assert!(handle.cancellation_token().is_cancelled());
            }
        }
    }
}

#[test]
fn a_guard_is_lost_when_the_runtime_that_renews_it_ends() {
    for runtime in [one_thread(), two_threads()] {
        let store = Arc::new(MemoryStore::new());
        let leases = client(&runtime, Arc::<MemoryStore>::clone(&store));
        let lease = acquire(&runtime, &leases, &key("k"));
        let other = one_thread();
        lease.check().unwrap();
        drop(runtime);
        let lost = other
            .block_on(async { timeout(s(5), lease.lost()).await })
            .unwrap();
        assert_eq!(lost.cause, LossCause::RenewalStopped);
        assert!(lease.cancellation_token().is_cancelled());
        // Neither way of letting go waits for anybody, nor panics.
        let error = other.block_on(lease.release()).unwrap_err();
        assert!(error.to_string().contains("left to expire"), "{error}");
        assert!(other.block_on(leases.shutdown(s(5))).is_empty());
    }
}

#[test]
fn nothing_is_acquired_that_nobody_would_renew() {
    for runtime in [one_thread(), two_threads()] {
        let store = Arc::new(MemoryStore::new());
        let leases = client(&runtime, Arc::<MemoryStore>::clone(&store));
        drop(runtime);
        let other = one_thread();
        let answer = other.block_on(leases.acquire(&key("k")));
        assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
        assert!(other.block_on(store.read(&key("k"))).unwrap().is_none());
    }
}

#[test]
fn a_waiter_is_told_when_the_runtime_that_would_renew_its_lease_ends() {
    let store = Arc::new(MemoryStore::new());
    let asked = Arc::new(FaultyStore::new(Arc::<MemoryStore>::clone(&store)));
    let (ours, theirs, other) = (two_threads(), two_threads(), two_threads());
    let held = acquire(&theirs, &client(&theirs, store), &key("k"));
    let leases = client(&ours, Arc::<FaultyStore>::clone(&asked));
    let waiting = other.spawn(async move { leases.acquire(&key("k")).await });
    other.block_on(asked.wait_for_calls(Operation::Acquire, 2));
    drop(ours);
    let answer = other.block_on(async { timeout(s(5), waiting).await.unwrap().unwrap() });
    assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
    held.check().unwrap();
}

/// A grant that arrives while the driver ends must not become a guard that nobody watches.
#[test]
fn a_guard_acquired_while_its_runtime_ends_is_either_refused_or_lost() {
    for round in 0..300 {
        let store = Arc::new(MemoryStore::new());
        let (ours, other) = (two_threads(), one_thread());
        let leases = client(&ours, store);
        let ending = std::thread::spawn(move || {
            std::thread::sleep(ms(1) * (round % 10) / 10);
            drop(ours);
        });
        let mut guards = Vec::new();
        other.block_on(async {
            for n in 0..10_000 {
                match leases.acquire(&key(&n.to_string())).await {
                    Ok(lease) => guards.push(lease),
                    Err(AcquireError::ShutDown) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        ending.join().unwrap();
        for lease in guards {
            assert_eq!(lease.check().unwrap_err().cause, LossCause::RenewalStopped);
        }
    }
}
