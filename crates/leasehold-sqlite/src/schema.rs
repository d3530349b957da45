//! The tables, and the refusal of files that are not ours.

use std::fs;
use std::path::Path;

use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::{Effect, ErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::connection::{BUSY_LIMIT, connect, pause};
use crate::error::{Failure, is_busy};
use crate::path::read_only_uri;

/// Marks the file as ours: "LEAS".
const APPLICATION: i32 = 0x4c45_4153;
const VERSION: i32 = 1;

/// Keys are compared as bytes. Times are nanoseconds on the clock that `epoch` names.
///
/// `length_ns` is the term, or the break period as it was set; of a lease that has neither end nor period it
/// is null. Versions of all keys come from one counter, so none ever comes back.
const TABLES: &str = "
CREATE TABLE lease (
    key       TEXT NOT NULL PRIMARY KEY,
    token     INTEGER NOT NULL,
    status    INTEGER NOT NULL,
    id        BLOB,
    holder    TEXT,
    length_ns INTEGER,
    until_ns  INTEGER,
    epoch     TEXT,
    metadata  TEXT NOT NULL,
    version   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE observation (
    key         TEXT NOT NULL,
    epoch       TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    until_ns    INTEGER NOT NULL,
    PRIMARY KEY (key, epoch)
) STRICT, WITHOUT ROWID;
CREATE TABLE counter (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('deleted_token', 0), ('version', 0);
";

/// Opens a store's file, made first if need be, ready to be written.
pub(crate) fn open(path: &Path) -> Result<Connection, Failure> {
    look(path)?;
    let connection = connect(path).map_err(Failure::not_applied)?;
    // Until the file is known to be ours, not even the log that somebody left is merged into it. Where there
    // is none, the one that SQLite makes to read the file goes with the connection.
    keep_log_on_close(&connection, has_log(path))?;
    if is_readonly(&connection)? {
        return Err(read_only());
    }
    if is_empty(&connection)? {
        create(&connection)?;
    }
    check(marks(&connection).map_err(Failure::not_applied)?)?;
    check_tables(&connection)?;
    keep_log_on_close(&connection, false)?;
    settle(&connection)?;
    Ok(connection)
}

/// A second connection to a file that [`open`] has accepted, for reading.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path).map_err(Failure::not_applied)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(Failure::not_applied)?;
    Ok(connection)
}

/// Looks at the file as it lies there, without a lock or a log: a file of somebody else's is left alone.
///
/// The marks of our own are in the file itself as soon as it has any content, because the tables are made
/// before it is switched to a write-ahead log.
fn look(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(Failure::new(
                ErrorKind::InvalidInput,
                Effect::NotApplied,
                "this is not a file",
            ));
        }
        Ok(found) if found.len() > 0 => {}
        // Anything that is wrong here comes to light when it is created.
        Ok(_) | Err(_) => return Ok(()),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(read_only_uri(path), flags)
        .and_then(|connection| {
            // While somebody merges the log or makes the tables, the file is shorter than its first page
            // says, and looks damaged unless this is set. Nothing can be written through here.
            connection.pragma_update(None, "writable_schema", true)?;
            marks(&connection)
        })
        .map_err(|error| {
            if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
                return refused("this is not an SQLite database");
            }
            Failure::not_applied(error)
        })?;
    check(found)
}

#[derive(Clone, Copy)]
struct Marks {
    application: i32,
    version: i32,
}

fn marks(connection: &Connection) -> rusqlite::Result<Marks> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok(Marks {
        application: number("application_id")?,
        version: number("user_version")?,
    })
}

fn check(found: Marks) -> Result<(), Failure> {
    if found.application != APPLICATION {
        return Err(refused(&format!(
            "this is a database of another application (application_id {:#x}, leasehold's is {APPLICATION:#x})",
            found.application
        )));
    }
    if found.version != VERSION {
        return Err(refused(&format!(
            "this file has schema version {}, and this version of leasehold knows version {VERSION} only",
            found.version
        )));
    }
    Ok(())
}

fn refused(why: &str) -> Failure {
    Failure::new(
        ErrorKind::Corrupt,
        Effect::NotApplied,
        format!(
            "{why}; it was left as it is. Name a file that leasehold made, or one that does not exist yet"
        ),
    )
}

fn read_only() -> Failure {
    Failure::new(
        ErrorKind::Unauthorized,
        Effect::NotApplied,
        "the file must be writable and is not",
    )
}

fn is_readonly(connection: &Connection) -> Result<bool, Failure> {
    connection
        .is_readonly(rusqlite::MAIN_DB)
        .map_err(Failure::not_applied)
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|found| found.len() > 0)
}

fn keep_log_on_close(connection: &Connection, keep: bool) -> Result<(), Failure> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
        .map(drop)
        .map_err(Failure::not_applied)
}

fn is_empty(connection: &Connection) -> Result<bool, Failure> {
    connection
        .query_row(
            "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)",
            (),
            |row| row.get(0),
        )
        .map_err(Failure::not_applied)
}

/// Makes the tables, unless another process was faster.
fn create(connection: &Connection) -> Result<(), Failure> {
    let begin = connection.execute_batch("BEGIN IMMEDIATE");
    begin.map_err(Failure::not_applied)?;
    let created = is_empty(connection).and_then(|empty| {
        if !empty {
            return Ok(());
        }
        // An empty file may still carry the marks of somebody who has not got further yet.
        let found = marks(connection).map_err(Failure::not_applied)?;
        if (found.application, found.version) != (0, 0) {
            check(found)?;
        }
        connection
            .execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; {TABLES}"
            ))
            .map_err(Failure::not_applied)
    });
    let ended = match created {
        Ok(()) => connection
            .execute_batch("COMMIT")
            .map_err(Failure::not_applied),
        Err(failure) => Err(failure),
    };
    if !connection.is_autocommit() {
        // The connection is given up by the caller, and the transaction with it.
        drop(connection.execute_batch("ROLLBACK"));
    }
    ended
}

/// A damaged file is refused when it is opened, as far as that costs nothing: the tables are there, and
/// their first pages are readable.
fn check_tables(connection: &Connection) -> Result<(), Failure> {
    connection
        .execute_batch(
            "SELECT key, token, status, id, holder, length_ns, until_ns, epoch, metadata, version
                 FROM lease LIMIT 1;
             SELECT key, epoch, fingerprint, until_ns FROM observation LIMIT 1;
             SELECT name, value FROM counter LIMIT 2",
        )
        .map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::Unknown) => {
                refused(&format!("a table is missing or changed ({error})"))
            }
            _ => Failure::not_applied(error),
        })
}

/// Switches to the write-ahead log, which stays with the file, and to durable commits, which do not.
fn settle(connection: &Connection) -> Result<(), Failure> {
    let until = SystemClock.now() + BUSY_LIMIT;
    for count in 0.. {
        // The switch needs the file for itself, and SQLite does not wait for that by itself.
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => break,
            Ok(mode) => {
                return Err(Failure::new(
                    ErrorKind::Unsupported,
                    Effect::NotApplied,
                    format!(
                        "the file system allows journal mode {mode} only; leasehold needs wal, which needs a local file system"
                    ),
                ));
            }
            Err(error) if is_busy(&error) && SystemClock.now() < until => pause(count),
            Err(error) => return Err(Failure::not_applied(error)),
        }
    }
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(Failure::not_applied)
}
