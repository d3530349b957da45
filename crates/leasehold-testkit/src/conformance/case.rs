use std::collections::BTreeSet;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use leasehold_core::clock::{Clock, Instant, sleep_until};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{
    Capabilities, Holder, Key, LeaseId, LeaseStore, Metadata, Precondition, Record, StoreError,
    Term, TimeKeeper,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::answer::Answer;
use super::suite::Suite;

/// "Every call is bounded in time": far more than any store should take, and not for ever.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// One rule's run: keys and ids of its own, and the store's operations with answers that know their question.
pub(super) struct Case {
    pub(super) clients: Vec<Arc<dyn LeaseStore>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) slack: Duration,
    run: String,
    rule: &'static str,
    generator: Mutex<StdRng>,
    keys: Mutex<BTreeSet<Key>>,
    turn: AtomicUsize,
}

impl Case {
    pub(super) fn new(suite: &Suite, rule: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        rule.hash(&mut hasher);
        Self {
            clients: suite.clients.clone(),
            clock: Arc::clone(&suite.clock),
            slack: suite.slack,
            run: suite.run.clone(),
            rule,
            generator: Mutex::new(StdRng::seed_from_u64(suite.seed ^ hasher.finish())),
            keys: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    // What it asks about.

    /// Random text that no other run uses in a key.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// A fresh key. The name is for whoever reads the failure.
    pub(super) fn key(&self, name: &str) -> Key {
        self.raw_key(format!("{}/{}/{name}", self.run, self.rule))
    }

    /// A key of just this text, which has to hold [`Case::run`].
    pub(super) fn raw_key(&self, text: String) -> Key {
        let key = Key::new(text).expect("the suite's keys are good ones");
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key.clone());
        key
    }

    pub(super) fn random(&self) -> u64 {
        self.generator().random()
    }

    pub(super) fn id(&self) -> LeaseId {
        LeaseId::from_random_bytes(self.generator().random())
    }

    fn generator(&self) -> std::sync::MutexGuard<'_, StdRng> {
        self.generator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.clients[0].capabilities()
    }

    /// The shortest term, for what is left to expire.
    pub(super) fn shortest(&self) -> Duration {
        self.capabilities().terms.min
    }

    /// A term for what has to be renewed in time on a busy machine, and to expire nevertheless.
    pub(super) fn short(&self) -> Duration {
        let terms = self.capabilities().terms;
        Duration::from_secs(2).clamp(terms.min, terms.max)
    }

    /// A term that does not end while the rule runs.
    pub(super) fn long(&self) -> Duration {
        let terms = self.capabilities().terms;
        Duration::from_secs(60).clamp(terms.min, terms.max)
    }

    // What it asks.

