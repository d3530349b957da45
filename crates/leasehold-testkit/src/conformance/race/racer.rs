use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::clock::{Clock, Instant, sleep_until};
use leasehold_core::outcome::{Acquire, Delete, Release, Renew};
use leasehold_core::{Key, LeaseId, LeaseStore, Precondition, StoreError};
use rand::RngExt;
use rand::rngs::StdRng;

use super::super::case::{Case, at_least, holder_of};
use super::history::{History, Hold, Interference};

const GRANTS_EACH: usize = 8;
/// How often a key is left to expire: each time costs everybody a term.
const ABANDONED_EACH: usize = 2;

/// What the racers share.
pub(super) struct Course {
    keys: Vec<Key>,
    clock: Arc<dyn Clock>,
    /// For what is abandoned.
    shortest: Duration,
    long: Duration,
    /// By when the race has to be over.
    limit: Instant,
    to_abandon: Vec<AtomicUsize>,
}

impl Course {
    pub(super) fn new(case: &Case, keys: Vec<Key>) -> Self {
        let waits = u32::try_from(2 * ABANDONED_EACH * keys.len()).unwrap_or(u32::MAX);
        Self {
            to_abandon: keys
                .iter()
                .map(|_| AtomicUsize::new(ABANDONED_EACH))
                .collect(),
            keys,
            clock: Arc::clone(&case.clock),
            shortest: case.shortest(),
            long: case.long(),
            limit: case.clock.now() + (case.shortest() + case.slack) * waits,
        }
    }

    /// Whether this key may be abandoned once more.
    fn may_abandon(&self, track: usize) -> bool {
        let left = &self.to_abandon[track];
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok()
    }
}

/// One task of the race. It writes down what it did and when, and judges nothing.
pub(super) struct Racer {
    pub(super) course: Arc<Course>,
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) generator: StdRng,
    pub(super) history: History,
}

impl Racer {
    pub(super) async fn run(mut self) -> History {
        let mut grants = 0;
        while grants < GRANTS_EACH {
            let track = self.generator.random_range(0..self.course.keys.len());
            if self.lap(track).await {
                grants += 1;
                if self.chance(10) {
                    self.break_any().await;
                }
            } else {
                let most = self.course.shortest / 20;
                self.rest(most).await;
            }
            assert!(
                self.now() < self.course.limit,
                "the race does not come to an end: {grants} grants of {GRANTS_EACH}"
            );
        }
        self.history
    }

    /// Asks once, and does something with what it got. Whether it got it.
    async fn lap(&mut self, track: usize) -> bool {
        let abandon = self.chance(10) && self.course.may_abandon(track);
        let term = if abandon {
            self.course.shortest
        } else {
            self.course.long
        };
        let id = LeaseId::from_random_bytes(self.generator.random());
        let Some(mut hold) = self.ask(track, id, term).await else {
            return false;
        };
        self.rest(Duration::from_millis(2)).await;
        if abandon {
            self.history.holds.push(hold);
            return true;
        }
        if self.chance(20) {
            let sent = self.now();
            match self.ask(track, id, term).await {
                // The same grant, or a new one when it was broken meanwhile; the history tells.
                Some(again) => {
                    hold.until = hold.until.min(sent);
                    self.history.holds.push(std::mem::replace(&mut hold, again));
                }
                None => return self.lost(hold),
            }
        }
        if self.chance(20) {
            let renewed = self.store.renew(self.key(track), id).await;
            if self.answered(track, "renew", renewed) != Renew::Renewed {
                return self.lost(hold);
            }
            self.rest(Duration::from_millis(2)).await;
        }
        self.let_go(track, id, hold).await
    }

    async fn ask(&self, track: usize, id: LeaseId, term: Duration) -> Option<Hold> {
        let key = self.key(track);
        let sent = self.now();
        let answer = self
            .store
            .acquire(key, id, term.into(), &holder_of(id))
            .await;
        match self.answered(track, "acquire", answer) {
            Acquire::Held(_) => None,
            Acquire::Granted(record) => Some(Hold {
                track,
                id,
                token: record.token,
                sent,
                answered: self.now(),
                until: sent + at_least(term),
                term_ends: sent + at_least(term),
                lost: None,
            }),
        }
    }

    /// Releases, or now and then deletes the record with the lease.
    async fn let_go(&mut self, track: usize, id: LeaseId, mut hold: Hold) -> bool {
        let sent = self.now();
        let delete = self.chance(10);
        let key = self.key(track);
        let was_held = if delete {
            let deleted = self.store.delete(key, &Precondition::Any, Some(id)).await;
            self.answered(track, "delete", deleted) == Delete::Deleted
        } else {
            let released = self.store.release(key, id).await;
            self.answered(track, "release", released) == Release::Released
        };
        hold.until = hold.until.min(sent);
        if !was_held {
            return self.lost(hold);
        }
        self.history.holds.push(hold);
        true
    }

    /// Was told that it holds nothing any more. Right or wrong is for the history to say.
    fn lost(&mut self, mut hold: Hold) -> bool {
        let now = self.now();
        hold.lost = Some(now);
        hold.until = hold.until.min(now);
        self.history.holds.push(hold);
        true
    }

    async fn break_any(&mut self) {
        let track = self.generator.random_range(0..self.course.keys.len());
        let sent = self.now();
        let broken = self
            .store
            .break_lease(self.key(track), Some(Duration::ZERO))
            .await;
        self.answered(track, "break", broken);
        let answered = self.now();
        self.history.breaks.push(Interference {
            track,
            sent,
            answered,
        });
    }

    fn answered<T>(&self, track: usize, asked: &str, answer: Result<T, StoreError>) -> T {
        answer.unwrap_or_else(|error| panic!("{asked} of {} in the race: {error}", self.key(track)))
    }

    fn key(&self, track: usize) -> &Key {
        &self.course.keys[track]
    }

    fn now(&self) -> Instant {
        self.course.clock.now()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.generator.random_ratio(percent, 100)
    }

    async fn rest(&mut self, most: Duration) {
        let length = most.mul_f64(self.generator.random());
        sleep_until(&*self.course.clock, self.now() + length).await;
    }
}
