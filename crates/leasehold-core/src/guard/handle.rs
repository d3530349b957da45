use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::hold::Hold;
use super::status::{LeaseError, LeaseStatus, LossCause, Lost};
use crate::client::Shared;
use crate::client::timing::Timing;
use crate::clock::Instant;
use crate::outcome::Write;
use crate::{
    FencingToken, Holder, Key, LeaseId, Metadata, Precondition, Record, StoreError, Version,
};

/// The pause before a write without an answer is repeated; shortened at random by up to a half.
const REPEAT: Duration = Duration::from_millis(100);

/// A view of a held lease for the work that runs under it: everything but letting go.
///
/// Does not keep the lease: when its guard lets go, the handle says so.
#[derive(Clone)]
pub struct LeaseHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hold: Arc<Hold>,
}

impl LeaseHandle {
    pub(crate) fn new(shared: Arc<Shared>, hold: Arc<Hold>) -> Self {
        Self { shared, hold }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.hold.key
    }

    /// Who holds it, for people.
    pub fn holder(&self) -> &Holder {
        &self.shared.holder
    }

    /// The proof of holding: a secret.
    pub fn lease_id(&self) -> LeaseId {
        self.hold.id
    }

    /// See [`AutoRenewLease::fencing_token`](crate::AutoRenewLease::fencing_token).
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.hold.token
    }

    /// See [`AutoRenewLease::check`](crate::AutoRenewLease::check).
    ///
    /// # Errors
    /// When the lease is lost or let go of.
    pub fn check(&self) -> Result<(), Lost> {
        self.hold.check(&*self.shared.clock)
    }

    /// How long until the deadline; zero when it is over.
    pub fn remaining(&self) -> Duration {
        match self.check() {
            Ok(()) => self
                .deadline()
                .saturating_duration_since(self.shared.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// See [`AutoRenewLease::deadline`](crate::AutoRenewLease::deadline).
    pub fn deadline(&self) -> Instant {
        self.hold.deadline()
    }

    /// The deadline as it moves.
    pub fn deadlines(&self) -> watch::Receiver<Instant> {
        self.hold.deadlines.subscribe()
    }

    /// Where the guard stands, as it changes.
    pub fn status(&self) -> watch::Receiver<LeaseStatus> {
        self.hold.status.subscribe()
    }

    /// Resolves when the lease is lost or let go of.
    ///
    /// # Cancel safety
    /// Holds nothing; drop it at any time.
    pub async fn lost(&self) -> Lost {
        self.hold.over.cancelled().await;
        match self.check() {
            Err(lost) => lost,
            // Unreachable: what is over stays over.
            Ok(()) => self.hold.lost(LossCause::Expired),
        }
    }

    /// Cancelled when the lease is lost or let go of.
    pub fn cancellation_token(&self) -> CancellationToken {
        // A child: cancelling what is given away must not end the lease.
        self.hold.over.child_token()
    }

    /// The record as of the grant, with what was written through guard and handles since.
    pub fn record(&self) -> Record {
        self.hold.record()
    }

    /// Reads the record from the store.
    ///
    /// # Errors
    /// When the lease is lost or its record gone, or the store fails.
    pub async fn read(&self) -> Result<Record, LeaseError> {
        self.check()?;
        let limit = self.attempt_limit();
        match timeout(limit, self.shared.store.read(self.key())).await {
            Ok(Ok(Some(record))) => Ok(record),
            Ok(Ok(None)) => {
                self.hold.lose(LossCause::Deleted);
                Err(self.hold.lost(LossCause::Deleted).into())
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(StoreError::no_answer("reading the record of", self.key(), limit).into()),
        }
    }

    /// See [`AutoRenewLease::write`](crate::AutoRenewLease::write).
    ///
    /// # Errors
    /// When the lease is lost, or the store refuses.
    ///
    /// # Cancel safety
    /// Dropped early, the metadata may or may not have been written.
    pub async fn write(&self, metadata: &Metadata) -> Result<Version, LeaseError> {
        let _one_at_a_time = self.hold.writing.lock().await;
        loop {
            self.check()?;
            // By version, though nobody else can write: a request that was given up for lost and comes late
            // must not undo the next one.
            let based_on = Precondition::IfVersion(self.record().version);
            let writing =
                self.shared
                    .store
                    .write(self.key(), metadata, &based_on, Some(self.lease_id()));
            match timeout(self.attempt_limit(), writing).await {
                Ok(Ok(Write::Written(version))) => {
                    self.wrote(metadata, &version);
                    return Ok(version);
                }
                Ok(Ok(Write::NotHeld(not_held))) => {
                    let cause = LossCause::of(&not_held);
                    self.hold.lose(cause);
                    return Err(self.hold.lost(cause).into());
                }
                // Our own request, whose answer was lost, or the store's own writing.
                Ok(Ok(Write::Conflict(_) | Write::Leased(_))) => match self.read().await {
                    Ok(found) if found.metadata == *metadata => {
                        self.wrote(metadata, &found.version);
                        return Ok(found.version);
                    }
                    Ok(found) => self
                        .hold
                        .set_record(|record| record.version = found.version),
                    Err(LeaseError::Store(error)) if error.is_retryable() => {
                        sleep(self.shared.spread(REPEAT)).await;
                    }
                    Err(error) => return Err(error),
                },
                Ok(Err(error)) if !error.is_retryable() => return Err(error.into()),
                Ok(Err(_)) | Err(_) => sleep(self.shared.spread(REPEAT)).await,
            }
        }
    }

    fn wrote(&self, metadata: &Metadata, version: &Version) {
        self.hold.set_record(|record| {
            record.metadata = metadata.clone();
            record.version = version.clone();
        });
    }

    fn attempt_limit(&self) -> Duration {
        Timing::attempt_limit(self.remaining())
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the client and the store behind it, which may be everything there is.
        f.debug_struct("LeaseHandle")
            .field("key", self.key())
            .field("token", &self.fencing_token())
            .field("status", &*self.hold.status.borrow())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
