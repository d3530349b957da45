//! One way to open a connection, for the writer and the reader alike.

use std::path::Path;
use std::thread;
use std::time::Duration;

use leasehold_core::clock::{Clock, Instant, SystemClock};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// How long a connection waits for the locks of others.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Enough for every statement of this crate, so that each is compiled once.
const STATEMENTS: usize = 64;

/// Opens the file, creating an empty one where there is none. Nothing else is written.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        // Each connection stays with one thread.
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise statements are compiled again whenever a parameter has another value, which takes longer than
    // carrying them out.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.busy_handler(Some(patience(BUSY_LIMIT)))?;
    Ok(connection)
}

/// A busy handler that looks more often than SQLite's own, whose pauses grow to 100 ms: most holders of the
/// lock need it for one commit.
fn patience(limit: Duration) -> impl FnMut(i32) -> bool + Send {
    let mut until = Instant::from_origin(Duration::ZERO);
    move |count| {
        let now = SystemClock.now();
        if count == 0 {
            until = now + limit;
        }
        pause(count);
        now < until
    }
}

/// A lock of SQLite's cannot be waited for; it can only be tried again.
pub(crate) fn pause(count: i32) {
    let micros = match count {
        0..4 => 200,
        4..20 => 1_000,
        _ => 5_000,
    };
    thread::sleep(Duration::from_micros(micros));
}
