//! Reads, on a connection of their own: they do not wait for the writer's disk.

use std::sync::{Arc, mpsc};
use std::{io, thread};

use leasehold_core::clock::{Clock, Instant};
use leasehold_core::lease::Status;
use leasehold_core::{Effect, Key, LeaseId, LeaseState, Record};
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{Failure, Trouble};
use crate::path::Place;
use crate::row::{Row, select};
use crate::writer::CALL_LIMIT;

/// How many records are read at a time. No snapshot is kept from one page to the next: it would keep the
/// log from being reused.
const PAGE: usize = 256;

type Job = Box<dyn FnOnce(&View) + Send>;

/// The way to the reader thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    jobs: mpsc::Sender<Job>,
}

/// What the thread reads with.
struct View {
    connection: Connection,
    place: Arc<Place>,
    clock: Arc<dyn Clock>,
    epoch: String,
}

/// What a waiter wants to know of a key: whatever changes here is a reason to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight(Option<(u64, LeaseState, Option<LeaseId>, i64)>);

/// The next records of a listing.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) records: Vec<Result<Record, Failure>>,
    /// Where the next page starts; `None` when this is the last.
    pub(crate) after: Option<String>,
}

impl Reader {
    pub(crate) fn start(
        connection: Connection,
        place: Arc<Place>,
        clock: Arc<dyn Clock>,
        epoch: String,
    ) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let view = View {
            connection,
            place,
            clock,
            epoch,
        };
        thread::Builder::new()
            .name("leasehold-read".into())
            .spawn(move || {
                for job in waiting {
                    job(&view);
                }
            })?;
        Ok(Self { jobs })
    }

    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Record>, Failure> {
        let key = key.clone();
        self.call(move |view| view.read(&key)).await
    }

    /// One page of the records whose keys start with `prefix`, from `after` on.
    pub(crate) async fn page(&self, prefix: &str, after: Option<String>) -> Result<Page, Failure> {
        let prefix = prefix.to_owned();
        self.call(move |view| view.page(&prefix, after.as_deref()))
            .await
    }

    pub(crate) async fn sight(&self, key: &Key) -> Result<Sight, Failure> {
        let key = key.clone();
        self.call(move |view| view.sight(&key)).await
    }

    async fn call<T, F>(&self, read: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce(&View) -> Result<T, Trouble> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = move |view: &View| {
            if !reply.is_closed() {
                // A caller that has gone meanwhile has no use for it.
                let answer = view.place.check();
                drop(reply.send(answer.and_then(|()| read(view).map_err(Failure::from))));
            }
        };
        self.jobs
            .send(Box::new(job))
            .map_err(|_| Failure::stopped(Effect::NotApplied))?;
        match timeout(CALL_LIMIT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::stopped(Effect::NotApplied)),
            Err(_) => Err(Failure::too_late(Effect::NotApplied)),
        }
    }
}

impl View {
    fn read(&self, key: &Key) -> Result<Option<Record>, Trouble> {
        // Before the row is read: with a later time, a lease renewed in between would look expired.
        let now = self.clock.now();
        let Some(mut row) = self.row(key)? else {
            return Ok(None);
        };
        row.judge();
        row.record(key, now).map(Some)
    }

    fn sight(&self, key: &Key) -> Result<Sight, Trouble> {
        Ok(Sight(self.row(key)?.map(|row| {
            // As it was written: a lease that merely ran out wakes nobody.
            let written = row
                .lease
                .state(Instant::from_origin(std::time::Duration::ZERO));
            let id = match row.lease.status {
                Status::Leased { id, .. } | Status::Breaking { id, .. } => Some(id),
                Status::Available | Status::Broken { .. } => None,
            };
            (row.lease.token, written, id, row.version)
        })))
    }

    fn row(&self, key: &Key) -> Result<Option<Row>, Trouble> {
        let mut statement = self.connection.prepare_cached(select!("WHERE key = ?1"))?;
        // Open until the end, and with it the snapshot that row and observation belong to.
        let mut rows = statement.query([key.as_str()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let mut row = Row::decode(row, &self.epoch)?;
        row.look_up(&self.connection, key.as_str(), &self.epoch)?;
        Ok(Some(row))
    }

    fn page(&self, prefix: &str, after: Option<&str>) -> Result<Page, Trouble> {
        let now = self.clock.now();
        // Keys are ordered by their bytes, so those with the prefix are one stretch.
        let sql = match after {
            None => select!("WHERE key >= ?1 ORDER BY key LIMIT ?2"),
            Some(_) => select!("WHERE key > ?1 ORDER BY key LIMIT ?2"),
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let from = after.unwrap_or(prefix);
        let mut rows = statement.query((from, i64::try_from(PAGE).unwrap_or(1)))?;
        let mut page = Page::default();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if !name.starts_with(prefix) {
                page.after = None;
                return Ok(page);
            }
            // One bad record does not hide the others.
            let record = Key::new(name.clone())
                .map_err(|_| Trouble::Row("a key that is not allowed"))
                .and_then(|key| {
                    let mut row = Row::decode(row, &self.epoch)?;
                    row.look_up(&self.connection, key.as_str(), &self.epoch)?;
                    row.judge();
                    row.record(&key, now)
                });
            page.records.push(record.map_err(Failure::from));
            page.after = Some(name);
        }
        if page.records.len() < PAGE {
            page.after = None;
        }
        Ok(page)
    }
}
