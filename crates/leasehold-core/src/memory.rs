use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

use crate::capabilities::{Capabilities, TermRange, TimeKeeper};
use crate::clock::{Clock, Instant, SystemClock};
use crate::lease::{Lease, Refused, may_write};
use crate::outcome::{Acquire, Break, Change, Delete, NotHeld, Release, Renew, Write};
use crate::{
    Effect, ErrorKind, Hints, Holder, Key, LeaseId, LeaseStore, Metadata, Precondition, Record,
    StoreError, Term, Version,
};

/// A store in this process's memory: the reference implementation, for tests and for locking among tasks.
///
/// Cheap to share behind an [`Arc`]; everything is gone when it is dropped. It cannot fail.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<Key, Entry>,
    watched: HashMap<Key, watch::Sender<()>>,
    /// The greatest token that a deleted record had: tokens of a key made anew go on from here.
    deleted_token: u64,
    last_version: u64,
}

#[derive(Debug)]
struct Entry {
    lease: Lease,
    metadata: Metadata,
    version: u64,
}

impl MemoryStore {
    /// Terms from 1 s to a year, or infinite.
    pub const TERMS: TermRange = TermRange {
        min: Duration::from_secs(1),
        max: Duration::from_secs(31_557_600),
        infinite: true,
    };

    /// An empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty store on another clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            table: Mutex::default(),
        }
    }

    fn open(&self) -> (MutexGuard<'_, Table>, Instant) {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        (table, now)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    fn next_version(&mut self) -> u64 {
        self.last_version += 1;
        self.last_version
    }

    fn notify(&mut self, key: &Key) {
        if let Some(sender) = self.watched.get(key)
            && sender.send(()).is_err()
        {
            self.watched.remove(key);
        }
    }

    /// Looks at the lease, then at the precondition, in the order that the contract asks for.
    fn may_write(
        &self,
        now: Instant,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<(), Refused> {
        let entry = self.entries.get(key);
        let found = entry.map(|entry| (&entry.lease, version(entry.version)));
        may_write(now, found, precondition, lease)
    }
}

impl Entry {
    fn record(&self, now: Instant, key: &Key) -> Record {
        Record {
            key: key.clone(),
            state: self.lease.state(now),
            holder: self.lease.holder().cloned(),
            token: self.lease.fencing_token(),
            term: self.lease.term(now),
            remaining: self.lease.remaining(now),
            metadata: self.metadata.clone(),
            version: version(self.version),
        }
    }
}

fn version(number: u64) -> Version {
    Version::new(number.to_string())
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Self::TERMS.check(term)?;
        let (mut table, now) = self.open();
        if !table.entries.contains_key(key) {
            let entry = Entry {
                lease: Lease::new(table.deleted_token),
                metadata: Metadata::new(),
                version: table.next_version(),
            };
            table.entries.insert(key.clone(), entry);
        }
        let Some(entry) = table.entries.get_mut(key) else {
            return Err(StoreError::new(
                ErrorKind::Internal,
                Effect::NotApplied,
                format!("acquiring {key} in memory: the record just made is gone"),
            ));
        };
        if let Err(held_by) = entry.lease.acquire(now, id, term, holder) {
            return Ok(Acquire::Held(held_by));
        }
        let record = entry.record(now, key);
        table.notify(key);
        Ok(Acquire::Granted(record))
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        let (mut table, now) = self.open();
        let Some(entry) = table.entries.get_mut(key) else {
            return Ok(Renew::NotHeld(NotHeld::ABSENT));
        };
        Ok(match entry.lease.renew(now, id) {
            Ok(()) => Renew::Renewed,
            Err(not_held) => Renew::NotHeld(not_held),
        })
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        let (mut table, now) = self.open();
        let Some(entry) = table.entries.get_mut(key) else {
            return Ok(Change::NotHeld(NotHeld::ABSENT));
        };
        Ok(match entry.lease.change(now, id, new_id) {
            Ok(()) => Change::Changed,
            Err(not_held) => Change::NotHeld(not_held),
        })
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        let (mut table, now) = self.open();
        let released = table
            .entries
            .get_mut(key)
            .is_some_and(|entry| entry.lease.release(now, id));
        if !released {
            return Ok(Release::NotHeld);
        }
        table.notify(key);
        Ok(Release::Released)
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        let (mut table, now) = self.open();
        let Some(entry) = table.entries.get_mut(key) else {
            return Ok(Break::NotHeld);
        };
        let outcome = entry.lease.break_lease(now, after);
        table.notify(key);
        Ok(outcome)
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let (table, now) = self.open();
        Ok(table.entries.get(key).map(|entry| entry.record(now, key)))
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let (mut table, now) = self.open();
        if let Err(refused) = table.may_write(now, key, precondition, lease) {
            return Ok(refused.into());
        }
        let written = table.next_version();
        let token = table.deleted_token;
        let entry = table.entries.entry(key.clone()).or_insert_with(|| Entry {
            lease: Lease::new(token),
            metadata: Metadata::new(),
            version: written,
        });
        entry.metadata = metadata.clone();
        entry.version = written;
        table.notify(key);
        Ok(Write::Written(version(written)))
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        precondition.check_for_deletion()?;
        let (mut table, now) = self.open();
        if !table.entries.contains_key(key) {
            return Ok(Delete::Absent);
        }
        if let Err(refused) = table.may_write(now, key, precondition, lease) {
            return Ok(refused.into());
        }
        if let Some(entry) = table.entries.remove(key) {
            table.deleted_token = table.deleted_token.max(entry.lease.token);
        }
        table.notify(key);
        Ok(Delete::Deleted)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        let (table, now) = self.open();
        let records: Vec<_> = table
            .entries
            .iter()
            .filter(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(key, entry)| Ok(entry.record(now, key)))
            .collect();
        stream::iter(records).boxed()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            terms: Self::TERMS,
            fencing: true,
            watch: true,
            batch_renewal: false,
            time: TimeKeeper::Store,
            linearizable_reads: true,
        }
    }

    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        let (mut table, _) = self.open();
        let sender = table
            .watched
            .entry(key.clone())
            .or_insert_with(|| watch::Sender::new(()));
        let hints = stream::unfold(sender.subscribe(), |mut receiver| async move {
            receiver.changed().await.ok().map(|()| ((), receiver))
        });
        Ok(Some(hints.boxed()))
    }
}
