#![cfg(target_os = "linux")]

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use leasehold_core::{LeaseStore, Term};
use rusqlite::Connection;
use tokio::time::timeout;

use super::{HandClock, id, key, open, try_acquire};
use crate::wake::{Notifier, others};

/// Far longer than a notice takes.
const QUIET: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn what_nobody_waits_for_wakes_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = open(&path, &HandClock::at_seconds(5), "boot").await;
    try_acquire(&store, 1, Term::DEFAULT).await.unwrap();
    let notifier = Notifier::start(&path).unwrap();
    let mut changes = notifier.changes().unwrap();

    store.renew(&key(), id(1)).await.unwrap();
    try_acquire(&store, 1, Term::DEFAULT).await.unwrap();
    try_acquire(&store, 2, Term::DEFAULT).await.unwrap_err();
    store.release(&key(), id(2)).await.unwrap();
    store.read(&key()).await.unwrap();
    assert_eq!(store.list("").count().await, 1);
    let other = Connection::open(&path).unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    other.query_row(checkpoint, (), |_| Ok(())).unwrap();
    drop(other);
    assert!(timeout(QUIET, changes.changed()).await.is_err());

    others(&path);
    timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_watcher_is_told_of_its_own_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = open(&path, &HandClock::at_seconds(5), "boot").await;
    let elsewhere = leasehold_core::Key::new("elsewhere").unwrap();
    let mut unconcerned = store.watch(&elsewhere).await.unwrap().unwrap();
    let mut hints = store.watch(&key()).await.unwrap().unwrap();
    try_acquire(&store, 1, Term::DEFAULT).await.unwrap();
    timeout(LIMIT, hints.next()).await.unwrap().unwrap();
    assert!(timeout(QUIET, unconcerned.next()).await.is_err());
}

#[tokio::test]
async fn a_change_between_the_call_and_the_first_wait_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = open(&path, &HandClock::at_seconds(5), "boot").await;
    try_acquire(&store, 1, Term::DEFAULT).await.unwrap();
    let mut hints = store.watch(&key()).await.unwrap().unwrap();
    assert!(hints.next().now_or_never().is_none());
    store.release(&key(), id(1)).await.unwrap();
    timeout(LIMIT, hints.next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn hints_end_when_the_store_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = open(&path, &HandClock::at_seconds(5), "boot").await;
    let mut hints = store.watch(&key()).await.unwrap().unwrap();
    drop(store);
    assert_eq!(timeout(LIMIT, hints.next()).await.unwrap(), None);
}
