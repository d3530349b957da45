//! What is sent to whole sessions, and what a background process gets from its terminal: the watchdog has to
//! outlive it, and its command must not notice that it does.

use std::io;

use nix::sys::signal::SigSet;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::signals::ignored_at_start;

const SHIELDED: [nix::sys::signal::Signal; 7] = [
    nix::sys::signal::SIGINT,
    nix::sys::signal::SIGTERM,
    nix::sys::signal::SIGHUP,
    nix::sys::signal::SIGQUIT,
    nix::sys::signal::SIGTSTP,
    nix::sys::signal::SIGTTIN,
    nix::sys::signal::SIGTTOU,
];

/// Catches them and does nothing about it. A command does not inherit that, as it would inherit a blocked or
/// ignored signal. What is ignored already harms nobody, and is to stay so for the command.
pub(super) fn catch() -> io::Result<Vec<Signal>> {
    let ignored = ignored_at_start();
    let kinds = SHIELDED.map(|number| SignalKind::from_raw(number as i32));
    let caught = kinds.into_iter().filter(|kind| !ignored.contains(*kind));
    caught.map(signal).collect()
}

/// Blocks them as well, once no child is started any more: a terminal's TTOU that is caught comes again and
/// again, for as long as something is written.
pub(super) fn block() {
    if let Err(error) = SigSet::from_iter(SHIELDED).thread_block() {
        tracing::debug!(%error, "blocking signals");
    }
}
