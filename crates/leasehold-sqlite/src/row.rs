//! A row of the table `lease`, and the lease it stands for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use leasehold_core::clock::Instant;
use leasehold_core::lease::{Lease, Status};
use leasehold_core::{Holder, Key, LeaseId, Metadata, Record, Term, Version};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Trouble;

/// What [`Row::decode`] reads, in its order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, token, status, id, holder, length_ns, until_ns, epoch, metadata, version ",
            "FROM lease ",
            $rest
        )
    };
}
pub(crate) use select;

const AVAILABLE: i64 = 0;
const LEASED: i64 = 1;
const BREAKING: i64 = 2;
const BROKEN: i64 = 3;

/// A record as it is kept.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its end is on this epoch's clock, unless `foreign` says otherwise.
    pub(crate) lease: Lease,
    pub(crate) version: i64,
    /// As it is written; most operations have no need to understand it.
    metadata: String,
    /// Set when the end was written on another clock.
    pub(crate) foreign: Option<Foreign>,
}

/// A lease that ends on another clock: when this epoch may take it for ended is found by observation.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// The whole term, or the whole break period.
    pub(crate) length: Duration,
    /// Changes with every grant, renewal and break.
    pub(crate) fingerprint: String,
    /// When it ends at the latest, if this epoch has seen it before just as it is now.
    pub(crate) observed: Option<Instant>,
}

impl Row {
    /// The row of a record that nobody ever leased.
    pub(crate) fn new(token: u64, version: i64) -> Self {
        Self {
            lease: Lease::new(token),
            version,
            metadata: NO_METADATA.to_owned(),
            foreign: None,
        }
    }

    /// Reads a row that was selected with [`select!`].
    pub(crate) fn decode(row: &rusqlite::Row<'_>, epoch: &str) -> Result<Self, Trouble> {
        let token = unsigned(row.get(1)?)?;
        let status: i64 = row.get(2)?;
        let until = || -> Result<Option<Instant>, Trouble> {
            let until: Option<i64> = row.get(6)?;
            until.map(instant).transpose()
        };
        let length = || -> Result<Option<Duration>, Trouble> {
            let length: Option<i64> = row.get(5)?;
            length.map(duration).transpose()
        };
        let status = match status {
            AVAILABLE => Status::Available,
            LEASED => {
                let (length, until) = (length()?, until()?);
                if length.is_some() != until.is_some() {
                    return Err(Trouble::Row(
                        "a term without an end, or an end without a term",
                    ));
                }
                Status::Leased {
                    id: id(row)?,
                    holder: holder(row)?,
                    term: length.map_or(Term::Infinite, Term::Finite),
                    until,
                }
            }
            BREAKING => Status::Breaking {
                id: id(row)?,
                holder: holder(row)?,
                until: until()?.ok_or(Trouble::Row("a break without an end"))?,
            },
            BROKEN => Status::Broken {
                holder: holder(row)?,
            },
            _ => return Err(Trouble::Row("an unknown status")),
        };
        let lease = Lease { token, status };
        let foreign = match end(&lease.status) {
            Some(_) if row.get_ref(7)? == ValueRef::Text(epoch.as_bytes()) => None,
            Some(_) => Some(foreign(row, length()?)?),
            None => None,
        };
        Ok(Self {
            lease,
            version: row.get(9)?,
            metadata: row.get(8)?,
            foreign,
        })
    }

    /// The record at this time.
    pub(crate) fn record(&self, key: &Key, now: Instant) -> Result<Record, Trouble> {
        let mut record = Record {
            key: key.clone(),
            state: self.lease.state(now),
            holder: self.lease.holder().cloned(),
            token: self.lease.fencing_token(),
            term: self.lease.term(now),
            remaining: self.lease.remaining(now),
            metadata: metadata_from(&self.metadata)?,
            version: version(self.version),
        };
        if self
            .foreign
            .as_ref()
            .is_some_and(|foreign| foreign.observed.is_none())
        {
            record.remaining = None;
        }
        Ok(record)
    }

    /// Finds out whether this epoch has seen the lease before just as it is now. Must be asked in the
    /// transaction in which the row was read.
    pub(crate) fn look_up(
        &mut self,
        connection: &Connection,
        key: &str,
        epoch: &str,
    ) -> Result<(), Trouble> {
        let Some(foreign) = &mut self.foreign else {
            return Ok(());
        };
        let seen: Option<i64> = connection
            .prepare_cached(
                "SELECT until_ns FROM observation
                    WHERE key = ?1 AND epoch = ?2 AND fingerprint = ?3",
            )?
            .query_row((key, epoch, &foreign.fingerprint), |row| row.get(0))
            .optional()?;
        foreign.observed = seen.map(instant).transpose()?;
        Ok(())
    }

