//! The one task that renews every lease of a client, ends those that are overdue, and lets go of those that
//! were dropped.

mod reaper;
mod renewal;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinError, JoinSet};

pub(crate) use reaper::LetGo;

use crate::clock::{Clock, Instant, sleep_until_some};
use crate::guard::hold::Hold;
use crate::guard::status::LossCause;
use crate::{Key, LeaseStore};

/// The part of a term by which a renewal may be early to go along in another's batch: 1 s of 60 s.
const ALONG: u32 = 60;

/// What the driver is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Renew this one, until it is lost or let go of.
    Keep(Arc<Hold>, Instant),
    /// Renew it no more, and let the store end it.
    Abandon(Arc<Hold>),
    /// Renew it no more, and release it at the store.
    LetGo(LetGo),
    /// Say when nothing waits to be released.
    Drain(oneshot::Sender<()>),
    /// Say what is held or waits to be released.
    Unreleased(oneshot::Sender<Vec<Key>>),
}

/// One timer and one set of requests for all leases. It never waits for the store itself, so that no hung
/// request keeps a deadline from firing.
#[derive(Debug)]
pub(crate) struct Driver {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    rng: StdRng,
    commands: mpsc::UnboundedReceiver<Command>,
    kept: HashMap<u64, Kept>,
    timers: BTreeSet<(Instant, u64, Timer)>,
    requests: JoinSet<Done>,
    /// The requests that release something: what, and when it ends by itself.
    releasing: HashMap<task::Id, (Key, Instant)>,
    /// What nobody renews or releases any more.
    expiring: BTreeSet<(Instant, Key)>,
    draining: Vec<oneshot::Sender<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Deadline,
    Renewal,
}

#[derive(Debug)]
struct Kept {
    hold: Arc<Hold>,
    deadline: Instant,
    /// When the next attempt starts; `None` while one is under way, or when none fits before the deadline.
    renewal: Option<Instant>,
    /// Attempts since the last that was confirmed.
    failures: u32,
}

/// What a request of the driver ends with.
#[derive(Debug)]
enum Done {
    Renewals(Vec<renewal::Answer>),
    Released,
    LeftToExpire,
}

