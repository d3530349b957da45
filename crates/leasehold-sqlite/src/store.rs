use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{
    Capabilities, Effect, ErrorKind, Hints, Holder, Key, LeaseId, LeaseStore, Metadata,
    Precondition, Record, StoreError, Term, TermRange, TimeKeeper,
};
use tokio::sync::watch;

use crate::error::Failure;
use crate::path::Place;
use crate::reader::{Page, Reader};
use crate::wake::Notifier;
use crate::writer::{Abandoned, Writer};
use crate::{epoch, operations, row, schema};

/// Leases in one SQLite file; see the [crate](crate) for what it promises.
///
/// It has a thread that writes, one that reads and, once somebody watches, one that waits for others. They
/// end by themselves soon after the store was dropped; requests that were sent are carried out first.
/// Several stores may be open on one file, in one process and in many.
///
/// Every call ends within 15 s. That limit, like any, needs a tokio runtime with its timer enabled, and one
/// whose time is not paused.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: Writer,
    reader: Arc<Reader>,
    notifier: Mutex<Option<Notifier>>,
}

impl SqliteStore {
    /// Terms from 1 s to a year, or infinite.
    pub const TERMS: TermRange = TermRange {
        min: Duration::from_secs(1),
        max: Duration::from_secs(31_557_600),
        infinite: true,
    };

