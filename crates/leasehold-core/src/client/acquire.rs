use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::queue::Turn;
use super::{Leases, Shared};
use crate::clock::{Instant, sleep_until, sleep_until_some};
use crate::driver::{Command, LetGo};
use crate::guard::AutoRenewLease;
use crate::guard::hold::Hold;
use crate::guard::status::LossCause;
use crate::outcome::{Acquire, HeldBy};
use crate::{Effect, Hints, Key, LeaseId, Record, StoreError, Term};

/// How often a waiter looks where the store gives no hints: between these, growing, each shortened at random
/// by up to a half.
const POLL: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// How often a waiter looks although the store gives hints.
const POLL_WITH_HINTS: Duration = Duration::from_secs(5);
/// The least time between two looks, however many hints there are: they may be needless, and those of a busy
/// store must not make all waiters ask without end.
const LEAST_PAUSE: Duration = Duration::from_millis(5);
/// How long after a term ends the store is asked again.
const AFTER_THE_END: Duration = Duration::from_millis(5);
/// What an attempt is called when it fails.
const ACQUIRING: &str = "acquiring the lease on";
/// How often one request is repeated where nobody waits.
const REPEATS: u32 = 3;

/// Answer to an attempt that does not wait for ever.
#[derive(Debug)]
#[must_use = "the lease is released when this is dropped"]
pub enum TryAcquire {
    /// It is yours.
    Acquired(AutoRenewLease),
    /// Somebody else holds it: what was last seen of it.
    Held(HeldBy),
}

/// Why nothing was acquired, other than that somebody else holds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The store failed, for longer than it is worth to wait if it may be of use to try again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// [`Leases::shutdown`] was called, or the runtime that the client was built in has ended.
    #[error("the client was shut down; it acquires nothing more")]
    ShutDown,
}

impl Leases {
    /// Asks once. Waits neither for a holder nor for others of this process who wait for the same key.
    ///
    /// A guard is not re-entrant: asked for a key that this process holds, the answer is
    /// [`TryAcquire::Held`].
    ///
    /// # Errors
    /// When the store refuses or cannot be reached. A request without an answer is repeated a few times.
    ///
    /// # Cancel safety
    /// Dropped early, whatever the store may have granted is released in the background.
    pub async fn try_acquire(&self, key: &Key) -> Result<TryAcquire, AcquireError> {
        self.unless_shut_down(async {
            let turn = match self.shared.queue.place(key).try_turn() {
                Ok(turn) => turn,
                Err(held_by) => return Ok(TryAcquire::Held(held_by)),
            };
            let mut contest = Contest::new(&self.shared, key, turn);
            let mut repeats = 0;
            loop {
                match contest.attempt().await {
                    Ok(Acquire::Granted(record)) => match contest.win(record) {
                        Ok(lease) => return Ok(TryAcquire::Acquired(lease)),
                        Err(lost) => contest = lost,
                    },
                    Ok(Acquire::Held(held_by)) => return Ok(TryAcquire::Held(held_by)),
                    Err(error) if !error.is_retryable() || repeats >= REPEATS => {
                        return Err(error.into());
                    }
                    Err(_) => {}
                }
                repeats += 1;
                tokio::time::sleep(self.shared.spread(POLL[0])).await;
            }
        })
        .await
    }

    /// Waits until the lease is ours: first come, first served among the waiters of this process, of which
    /// only the first asks the store.
    ///
    /// A store that cannot be reached is asked again for as long as one term.
    ///
    /// # Errors
    /// When the store refuses, or cannot be reached for a whole term.
    ///
    /// # Cancel safety
    /// Dropped early, the place in the queue is lost, and whatever the store may have granted is released in
    /// the background; nothing is left that outlives the term.
    pub async fn acquire(&self, key: &Key) -> Result<AutoRenewLease, AcquireError> {
        let mut seen = LastSeen::default();
        let mut look = never_settled;
        let contending = self.contend(key, &mut seen, &mut look);
        match self.unless_shut_down(contending).await? {
            Contended::Won(lease) => Ok(lease),
            Contended::Settled(never) => match never {},
        }
    }

