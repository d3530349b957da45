mod acquire;
mod builder;
pub(crate) mod queue;
pub(crate) mod timing;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use acquire::{AcquireError, TryAcquire};
pub use builder::LeasesBuilder;

use crate::clock::Clock;
use crate::driver::Command;
use crate::{Holder, Invalid, Key, LeaseId, LeaseStore};
use queue::LocalQueue;
use timing::Timing;

/// The client of one store: acquires leases, renews all that are held, and releases those let go of.
///
/// Cheap to clone. One background task, on the runtime it was built in, serves all clones and all their
/// guards; it ends when the last of them is gone and nothing waits to be released.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use leasehold_core::{Key, Leases, MemoryStore};
///
/// let leases = Leases::new(Arc::new(MemoryStore::new()))?;
/// let lease = leases.acquire(&Key::new("nightly-report")?).await?;
/// // … only one of all processes gets here at a time …
/// lease.check()?; // before anything that cannot be taken back
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Leases {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timing: Timing,
    pub(crate) holder: Holder,
    pub(crate) queue: Arc<LocalQueue>,
    /// The callers of [`DoOnce`](crate::DoOnce), which do more under one turn than to acquire.
    pub(crate) doing: Arc<LocalQueue>,
    /// Cancelled by [`Leases::shutdown`].
    pub(crate) closed: CancellationToken,
    pub(crate) acquiring: TaskTracker,
    rng: Mutex<StdRng>,
    pub(crate) driver: mpsc::UnboundedSender<Command>,
    last_hold: AtomicU64,
}

impl Leases {
    /// A client with the defaults: a term of 60 s, renewed after 40 s, given up after 57 s.
    ///
    /// # Errors
    /// When the store does not take a term of 60 s, or when this is not called inside a tokio runtime.
    pub fn new(store: Arc<dyn LeaseStore>) -> Result<Self, Invalid> {
        Self::builder(store).build()
    }

    /// A client with other settings.
    pub fn builder(store: Arc<dyn LeaseStore>) -> LeasesBuilder {
        LeasesBuilder::new(store)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn LeaseStore> {
        &self.shared.store
    }

    /// The clock that its deadlines are on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Who holds what it acquires, for people.
    pub fn holder(&self) -> &Holder {
        &self.shared.holder
    }

    /// The term that it asks for.
    pub fn term(&self) -> Duration {
        self.shared.timing.term
    }

    /// Acquires nothing more, waits until every lease let go of is released at the store, for at most
    /// `limit`, and says which keys are left: still held by a guard, or left to expire.
    ///
    /// Whoever still waits for a lease gets [`AcquireError::ShutDown`]. Guards that are alive stay valid and
    /// go on being renewed.
    ///
    /// # Cancel safety
    /// Dropped early, releasing goes on in the background, and nothing can be acquired all the same.
    pub async fn shutdown(&self, limit: Duration) -> Vec<Key> {
        self.shared.closed.cancel();
        self.shared.acquiring.close();
        // Neither a time-out nor a driver that has ended is worth more than the list that follows.
        let _ = timeout(limit, async {
            self.shared.acquiring.wait().await;
            let (drained, done) = oneshot::channel();
            self.shared.tell(Command::Drain(drained));
            done.await
        })
        .await;
        let (reply, unreleased) = oneshot::channel();
        self.shared.tell(Command::Unreleased(reply));
        unreleased.await.unwrap_or_default()
    }
}

impl Shared {
    pub(crate) fn tell(&self, command: Command) {
        if let Err(unsent) = self.driver.send(command) {
            // Its runtime has ended; what it kept is lost, and what is to be released expires. A waiting
            // answer or turn inside the command is dropped here, which its other end sees.
            tracing::debug!("the runtime of the leases has ended: {:?}", unsent.0);
        }
    }

    pub(crate) fn new_id(&self) -> LeaseId {
        LeaseId::from_random_bytes(self.rng(RngExt::random))
    }

    /// This length, shortened at random by up to a half, so that many do not do the same at once.
    pub(crate) fn spread(&self, length: Duration) -> Duration {
        length.mul_f64(self.rng(|rng| rng.random_range(0.5..1.0)))
    }

    pub(crate) fn next_hold(&self) -> u64 {
        self.last_hold.fetch_add(1, Ordering::Relaxed)
    }

    fn rng<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the store, which may be everything there is.
        f.debug_struct("Leases")
            .field("holder", self.holder())
            .field("timing", &self.shared.timing)
            .finish_non_exhaustive()
    }
}