impl Driver {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        rng: StdRng,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Self {
            store,
            clock,
            rng,
            commands,
            kept: HashMap::new(),
            timers: BTreeSet::new(),
            requests: JoinSet::new(),
            releasing: HashMap::new(),
            expiring: BTreeSet::new(),
            draining: Vec::new(),
        }
    }

    /// Runs until every client handle and guard is gone and nothing waits to be released.
    pub(crate) async fn run(mut self) {
        let mut open = true;
        let mut commands = Vec::new();
        while open || !self.releasing.is_empty() {
            let clock = Arc::clone(&self.clock);
            let next = self.timers.first().map(|(at, ..)| *at);
            tokio::select! {
                // In one order, so that a simulation can be replayed: deadlines before all else.
                biased;
                () = sleep_until_some(&*clock, next) => {}
                received = self.commands.recv_many(&mut commands, 256), if open => {
                    open = received > 0;
                }
                Some(done) = self.requests.join_next_with_id() => self.finish(done),
            }
            for command in commands.drain(..) {
                self.obey(command);
            }
            self.fire();
            if self.releasing.is_empty() {
                for drained in self.draining.drain(..) {
                    // Whoever asked may have stopped waiting.
                    let _ = drained.send(());
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Keep(hold, sent_at) => self.keep(hold, sent_at),
            Command::Abandon(hold) => {
                self.unschedule(hold.number);
                self.leave(hold.key.clone(), self.clock.now() + hold.timing.term);
            }
            Command::LetGo(let_go) => {
                if let Some(hold) = &let_go.hold {
                    self.unschedule(hold.number);
                }
                self.release(let_go);
            }
            Command::Drain(drained) => self.draining.push(drained),
            Command::Unreleased(reply) => {
                self.forget_expired();
                let held = self.kept.values().map(|kept| &kept.hold.key);
                let releasing = self.releasing.values().map(|(key, _)| key);
                let expiring = self.expiring.iter().map(|(_, key)| key);
                let keys = held.chain(releasing).chain(expiring);
                let mut keys: Vec<_> = keys.cloned().collect();
                keys.sort();
                keys.dedup();
                // Whoever asked may have stopped waiting.
                let _ = reply.send(keys);
            }
        }
    }

    fn keep(&mut self, hold: Arc<Hold>, sent_at: Instant) {
        self.schedule(Kept {
            deadline: hold.deadline(),
            renewal: Some(hold.timing.renewal(sent_at)),
            hold,
            failures: 0,
        });
    }

    fn schedule(&mut self, kept: Kept) {
        let number = kept.hold.number;
        self.timers.insert((kept.deadline, number, Timer::Deadline));
        if let Some(at) = kept.renewal {
            self.timers.insert((at, number, Timer::Renewal));
        }
        self.kept.insert(number, kept);
    }

    fn unschedule(&mut self, number: u64) -> Option<Kept> {
        let kept = self.kept.remove(&number)?;
        self.timers
            .remove(&(kept.deadline, number, Timer::Deadline));
        if let Some(at) = kept.renewal {
            self.timers.remove(&(at, number, Timer::Renewal));
        }
        Some(kept)
    }

    /// Ends what is overdue and starts to renew what is due.
    fn fire(&mut self) {
        let now = self.clock.now();
        let mut due = Vec::new();
        while let Some((at, number, timer)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            match timer {
                Timer::Deadline => {
                    if let Some(kept) = self.unschedule(number) {
                        // The timer was set by the same clock.
                        let _ = kept.hold.check(&*self.clock);
                    }
                }
                Timer::Renewal => {
                    self.timers.pop_first();
                    due.extend(self.take_due(number));
                }
            }
        }
        if !due.is_empty() && self.store.capabilities().batch_renewal {
            self.take_along(now, &mut due);
        }
        self.renew(due);
    }

    /// The lease whose renewal timer was just taken.
    fn take_due(&mut self, number: u64) -> Option<renewal::Due> {
        let kept = self.kept.get_mut(&number)?;
        kept.renewal = None;
        // A lost one must not be renewed: not one that a read or a write found lost, nor one that was
        // suspended past its deadline, which would be next.
        if kept.hold.check(&*self.clock).is_ok() {
            return Some(renewal::Due {
                hold: Arc::clone(&kept.hold),
                failures: kept.failures,
            });
        }
        self.unschedule(number);
        None
    }

    /// Adds those that are due a moment later, so that leases acquired one after the other come to be renewed
    /// together.
    fn take_along(&mut self, now: Instant, due: &mut Vec<renewal::Due>) {
        let Some(first) = due.first() else {
            return;
        };
        let soon = now + first.hold.timing.term / ALONG;
        let timers = self.timers.iter().take_while(|(at, ..)| *at <= soon);
        let renewals: Vec<_> = timers
            .filter(|(.., timer)| *timer == Timer::Renewal)
            .copied()
            .collect();
        for renewal in renewals {
            self.timers.remove(&renewal);
            due.extend(self.take_due(renewal.1));
        }
    }

    fn finish(&mut self, done: Result<(task::Id, Done), JoinError>) {
        match done {
            Ok((_, Done::Renewals(answers))) => {
                for answer in answers {
                    self.renewed(answer);
                }
            }
            Ok((id, Done::Released)) => {
                self.releasing.remove(&id);
            }
            Ok((id, Done::LeftToExpire)) => self.give_up(id),
            // Only a defect in a store ends here.
            Err(failed) => {
                self.give_up(failed.id());
                tracing::error!("a request to the store panicked: {failed}");
            }
        }
    }

    fn give_up(&mut self, releasing: task::Id) {
        if let Some((key, end)) = self.releasing.remove(&releasing) {
            self.leave(key, end);
        }
    }

    fn leave(&mut self, key: Key, end: Instant) {
        self.forget_expired();
        self.expiring.insert((end, key));
    }

    fn forget_expired(&mut self) {
        let now = self.clock.now();
        while self.expiring.first().is_some_and(|(end, _)| *end <= now) {
            self.expiring.pop_first();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Only a runtime that ends gets here with leases kept. Nobody renews them any more, nor those that
        // were granted just now.
        self.commands.close();
        for kept in self.kept.values() {
            kept.hold.lose(LossCause::RenewalStopped);
        }
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Keep(hold, _) = command {
                hold.lose(LossCause::RenewalStopped);
            }
        }
    }
}
