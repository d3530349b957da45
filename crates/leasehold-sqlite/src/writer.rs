//! Group commit: one thread that carries out everything that waits in one transaction.

use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use leasehold_core::Effect;
use leasehold_core::clock::Clock;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{Failure, Trouble, is_busy};
use crate::path::Place;
use crate::transaction::Transaction;
use crate::wake;

/// The most requests in one transaction, so that the first of them need not wait for an endless stream.
const BATCH: usize = 1024;

/// The longest that a caller waits: for the transaction under way to give up its wait for the lock, and for
/// its own to do the same.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(15);

/// What to do with a request whose caller went away before it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// Nobody would know of what it gained.
    Skip,
    /// It frees something for others.
    Run,
}

/// The way to the writer thread, which ends when this is dropped and what was sent is done.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        place: Arc<Place>,
        clock: Arc<dyn Clock>,
        epoch: String,
    ) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let mut thread = Thread {
            connection,
            place,
            clock,
            epoch,
        };
        thread::Builder::new()
            .name("leasehold-write".into())
            .spawn(move || {
                while let Ok(first) = waiting.recv() {
                    thread.carry_out(gather(first, &waiting));
                }
            })?;
        Ok(Self { jobs })
    }

    /// Has `run` carried out, and answers after it was committed. `run` may be called again after a
    /// transaction that was rolled back.
    pub(crate) async fn call<T, F>(&self, abandoned: Abandoned, run: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnMut(&mut Transaction<'_>) -> Result<T, Trouble> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Call {
            run,
            abandoned,
            outcome: None,
            reply,
        };
        self.jobs
            .send(Box::new(call))
            .map_err(|_| Failure::stopped(Effect::NotApplied))?;
        match timeout(CALL_LIMIT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::stopped(Effect::Unknown)),
            Err(_) => Err(Failure::too_late(Effect::Unknown)),
        }
    }
}

fn gather(first: Box<dyn Job>, waiting: &mpsc::Receiver<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    let mut batch = vec![first];
    loop {
        let before = batch.len();
        batch.extend(waiting.try_iter().take(BATCH - before));
        // Those who were answered a moment ago are about to come back: as long as they do, giving way to
        // them is cheaper than another wait for the disk.
        if batch.len() == before || batch.len() == BATCH {
            return batch;
        }
        thread::yield_now();
    }
}

/// A request with its caller's type hidden.
trait Job: Send {
    fn is_wanted(&self) -> bool;
    fn run(&mut self, tx: &mut Transaction<'_>) -> rusqlite::Result<()>;
    /// Says what came of the transaction in which it was run.
    fn answer(self: Box<Self>, end: Result<(), Failure>);
}

struct Call<T, F> {
    run: F,
    abandoned: Abandoned,
    outcome: Option<Result<T, Failure>>,
    reply: oneshot::Sender<Result<T, Failure>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Transaction<'_>) -> Result<T, Trouble> + Send,
{
    fn is_wanted(&self) -> bool {
        self.abandoned == Abandoned::Run || !self.reply.is_closed()
    }

    fn run(&mut self, tx: &mut Transaction<'_>) -> rusqlite::Result<()> {
        self.outcome = Some(match (self.run)(tx) {
            Ok(answer) => Ok(answer),
            Err(Trouble::Sqlite(error)) => return Err(error),
            Err(trouble @ Trouble::Row(_)) => Err(trouble.into()),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, end: Result<(), Failure>) {
        let answer = match (end, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(Failure::stopped(Effect::NotApplied)),
            (Err(failure), _) => Err(failure),
        };
        // A caller that has gone has no use for it.
        drop(self.reply.send(answer));
    }
}

struct Thread {
    connection: Connection,
    place: Arc<Place>,
    clock: Arc<dyn Clock>,
    epoch: String,
}

/// How a transaction ended without a commit.
enum Ended {
    /// One request could not be carried out; nothing was applied.
    ByRequest(Failure),
    /// None could.
    ForAll(Failure),
}

impl Thread {
    fn carry_out(&mut self, mut batch: Vec<Box<dyn Job>>) {
        batch.retain(|job| job.is_wanted());
        if batch.is_empty() {
            return;
        }
        let end = match self.attempt(&mut batch) {
            Ok(()) => Ok(()),
            // A damaged page concerns those keys alone that are on it.
            Err(Ended::ByRequest(_)) if batch.len() > 1 => {
                for job in batch {
                    self.carry_out(vec![job]);
                }
                return;
            }
            Err(Ended::ByRequest(failure) | Ended::ForAll(failure)) => Err(failure),
        };
        for job in batch {
            job.answer(end.clone());
        }
    }

    fn attempt(&mut self, batch: &mut [Box<dyn Job>]) -> Result<(), Ended> {
        self.begin().map_err(Ended::ForAll)?;
        // Not before: while this waited for the lock, others wrote what is older than this.
        let now = self.clock.now();
        let mut tx = Transaction::new(&self.connection, now, &self.epoch);
        for job in batch {
            if let Err(error) = job.run(&mut tx) {
                self.roll_back();
                return Err(Ended::ByRequest(Failure::not_applied(error)));
            }
        }
        if let Err(error) = tx.finish() {
            self.roll_back();
            return Err(Ended::ForAll(Failure::not_applied(error)));
        }
        let hint = tx.hint;
        self.commit().map_err(Ended::ForAll)?;
        if hint {
            // Before anybody is answered: a process may end as soon as it is.
            wake::others(&self.place.path);
        }
        Ok(())
    }

    fn begin(&self) -> Result<(), Failure> {
        self.place.check()?;
        // One that could not be rolled back when it failed.
        self.roll_back();
        self.execute("BEGIN IMMEDIATE")
            .map_err(Failure::not_applied)
    }

    fn commit(&self) -> Result<(), Failure> {
        let Err(error) = self.execute("COMMIT") else {
            return Ok(());
        };
        self.roll_back();
        // A full disk is found before the last frame is written, which is the one that counts. After any
        // other error that frame may be on the disk, and count once the log is read anew.
        let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        let certain = (full || is_busy(&error)) && self.connection.is_autocommit();
        let effect = if certain {
            Effect::NotApplied
        } else {
            Effect::Unknown
        };
        Err(Failure::of(error, effect))
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // Tried again before the next transaction begins, which fails if it cannot be done.
            drop(self.execute("ROLLBACK"));
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(()).map(drop)
    }
}
