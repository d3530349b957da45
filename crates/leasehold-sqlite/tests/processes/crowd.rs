//! Several processes on one file: all at once, and killed in the middle.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use leasehold_core::outcome::{Acquire, Release};
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Record, Term};
use leasehold_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::{child, runtime};

async fn acquire(store: &SqliteStore, key: &str, by: u8) -> Record {
    let (key, holder) = (Key::new(key).unwrap(), Holder::new("holder").unwrap());
    let id = LeaseId::from_random_bytes([by; 16]);
    let granted = store.acquire(&key, id, Term::DEFAULT, &holder).await;
    match granted.unwrap() {
        Acquire::Granted(record) => record,
        Acquire::Held(held_by) => panic!("{key}: {held_by:?}"),
    }
}

fn is_sound(path: &Path) -> bool {
    let connection = Connection::open(path).unwrap();
    let check = connection.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    check.unwrap() == "ok"
}

#[test]
fn eight_processes_may_open_a_fresh_file_at_once() {
    let test = "crowd::eight_processes_may_open_a_fresh_file_at_once";
    if let Some((role, path)) = child::role() {
        child::tell("ready");
        child::wait_for_go();
        runtime().block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            acquire(&store, &role, 1).await;
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let path = folder.path().join(format!("{round}.db"));
        let mut processes: Vec<_> = (0..8)
            .map(|number| child::start(test, &format!("key-{number}"), &path))
            .collect();
        for process in &mut processes {
            process.expect("ready");
        }
        processes.iter_mut().for_each(child::Running::go);
        processes.into_iter().for_each(child::Running::succeeds);
        let held = runtime().block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            store.list("key-").count().await
        });
        assert_eq!(held, 8);
        assert!(is_sound(&path));
    }
}

#[test]
fn a_process_killed_while_it_commits_takes_no_answered_token_with_it() {
    let test = "crowd::a_process_killed_while_it_commits_takes_no_answered_token_with_it";
    if let Some((_, path)) = child::role() {
        return runtime().block_on(grant_for_ever(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let mut greatest: HashMap<String, u64> = HashMap::new();
    for round in 0..6 {
        let mut process = child::start(test, "grant", &path);
        let mut told = Vec::new();
        while told.len() < 400 + 150 * round {
            told.push(process.line().unwrap());
        }
        process.kill();
        told.extend(std::iter::from_fn(|| process.line()));
        for line in told {
            let (key, token) = line.split_once(' ').unwrap();
            let token = token.parse().unwrap();
            let before = greatest.insert(key.to_owned(), token);
            assert!(before < Some(token), "{key}: {token} after {before:?}");
        }
        assert!(is_sound(&path), "round {round}");
        runtime().block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            for (key, token) in &mut greatest {
                let at = Key::new(key.as_str()).unwrap();
                store.break_lease(&at, Some(Duration::ZERO)).await.unwrap();
                let next = acquire(&store, key, 99).await.token.unwrap().get();
                assert!(next > *token, "{key}: {next} after {token}");
                *token = next;
                let id = LeaseId::from_random_bytes([99; 16]);
                assert_eq!(store.release(&at, id).await.unwrap(), Release::Released);
            }
        });
    }
}

async fn grant_for_ever(path: &Path) {
    let store = Arc::new(SqliteStore::open(path).await.unwrap());
    let tasks = (0..16_u8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let name = format!("key-{number}");
            let (key, id) = (
                Key::new(name.as_str()).unwrap(),
                LeaseId::from_random_bytes([number; 16]),
            );
            loop {
                let token = acquire(&store, &name, number).await.token.unwrap();
                child::tell(&format!("{name} {token}"));
                store.release(&key, id).await.unwrap();
            }
        })
    });
    futures::future::join_all(tasks).await;
}

#[test]
fn opening_and_closing_a_second_store_leaves_the_first_one_its_locks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    runtime().block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        acquire(&store, "build", 1).await;
        assert!(is_locked_by_us(&path));
        // Closing a descriptor of the file past SQLite would drop the locks of the whole process.
        let second = SqliteStore::open(&path).await.unwrap();
        assert!(is_locked_by_us(&path));
        let mut hints = second
            .watch(&Key::new("build").unwrap())
            .await
            .unwrap()
            .unwrap();
        drop(second);
        while hints.next().await.is_some() {}
        let id = LeaseId::from_random_bytes([1; 16]);
        let key = Key::new("build").unwrap();
        assert_eq!(store.release(&key, id).await.unwrap(), Release::Released);
        assert!(is_locked_by_us(&path));
    });
}

fn is_locked_by_us(path: &Path) -> bool {
    let inode = fs::metadata(path).unwrap().ino();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    // Kind, mode, access, process, device and inode, start, end.
    locks.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.contains(&&*std::process::id().to_string())
            && fields
                .iter()
                .any(|field| field.ends_with(&format!(":{inode}")))
    })
}
