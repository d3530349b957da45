//! Every rule of the store contract, as tests that any [`LeaseStore`] can be put to.
//!
//! # For whoever writes a store
//! Say how to open it, once; [`conformance!`](crate::conformance!) makes a module of tests of it, one for each
//! rule, so that a failure names the rule:
//!
//! ```
//! use std::sync::Arc;
//! use leasehold_core::MemoryStore;
//! use leasehold_testkit::conformance::Suite;
//!
//! leasehold_testkit::conformance!(memory, async { Suite::new(Arc::new(MemoryStore::new())) });
//! # fn main() {}
//! ```
//!
//! Or run all of it at once, from any async test:
//!
//! ```
//! use std::sync::Arc;
//! use leasehold_core::MemoryStore;
//! use leasehold_core::clock::TestClock;
//! use leasehold_testkit::conformance::{Suite, run_all};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A store that can be given the clock is done in no time under tokio's paused time.
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let clock = Arc::new(TestClock::new());
//! let store = MemoryStore::with_clock(clock.clone());
//! run_all(&Suite::new(Arc::new(store)).clock(clock)).await;
//! # });
//! # Ok(())
//! # }
//! ```
//!
//! # What it asks of the store
//! - The keys it uses begin or end with a random text of their own for each run, so it may run against a
//!   server that is in use. It deletes them afterwards.
//! - Expiry is waited for, with the shortest term that the store takes. The rules share nothing: side by side
//!   ([`run_all`], or a test runner with enough threads) the whole lasts about six of those terms.
//! - A store need not let go at the very moment a term ends ([`Suite::slack`]), but never before.
//! - [`Capabilities`](leasehold_core::Capabilities) say what to expect: without fencing, no tokens; without
//!   watch, no hints; terms outside the range are refused. An `Unsupported` that they do not announce fails.
//! - With [`Suite::client`] every operation goes through the next of several clients of the same data, and the
//!   race runs across all of them.
//! - Random choices start from a seed that is printed with a failure; [`Suite::SEED_VARIABLE`] sets it.
//!
//! It says nothing about durability, or about what happens when the network fails.
//!
//! [`LeaseStore`]: leasehold_core::LeaseStore

mod acquire;
mod answer;
mod batch;
mod break_lease;
mod case;
mod change;
mod delete;
mod keys;
mod list;
mod metadata;
mod race;
mod release;
mod renew;
mod rules;
mod situation;
mod suite;
mod terms;
mod tokens;
mod watch;
mod write;

use std::future::Future;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use case::Case;
use rules::RULES;
pub use suite::Suite;

/// A rule that a store broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rule, as `group::rule`.
    pub rule: &'static str,
    /// What was expected and what was found; names the key.
    pub message: String,
}

/// Runs every rule and says which were broken.
///
/// # Cancel safety
/// Dropped before its end, it leaves leases behind at the store, infinite ones among them.
pub async fn check_all(suite: &Suite) -> Vec<Failure> {
    // The race comes last and alone: it wants the machine, and the others want their timing.
    let (races, others): (Vec<_>, Vec<_>) = RULES
        .iter()
        .partition(|rule| rule.name.starts_with("race::"));
    let mut failures: Vec<_> = join_all(others.into_iter().map(|rule| check(suite, rule))).await;
    for race in races {
        failures.push(check(suite, race).await);
    }
    failures.into_iter().flatten().collect()
}

/// Runs every rule.
///
/// # Panics
/// When a rule was broken; the message lists all of them, and the seed.
pub async fn run_all(suite: &Suite) {
    let failures = check_all(suite).await;
    assert!(
        failures.is_empty(),
        "the store broke {} of {} rules (seed {}):\n{}",
        failures.len(),
        RULES.len(),
        suite.seed,
        failures.iter().map(describe).collect::<String>()
    );
}

fn describe(failure: &Failure) -> String {
    format!("- {}: {}\n", failure.rule, failure.message)
}

/// The names of all rules, as `group::rule`.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Runs one rule, on a runtime of its own; what [`conformance!`](crate::conformance!) makes of each rule.
///
/// # Panics
/// When the rule was broken, when there is none of this name, or when no runtime can be made.
pub fn run_rule<Made, S>(name: &str, make: impl FnOnce() -> Made)
where
    Made: Future<Output = S>,
    S: Into<Suite>,
{
    let rule = RULES
        .iter()
        .find(|rule| rule.name == name)
        .unwrap_or_else(|| panic!("there is no rule {name}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the test");
    runtime.block_on(async {
        let suite = make().await.into();
        if let Some(failure) = check(&suite, rule).await {
            panic!("{} (seed {})", describe(&failure), suite.seed);
        }
    });
}

/// One rule: what it is called, and what to do.
struct Rule {
    name: &'static str,
    run: for<'a> fn(&'a Case) -> BoxFuture<'a, ()>,
}

async fn check(suite: &Suite, rule: &Rule) -> Option<Failure> {
    let case = Case::new(suite, rule.name);
    // Nothing of the case is used afterwards but its keys, which are only ever added to.
    let ran = std::panic::AssertUnwindSafe((rule.run)(&case))
        .catch_unwind()
        .await;
    case.clean_up().await;
    let panic = ran.err()?;
    let message = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "panicked".into());
    Some(Failure {
        rule: rule.name,
        message,
    })
}

/// Makes a module of tests of one line: `conformance!(NAME, MAKE)`, where `MAKE` is a future of a
/// [`Suite`](crate::conformance::Suite), or of an `Arc` of a store. It is made anew for each rule.
///
/// An attribute may stand before the name, for the case that the store is not always there:
///
/// ```
/// # use std::sync::Arc;
/// # use leasehold_core::MemoryStore;
/// leasehold_testkit::conformance!(
///     #[cfg(unix)]
///     memory,
///     async { Arc::new(MemoryStore::new()) }
/// );
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    ($(#[$attribute:meta])* $name:ident, $make:expr $(,)?) => {
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports, reason = "the expression may need nothing from outside")]
            use super::*;

            async fn make_suite() -> $crate::conformance::Suite {
                ($make).await.into()
            }

            $crate::__conformance_tests! {}
        }
    };
}
