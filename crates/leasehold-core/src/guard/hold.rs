use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::client::queue::Turn;
use crate::client::timing::Timing;
use crate::clock::{Clock, Instant};
use crate::guard::status::{LeaseStatus, LossCause, Lost};
use crate::{FencingToken, Key, LeaseId, Record};

/// What guard, handles and driver share of one held lease. All transitions of its state are here.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Tells the guards of one client apart; what the driver knows this one by.
    pub(crate) number: u64,
    pub(crate) key: Key,
    pub(crate) id: LeaseId,
    pub(crate) token: Option<FencingToken>,
    pub(crate) timing: Timing,
    /// Whether it was acquired by a repetition: the request before may still arrive.
    pub(crate) repeated: bool,
    pub(crate) span: Span,
    pub(crate) status: watch::Sender<LeaseStatus>,
    pub(crate) deadlines: watch::Sender<Instant>,
    /// Cancelled when the lease is lost or let go of.
    pub(crate) over: CancellationToken,
    /// Held by whoever writes, until it is certain what became of it: a repetition must not undo what was
    /// written after it.
    pub(crate) writing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The last status, decided under this lock and published from under it.
    status: LeaseStatus,
    deadline: Instant,
    /// Why it is lost if the deadline comes.
    overdue: LossCause,
    record: Record,
    /// Kept while the lease is: others of this process wait for it, and not at the store.
    turn: Option<Turn>,
}

impl Hold {
    pub(crate) fn new(
        number: u64,
        id: LeaseId,
        timing: Timing,
        sent_at: Instant,
        repeated: bool,
        record: Record,
        turn: Turn,
    ) -> Self {
        let deadline = timing.deadline(sent_at);
        let span = tracing::info_span!(
            "lease",
            key = %record.key,
            holder = record.holder.as_ref().map(tracing::field::display),
            token = record.token.map(tracing::field::display),
        );
        Self {
            number,
            key: record.key.clone(),
            id,
            token: record.token,
            timing,
            repeated,
            span,
            status: watch::Sender::new(LeaseStatus::Held),
            deadlines: watch::Sender::new(deadline),
            over: CancellationToken::new(),
            writing: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                status: LeaseStatus::Held,
                deadline,
                overdue: LossCause::Expired,
                record,
                turn: Some(turn),
            }),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.state().deadline
    }

    pub(crate) fn record(&self) -> Record {
        self.state().record.clone()
    }

    pub(crate) fn set_record(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.state().record);
    }

    /// Whether the lease may still be relied on now. Finds an overdue one lost, whoever asks first.
    pub(crate) fn check(&self, clock: &dyn Clock) -> Result<(), Lost> {
        let mut state = self.state();
        self.end_if_overdue(&mut state, clock);
        match state.status {
            LeaseStatus::Held | LeaseStatus::Jeopardy { .. } => Ok(()),
            LeaseStatus::Lost(cause) => Err(self.lost(cause)),
            LeaseStatus::Released => Err(self.lost(LossCause::Expired)),
        }
    }

    /// A renewal sent at `sent_at` was confirmed. Whether the lease is still held: an answer that comes after
    /// the deadline does not bring it back.
    pub(crate) fn renewed(&self, sent_at: Instant, clock: &dyn Clock) -> bool {
        let mut state = self.state();
        self.end_if_overdue(&mut state, clock);
        if !state.is_held() {
            return false;
        }
        state.overdue = LossCause::Expired;
        state.deadline = state.deadline.max(self.timing.deadline(sent_at));
        state.status = LeaseStatus::Held;
        self.deadlines.send_replace(state.deadline);
        self.status.send_if_modified(|status| {
            let changed = *status != LeaseStatus::Held;
            *status = LeaseStatus::Held;
            changed
        });
        true
    }

    /// A renewal was not confirmed, and `cause` is why it is lost if none is before the deadline. Whether the
    /// lease is still held.
    pub(crate) fn in_jeopardy(&self, cause: LossCause, clock: &dyn Clock) -> bool {
        let mut state = self.state();
        state.overdue = cause;
        self.end_if_overdue(&mut state, clock);
        if !state.is_held() {
            return false;
        }
        let remaining = state.deadline.saturating_duration_since(clock.now());
        state.status = LeaseStatus::Jeopardy { remaining };
        self.status.send_replace(state.status);
        true
    }

    /// The lease is gone. Does nothing when it was over already.
    pub(crate) fn lose(&self, cause: LossCause) {
        let mut state = self.state();
        if state.is_held() {
            self.end(&mut state, LeaseStatus::Lost(cause));
        }
    }

    /// The owner lets go: nobody may rely on the lease from here on. Gives back the local turn, which is to
    /// be kept until the store was told.
    pub(crate) fn let_go(&self) -> Option<Turn> {
        let mut state = self.state();
        let turn = state.turn.take();
        if state.is_held() {
            self.end(&mut state, LeaseStatus::Released);
        }
        turn
    }

    pub(crate) fn lost(&self, cause: LossCause) -> Lost {
        Lost {
            key: self.key.clone(),
            cause,
        }
    }

    fn end_if_overdue(&self, state: &mut State, clock: &dyn Clock) {
        if state.is_held() && clock.now() >= state.deadline {
            self.end(state, LeaseStatus::Lost(state.overdue));
        }
    }

    fn end(&self, state: &mut State, status: LeaseStatus) {
        state.status = status;
        state.turn = None;
        self.status.send_replace(status);
        self.over.cancel();
        if let LeaseStatus::Lost(cause) = status {
            tracing::warn!(parent: &self.span, "lease lost: {cause}");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_held(&self) -> bool {
        match self.status {
            LeaseStatus::Held | LeaseStatus::Jeopardy { .. } => true,
            LeaseStatus::Lost(_) | LeaseStatus::Released => false,
        }
    }
}
