use std::future::pending;
use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that ask this program to end, or to pause.
///
/// One that was ignored when the program started (by `nohup`, or in a script's background job) stays ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Option<unix::Signal>,
    terminate: Option<unix::Signal>,
    hang_up: Option<unix::Signal>,
    pause: Option<unix::Signal>,
}

impl Signals {
    /// INT, TERM and HUP. From here on none of them ends this process by itself.
    pub(crate) fn to_end() -> io::Result<Self> {
        let ignored = ignored_at_start();
        let listen = |kind| (!ignored.contains(kind)).then(|| signal(kind)).transpose();
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            pause: None,
        })
    }

    /// TSTP as well, which then stops this process no more.
    pub(crate) fn and_to_pause(mut self) -> io::Result<Self> {
        self.pause = Some(signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?);
        Ok(self)
    }

    /// The next of them.
    ///
    /// # Cancel safety
    /// None is lost.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = next_of(&mut self.interrupt) => Signal::INT,
            () = next_of(&mut self.terminate) => Signal::TERM,
            () = next_of(&mut self.hang_up) => Signal::HUP,
            () = next_of(&mut self.pause) => Signal::TSTP,
        }
    }

    /// The next that comes while this holds.
    ///
    /// # Cancel safety
    /// None is lost that would have been given.
    pub(crate) async fn next_while(&mut self, holds: impl Fn() -> bool) -> Signal {
        loop {
            let signal = self.next().await;
            if holds() {
                return signal;
            }
        }
    }
}

async fn next_of(listener: &mut Option<unix::Signal>) {
    if let Some(listener) = listener
        && listener.recv().await.is_some()
    {
        return;
    }
    pending::<()>().await;
}

/// The signals that are ignored, a bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ignored(u64);

impl Ignored {
    pub(crate) fn contains(self, kind: SignalKind) -> bool {
        self.0 & (1 << (kind.as_raw_value() - 1)) != 0
    }
}

/// Those that this process was started with, as long as it catches none of them. Asking the kernel itself
/// needs unsafe code; where there is no `/proc`, none is said to be.
pub(crate) fn ignored_at_start() -> Ignored {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    Ignored(mask.unwrap_or(0))
}
