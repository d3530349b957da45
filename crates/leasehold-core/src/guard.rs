mod handle;
pub(crate) mod hold;
mod run;
pub(crate) mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use handle::LeaseHandle;
pub use run::RunError;
pub use status::{LeaseError, LeaseStatus, LossCause, Lost};

use crate::client::Shared;
use crate::client::queue::Turn;
use crate::clock::Instant;
use crate::driver::{Command, LetGo};
use crate::outcome::Release;
use crate::{
    Effect, ErrorKind, FencingToken, Holder, Key, LeaseId, Metadata, Record, StoreError, Version,
};
use hold::Hold;

/// A held lease that renews itself, and is released when it leaves scope.
///
/// Renewal starts at two thirds of the term (40 s of 60 s) in the background, and repeats quickly until it
/// is confirmed or the *deadline* comes: the term's length after the last confirmed request was sent, less
/// the margin. The deadline fires by itself, whatever the store does.
///
/// # What it does not guarantee
/// A process that is paused does not notice its deadline before it runs again, and then somebody else may
/// hold the lease. Call [`check`](Self::check) before anything that cannot be taken back, and give the
/// [fencing token](Self::fencing_token) to resources that can refuse a lesser one.
///
/// # Letting go
/// [`release`](Self::release) says when it is done. Dropping the guard ends it for this process at once and
/// has it released in the background, which is not immediate; [`Leases::shutdown`](crate::Leases::shutdown)
/// waits for that. What is dropped while the runtime is going down is left to expire.
#[derive(Debug)]
#[must_use = "the lease is released when this is dropped"]
pub struct AutoRenewLease {
    handle: LeaseHandle,
    let_go: bool,
}

impl AutoRenewLease {
    pub(crate) fn new(shared: Arc<Shared>, hold: Arc<Hold>) -> Self {
        Self {
            handle: LeaseHandle::new(shared, hold),
            let_go: false,
        }
    }

    /// A view of this lease, for work that runs elsewhere under it.
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }

    /// The key.
    pub fn key(&self) -> &Key {
        self.handle.key()
    }

    /// Who holds it, for people.
    pub fn holder(&self) -> &Holder {
        self.handle.holder()
    }

    /// The proof of holding: a secret.
    pub fn lease_id(&self) -> LeaseId {
        self.handle.lease_id()
    }

    /// The number of this grant, greater than that of any before it on this key; `None` when the store does
    /// no fencing.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.handle.fencing_token()
    }

    /// Whether the lease may still be relied on, by the clock as it is now. A few dozen nanoseconds.
    ///
    /// # Errors
    /// When it is lost.
    pub fn check(&self) -> Result<(), Lost> {
        self.handle.check()
    }

    /// How long until the deadline, if nothing is confirmed before; zero when it is over.
    pub fn remaining(&self) -> Duration {
        self.handle.remaining()
    }

    /// The instant, on the client's clock, from which the lease counts as lost unless a renewal is confirmed
    /// before.
    pub fn deadline(&self) -> Instant {
        self.handle.deadline()
    }

    /// The deadline as it moves.
    pub fn deadlines(&self) -> watch::Receiver<Instant> {
        self.handle.deadlines()
    }

    /// Where the guard stands, as it changes.
    pub fn status(&self) -> watch::Receiver<LeaseStatus> {
        self.handle.status()
    }

    /// Resolves when the lease is lost: at the deadline, not later, even while a renewal hangs.
    ///
    /// # Cancel safety
    /// Holds nothing; drop it at any time.
    pub async fn lost(&self) -> Lost {
        self.handle.lost().await
    }

    /// Cancelled when the lease is lost or let go of.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.handle.cancellation_token()
    }

    /// The record as of the grant, with what was written through this guard since.
    pub fn record(&self) -> Record {
        self.handle.record()
    }

    /// Reads the record from the store.
    ///
    /// # Errors
    /// When the lease is lost or its record gone, or the store fails.
    pub async fn read(&self) -> Result<Record, LeaseError> {
        self.handle.read().await
    }

    /// Replaces the metadata under the lease.
    ///
    /// A request without an answer is repeated until the deadline, and never undoes a later one: what is
    /// written through the guard and its handles is written one after the other, in the order in which it was
    /// begun. A write that is neither awaited nor dropped keeps the next ones waiting.
    ///
    /// # Errors
    /// When the lease is lost (what was under way may have been written), or the store refuses.
    ///
    /// # Cancel safety
    /// Dropped early, the metadata may or may not have been written.
    pub async fn write(&self, metadata: &Metadata) -> Result<Version, LeaseError> {
        self.handle.write(metadata).await
    }

    /// Lets go, and says when the store has confirmed it. That it was not held any more is no error.
    ///
    /// # Errors
    /// When the store could not be told before the term was over anyway, or refused; the lease is left to
    /// expire.
    ///
    /// # Cancel safety
    /// The lease is over for this process from the call on; dropped early, releasing goes on in the
    /// background.
    pub async fn release(mut self) -> Result<Release, StoreError> {
        let (answer, released) = oneshot::channel();
        self.start_release(Some(answer));
        released.await.unwrap_or_else(|_| {
            Err(StoreError::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                format!(
                    "releasing the lease on {}: the runtime that does it has ended; it is left to expire",
                    self.key()
                ),
            ))
        })
    }

    /// Stops renewing without releasing: nobody else gets the lease before the term is over.
    pub fn abandon(mut self) {
        self.let_go = true;
        let hold = &self.handle.hold;
        let turn: Option<Turn> = hold.let_go();
        self.handle.shared.tell(Command::Abandon(Arc::clone(hold)));
        drop(turn);
    }

    fn start_release(&mut self, answer: Option<oneshot::Sender<Result<Release, StoreError>>>) {
        self.let_go = true;
        let LeaseHandle { shared, hold } = &self.handle;
        let turn = hold.let_go();
        shared.tell(Command::LetGo(LetGo {
            key: hold.key.clone(),
            id: hold.id,
            // A renewal that was not confirmed may have started a whole term.
            end: shared.clock.now() + hold.timing.term,
            hold: Some(Arc::clone(hold)),
            turn,
            answer,
        }));
    }
}

impl Drop for AutoRenewLease {
    fn drop(&mut self) {
        if !self.let_go {
            self.start_release(None);
        }
    }
}
