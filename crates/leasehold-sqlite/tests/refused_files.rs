//! Files that are not ours, or not in order: refused with words that help, and left as they are.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use futures::StreamExt;
use leasehold_core::{Effect, ErrorKind, Holder, Key, LeaseId, LeaseStore, StoreError, Term};
use leasehold_sqlite::SqliteStore;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

fn contents(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect()
}

async fn refused(path: &Path) -> StoreError {
    let error = SqliteStore::open(path).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    let message = error.to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    error
}

async fn is_refused_untouched(path: &Path, word: &str) {
    let folder = path.parent().unwrap();
    let before = contents(folder);
    let error = refused(path).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(word), "{error}");
    let after = contents(folder);
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    assert!(before == after, "a byte was changed");
}

/// A file of this library with a record in it, closed.
async fn make_store(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let (key, id) = (
        Key::new("build").unwrap(),
        LeaseId::from_random_bytes([1; 16]),
    );
    let holder = Holder::new("holder").unwrap();
    store
        .acquire(&key, id, Term::Infinite, &holder)
        .await
        .unwrap();
    drop(store);
    // Merges the log as soon as the store's threads have let go.
    let connection = Connection::open(path).unwrap();
    let merged = || {
        let mode = connection.query_row("PRAGMA journal_mode = DELETE", (), |row| {
            row.get::<_, String>(0)
        });
        mode.is_ok_and(|mode| mode == "delete")
    };
    while !merged() {
        tokio::task::yield_now().await;
    }
    let wal = connection.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(()));
    wal.unwrap();
}

/// Runs this on the database and leaves what it wrote in the log.
fn leave_in_log(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_untouched() {
    for bytes in [
        &b"dear diary"[..],
        &[0; 5000],
        &b"SQLite format 2\0".repeat(400),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("diary.txt");
        fs::write(&path, bytes).unwrap();
        is_refused_untouched(&path, "not an SQLite database").await;
    }
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_untouched_with_its_log() {
    for mark in [0, 0x1234] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        leave_in_log(
            &path,
            &format!(
                "PRAGMA journal_mode = WAL; CREATE TABLE kept (x); PRAGMA application_id = {mark};
                 PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO kept VALUES (1)"
            ),
        );
        assert!(
            fs::metadata(folder.path().join("app.db-wal"))
                .unwrap()
                .len()
                > 0
        );
        is_refused_untouched(&path, "another application").await;
    }
}

#[tokio::test]
async fn a_later_schema_version_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    make_store(&path).await;
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA user_version = 2")
        .unwrap();
    is_refused_untouched(&path, "schema version 2").await;
}

#[tokio::test]
async fn a_later_schema_version_that_is_still_in_the_log_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    make_store(&path).await;
    leave_in_log(&path, "PRAGMA user_version = 2");
    let bytes = || ["leases.db", "leases.db-wal"].map(|name| fs::read(folder.path().join(name)));
    let before = bytes().map(Result::unwrap);
    let error = refused(&path).await;
    assert!(error.to_string().contains("schema version 2"), "{error}");
    assert!(
        before == bytes().map(Result::unwrap),
        "the log was merged, or lost"
    );
}

#[tokio::test]
async fn a_store_that_was_cut_short_or_overwritten_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    make_store(&path).await;
    let whole = fs::read(&path).unwrap();
    let page = 4096;
    assert!(whole.len() > 2 * page);

    let mut overwritten = whole.clone();
    overwritten[page..].fill(0xa5);
    for damaged in [&whole[..page], &whole[..whole.len() - page], &overwritten] {
        fs::write(&path, damaged).unwrap();
        let error = refused(&path).await;
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("damaged"), "{error}");
        assert!(fs::read(&path).unwrap() == *damaged, "a byte was changed");
    }
}

#[tokio::test]
async fn a_store_whose_log_was_merged_half_way_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    make_store(&path).await;
    let insert = "INSERT INTO lease (key, token, status, metadata, version)
            SELECT printf('key-%03d', value), 0, 0, '{}', value FROM numbers";
    leave_in_log(
        &path,
        &format!(
            "WITH RECURSIVE numbers (value) AS
                (SELECT 1 UNION ALL SELECT value + 1 FROM numbers LIMIT 500) {insert}"
        ),
    );
    // The first page of the merged file, which is longer, in front of the others of the old.
    let merged = folder.path().join("merged.db");
    for end in ["", "-wal"] {
        let name = |base: &str| folder.path().join(format!("{base}{end}"));
        fs::copy(name("leases.db"), name("merged.db")).unwrap();
    }
    let connection = Connection::open(&merged).unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(checkpoint, (), |_| Ok(())).unwrap();
    drop(connection);
    let (mut half, merged) = (fs::read(&path).unwrap(), fs::read(&merged).unwrap());
    assert!(merged.len() > half.len());
    half[..4096].copy_from_slice(&merged[..4096]);
    fs::write(&path, half).unwrap();

    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.list("key-").count().await, 500);
}

#[tokio::test]
async fn a_table_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    make_store(&path).await;
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("DROP TABLE observation").unwrap();
    drop(connection);
    is_refused_untouched(&path, "observation").await;
}

#[tokio::test]
async fn a_path_that_cannot_be_a_file_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(folder.path()).await;
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("not a file"), "{error}");

    let error = refused(&folder.path().join("nowhere/leases.db")).await;
    assert!(error.to_string().contains("does not exist"), "{error}");

    fs::write(folder.path().join("file"), "").unwrap();
    let error = refused(&folder.path().join("file/leases.db")).await;
    assert!(error.to_string().contains("not a directory"), "{error}");

    let error = SqliteStore::open("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test]
async fn an_empty_file_and_a_name_that_means_something_to_sqlite_become_stores() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "empty.db",
        ":memory:",
        "file:x?mode=memory",
        "100%.db",
        "a#b",
    ] {
        let path = folder.path().join(name);
        if name == "empty.db" {
            fs::write(&path, "").unwrap();
        }
        make_store(&path).await;
        let again = SqliteStore::open(&path).await.unwrap();
        let record = again.read(&Key::new("build").unwrap()).await.unwrap();
        assert!(record.is_some(), "{name}");
        assert!(fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_under_a_store_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let (key, id) = (
        Key::new("build").unwrap(),
        LeaseId::from_random_bytes([1; 16]),
    );
    let holder = Holder::new("holder").unwrap();
    store.read(&key).await.unwrap();
    for name in ["leases.db", "leases.db-wal", "leases.db-shm"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    store.read(&key).await.unwrap_err();
    let error = store
        .acquire(&key, id, Term::DEFAULT, &holder)
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(error.to_string().contains("deleted or replaced"), "{error}");
    let fresh = SqliteStore::open(&path).await.unwrap();
    fresh
        .acquire(&key, id, Term::DEFAULT, &holder)
        .await
        .unwrap();
    store.release(&key, id).await.unwrap_err();
}
