use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng, TryRng};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::queue::LocalQueue;
use super::timing::Timing;
use super::{Leases, Shared};
use crate::clock::{Clock, SystemClock};
use crate::driver::Driver;
use crate::{Holder, Invalid, LeaseStore, Term};

/// Settings of a client; made by [`Leases::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct LeasesBuilder {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    term: Duration,
    margin: Option<Duration>,
    grace: Option<Duration>,
    holder: Option<Holder>,
    seed: Option<u64>,
}

impl LeasesBuilder {
    pub(super) fn new(store: Arc<dyn LeaseStore>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            term: Duration::from_secs(60),
            margin: None,
            grace: None,
            holder: None,
            seed: None,
        }
    }

    /// How long a grant lasts unless renewed; 60 s unless set. The store says what it takes.
    ///
    /// A crash blocks others for at most this long; a store that cannot be reached is survived for about a
    /// third of it.
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// How much earlier than the term's end a lease counts as lost: covers the drift of clocks and the time
    /// to stop work. At most three quarters of the term.
    ///
    /// Unless set, a twentieth of the term and at least 500 ms, and the grace on top where that is set.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// How long work that [`run`](crate::AutoRenewLease::run) has cancelled may take to stop. At most the
    /// margin, of which it is a half unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Who holds what is acquired, for people; `host:pid:random` unless set.
    pub fn holder(mut self, holder: Holder) -> Self {
        self.holder = Some(holder);
        self
    }

    /// The clock that deadlines are on; the machine's unless set.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes lease ids and jitter repeatable, for simulations. Never set it otherwise: two clients with one
    /// seed propose the same lease ids, and each takes the other's lease for its own.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes the client and starts its background task.
    ///
    /// # Errors
    /// When the store does not take the term, when margin and grace leave no time to renew, when this is not
    /// called inside a tokio runtime, or when the system gives no random numbers.
    pub fn build(self) -> Result<Leases, Invalid> {
        let capabilities = self.store.capabilities();
        capabilities.terms.check(Term::Finite(self.term))?;
        let timing = Timing::new(self.term, self.margin, self.grace)?;
        let runtime = Handle::try_current().map_err(|_| {
            Invalid::new("leases are renewed by a tokio runtime, and this is not called inside one")
        })?;
        let mut rng = match self.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_seed(system_seed()?),
        };
        let holder = match self.holder {
            Some(holder) => holder,
            None => Holder::of_this_process(rng.random()),
        };
        let (driver, commands) = mpsc::unbounded_channel();
        let drivers_rng = StdRng::from_seed(rng.random());
        let (store, clock) = (self.store, self.clock);
        let driving = Driver::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            drivers_rng,
            commands,
        );
        let span = tracing::info_span!(parent: None, "leases", holder = %holder);
        runtime.spawn(driving.run().instrument(span));
        Ok(Leases {
            shared: Arc::new(Shared {
                store,
                clock,
                timing,
                holder,
                queue: Arc::new(LocalQueue::default()),
                doing: Arc::new(LocalQueue::default()),
                closed: CancellationToken::new(),
                acquiring: TaskTracker::new(),
                rng: Mutex::new(rng),
                driver,
                last_hold: AtomicU64::new(0),
            }),
        })
    }
}

fn system_seed() -> Result<[u8; 32], Invalid> {
    let mut seed = [0; 32];
    SysRng
        .try_fill_bytes(&mut seed)
        .map_err(|error| Invalid::new(format!("the system gives no random numbers: {error}")))?;
    Ok(seed)
}