    pub(super) async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: impl Into<Term>,
    ) -> Answer<Acquire> {
        let (term, holder) = (term.into(), holder_of(id));
        let asked = format!("acquire of {key} by {id} for {term}");
        self.answer(asked, self.store().acquire(key, id, term, &holder))
            .await
    }

    pub(super) async fn renew(&self, key: &Key, id: LeaseId) -> Answer<Renew> {
        let asked = format!("renew of {key} by {id}");
        self.answer(asked, self.store().renew(key, id)).await
    }

    pub(super) async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Answer<Change> {
        let asked = format!("change of {key} from {id} to {new_id}");
        self.answer(asked, self.store().change(key, id, new_id))
            .await
    }

    pub(super) async fn release(&self, key: &Key, id: LeaseId) -> Answer<Release> {
        let asked = format!("release of {key} by {id}");
        self.answer(asked, self.store().release(key, id)).await
    }

    pub(super) async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Answer<Break> {
        let asked = format!("break of {key} after {after:?}");
        self.answer(asked, self.store().break_lease(key, after))
            .await
    }

    pub(super) async fn read(&self, key: &Key) -> Answer<Option<Record>> {
        let asked = format!("read of {key}");
        self.answer(asked, self.store().read(key)).await
    }

    pub(super) async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: Precondition,
        lease: Option<LeaseId>,
    ) -> Answer<Write> {
        let asked = format!("write of {key} if {precondition:?} under {lease:?}");
        let write = self.store().write(key, metadata, &precondition, lease);
        self.answer(asked, write).await
    }

    pub(super) async fn delete(
        &self,
        key: &Key,
        precondition: Precondition,
        lease: Option<LeaseId>,
    ) -> Answer<Delete> {
        let asked = format!("delete of {key} if {precondition:?} under {lease:?}");
        let delete = self.store().delete(key, &precondition, lease);
        self.answer(asked, delete).await
    }

    pub(super) async fn list(&self, prefix: &str) -> Answer<Vec<Record>> {
        let store = self.store();
        let listed = async {
            let records: Vec<_> = store.list(prefix).collect().await;
            records.into_iter().collect()
        };
        self.answer(format!("list of {prefix:?}"), listed).await
    }

    pub(super) async fn renew_many(
        &self,
        leases: &[(Key, LeaseId)],
    ) -> Vec<Result<Renew, StoreError>> {
        let renewed = async { Ok(self.store().renew_many(leases).await) };
        let asked = format!("renewal of a batch of {}", leases.len());
        self.answer(asked, renewed).await.ok()
    }

    /// Through the next client, so that none may keep to itself what the others have to see. Where each
    /// client judges expiry by what it has observed itself, it is always the same one.
    pub(super) fn store(&self) -> &dyn LeaseStore {
        let turn = match self.capabilities().time {
            TimeKeeper::Observation => 0,
            _ => self.turn.fetch_add(1, Ordering::Relaxed),
        };
        &*self.clients[turn % self.clients.len()]
    }

    pub(super) async fn answer<T>(
        &self,
        asked: String,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Answer<T> {
        let Ok(got) = tokio::time::timeout(CALL_LIMIT, request).await else {
            panic!("{asked}: no answer within {CALL_LIMIT:?}; every call has to end");
        };
        Answer { asked, got }
    }

    // What it finds.

    /// The record as it is, once it is as expected: at once, or where reads may be stale within the slack.
    pub(super) async fn look(
        &self,
        key: &Key,
        expected: &str,
        holds: impl Fn(Option<&Record>) -> bool,
    ) -> Option<Record> {
        let limit = self.clock.now() + self.slack;
        loop {
            let found = self.read(key).await.ok();
            if holds(found.as_ref()) {
                return found;
            }
            let stale = !self.capabilities().linearizable_reads && self.clock.now() < limit;
            assert!(stale, "read of {key}: expected {expected}, got {found:?}");
            self.pause(self.shortest()).await;
        }
    }

    /// The record, once it is as expected.
    pub(super) async fn record(
        &self,
        key: &Key,
        expected: &str,
        holds: impl Fn(&Record) -> bool,
    ) -> Record {
        self.look(key, expected, |found| found.is_some_and(&holds))
            .await
            .expect("look ends with a record that holds")
    }

    pub(super) async fn expect_absent(&self, key: &Key) {
        self.look(key, "no record", |found| found.is_none()).await;
    }

    /// Nothing but the time that remains may have changed.
    pub(super) async fn expect_unchanged(&self, before: &Record) {
        let expected = format!("it unchanged, {before:?}");
        self.record(&before.key, &expected, |now| {
            same_grant(before, now)
                && before.version == now.version
                && before.metadata == now.metadata
        })
        .await;
    }

    // Time.

    /// The fraction of a term that is worth waiting between two looks.
    pub(super) async fn pause(&self, term: Duration) {
        let length = (term / 20).clamp(Duration::from_millis(20), Duration::from_millis(500));
        self.sleep(length).await;
    }

    pub(super) async fn sleep(&self, length: Duration) {
        sleep_until(&*self.clock, self.clock.now() + length).await;
    }

    /// How long a store may take to let go of something that lasts this long. Where time is told by
    /// observation, it starts only at the first look.
    fn limit(&self, length: Duration) -> Instant {
        self.clock.now() + length * 2 + self.slack
    }

    /// Looks until nobody holds the lease any more.
    pub(super) async fn until_free(&self, key: &Key, length: Duration) -> Record {
        let limit = self.limit(length);
        loop {
            match self.read(key).await.ok() {
                Some(record) if !record.state.is_held() => return record,
                found => assert!(
                    self.clock.now() < limit,
                    "{key} should be free after {length:?}; still found {found:?}"
                ),
            }
            self.pause(length).await;
        }
    }

    /// Tries until the lease is granted to this id. The record, and the time when the answer was there.
    pub(super) async fn take_over(
        &self,
        key: &Key,
        id: LeaseId,
        length: Duration,
    ) -> (Record, Instant) {
        let limit = self.limit(length);
        loop {
            match self.acquire(key, id, self.long()).await.ok() {
                Acquire::Granted(record) => return (record, self.clock.now()),
                Acquire::Held(held_by) => assert!(
                    self.clock.now() < limit,
                    "{key} should be free after {length:?}; still held: {held_by:?}"
                ),
            }
            self.pause(length).await;
        }
    }

    /// Leaves the server as it was found. Errors are not this rule's business.
    pub(super) async fn clean_up(&self) {
        let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        let store = &self.clients[0];
        let each = keys.iter().map(|key| async move {
            let delete = async {
                let _ = store.break_lease(key, Some(Duration::ZERO)).await;
                let _ = store.delete(key, &Precondition::Any, None).await;
            };
            let _ = tokio::time::timeout(CALL_LIMIT, delete).await;
        });
        join_all(each).await;
    }
}

/// A length less what two clocks may differ by in it.
pub(super) fn at_least(length: Duration) -> Duration {
    length.saturating_sub(length / 50 + Duration::from_millis(20))
}

/// The name that goes with an id, so that one can see whose lease was found.
pub(super) fn holder_of(id: LeaseId) -> Holder {
    Holder::new(format!("holder of {id}")).expect("a good name")
}

/// Metadata of one value.
pub(super) fn note(text: &str) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("note", text).expect("a short value");
    metadata
}

/// Whether two records show the same grant of the same lease. A term is told or not, maybe only to its holder.
pub(super) fn same_grant(before: &Record, now: &Record) -> bool {
    (before.state, before.token, &before.holder) == (now.state, now.token, &now.holder)
        && (before.term == now.term || before.term.is_none() || now.term.is_none())
}

/// What began after `sent` and lasts `length` may not have been over at `ended`, but for the drift
/// between two clocks.
#[track_caller]
pub(super) fn expect_lasted(key: &Key, sent: Instant, ended: Instant, length: Duration) {
    let lasted = ended.saturating_duration_since(sent);
    assert!(
        lasted >= at_least(length),
        "{key} was free after {lasted:?}; it was held for {length:?}"
    );
}
