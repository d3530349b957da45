use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rand::RngExt;
use tokio::time::timeout;
use tracing::Instrument;

use super::{Done, Driver};
use crate::client::timing::Timing;
use crate::clock::{Clock, Instant};
use crate::guard::hold::Hold;
use crate::guard::status::LossCause;
use crate::outcome::Renew;
use crate::{ErrorKind, Key, LeaseId, LeaseStore, StoreError};

/// The most leases that go into one batch.
const BATCH: usize = 512;
/// What an attempt is called when it fails.
const RENEWING: &str = "renewing the lease on";
/// The pause before the first repeat.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A lease to be renewed now.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) hold: Arc<Hold>,
    /// Attempts since the last that was confirmed.
    pub(super) failures: u32,
}

/// What became of one attempt.
#[derive(Debug)]
pub(super) struct Answer {
    hold: Arc<Hold>,
    /// Just before the request was sent: the new deadline counts from here, never from the answer.
    sent_at: Instant,
    result: Result<Renew, StoreError>,
}

impl Driver {
    pub(super) fn renew(&mut self, mut due: Vec<Due>) {
        if due.len() > 1 && self.store.capabilities().batch_renewal {
            due.sort_by_key(|due| due.failures);
            for alike in due.chunk_by(|one, other| one.failures == other.failures) {
                for batch in alike.chunks(batch_size(alike[0].failures)) {
                    let batch = batch.iter().map(|due| Arc::clone(&due.hold)).collect();
                    self.renew_together(batch);
                }
            }
            return;
        }
        for Due { hold, .. } in due {
            let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
            let span = hold.span.clone();
            let renewing = renew_one(store, clock, hold);
            self.requests.spawn(renewing.instrument(span));
        }
    }

    fn renew_together(&mut self, batch: Vec<Arc<Hold>>) {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let limit = batch.iter().map(|hold| limit(hold, &*clock)).min();
        let renewing = renew_batch(store, clock, batch, limit.unwrap_or_default());
        self.requests.spawn(renewing);
    }

    /// Moves the deadline, or plans the next attempt, or ends the guard.
    pub(super) fn renewed(&mut self, answer: Answer) {
        let Answer {
            hold,
            sent_at,
            result,
        } = answer;
        let Some(mut kept) = self.unschedule(hold.number) else {
            return;
        };
        let now = self.clock.now();
        match result {
            Ok(Renew::Renewed) => {
                if !kept.hold.renewed(sent_at, &*self.clock) {
                    return;
                }
                tracing::trace!(parent: &kept.hold.span, "renewed");
                kept.failures = 0;
                kept.renewal = Some(kept.hold.timing.renewal(sent_at));
            }
            Ok(Renew::NotHeld(not_held)) => {
                kept.hold.lose(LossCause::of(&not_held));
                return;
            }
            Err(error) => {
                tracing::warn!(parent: &kept.hold.span, "renewal not confirmed: {error}");
                let cause = match error.kind() {
                    ErrorKind::Unauthorized => LossCause::Unauthorized,
                    _ => LossCause::Expired,
                };
                if !kept.hold.in_jeopardy(cause, &*self.clock) {
                    return;
                }
                kept.renewal = Some(now + self.pause(&kept.hold.timing, kept.failures));
                kept.failures += 1;
            }
        }
        kept.deadline = kept.hold.deadline();
        self.schedule(kept);
    }

    /// Grows with the failures up to an eighth of the time there is to repeat in, and is spread, so that
    /// leases that failed together do not come back together.
    fn pause(&mut self, timing: &Timing, failures: u32) -> Duration {
        let start = Instant::from_origin(Duration::ZERO);
        let room = timing
            .deadline(start)
            .saturating_duration_since(timing.renewal(start));
        let pause = FIRST_PAUSE
            .saturating_mul(1 << failures.min(16))
            .min(room / 8);
        pause.mul_f64(self.rng.random_range(0.5..1.0))
    }
}

/// Smaller with every failure: one lease that the store hangs on must not take the others with it.
fn batch_size(failures: u32) -> usize {
    (BATCH >> failures.saturating_mul(3).min(31)).max(1)
}

fn limit(hold: &Hold, clock: &dyn Clock) -> Duration {
    Timing::attempt_limit(hold.deadline().saturating_duration_since(clock.now()))
}

async fn renew_one(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, hold: Arc<Hold>) -> Done {
    let limit = limit(&hold, &*clock);
    let sent_at = clock.now();
    let asked = async { store.renew(&hold.key, hold.id).await };
    let result = answer(limit, asked).await;
    let result = result.unwrap_or_else(|| Err(StoreError::no_answer(RENEWING, &hold.key, limit)));
    Done::Renewals(vec![Answer {
        hold,
        sent_at,
        result,
    }])
}

async fn renew_batch(
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    batch: Vec<Arc<Hold>>,
    limit: Duration,
) -> Done {
    let leases: Vec<(Key, LeaseId)> = batch
        .iter()
        .map(|hold| (hold.key.clone(), hold.id))
        .collect();
    let sent_at = clock.now();
    let asked = async { store.renew_many(&leases).await };
    let mut results = answer(limit, asked).await.unwrap_or_default().into_iter();
    let answers = batch.into_iter().map(|hold| Answer {
        sent_at,
        result: results
            .next()
            .unwrap_or_else(|| Err(StoreError::no_answer(RENEWING, &hold.key, limit))),
        hold,
    });
    Done::Renewals(answers.collect())
}

/// What a store says within the limit. One that panics has said nothing: a renewer that died of it would be
/// noticed at the deadline only.
async fn answer<T>(limit: Duration, asked: impl Future<Output = T>) -> Option<T> {
    match timeout(limit, AssertUnwindSafe(asked).catch_unwind()).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(_)) => {
            tracing::error!("the store panicked while it renewed");
            None
        }
        Err(_) => None,
    }
}