    /// Puts the end on this epoch's clock.
    pub(crate) fn set_end(&mut self, end: Instant) {
        match &mut self.lease.status {
            Status::Leased { until, .. } => *until = Some(end),
            Status::Breaking { until, .. } => *until = end,
            Status::Available | Status::Broken { .. } => {}
        }
    }

    /// For those who only look: a lease that ends on another clock and was never observed is held.
    pub(crate) fn judge(&mut self) {
        if let Some(foreign) = &self.foreign {
            let never = Instant::from_origin(Duration::MAX);
            self.set_end(foreign.observed.unwrap_or(never));
        }
    }
}

/// The columns of a lease, as they are written.
pub(crate) struct Columns<'a> {
    pub(crate) token: i64,
    pub(crate) status: i64,
    pub(crate) id: Option<&'a [u8; 16]>,
    pub(crate) holder: Option<&'a str>,
    pub(crate) length: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(lease: &'a Lease, now: Instant) -> Self {
        let mut columns = Self {
            token: i64::try_from(lease.token).unwrap_or(i64::MAX),
            status: AVAILABLE,
            id: None,
            holder: lease.holder().map(Holder::as_str),
            length: None,
            until: end(&lease.status).map(|until| nanos(until.since_origin())),
        };
        match &lease.status {
            Status::Available => {}
            Status::Leased { id, term, .. } => {
                columns.status = LEASED;
                columns.id = Some(id.as_bytes());
                columns.length = term.duration().map(nanos);
            }
            Status::Breaking { id, until, .. } => {
                columns.status = BREAKING;
                columns.id = Some(id.as_bytes());
                columns.length = Some(nanos(until.saturating_duration_since(now)));
            }
            Status::Broken { .. } => columns.status = BROKEN,
        }
        columns
    }
}

/// The mark of one content, as users see it.
pub(crate) fn version(number: i64) -> Version {
    Version::new(number.to_string())
}

const NO_METADATA: &str = "{}";

/// A JSON object, so that people can read it with any SQLite tool.
pub(crate) fn metadata_text(metadata: &Metadata) -> Result<String, Trouble> {
    let map: BTreeMap<_, _> = metadata.iter().collect();
    serde_json::to_string(&map).map_err(|_| Trouble::Row("metadata that JSON cannot express"))
}

fn metadata_from(text: &str) -> Result<Metadata, Trouble> {
    let mut metadata = Metadata::new();
    if text == NO_METADATA {
        return Ok(metadata);
    }
    let map: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|_| Trouble::Row("metadata that is no JSON object of strings"))?;
    for (name, value) in map {
        metadata
            .set(name, value)
            .map_err(|_| Trouble::Row("metadata with a name or a size that is not allowed"))?;
    }
    Ok(metadata)
}

pub(crate) fn nanos(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn instant(nanos: i64) -> Result<Instant, Trouble> {
    duration(nanos).map(Instant::from_origin)
}

fn duration(nanos: i64) -> Result<Duration, Trouble> {
    unsigned(nanos).map(Duration::from_nanos)
}

fn unsigned(number: i64) -> Result<u64, Trouble> {
    u64::try_from(number).map_err(|_| Trouble::Row("a negative number"))
}

fn end(status: &Status) -> Option<Instant> {
    match status {
        Status::Leased { until, .. } => *until,
        Status::Breaking { until, .. } => Some(*until),
        Status::Available | Status::Broken { .. } => None,
    }
}

fn id(row: &rusqlite::Row<'_>) -> Result<LeaseId, Trouble> {
    Ok(LeaseId::from_bytes(row.get(3)?))
}

fn holder(row: &rusqlite::Row<'_>) -> Result<Holder, Trouble> {
    let name: String = row.get(4)?;
    Holder::new(name).map_err(|_| Trouble::Row("a holder's name that is not allowed"))
}

fn foreign(row: &rusqlite::Row<'_>, length: Option<Duration>) -> Result<Foreign, Trouble> {
    let (token, status, until): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(6)?);
    let id: [u8; 16] = row.get(3)?;
    let epoch: String = row.get(7)?;
    let mut fingerprint = format!("{status} {token} {until} {epoch} ");
    for byte in id {
        // Writing to a string cannot fail.
        let _ = write!(fingerprint, "{byte:02x}");
    }
    Ok(Foreign {
        length: length.ok_or(Trouble::Row("an end without a length"))?,
        fingerprint,
        observed: None,
    })
}