    /// Opens the store in this file, which is made if there is none; its directory must exist.
    ///
    /// # Errors
    /// When the file cannot be read and written, when it is damaged, or when it is not a file that this
    /// version of leasehold made. It is left as it was, then.
    ///
    /// # Cancel safety
    /// An empty store may be left in the file.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = crate::path::absolute(path.as_ref())?;
        let epoch = epoch::current().map_err(|cause| {
            Failure::new(ErrorKind::Internal, Effect::NotApplied, cause)
                .during("opening the store", &path)
        })?;
        Self::open_in(path, Arc::new(SystemClock), epoch).await
    }

    /// As if this were another boot, whose name is `epoch`.
    pub(crate) async fn open_in(
        path: PathBuf,
        clock: Arc<dyn Clock>,
        epoch: String,
    ) -> Result<Self, StoreError> {
        let opened = path.clone();
        let opening = move || Self::open_blocking(opened, clock, epoch);
        match tokio::task::spawn_blocking(opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::stopped(Effect::NotApplied)),
        }
        .map_err(|failure| failure.during("opening the store", &path))
    }

    fn open_blocking(path: PathBuf, clock: Arc<dyn Clock>, epoch: String) -> Result<Self, Failure> {
        let connection = schema::open(&path)?;
        let reading = schema::open_reader(&path)?;
        let failed = |error: std::io::Error| {
            Failure::new(
                ErrorKind::Unavailable,
                Effect::NotApplied,
                format!("starting its threads failed: {error}"),
            )
        };
        let place = Arc::new(Place::new(path.clone()).map_err(failed)?);
        let reader = Reader::start(
            reading,
            Arc::clone(&place),
            Arc::clone(&clock),
            epoch.clone(),
        );
        let reader = reader.map_err(failed)?;
        let writer = Writer::start(connection, place, clock, epoch).map_err(failed)?;
        Ok(Self {
            path,
            writer,
            reader: Arc::new(reader),
            notifier: Mutex::new(None),
        })
    }

    /// The database file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `None` where the system gives no notice, or no more.
    fn changes(&self) -> Option<watch::Receiver<()>> {
        let mut notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(changes) = notifier.as_ref().and_then(Notifier::changes) {
            return Some(changes);
        }
        // The first, or the first after one that has ended. Running out of inotify instances is no reason
        // to fail: waiters poll, too.
        *notifier = Notifier::start(&self.path).ok();
        notifier.as_ref().and_then(Notifier::changes)
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Self::TERMS.check(term)?;
        let (at, holder) = (key.clone(), holder.clone());
        self.writer
            .call(Abandoned::Skip, move |tx| {
                operations::acquire(tx, &at, id, term, &holder)
            })
            .await
            .map_err(|failure| failure.while_doing("acquiring", key, &self.path))
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        let at = key.clone();
        self.writer
            .call(Abandoned::Skip, move |tx| operations::renew(tx, &at, id))
            .await
            .map_err(|failure| failure.while_doing("renewing", key, &self.path))
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        let at = key.clone();
        self.writer
            .call(Abandoned::Run, move |tx| {
                operations::change(tx, &at, id, new_id)
            })
            .await
            .map_err(|failure| failure.while_doing("changing the lease of", key, &self.path))
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        let at = key.clone();
        self.writer
            .call(Abandoned::Run, move |tx| operations::release(tx, &at, id))
            .await
            .map_err(|failure| failure.while_doing("releasing", key, &self.path))
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        let at = key.clone();
        self.writer
            .call(Abandoned::Run, move |tx| {
                operations::break_lease(tx, &at, after)
            })
            .await
            .map_err(|failure| failure.while_doing("breaking the lease of", key, &self.path))
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.reader
            .read(key)
            .await
            .map_err(|failure| failure.while_doing("reading", key, &self.path))
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let failed = |failure: Failure| failure.while_doing("writing", key, &self.path);
        let text = row::metadata_text(metadata).map_err(|trouble| failed(trouble.into()))?;
        let (at, precondition) = (key.clone(), precondition.clone());
        self.writer
            .call(Abandoned::Run, move |tx| {
                operations::write(tx, &at, &text, &precondition, lease)
            })
            .await
            .map_err(failed)
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        precondition.check_for_deletion()?;
        let (at, precondition) = (key.clone(), precondition.clone());
        self.writer
            .call(Abandoned::Run, move |tx| {
                operations::delete(tx, &at, &precondition, lease)
            })
            .await
            .map_err(|failure| failure.while_doing("deleting", key, &self.path))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        let pages = stream::unfold(Some(None), move |from: Option<Option<String>>| async move {
            let page = self.reader.page(prefix, from?).await;
            let Page { records, after } = page.unwrap_or_else(|failure| Page {
                records: vec![Err(failure)],
                after: None,
            });
            Some((stream::iter(records), after.map(Some)))
        });
        pages
            .flatten()
            .map(move |record| {
                record.map_err(|failure| {
                    failure.during(format_args!("listing {prefix:?}"), &self.path)
                })
            })
            .boxed()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            terms: Self::TERMS,
            fencing: true,
            watch: cfg!(target_os = "linux"),
            batch_renewal: true,
            time: TimeKeeper::Store,
            linearizable_reads: true,
        }
    }

    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let batch = leases.to_vec();
        let renewed = self
            .writer
            .call(Abandoned::Skip, move |tx| {
                let renew = |(key, id): &(Key, LeaseId)| operations::renew(tx, key, *id);
                crate::error::each(batch.iter().map(renew))
            })
            .await;
        let answers = match renewed {
            Ok(answers) => answers,
            Err(failure) => vec![Err(failure); leases.len()],
        };
        leases
            .iter()
            .zip(answers)
            .map(|((key, _), answer)| {
                answer.map_err(|failure| failure.while_doing("renewing", key, &self.path))
            })
            .collect()
    }

    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        // In this order: what changes after the look is told by the notifier.
        let Some(changes) = self.changes() else {
            return Ok(None);
        };
        let seen = self
            .reader
            .sight(key)
            .await
            .map_err(|failure| failure.while_doing("watching", key, &self.path))?;
        // Hints end with the store; they do not keep it open.
        let reader = Arc::downgrade(&self.reader);
        let state = (changes, reader, key.clone(), seen);
        let hints = stream::unfold(state, |(mut changes, reader, key, mut seen)| async move {
            loop {
                changes.changed().await.ok()?;
                let looked = reader.upgrade()?.sight(&key).await;
                match looked {
                    Ok(sight) if sight == seen => continue,
                    Ok(sight) => seen = sight,
                    // Whoever waits looks, and finds out what is wrong.
                    Err(_) => {}
                }
                return Some(((), (changes, reader, key, seen)));
            }
        });
        Ok(Some(hints.boxed()))
    }
}
