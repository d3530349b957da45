//! The client and its guards as their users see them, over stores that fail and clocks that stand still.

#![expect(clippy::unwrap_used, reason = "a test ends there, and says where")]

mod acquire;
mod do_once;
mod driver;
mod guard;
mod run;
mod shutdown;
mod support;
