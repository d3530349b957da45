//! Against the emulator, which `cargo xtask test` installs.

mod conformance;
mod guard;
mod lost_answers;
mod other_clients;
mod relay;
mod requests;
mod secrets;
mod support;
mod tokens;
