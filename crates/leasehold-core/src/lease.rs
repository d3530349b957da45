//! The state machine of one lease, for stores that keep the state themselves.

use std::time::Duration;

use crate::clock::Instant;
use crate::outcome::{Break, Delete, HeldBy, NotHeld, Write};
use crate::{FencingToken, Holder, LeaseId, LeaseState, Precondition, Term, Version};

/// One lease as a store keeps it: every rule of the contract, over a time that the store passes in.
///
/// A store that can read and write a row in one transaction loads this, calls one method, and keeps what came
/// out. Nothing here looks at a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The number of the latest grant; that of the next is one greater.
    pub token: u64,
    /// Who holds it until when.
    pub status: Status,
}

/// Who holds a lease until when, as it was last written. Whether the time is over is judged when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Never leased, or released.
    Available,
    /// Granted.
    Leased {
        /// Proof of holding.
        id: LeaseId,
        /// For people.
        holder: Holder,
        /// What was asked for; every renewal gives as much.
        term: Term,
        /// When it ends; `None` when infinite.
        until: Option<Instant>,
    },
    /// Broken by somebody, and the break period was set.
    Breaking {
        /// Proof of holding until then.
        id: LeaseId,
        /// For people.
        holder: Holder,
        /// When it ends.
        until: Instant,
    },
    /// Broken, over.
    Broken {
        /// Who held it.
        holder: Holder,
    },
}

/// Why something may not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No lease id was given, and somebody holds the lease.
    Leased(HeldBy),
    /// A lease id was given, and it does not hold the lease.
    NotHeld(NotHeld),
    /// The precondition does not hold of the version found.
    Conflict(Option<Version>),
}

/// Whether a record may be written or deleted: looks at the lease first, then at the precondition. `found` is
/// `None` where there is no record.
///
/// # Errors
/// Why not.
pub fn may_write(
    now: Instant,
    found: Option<(&Lease, Version)>,
    precondition: &Precondition,
    lease: Option<LeaseId>,
) -> Result<(), Refused> {
    let version = match (found, lease) {
        (Some((held, version)), lease) => {
            held.may_write(now, lease)?;
            Some(version)
        }
        (None, Some(_)) => return Err(Refused::NotHeld(NotHeld::ABSENT)),
        (None, None) => None,
    };
    if precondition.holds(version.as_ref()) {
        Ok(())
    } else {
        Err(Refused::Conflict(version))
    }
}

impl From<Refused> for Write {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Leased(held_by) => Self::Leased(held_by),
            Refused::NotHeld(not_held) => Self::NotHeld(not_held),
            Refused::Conflict(found) => Self::Conflict(found),
        }
    }
}

impl From<Refused> for Delete {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Leased(held_by) => Self::Leased(held_by),
            Refused::NotHeld(not_held) => Self::NotHeld(not_held),
            Refused::Conflict(found) => Self::Conflict(found),
        }
    }
}

impl Lease {
    /// A lease that was never granted, on a key whose earlier records used tokens up to `token`.
    pub fn new(token: u64) -> Self {
        Self {
            token,
            status: Status::Available,
        }
    }

