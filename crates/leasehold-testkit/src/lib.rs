//! Shows that a [`LeaseStore`](leasehold_core::LeaseStore) keeps its contract, and lets a store fail on
//! request to see what its users do then.
//!
//! Three things for whoever writes a store, or something on top of one:
//!
//! - [`conformance`](mod@conformance): every rule of the contract, as tests against any store. One line runs all of them.
//! - [`faulty`]: a store around another one that delays, hangs, fails, and loses answers as planned.
//! - [`servers`]: real servers, each started for one test, on a free port.
//!
//! ```
//! use std::sync::Arc;
//! use leasehold_core::MemoryStore;
//! use leasehold_testkit::conformance::Suite;
//!
//! // In a file of `tests/`: a module `memory` with one test for each rule.
//! leasehold_testkit::conformance!(memory, async { Suite::new(Arc::new(MemoryStore::new())) });
//! # fn main() {}
//! ```

pub mod conformance;
pub mod faulty;
pub mod servers;
