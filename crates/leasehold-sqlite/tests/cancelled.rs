//! Callers that go away while their request is under way.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use leasehold_core::outcome::Acquire;
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Term};
use leasehold_sqlite::SqliteStore;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(10);

fn key(number: u8) -> Key {
    Key::new(format!("key-{number}")).unwrap()
}

fn id(number: u8) -> LeaseId {
    LeaseId::from_random_bytes([number; 16])
}

async fn try_acquire(store: &SqliteStore, at: u8, by: u8) -> bool {
    let holder = Holder::new("holder").unwrap();
    let granted = store
        .acquire(&key(at), id(by), Term::Infinite, &holder)
        .await;
    matches!(granted.unwrap(), Acquire::Granted(_))
}

async fn until_acquired(store: &SqliteStore, at: u8, by: u8) {
    let acquired = async {
        while !try_acquire(store, at, by).await {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, acquired).await.unwrap();
}

#[tokio::test]
async fn a_release_after_a_dropped_acquire_leaves_nothing_held() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("leases.db")).await;
    let store = Arc::new(store.unwrap());
    for round in 0..20 {
        let tasks: Vec<_> = (0..32)
            .map(|number| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { try_acquire(&store, number, 1).await })
            })
            .collect();
        // Some are waiting, some under way, some done.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        futures::future::join_all(tasks).await;
        for number in 0..32 {
            store.release(&key(number), id(1)).await.unwrap();
        }
        let held = store.list("").filter(|record| {
            let held = record.as_ref().unwrap().state.is_held();
            async move { held }
        });
        assert_eq!(held.count().await, 0, "round {round}");
    }
}

#[tokio::test]
async fn a_release_is_carried_out_although_its_caller_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(try_acquire(&store, 0, 1).await);
    assert!(store.release(&key(0), id(1)).now_or_never().is_none());
    until_acquired(&store, 0, 2).await;

    // Also when the store goes with it.
    assert!(store.release(&key(0), id(2)).now_or_never().is_none());
    drop(store);
    let again = SqliteStore::open(&path).await.unwrap();
    until_acquired(&again, 0, 3).await;
}

#[tokio::test]
async fn dropping_a_store_stops_its_threads_and_closes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(try_acquire(&store, 0, 1).await);
    let hints = store.watch(&key(0)).await.unwrap();
    assert!(folder.path().join("leases.db-wal").exists());
    drop(store);
    // The last one to close merges the log.
    let closed = async {
        while folder.path().join("leases.db-wal").exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, closed).await.unwrap();
    drop(hints);
}
