//! The program as its users meet it: real processes of the real binary, on a store of their own each.

#![expect(clippy::unwrap_used, reason = "also in what the tests share")]

mod azure;
mod disk;
mod exit_codes;
mod input;
mod loss;
mod once;
mod output;
mod signals;
mod support;
mod terminal;
mod waiting;
mod watchdog;
