//! What can be shown from inside only: other boots, other clocks, damaged rows.

mod another_boot;
mod damaged_row;
mod hints;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold_core::clock::{Clock, Instant};
use leasehold_core::outcome::{Acquire, HeldBy};
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Record, Term};

use crate::SqliteStore;

/// A clock that is moved by hand, as each boot has its own.
#[derive(Debug)]
struct HandClock {
    now: Mutex<Duration>,
    wall: Mutex<SystemTime>,
}

impl HandClock {
    fn at_seconds(seconds: u64) -> Arc<Self> {
        Arc::new(Self {
            now: Mutex::new(Duration::from_secs(seconds)),
            wall: Mutex::new(SystemTime::UNIX_EPOCH),
        })
    }

    fn advance(&self, length: Duration) {
        *self.now.lock().unwrap() += length;
    }

    fn set_wall(&self, wall: SystemTime) {
        *self.wall.lock().unwrap() = wall;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Instant {
        Instant::from_origin(*self.now.lock().unwrap())
    }

    fn wall(&self) -> SystemTime {
        *self.wall.lock().unwrap()
    }
}

async fn open(path: &Path, clock: &Arc<HandClock>, epoch: &str) -> SqliteStore {
    let clock: Arc<dyn Clock> = Arc::<HandClock>::clone(clock);
    SqliteStore::open_in(path.to_owned(), clock, epoch.to_owned())
        .await
        .unwrap()
}

fn key() -> Key {
    Key::new("build").unwrap()
}

fn id(number: u8) -> LeaseId {
    LeaseId::from_random_bytes([number; 16])
}

async fn try_acquire(store: &SqliteStore, by: u8, term: Term) -> Result<Record, HeldBy> {
    let holder = Holder::new(format!("holder-{by}")).unwrap();
    match store.acquire(&key(), id(by), term, &holder).await.unwrap() {
        Acquire::Granted(record) => Ok(record),
        Acquire::Held(held_by) => Err(held_by),
    }
}
