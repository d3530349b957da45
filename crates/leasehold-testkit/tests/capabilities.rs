//! A store that can do less, and says so, passes; one that says more than it can is caught.

#[path = "broken/store.rs"]
mod store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use leasehold_core::clock::{Clock, Instant, TestClock};
use leasehold_core::outcome::{Acquire, Delete, Write};
use leasehold_core::{
    Capabilities, Hints, Holder, Key, LeaseId, LeaseStore, MemoryStore, Metadata, Precondition,
    Record, StoreError, Term, TermRange,
};
use leasehold_testkit::conformance::{Failure, Suite, check_all};

use store::{Broken, Defect};

/// How long a read may show what was there before.
const STALE: Duration = Duration::from_millis(300);

/// No fencing, no hints, no infinite terms, terms like those of a blob store, and stale reads.
#[derive(Debug)]
struct Lean {
    clock: Arc<TestClock>,
    says: Capabilities,
    seen: Mutex<HashMap<Key, (Instant, Option<Record>)>>,
}

const TERMS: TermRange = TermRange {
    min: Duration::from_secs(15),
    max: Duration::from_secs(60),
    infinite: false,
};

fn without_token(record: Record) -> Record {
    Record {
        token: None,
        ..record
    }
}

#[async_trait]
impl Defect for Lean {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        TERMS.check(term)?;
        Ok(match good.acquire(key, id, term, holder).await? {
            Acquire::Granted(record) => Acquire::Granted(without_token(record)),
            Acquire::Held(mut held_by) => {
                held_by.token = None;
                Acquire::Held(held_by)
            }
        })
    }

    async fn read(&self, good: &MemoryStore, key: &Key) -> Result<Option<Record>, StoreError> {
        let record = good.read(key).await?.map(without_token);
        let now = self.clock.now();
        let mut seen = self.seen.lock().expect("held");
        let (at, old) = seen
            .entry(key.clone())
            .or_insert_with(|| (now, record.clone()));
        if now.saturating_duration_since(*at) > STALE {
            (*at, *old) = (now, record);
        }
        Ok(old.clone())
    }

    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let mut answer = good.write(key, metadata, precondition, lease).await?;
        if let Write::Leased(held_by) = &mut answer {
            held_by.token = None;
        }
        Ok(answer)
    }

    async fn delete(
        &self,
        good: &MemoryStore,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        let mut answer = good.delete(key, precondition, lease).await?;
        if let Delete::Leased(held_by) = &mut answer {
            held_by.token = None;
        }
        Ok(answer)
    }

    fn list<'a>(
        &'a self,
        good: &'a MemoryStore,
        prefix: &'a str,
    ) -> BoxStream<'a, Result<Record, StoreError>> {
        let records = good.list(prefix);
        records.map(|record| record.map(without_token)).boxed()
    }

    fn capabilities(&self, _: &MemoryStore) -> Capabilities {
        self.says
    }

    async fn watch(&self, _: &MemoryStore, _: &Key) -> Result<Option<Hints>, StoreError> {
        Ok(None)
    }
}

async fn failures(change: impl FnOnce(&mut Capabilities)) -> Vec<Failure> {
    let clock = Arc::new(TestClock::new());
    let good = MemoryStore::with_clock(Arc::<TestClock>::clone(&clock));
    let mut says = Capabilities {
        terms: TERMS,
        fencing: false,
        watch: false,
        linearizable_reads: false,
        ..good.capabilities()
    };
    change(&mut says);
    let defect = Lean {
        clock: Arc::clone(&clock),
        says,
        seen: Mutex::default(),
    };
    check_all(&Suite::new(Arc::new(Broken { good, defect })).clock(clock)).await
}

#[tokio::test(start_paused = true)]
async fn a_store_that_can_do_less_and_says_so_passes() {
    assert_eq!(failures(|_| {}).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_claims_what_it_lacks_is_caught() {
    type Claim = fn(&mut Capabilities);
    let claims: [(Claim, &str); 4] = [
        (|says| says.fencing = true, "tokens::grow_across_release"),
        (|says| says.watch = true, "watch::hints_of_a_release"),
        (
            |says| says.terms.infinite = true,
            "terms::that_are_infinite_do_not_end",
        ),
        (
            |says| says.linearizable_reads = true,
            "write::makes_a_new_version_each_time_also_of_the_same_content",
        ),
    ];
    for (claim, rule) in claims {
        let failures = failures(claim).await;
        let caught = failures.iter().any(|failure| failure.rule == rule);
        assert!(caught, "{rule} should fail; found: {failures:#?}");
    }
}
