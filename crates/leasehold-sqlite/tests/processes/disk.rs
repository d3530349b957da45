//! A disk that is full, and one that cannot be written.

use std::fs;
use std::path::Path;
use std::process::Command;

use leasehold_core::outcome::{Acquire, Release};
use leasehold_core::{
    Effect, ErrorKind, Holder, Key, LeaseId, LeaseStore, Metadata, Precondition, StoreError, Term,
};
use leasehold_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::{child, runtime};

const ID: [u8; 16] = [1; 16];

async fn acquire(store: &SqliteStore, key: &str) -> Result<u64, StoreError> {
    let (key, holder) = (Key::new(key).unwrap(), Holder::new("holder").unwrap());
    let id = LeaseId::from_random_bytes(ID);
    match store.acquire(&key, id, Term::Infinite, &holder).await? {
        Acquire::Granted(record) => Ok(record.token.unwrap().get()),
        Acquire::Held(held_by) => panic!("{held_by:?}"),
    }
}

async fn release(store: &SqliteStore, key: &str) -> Release {
    let id = LeaseId::from_random_bytes(ID);
    store.release(&Key::new(key).unwrap(), id).await.unwrap()
}

#[test]
#[ignore = "mounts a disk of its own: cargo xtask test"]
fn a_full_disk_is_told_as_such_and_damages_nothing() {
    let test = "disk::a_full_disk_is_told_as_such_and_damages_nothing";
    if let Some((_, directory)) = child::role() {
        return runtime().block_on(fill(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$1\"";
    child::start_with_mounts(test, "fill", folder.path(), mount).succeeds();
}

async fn fill(directory: &Path) {
    let path = directory.join("leases.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let first = acquire(&store, "build").await.unwrap();
    let ballast = directory.join("ballast");
    while fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&ballast)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 4096]))
        .is_ok()
    {}

    // Until the room in the log that is there already is used up, too.
    let mut metadata = Metadata::new();
    metadata.set("filler", "x".repeat(4000)).unwrap();
    let mut written = Vec::new();
    let error = loop {
        let key = Key::new(format!("filler-{}", written.len())).unwrap();
        match store.write(&key, &metadata, &Precondition::Any, None).await {
            Ok(_) => written.push(key),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    assert!(error.is_retryable());
    let message = error.to_string();
    assert!(message.contains("the disk is full"), "{message}");
    assert!(message.contains(path.to_str().unwrap()), "{message}");

    // What could not be written is not there; what was answered is.
    let absent = Key::new(format!("filler-{}", written.len())).unwrap();
    assert_eq!(store.read(&absent).await.unwrap(), None);
    for key in &written {
        let record = store.read(key).await.unwrap().unwrap();
        assert_eq!(record.metadata, metadata);
    }
    let fresh = directory.join("fresh.db");
    let error = SqliteStore::open(&fresh).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    fs::remove_file(&ballast).unwrap();
    release(&store, "build").await;
    assert!(acquire(&store, "build").await.unwrap() > first);
    let fresh = SqliteStore::open(&fresh).await.unwrap();
    acquire(&fresh, "build").await.unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let check = connection.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(check.unwrap(), "ok");
}

#[test]
#[ignore = "mounts a disk of its own: cargo xtask test"]
fn a_directory_that_cannot_be_written_is_told_as_such() {
    let test = "disk::a_directory_that_cannot_be_written_is_told_as_such";
    if let Some((_, directory)) = child::role() {
        return runtime().block_on(open_read_only(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs tmpfs \"$1\"";
    child::start_with_mounts(test, "open", folder.path(), mount).succeeds();
}

async fn open_read_only(directory: &Path) {
    let there = directory.join("there.db");
    let store = SqliteStore::open(&there).await.unwrap();
    acquire(&store, "build").await.unwrap();
    drop(store);
    // As soon as the store's threads have closed their files.
    let remounted = || {
        let mut mount = Command::new("mount");
        mount.args(["-o", "remount,ro"]).arg(directory);
        mount.output().unwrap().status.success()
    };
    while !remounted() {
        tokio::task::yield_now().await;
    }
    for path in [there, directory.join("absent.db")] {
        let error = SqliteStore::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert_eq!(error.effect(), Effect::NotApplied);
        let message = error.to_string();
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert!(message.contains("not writable"), "{message}");
        assert!(message.contains("Read-only file system"), "{message}");
    }
}
