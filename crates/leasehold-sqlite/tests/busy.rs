//! Somebody else keeps the file locked.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

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
