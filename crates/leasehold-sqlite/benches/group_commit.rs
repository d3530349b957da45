//! Durable acquire and release, 64 at a time: the store's one writer against 64 threads with a connection
//! each and a busy time-out, which is what one would write without it. Both do the same SQL on a file of the
//! same schema, and both wait for the disk at every commit.
//!
//! What counts is the time until each of the 64 has done its share. The connections are measured a second
//! way, too, which flatters them: all pairs done in a while, no matter by whom. A thread that has just let
//! go of SQLite's lock takes it again at once while the others sleep, so a few do nearly all of them.
//!
//! `LEASEHOLD_BENCH_DIR` names the directory for the files; it must be on a real disk. The default is the
//! directory of the program.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leasehold_core::clock::{Clock, Instant, SystemClock};
use leasehold_core::outcome::{Acquire, Release};
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Term};
use leasehold_sqlite::SqliteStore;
use rusqlite::{Connection, Transaction, TransactionBehavior};

const AT_ONCE: u8 = 64;
const ROUNDS: usize = 5;
/// Pairs that each thread or task does.
const SHARE_OF_A_THREAD: u64 = 50;
const SHARE_OF_A_TASK: u64 = 1500;
const FREE_FOR_ALL: Duration = Duration::from_secs(2);

fn main() {
    let base =
        std::env::var_os("LEASEHOLD_BENCH_DIR").map_or_else(program_directory, PathBuf::from);
    let folder = tempfile::tempdir_in(base).expect("a directory for the files");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let file = |name: &str, round: usize| folder.path().join(format!("{name}-{round}.db"));

    println!("durable acquire+release pairs a second, {AT_ONCE} at once");
    println!(" round  connection each  the same, free for all  leasehold");
    let mut columns = [const { Vec::new() }; 3];
    for round in 1..=ROUNDS {
        let row = [
            connection_each(&runtime, &file("shares", round), Some(SHARE_OF_A_THREAD)),
            connection_each(&runtime, &file("free", round), None),
            runtime.block_on(group_commit(
                &file("store", round),
                AT_ONCE,
                SHARE_OF_A_TASK,
            )),
        ];
        print_row(&round.to_string(), row);
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let medians = columns.map(median);
    print_row("median", medians);
    let [shares, free, store] = medians;
    println!(
        "leasehold against a connection each: {:.1} times",
        store / shares
    );
    println!(
        "… against the same, free for all: {:.1} times",
        store / free
    );
    let alone = runtime.block_on(group_commit(&file("alone", 1), 1, SHARE_OF_A_TASK));
    println!("leasehold, one at a time: {alone:.0}/s");
}

fn print_row(name: &str, [shares, free, store]: [f64; 3]) {
    println!("{name:>6}  {shares:>15.0}  {free:>22.0}  {store:>9.0}");
}

fn program_directory() -> PathBuf {
    let program = std::env::current_exe().expect("the program's path");
    program.parent().expect("its directory").to_owned()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn group_commit(path: &Path, tasks: u8, share: u64) -> f64 {
    let store = Arc::new(SqliteStore::open(path).await.expect("a store"));
    let began = SystemClock.now();
    let mut running = Vec::new();
    for task in 0..tasks {
        let store = Arc::clone(&store);
        running.push(tokio::spawn(async move {
            let key = Key::new(format!("key-{task}")).expect("a key");
            let holder = Holder::new("benchmark").expect("a holder");
            let id = LeaseId::from_random_bytes([task; 16]);
            for _ in 0..share {
                let granted = store.acquire(&key, id, Term::DEFAULT, &holder).await;
                assert!(matches!(granted, Ok(Acquire::Granted(_))), "{granted:?}");
                let released = store.release(&key, id).await;
                assert!(matches!(released, Ok(Release::Released)), "{released:?}");
            }
        }));
    }
    for task in running {
        task.await.expect("a task");
    }
    rate(u64::from(tasks) * share, began)
}

/// With a share for each, or for a while and free for all.
fn connection_each(runtime: &tokio::runtime::Runtime, path: &Path, share: Option<u64>) -> f64 {
    // Makes the schema; the rest goes past the store.
    drop(runtime.block_on(SqliteStore::open(path)).expect("a store"));
    let ready = Barrier::new(usize::from(AT_ONCE) + 1);
    let over = AtomicBool::new(false);
    let pairs = AtomicU64::new(0);
    let mut began = SystemClock.now();
    thread::scope(|scope| {
        for task in 0..AT_ONCE {
            let (ready, over, pairs) = (&ready, &over, &pairs);
            scope.spawn(move || {
                let mut connection = connect(path);
                ready.wait();
                for _ in 0..share.unwrap_or(u64::MAX) {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    raw_acquire(&mut connection, task).expect("acquired");
                    raw_release(&mut connection, task).expect("released");
                    pairs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        ready.wait();
        began = SystemClock.now();
        if share.is_none() {
            thread::sleep(FREE_FOR_ALL);
            over.store(true, Ordering::Relaxed);
        }
    });
    rate(pairs.into_inner(), began)
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a connection");
    connection
        .busy_timeout(Duration::from_secs(60))
        .expect("a busy timeout");
    connection
        .pragma_update(None, "synchronous", "FULL")
        .expect("durable commits");
    connection
}

fn raw_acquire(connection: &mut Connection, task: u8) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let key = format!("key-{task}");
    let found = token(&tx, &key)?;
    let now = i64::try_from(SystemClock.now().since_origin().as_nanos()).unwrap_or(i64::MAX);
    if found.is_none() {
        tx.prepare_cached(
            "INSERT INTO lease VALUES (?1, 0, 0, NULL, NULL, NULL, NULL, NULL, '{}', 1)",
        )?
        .execute([&key])?;
    }
    let term = 60_000_000_000_i64;
    save(
        &tx,
        &key,
        found.unwrap_or(0) + 1,
        1,
        Some(&[task; 16]),
        Some((term, now + term)),
    )?;
    tx.commit()
}

fn raw_release(connection: &mut Connection, task: u8) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let key = format!("key-{task}");
    let token = token(&tx, &key)?.unwrap_or(0);
    save(&tx, &key, token, 0, None, None)?;
    tx.commit()
}

fn token(tx: &Transaction<'_>, key: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement =
        tx.prepare_cached("SELECT token, status, id, until_ns FROM lease WHERE key = ?1")?;
    let mut rows = statement.query([key])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

fn save(
    tx: &Transaction<'_>,
    key: &str,
    token: i64,
    status: i64,
    id: Option<&[u8; 16]>,
    times: Option<(i64, i64)>,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE lease SET token = ?2, status = ?3, id = ?4, holder = 'benchmark', length_ns = ?5,
            until_ns = ?6, epoch = ?7 WHERE key = ?1",
    )?
    .execute((
        key,
        token,
        status,
        id,
        times.map(|(length, _)| length),
        times.map(|(_, until)| until),
        "00000000-0000-0000-0000-000000000000/time:[4026531834]",
    ))?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 pairs")]
fn rate(pairs: u64, began: Instant) -> f64 {
    pairs as f64
        / SystemClock
            .now()
            .saturating_duration_since(began)
            .as_secs_f64()
}
