use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::ErrorKind;

/// One operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Operation {
    Acquire,
    Renew,
    Change,
    Release,
    BreakLease,
    Read,
    Write,
    Delete,
    List,
    RenewMany,
    Watch,
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request takes this long to reach the store; a caller that gives up in between leaves no trace.
    DelayBefore(Duration),
    /// The answer takes this long to come back; the request is applied at once.
    DelayAfter(Duration),
    /// The request never reaches the store, and no answer ever comes.
    Hang,
    /// The request is applied, and no answer ever comes.
    ApplyAndHang,
    /// Refused with this kind, certainly without effect.
    Fail(ErrorKind),
    /// Never reaches the store; the caller is told that this is not known.
    LoseRequest,
    /// Applied; the caller is told that this is not known.
    LoseAnswer,
    /// The caller is told at once that it is not known; applied in the background after this long, also when
    /// the lease has gone to somebody else by then.
    ApplyLate(Duration),
}

/// A plan just made, to say more of; see [`FaultyStore::plan`](super::FaultyStore::plan).
#[derive(Debug)]
pub struct Planned<'a> {
    plans: &'a Mutex<Plans>,
    operation: Operation,
    index: usize,
}

impl<'a> Planned<'a> {
    pub(super) fn add(plans: &'a Mutex<Plans>, operation: Operation, fault: Fault) -> Self {
        let mut locked = plans.lock().unwrap_or_else(PoisonError::into_inner);
        let of_operation = locked.by_operation.entry(operation).or_default();
        of_operation.push(Plan {
            fault,
            skip: 0,
            left: None,
        });
        let index = of_operation.len() - 1;
        drop(locked);
        Self {
            plans,
            operation,
            index,
        }
    }

    /// Only this many calls have the fault.
    pub fn times(self, calls: u64) -> Self {
        self.change(|plan| plan.left = Some(calls))
    }

    /// This many calls pass before the first that has the fault.
    pub fn after(self, calls: u64) -> Self {
        self.change(|plan| plan.skip = calls)
    }

    fn change(self, change: impl FnOnce(&mut Plan)) -> Self {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let of_operation = plans.by_operation.get_mut(&self.operation);
        // Absent when the plans were cleared meanwhile.
        if let Some(plan) = of_operation.and_then(|plans| plans.get_mut(self.index)) {
            change(plan);
        }
        drop(plans);
        self
    }
}

#[derive(Debug, Default)]
pub(super) struct Plans {
    pub(super) outage: Option<Fault>,
    /// Plans stay here when they are used up, so that the indexes in [`Planned`] stay true.
    by_operation: HashMap<Operation, Vec<Plan>>,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    skip: u64,
    /// `None`: always.
    left: Option<u64>,
}

impl Plans {
    pub(super) fn next(&mut self, operation: Operation) -> Option<Fault> {
        if self.outage.is_some() {
            return self.outage;
        }
        let plans = self.by_operation.get_mut(&operation)?;
        let plan = plans.iter_mut().find(|plan| plan.left != Some(0))?;
        if plan.skip > 0 {
            plan.skip -= 1;
            return None;
        }
        plan.left = plan.left.map(|left| left - 1);
        Some(plan.fault)
    }

    pub(super) fn clear(&mut self) {
        self.by_operation.clear();
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<Operation, u64>);

impl Counts {
    pub(super) fn of(&self, operation: Operation) -> u64 {
        self.0.get(&operation).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, operation: Operation) {
        *self.0.entry(operation).or_default() += 1;
    }
}
