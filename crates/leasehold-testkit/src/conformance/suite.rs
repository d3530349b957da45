use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::LeaseStore;
use leasehold_core::clock::{Clock, SystemClock};
use rand::TryRng;
use rand::rngs::SysRng;

/// A store to be put to the test, and how.
#[derive(Clone)]
pub struct Suite {
    pub(super) clients: Vec<Arc<dyn LeaseStore>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) slack: Duration,
    pub(super) seed: u64,
    /// In every key of this run and in no other.
    pub(super) run: String,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Suite {
    /// The environment variable that sets the seed, to replay a run.
    pub const SEED_VARIABLE: &'static str = "LEASEHOLD_TESTKIT_SEED";

    /// All rules against this store.
    ///
    /// # Panics
    /// When the operating system gives no random numbers, or when [`Suite::SEED_VARIABLE`] is set to something
    /// that is not a number.
    pub fn new(store: Arc<dyn LeaseStore>) -> Self {
        let seed = match std::env::var(Self::SEED_VARIABLE) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{} is not a number: {text}", Self::SEED_VARIABLE)),
            Err(_) => random(),
        };
        Self {
            clients: vec![store],
            clock: Arc::new(SystemClock),
            slack: Duration::from_secs(30),
            seed,
            // Not from the seed: a replay against the same server needs fresh keys too.
            run: format!("leasehold-{:016x}", random()),
            kept: Vec::new(),
        }
    }

    /// Another client of the same data: another connection, or another handle on the same file.
    pub fn client(mut self, store: Arc<dyn LeaseStore>) -> Self {
        self.clients.push(store);
        self
    }

    /// The clock that the store's time is held against; the machine's unless set.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How late a store may be: in letting go of an expired lease, in showing a write to readers, in giving a
    /// hint. 30 s unless set.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// Where random choices start from: the one printed with a failure repeats them. Scheduling stays as
    /// random as it is. Unless set it comes from [`Suite::SEED_VARIABLE`], else from the operating system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Keeps something for as long as the rules run: a directory, a server.
    pub fn keep(mut self, kept: impl Any + Send + Sync) -> Self {
        self.kept.push(Arc::new(kept));
        self
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite")
            .field("clients", &self.clients)
            .field("slack", &self.slack)
            .field("seed", &self.seed)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl From<Arc<dyn LeaseStore>> for Suite {
    fn from(store: Arc<dyn LeaseStore>) -> Self {
        Self::new(store)
    }
}

impl<S: LeaseStore> From<Arc<S>> for Suite {
    fn from(store: Arc<S>) -> Self {
        Self::new(store)
    }
}

fn random() -> u64 {
    SysRng
        .try_next_u64()
        .expect("the operating system gives random numbers")
}
