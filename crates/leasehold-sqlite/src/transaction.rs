use leasehold_core::Key;
use leasehold_core::clock::Instant;
use leasehold_core::lease::Lease;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Trouble;
use crate::row::{Columns, Row, instant, nanos, select};

/// The open transaction in which the writer carries out what is waiting, at one moment.
#[derive(Debug)]
pub(crate) struct Transaction<'c> {
    connection: &'c Connection,
    /// The time that holds for everything in this transaction.
    pub(crate) now: Instant,
    epoch: &'c str,
    counters: Option<Counters>,
    /// Whether anything was observed at all; almost always not.
    observations: Option<bool>,
    /// Whether something happened for which waiters should be woken.
    pub(crate) hint: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Counters {
    deleted_token: i64,
    version: i64,
    written: bool,
}

impl<'c> Transaction<'c> {
    /// `now` must be read after the transaction was granted, or it may be older than what is in the file.
    pub(crate) fn new(connection: &'c Connection, now: Instant, epoch: &'c str) -> Self {
        Self {
            connection,
            now,
            epoch,
            counters: None,
            observations: None,
            hint: false,
        }
    }

    /// The row, its end put on this epoch's clock: what was written on another clock counts from the first
    /// time that somebody of this epoch was in its way.
    pub(crate) fn load(&mut self, key: &Key) -> Result<Option<Row>, Trouble> {
        let mut statement = self.connection.prepare_cached(select!("WHERE key = ?1"))?;
        let mut rows = statement.query([key.as_str()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let mut row = Row::decode(row, self.epoch)?;
        row.look_up(self.connection, key.as_str(), self.epoch)?;
        if let Some(foreign) = &row.foreign {
            let end = if let Some(end) = foreign.observed {
                end
            } else {
                // Read back, as it is written, or this call and the next would differ by a rounding.
                let end = nanos((self.now + foreign.length).since_origin());
                self.connection
                    .prepare_cached("INSERT OR REPLACE INTO observation VALUES (?1, ?2, ?3, ?4)")?
                    .execute((key.as_str(), self.epoch, &foreign.fingerprint, end))?;
                self.observations = Some(true);
                instant(end)?
            };
            row.set_end(end);
        }
        Ok(Some(row))
    }

    /// A new row's version and first token come from [`next_version`](Self::next_version) and
    /// [`deleted_token`](Self::deleted_token).
    pub(crate) fn insert(&self, key: &Key, row: &Row, metadata: &str) -> Result<(), Trouble> {
        let columns = Columns::of(&row.lease, self.now);
        self.connection
            .prepare_cached("INSERT INTO lease VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
            .execute((
                key.as_str(),
                columns.token,
                columns.status,
                columns.id,
                columns.holder,
                columns.length,
                columns.until,
                self.epoch,
                metadata,
                row.version,
            ))?;
        Ok(())
    }

    pub(crate) fn save_lease(&mut self, key: &Key, lease: &Lease) -> Result<(), Trouble> {
        let columns = Columns::of(lease, self.now);
        self.connection
            .prepare_cached(
                "UPDATE lease SET token = ?2, status = ?3, id = ?4, holder = ?5, length_ns = ?6,
                    until_ns = ?7, epoch = ?8 WHERE key = ?1",
            )?
            .execute((
                key.as_str(),
                columns.token,
                columns.status,
                columns.id,
                columns.holder,
                columns.length,
                columns.until,
                self.epoch,
            ))?;
        self.forget_observations(key)
    }

    pub(crate) fn save_metadata(
        &self,
        key: &Key,
        metadata: &str,
        version: i64,
    ) -> Result<(), Trouble> {
        self.connection
            .prepare_cached("UPDATE lease SET metadata = ?2, version = ?3 WHERE key = ?1")?
            .execute((key.as_str(), metadata, version))?;
        Ok(())
    }

    /// Deletes the row. Tokens of the key, should it come back, go on from where they were.
    pub(crate) fn delete(&mut self, key: &Key, lease: &Lease) -> Result<(), Trouble> {
        self.connection
            .prepare_cached("DELETE FROM lease WHERE key = ?1")?
            .execute([key.as_str()])?;
        self.forget_observations(key)?;
        let token = i64::try_from(lease.token).unwrap_or(i64::MAX);
        let counters = self.counters()?;
        if token > counters.deleted_token {
            counters.deleted_token = token;
            counters.written = true;
        }
        Ok(())
    }

    /// The greatest token that a deleted row had.
    pub(crate) fn deleted_token(&mut self) -> Result<u64, Trouble> {
        u64::try_from(self.counters()?.deleted_token)
            .map_err(|_| Trouble::Row("a negative counter"))
    }

    /// A version that no row ever had.
    pub(crate) fn next_version(&mut self) -> Result<i64, Trouble> {
        let counters = self.counters()?;
        counters.version += 1;
        counters.written = true;
        Ok(counters.version)
    }

    /// Writes what is left to write; the caller then commits.
    pub(crate) fn finish(&mut self) -> rusqlite::Result<()> {
        let Some(counters) = self.counters.take().filter(|counters| counters.written) else {
            return Ok(());
        };
        let mut statement = self
            .connection
            .prepare_cached("UPDATE counter SET value = ?2 WHERE name = ?1")?;
        statement.execute(("deleted_token", counters.deleted_token))?;
        statement.execute(("version", counters.version))?;
        Ok(())
    }

    /// What other epochs thought of the lease that was there before.
    fn forget_observations(&mut self, key: &Key) -> Result<(), Trouble> {
        let any = match self.observations {
            Some(any) => any,
            None => self
                .connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM observation)")?
                .query_row((), |row| row.get(0))?,
        };
        self.observations = Some(any);
        if !any {
            return Ok(());
        }
        self.connection
            .prepare_cached("DELETE FROM observation WHERE key = ?1")?
            .execute([key.as_str()])?;
        Ok(())
    }

    fn counters(&mut self) -> Result<&mut Counters, Trouble> {
        if self.counters.is_none() {
            let counter = |name: &str| -> Result<i64, Trouble> {
                self.connection
                    .prepare_cached("SELECT value FROM counter WHERE name = ?1")?
                    .query_row([name], |row| row.get(0))
                    .optional()?
                    .ok_or(Trouble::Row("a counter is missing"))
            };
            self.counters = Some(Counters {
                deleted_token: counter("deleted_token")?,
                version: counter("version")?,
                written: false,
            });
        }
        self.counters
            .as_mut()
            .ok_or(Trouble::Row("the counters are missing"))
    }
}