    /// Waits for at most `limit`. Zero asks once, as [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); also when the store could not be reached when the time was over.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        key: &Key,
        limit: Duration,
    ) -> Result<TryAcquire, AcquireError> {
        match self
            .acquire_unless(key, Some(limit), &mut never_settled)
            .await?
        {
            Ok(acquired) => Ok(acquired),
            Err(never) => match never {},
        }
    }

    /// As [`acquire_timeout`](Self::acquire_timeout), or without a limit as [`acquire`](Self::acquire), but
    /// looks whether it is still wanted before it asks again.
    pub(crate) async fn acquire_unless<T>(
        &self,
        key: &Key,
        limit: Option<Duration>,
        look: &mut Look<'_, T>,
    ) -> Result<Result<TryAcquire, T>, AcquireError> {
        if limit.is_some_and(|limit| limit.is_zero()) {
            return self.try_acquire(key).await.map(Ok);
        }
        let clock = &*self.shared.clock;
        let until = limit.map(|limit| clock.now() + limit);
        let place = self.shared.queue.place(key);
        let mut seen = LastSeen::default();
        tokio::select! {
            biased;
            contended = self.unless_shut_down(self.contend(key, &mut seen, look)) => {
                return Ok(match contended? {
                    Contended::Won(lease) => Ok(TryAcquire::Acquired(lease)),
                    Contended::Settled(settled) => Err(settled),
                });
            }
            () = sleep_until_some(clock, until) => {}
        }
        match (seen.error, place.seen()) {
            (Some(error), _) => Err(error.into()),
            (None, Some(held_by)) => Ok(Ok(TryAcquire::Held(held_by))),
            // That somebody else holds it was never said.
            (None, None) => {
                Err(StoreError::no_answer(ACQUIRING, key, limit.unwrap_or_default()).into())
            }
        }
    }

    async fn contend<T>(
        &self,
        key: &Key,
        seen: &mut LastSeen,
        look: &mut Look<'_, T>,
    ) -> Result<Contended<T>, AcquireError> {
        let shared = &self.shared;
        let turn = shared.queue.place(key).turn().await;
        let mut contest = Contest::new(shared, key, turn);
        let mut wait = Wait::new(shared, key);
        loop {
            match contest.attempt().await {
                Ok(Acquire::Granted(record)) => match contest.win(record) {
                    Ok(lease) => return Ok(Contended::Won(lease)),
                    Err(lost) => contest = lost,
                },
                Ok(Acquire::Held(held_by)) => {
                    seen.error = None;
                    wait.for_change(held_by.remaining).await;
                }
                Err(error) => {
                    let now = shared.clock.now();
                    if seen.error.is_none() {
                        seen.failing_since = now;
                    }
                    let patience = seen.failing_since + shared.timing.term;
                    if !error.is_retryable() || now >= patience {
                        return Err(error.into());
                    }
                    tracing::debug!(%key, "not acquired yet: {error}");
                    seen.error = Some(error);
                    wait.a_while().await;
                }
            }
            match look().await {
                Ok(Some(settled)) => return Ok(Contended::Settled(settled)),
                Ok(None) => {}
                // The next attempt decides when that has lasted too long.
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn unless_shut_down<T>(
        &self,
        acquiring: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        // A shutdown waits for this, so that what is let go of here is released before it ends.
        let _acquiring = self.shared.acquiring.token();
        tokio::select! {
            biased;
            () = self.shared.closed.cancelled() => Err(AcquireError::ShutDown),
            // Nobody would renew it, nor release it.
            () = self.shared.driver.closed() => Err(AcquireError::ShutDown),
            acquired = acquiring => acquired,
        }
    }
}

/// What a waiter looks at before it asks for the lease again; something ends the wait.
pub(crate) type Look<'a, T> =
    dyn FnMut() -> BoxFuture<'a, Result<Option<T>, StoreError>> + Send + 'a;

fn never_settled() -> BoxFuture<'static, Result<Option<Infallible>, StoreError>> {
    ready(Ok(None)).boxed()
}

/// How a wait ended.
enum Contended<T> {
    Won(AutoRenewLease),
    Settled(T),
}

/// What a waiter last learned from the store; outlives the wait, to be told when its time is over.
#[derive(Debug)]
struct LastSeen {
    error: Option<StoreError>,
    failing_since: Instant,
}

impl Default for LastSeen {
    fn default() -> Self {
        Self {
            error: None,
            failing_since: Instant::from_origin(Duration::ZERO),
        }
    }
}

/// One proposed lease id, from before it is first sent until it is a guard's or certainly nobody's. Dropped in
/// between, it goes to the reaper.
struct Contest<'a> {
    shared: &'a Arc<Shared>,
    key: &'a Key,
    id: LeaseId,
    sent_at: Instant,
    /// Whether the store may have granted it, as far as we know.
    in_doubt: bool,
    /// Whether it was asked for again after a request without an answer, which may still arrive.
    repeated: bool,
    turn: Option<Turn>,
}

impl<'a> Contest<'a> {
    fn new(shared: &'a Arc<Shared>, key: &'a Key, turn: Turn) -> Self {
        Self {
            shared,
            key,
            id: shared.new_id(),
            sent_at: shared.clock.now(),
            in_doubt: false,
            repeated: false,
            turn: Some(turn),
        }
    }

