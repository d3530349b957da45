use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use super::{Done, Driver};
use crate::client::queue::Turn;
use crate::client::timing::Timing;
use crate::clock::{Clock, Instant};
use crate::guard::hold::Hold;
use crate::outcome::Release;
use crate::{Key, LeaseId, LeaseStore, StoreError};

/// The longest that one request to release may take.
const ATTEMPT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long after the release of what was asked for without an answer it is released a second time: a request
/// to acquire may have arrived after the first.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// A lease to be released at the store, in the background.
#[derive(Debug)]
pub(crate) struct LetGo {
    pub(crate) key: Key,
    pub(crate) id: LeaseId,
    /// The guard it was held by; `None` for a request to acquire that was given up, of which nobody knows
    /// whether it was granted.
    pub(crate) hold: Option<Arc<Hold>>,
    /// When the store has ended it by itself, whatever was granted last.
    pub(crate) end: Instant,
    /// Others of this process get their turn when the store has answered once.
    pub(crate) turn: Option<Turn>,
    pub(crate) answer: Option<oneshot::Sender<Result<Release, StoreError>>>,
}

impl Driver {
    pub(super) fn release(&mut self, let_go: LetGo) {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let span = tracing::info_span!("release", key = %let_go.key);
        let what = (let_go.key.clone(), let_go.end);
        let releasing = release(store, clock, let_go).instrument(span);
        let request = self.requests.spawn(releasing);
        self.releasing.insert(request.id(), what);
    }
}

/// Repeats until the store has answered, or has ended the lease by itself.
async fn release(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, let_go: LetGo) -> Done {
    let LetGo {
        key,
        id,
        hold,
        end,
        mut turn,
        answer,
    } = let_go;
    let look_again = hold.is_none_or(|hold| hold.repeated);
    let result = until_answered(&*store, &*clock, &key, id, end, &mut turn).await;
    let mut done = match &result {
        Ok(_) => Done::Released,
        Err(error) => {
            tracing::warn!("{error}");
            Done::LeftToExpire
        }
    };
    if let Some(answer) = answer {
        // Whoever let go may not have waited for it.
        let _ = answer.send(result);
    }
    if look_again && matches!(done, Done::Released) {
        sleep(SECOND_LOOK).await;
        if let Err(error) = until_answered(&*store, &*clock, &key, id, end, &mut turn).await {
            tracing::debug!("no second look: {error}");
            done = Done::LeftToExpire;
        }
    }
    done
}

async fn until_answered(
    store: &dyn LeaseStore,
    clock: &dyn Clock,
    key: &Key,
    id: LeaseId,
    end: Instant,
    turn: &mut Option<Turn>,
) -> Result<Release, StoreError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let left = end.saturating_duration_since(clock.now());
        let limit = ATTEMPT.min(Timing::attempt_limit(left));
        let result = match timeout(limit, store.release(key, id)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::no_answer("releasing the lease on", key, limit)),
        };
        turn.take();
        match result {
            Err(error) if error.is_retryable() && clock.now() < end => {
                tracing::debug!("release not confirmed: {error}");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            result => return result.map_err(|error| left_to_expire(key, error)),
        }
    }
}

fn left_to_expire(key: &Key, error: StoreError) -> StoreError {
    let message = format!("the lease on {key} is not released but left to expire: {error}");
    StoreError::new(error.kind(), error.effect(), message).with_source(error)
}