    /// Grants the lease if it is free, or starts its term anew if this id holds it.
    ///
    /// # Errors
    /// Who holds it instead.
    pub fn acquire(
        &mut self,
        now: Instant,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<(), HeldBy> {
        if let Some(held_by) = self.held_by(now) {
            let again = matches!(&self.status, Status::Leased { id: by, .. } if *by == id);
            if !again {
                return Err(held_by);
            }
        } else {
            self.token += 1;
        }
        self.status = Status::Leased {
            id,
            holder: holder.clone(),
            term,
            until: end(now, term),
        };
        Ok(())
    }

    /// Starts the term anew.
    ///
    /// # Errors
    /// What is found instead of a lease held by this id. An expired lease stays expired.
    pub fn renew(&mut self, now: Instant, id: LeaseId) -> Result<(), NotHeld> {
        if self.state(now) == LeaseState::Leased
            && let Status::Leased {
                id: by,
                term,
                until,
                ..
            } = &mut self.status
            && *by == id
        {
            *until = end(now, *term);
            return Ok(());
        }
        Err(self.not_held(now))
    }

    /// Hands the lease to `new_id`; says yes again when that was done already.
    ///
    /// # Errors
    /// What is found instead of a lease held by either id.
    pub fn change(&mut self, now: Instant, id: LeaseId, new_id: LeaseId) -> Result<(), NotHeld> {
        if self.state(now) == LeaseState::Leased
            && let Status::Leased { id: by, .. } = &mut self.status
            && (*by == id || *by == new_id)
        {
            *by = new_id;
            return Ok(());
        }
        Err(self.not_held(now))
    }

    /// Lets go. Whether there was something to let go of.
    pub fn release(&mut self, now: Instant, id: LeaseId) -> bool {
        let held = self.is_held_by(now, id);
        if held {
            self.status = Status::Available;
        }
        held
    }

    /// Breaks the lease, whoever holds it.
    pub fn break_lease(&mut self, now: Instant, after: Option<Duration>) -> Break {
        let Some(held_by) = self.held_by(now) else {
            return Break::NotHeld;
        };
        let (Status::Leased { id, holder, .. } | Status::Breaking { id, holder, .. }) =
            &self.status
        else {
            return Break::NotHeld;
        };
        let period = match (after, held_by.remaining) {
            (Some(after), Some(remaining)) => after.min(remaining),
            (Some(period), None) | (None, Some(period)) => period,
            (None, None) => Duration::ZERO,
        };
        let (id, holder) = (*id, holder.clone());
        if period.is_zero() {
            self.status = Status::Broken { holder };
            return Break::Broken;
        }
        let until = now + period;
        self.status = Status::Breaking { id, holder, until };
        Break::Breaking(period)
    }

    fn may_write(&self, now: Instant, lease: Option<LeaseId>) -> Result<(), Refused> {
        match lease {
            Some(id) if self.is_held_by(now, id) => Ok(()),
            Some(_) => Err(Refused::NotHeld(self.not_held(now))),
            None => match self.held_by(now) {
                Some(held_by) => Err(Refused::Leased(held_by)),
                None => Ok(()),
            },
        }
    }

    /// The state at this time.
    pub fn state(&self, now: Instant) -> LeaseState {
        match &self.status {
            Status::Available => LeaseState::Available,
            Status::Leased {
                until: Some(until), ..
            } if *until <= now => LeaseState::Expired,
            Status::Leased { .. } => LeaseState::Leased,
            Status::Breaking { until, .. } if *until <= now => LeaseState::Broken,
            Status::Breaking { .. } => LeaseState::Breaking,
            Status::Broken { .. } => LeaseState::Broken,
        }
    }

    /// Who holds it, or held it last if it ended without a release.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.status {
            Status::Available => None,
            Status::Leased { holder, .. }
            | Status::Breaking { holder, .. }
            | Status::Broken { holder } => Some(holder),
        }
    }

    /// The term of the current grant.
    pub fn term(&self, now: Instant) -> Option<Term> {
        match &self.status {
            Status::Leased { term, .. } if self.state(now).is_held() => Some(*term),
            _ => None,
        }
    }

    /// What remains of the term or of the break period.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        let until = match &self.status {
            Status::Leased { until, .. } => *until,
            Status::Breaking { until, .. } => Some(*until),
            Status::Available | Status::Broken { .. } => None,
        };
        until
            .map(|until| until.saturating_duration_since(now))
            .filter(|remaining| !remaining.is_zero())
    }

    /// The number of the latest grant as a token; `None` before the first.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        (self.token > 0).then(|| FencingToken::new(self.token))
    }

    /// Who stands in the way of a new grant.
    pub fn held_by(&self, now: Instant) -> Option<HeldBy> {
        let state = self.state(now);
        state.is_held().then(|| HeldBy {
            state,
            holder: self.holder().cloned(),
            token: self.fencing_token(),
            remaining: self.remaining(now),
        })
    }

    fn is_held_by(&self, now: Instant, id: LeaseId) -> bool {
        match &self.status {
            Status::Leased { id: by, .. } | Status::Breaking { id: by, .. } => {
                *by == id && self.state(now).is_held()
            }
            Status::Available | Status::Broken { .. } => false,
        }
    }

    fn not_held(&self, now: Instant) -> NotHeld {
        let state = self.state(now);
        NotHeld {
            state: Some(state),
            holder: self.holder().filter(|_| state.is_held()).cloned(),
        }
    }
}

impl NotHeld {
    /// There is no record at the key.
    pub const ABSENT: Self = Self {
        state: None,
        holder: None,
    };
}

fn end(now: Instant, term: Term) -> Option<Instant> {
    term.duration().map(|length| now + length)
}
