//! Waiters in another process are woken, and cost nothing while they wait.

use std::fs;
use std::time::Duration;

use futures::StreamExt;
use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::outcome::Acquire;
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Term};
use leasehold_sqlite::SqliteStore;

use crate::{child, runtime};

fn key() -> Key {
    Key::new("build").unwrap()
}

async fn try_acquire(store: &SqliteStore, by: u8) -> bool {
    let holder = Holder::new("holder").unwrap();
    let id = LeaseId::from_random_bytes([by; 16]);
    let granted = store.acquire(&key(), id, Term::DEFAULT, &holder).await;
    matches!(granted.unwrap(), Acquire::Granted(_))
}

#[test]
fn a_waiter_in_another_process_takes_over_as_soon_as_the_lease_is_released() {
    let test = "waking::a_waiter_in_another_process_takes_over_as_soon_as_the_lease_is_released";
    if let Some((_, path)) = child::role() {
        return runtime().block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            let mut hints = store.watch(&key()).await.unwrap().unwrap();
            assert!(!try_acquire(&store, 2).await);
            child::tell("waiting");
            // Without a poll: only hints make it look.
            while !try_acquire(&store, 2).await {
                let hint = tokio::time::timeout(Duration::from_secs(20), hints.next()).await;
                hint.unwrap().unwrap();
            }
            child::tell("acquired");
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let runtime = runtime();
    let store = runtime.block_on(SqliteStore::open(&path)).unwrap();
    for _ in 0..3 {
        assert!(runtime.block_on(try_acquire(&store, 1)));
        let mut waiter = child::start(test, "wait", &path);
        waiter.expect("waiting");
        let released = SystemClock.now();
        let id = LeaseId::from_random_bytes([1; 16]);
        runtime.block_on(store.release(&key(), id)).unwrap();
        waiter.expect("acquired");
        let took = SystemClock.now().saturating_duration_since(released);
        assert!(took < Duration::from_secs(2), "{took:?}");
        waiter.succeeds();
        let id = LeaseId::from_random_bytes([2; 16]);
        runtime.block_on(store.release(&key(), id)).unwrap();
    }
}

#[test]
fn an_idle_waiter_uses_no_processor_time() {
    let test = "waking::an_idle_waiter_uses_no_processor_time";
    if let Some((_, path)) = child::role() {
        return runtime().block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            let hints = store.watch(&key()).await.unwrap().unwrap();
            let before = processor_time();
            let idle = tokio::time::timeout(Duration::from_secs(2), hints.count()).await;
            assert!(idle.is_err(), "the hints ended");
            let used = processor_time().saturating_sub(before);
            assert!(used <= Duration::from_millis(50), "{used:?}");
        });
    }
    let folder = tempfile::tempdir().unwrap();
    child::start(test, "wait", &folder.path().join("leases.db")).succeeds();
}

/// Of all threads of this process, in steps of a hundredth of a second.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(10 * ticks)
}
