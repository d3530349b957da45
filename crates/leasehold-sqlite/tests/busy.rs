//! Somebody else keeps the file locked.

use std::time::Duration;

use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::outcome::Acquire;
use leasehold_core::{Effect, ErrorKind, Holder, Key, LeaseId, LeaseStore, Term};
use leasehold_sqlite::SqliteStore;
use rusqlite::Connection;

#[tokio::test]
async fn a_locked_file_is_waited_for_in_limits_and_can_be_read_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let (key, holder) = (Key::new("build").unwrap(), Holder::new("holder").unwrap());
    let id = LeaseId::from_random_bytes([1; 16]);

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = SystemClock.now();
    let refused = store.acquire(&key, id, Term::DEFAULT, &holder);
    let ((first, second), read) = tokio::join!(
        async { tokio::join!(refused, store.renew(&key, id)) },
        async {
            let read = store.read(&key).await;
            (read, SystemClock.now().saturating_duration_since(began))
        }
    );
    assert_eq!(read.0.unwrap(), None);
    assert!(read.1 < Duration::from_secs(3), "{:?}", read.1);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
        assert!(error.to_string().contains("locked"), "{error}");
    }
    let took = SystemClock.now().saturating_duration_since(began);
    assert!(took < Duration::from_secs(15), "{took:?}");

    other.execute_batch("ROLLBACK").unwrap();
    let granted = store.acquire(&key, id, Term::DEFAULT, &holder).await;
    assert!(matches!(granted.unwrap(), Acquire::Granted(_)));
}

#[tokio::test]
async fn the_switch_to_the_log_waits_for_those_who_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    drop(SqliteStore::open(&path).await.unwrap());
    let other = Connection::open(&path).unwrap();
    let mode = "PRAGMA journal_mode = DELETE";
    let switched = || other.query_row(mode, (), |row| row.get::<_, String>(0));
    // As soon as the store's threads have let go.
    while !switched().is_ok_and(|mode| mode == "delete") {
        tokio::task::yield_now().await;
    }
    // For this one SQLite does not wait by itself.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let opening = tokio::spawn(SqliteStore::open(path.clone()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!opening.is_finished());
    other.execute_batch("COMMIT").unwrap();
    let store = opening.await.unwrap().unwrap();
    // A connection learns of the switch when it reads.
    other.execute_batch("SELECT * FROM counter").unwrap();
    let mode = other.query_row("PRAGMA journal_mode", (), |row| row.get::<_, String>(0));
    assert_eq!(mode.unwrap(), "wal");
    drop(store);
}
