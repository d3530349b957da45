use std::time::Duration;

use crate::{Invalid, Term};

/// What a store can do. The conformance suite reads it: what a store lacks answers
/// [`Unsupported`](crate::ErrorKind::Unsupported), and the suite asserts that too.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The terms it accepts.
    pub terms: TermRange,
    /// Whether grants carry a fencing token.
    pub fencing: bool,
    /// Whether [`watch`](crate::LeaseStore::watch) gives hints; without, waiters poll.
    pub watch: bool,
    /// Whether [`renew_many`](crate::LeaseStore::renew_many) is cheaper than as many renewals.
    pub batch_renewal: bool,
    /// Whose clock decides that a term has ended.
    pub time: TimeKeeper,
    /// Whether a read that starts after a write was answered always sees it.
    pub linearizable_reads: bool,
}

/// Whose clock decides that a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeKeeper {
    /// The store's own.
    Store,
    /// Each client's: a record seen unchanged for a whole term has expired.
    Observation,
}

/// The terms a store accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermRange {
    /// The shortest finite term.
    pub min: Duration,
    /// The longest finite term.
    pub max: Duration,
    /// Whether a term may be infinite.
    pub infinite: bool,
}

impl TermRange {
    /// Whether the store accepts this term.
    ///
    /// # Errors
    /// When it does not; the message says what is allowed.
    pub fn check(&self, term: Term) -> Result<(), Invalid> {
        let allowed = match term {
            Term::Finite(length) => (self.min..=self.max).contains(&length),
            Term::Infinite => self.infinite,
        };
        if allowed {
            return Ok(());
        }
        let (min, max) = (Term::Finite(self.min), Term::Finite(self.max));
        let or_infinite = if self.infinite { ", or infinite" } else { "" };
        Err(Invalid::new(format!(
            "a term of {term} is not allowed; this store takes {min} to {max}{or_infinite}"
        )))
    }
}