    /// Asks the store once, under the same id as before: if it was granted then and the answer was lost, it
    /// says so now.
    async fn attempt(&mut self) -> Result<Acquire, StoreError> {
        let shared = self.shared;
        let limit = shared.timing.first_attempt_limit();
        let term = Term::Finite(shared.timing.term);
        self.sent_at = shared.clock.now();
        let was_in_doubt = std::mem::replace(&mut self.in_doubt, true);
        self.repeated |= was_in_doubt;
        let asked = shared
            .store
            .acquire(self.key, self.id, term, &shared.holder);
        let Ok(answer) = timeout(limit, asked).await else {
            return Err(StoreError::no_answer(ACQUIRING, self.key, limit));
        };
        match &answer {
            Ok(Acquire::Granted(_)) => {}
            // An earlier request may still be on its way, and be granted when the holder has let go.
            Ok(Acquire::Held(held_by)) => {
                self.in_doubt = was_in_doubt;
                if let Some(turn) = &self.turn {
                    turn.note(held_by.clone());
                }
            }
            Err(error) => {
                self.in_doubt = was_in_doubt || error.effect() == Effect::Unknown;
            }
        }
        answer
    }

    /// Makes a guard of a grant, unless its answer came too late to be relied on.
    fn win(mut self, record: Record) -> Result<AutoRenewLease, Self> {
        let shared = self.shared;
        let timing = shared.timing;
        if shared.clock.now() >= timing.deadline(self.sent_at) {
            return Err(self);
        }
        let Some(turn) = self.turn.take() else {
            return Err(self);
        };
        self.in_doubt = false;
        turn.note(HeldBy {
            state: record.state,
            holder: record.holder.clone(),
            token: record.token,
            remaining: None,
        });
        let hold = Hold::new(
            shared.next_hold(),
            self.id,
            timing,
            self.sent_at,
            self.repeated,
            record,
            turn,
        );
        let hold = Arc::new(hold);
        shared.tell(Command::Keep(Arc::clone(&hold), self.sent_at));
        if shared.driver.is_closed() {
            // Whether it still heard of this one is not certain.
            hold.lose(LossCause::RenewalStopped);
        }
        Ok(AutoRenewLease::new(Arc::clone(shared), hold))
    }
}

impl Drop for Contest<'_> {
    fn drop(&mut self) {
        if !self.in_doubt {
            return;
        }
        self.shared.tell(Command::LetGo(LetGo {
            key: self.key.clone(),
            id: self.id,
            hold: None,
            end: self.shared.clock.now() + self.shared.timing.term,
            turn: self.turn.take(),
            answer: None,
        }));
    }
}

/// Waits until it may be worth to ask again.
struct Wait<'a> {
    shared: &'a Shared,
    key: &'a Key,
    hints: Option<Hints>,
    /// Whether the store was asked for hints.
    subscribed: bool,
    pause: Duration,
}

impl<'a> Wait<'a> {
    fn new(shared: &'a Shared, key: &'a Key) -> Self {
        Self {
            shared,
            key,
            hints: None,
            subscribed: false,
            pause: POLL[0],
        }
    }

    /// Until the store hints at a change, the holder's term is over, or it is time to look again.
    async fn for_change(&mut self, remaining: Option<Duration>) {
        if !self.subscribed {
            self.subscribed = true;
            self.subscribe().await;
            // What changed before the hints began is found by looking once more.
            if self.hints.is_some() {
                return;
            }
        }
        let look = match &self.hints {
            Some(_) => self.shared.spread(POLL_WITH_HINTS),
            None => self.grow(),
        };
        let pause = remaining.map_or(look, |remaining| look.min(remaining + AFTER_THE_END));
        let clock = &*self.shared.clock;
        let asked = clock.now();
        let until = asked + pause;
        match &mut self.hints {
            None => sleep_until(clock, until).await,
            Some(hints) => tokio::select! {
                hint = hints.next() => {
                    if hint.is_none() {
                        // The stream ended, perhaps with its connection; ask for another.
                        self.hints = None;
                        self.subscribed = false;
                        self.a_while().await;
                    } else {
                        sleep_until(clock, asked + LEAST_PAUSE).await;
                    }
                }
                () = sleep_until(clock, until) => {}
            },
        }
    }

    /// A growing pause, for a store that failed.
    async fn a_while(&mut self) {
        let until = self.shared.clock.now() + self.grow();
        sleep_until(&*self.shared.clock, until).await;
    }

    async fn subscribe(&mut self) {
        let limit = self.shared.timing.first_attempt_limit();
        match timeout(limit, self.shared.store.watch(self.key)).await {
            Ok(Ok(hints)) => self.hints = hints,
            Ok(Err(error)) => tracing::debug!(key = %self.key, "no hints, polling: {error}"),
            Err(_) => tracing::debug!(key = %self.key, "no hints within {limit:?}, polling"),
        }
    }

    fn grow(&mut self) -> Duration {
        let pause = self.shared.spread(self.pause);
        self.pause = (self.pause * 3 / 2).min(POLL[1]);
        pause
    }
}
