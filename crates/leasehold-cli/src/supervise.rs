//! Running a command while a lease is held: the holder's side.
//!
//! The command is the child of a watchdog process, which ends it at the deadline even if this process was
//! killed or stopped. This side does the same even if the watchdog was.

mod launch;
mod take_over;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::pin::pin;
use std::time::Duration;

use leasehold::clock::{Clock, Instant, SystemClock, sleep_until};
use rustix::process::{Signal, getpgrp, getsid, kill_current_process_group};
use tokio::sync::watch;

use self::launch::WatchdogProcess;
use crate::exit::Exit;
use crate::group::{self, Ended, Group};
use crate::log::say;
use crate::signals::Signals;
use crate::wire::{FromWatchdog, ToWatchdog};

/// The longest that a watchdog which was told to end the command may take to say that it does, and to say
/// that the command is gone after it should have been killed.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is left between killing a command and the moment in which its lease may go to somebody else, in
/// addition to the drift of clocks: the time in which killed processes go, and are found gone.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);

/// A command, and what it is to know.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// How long after TERM it gets KILL.
    pub(crate) kill_after: Duration,
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command ended by itself, or by a signal that was not ours.
    Ended(Ended),
    /// It could not be started.
    NotStarted(Exit, String),
    /// The lease was lost, and the command was ended for it.
    Lost,
    /// The watchdog died, and the command was ended for it.
    Unwatched,
    /// The command was killed, and does not go. Nobody else may be let in.
    Stuck,
}

impl Outcome {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Ended(Ended::Exited(code)) => Exit::code(u8::try_from(*code).unwrap_or(u8::MAX)),
            Self::Ended(Ended::Killed(signal)) => Exit::signal(*signal),
            Self::NotStarted(exit, _) => *exit,
            Self::Lost => Exit::LEASE_LOST,
            Self::Unwatched | Self::Stuck => Exit::INTERNAL,
        }
    }

    /// Says on stderr what the exit code alone does not.
    pub(crate) fn tell(&self) {
        if !matches!(self, Self::Ended(_)) {
            say(format_args!("{self}"));
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(Ended::Exited(code)) => write!(f, "exit status {code}"),
            Self::Ended(Ended::Killed(signal)) => write!(f, "killed by signal {signal}"),
            Self::NotStarted(_, why) => f.write_str(why),
            Self::Lost => f.write_str("the lease was lost; the command was stopped"),
            Self::Unwatched => f.write_str("the command's watchdog died; the command was stopped"),
            Self::Stuck => f.write_str(
                "the command was killed and does not go; its lease is left to expire, and others may then run beside it",
            ),
        }
    }
}

/// Runs the command; returns when it is gone, and all of its group if it had to be ended.
///
/// Follows the lease through its deadlines and through `lost`, which must resolve as soon as it is not held.
/// INT, TERM and HUP are passed on to the command.
///
/// # Errors
/// When the watchdog cannot be started. Nothing runs then.
pub(crate) async fn supervise(
    job: &Job,
    signals: Signals,
    deadlines: watch::Receiver<Instant>,
    lost: impl Future<Output = ()>,
) -> io::Result<Outcome> {
    // Before the watchdog runs, so that no signal and no orphan is missed.
    let signals = signals.and_to_pause()?;
    group::adopt_orphans();
    let watchdog = WatchdogProcess::launch(job, *deadlines.borrow())?;
    let supervisor = Supervisor {
        watchdog,
        signals,
        deadlines,
        kill_after: job.kill_after,
        group: None,
        to_pass_on: Vec::new(),
        phase: Phase::Running,
    };
    Ok(supervisor.run(lost).await)
}

struct Supervisor {
    watchdog: WatchdogProcess,
    signals: Signals,
    deadlines: watch::Receiver<Instant>,
    kill_after: Duration,
    group: Option<Group>,
    /// Signals that came before there was anybody to pass them on to.
    to_pass_on: Vec<Signal>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The lease is lost; the watchdog was told to end the command, and has until then to say that it does.
    Asked {
        take_over_at: Instant,
        kill_at: Instant,
    },
    /// It does, and has until then.
    Ending {
        kill_at: Instant,
    },
}

enum Event {
    Report(Option<FromWatchdog>),
    Deadline(Instant),
    Lost,
    Signal(Signal),
    OutOfPatience,
}

impl Supervisor {
    async fn run(mut self, lost: impl Future<Output = ()>) -> Outcome {
        let mut lost = pin!(lost);
        loop {
            let event = tokio::select! {
                // What the watchdog has said already comes before what is to be told to it.
                biased;
                report = self.watchdog.next_report() => Event::Report(report),
                () = &mut lost, if self.phase == Phase::Running => Event::Lost,
                signal = self.signals.next() => Event::Signal(signal),
                deadline = next_deadline(&mut self.deadlines) => Event::Deadline(deadline),
                () = out_of_patience(self.phase) => Event::OutOfPatience,
            };
            match event {
                Event::Report(Some(FromWatchdog::Ended(ended))) => return self.ended(ended).await,
                Event::Report(Some(FromWatchdog::NotStarted(exit, why))) => {
                    self.watchdog.wait().await;
                    return Outcome::NotStarted(exit, why);
                }
                Event::Report(Some(report)) => self.heard(&report),
                Event::Report(None) | Event::OutOfPatience => return self.take_over().await,
                Event::Lost => self.ask_to_end(),
                Event::Deadline(deadline) => self.watchdog.tell(&ToWatchdog::Deadline(deadline)),
                Event::Signal(signal) => self.pass_on(signal),
            }
        }
    }

    async fn ended(mut self, ended: Ended) -> Outcome {
        self.watchdog.wait().await;
        match self.phase {
            Phase::Ending { .. } => Outcome::Lost,
            Phase::Running | Phase::Asked { .. } => Outcome::Ended(ended),
        }
    }

    fn heard(&mut self, report: &FromWatchdog) {
        match report {
            FromWatchdog::Started(group) => {
                self.group = Some(*group);
                for signal in self.to_pass_on.drain(..) {
                    group.signal(signal);
                }
            }
            FromWatchdog::Stopping => {
                self.phase = Phase::Ending {
                    kill_at: self.kill_at(),
                }
            }
            FromWatchdog::Paused(signal) => self.pause_with_the_command(*signal),
            FromWatchdog::NotStarted(..) | FromWatchdog::Ended(_) => {}
        }
    }

    fn ask_to_end(&mut self) {
        self.watchdog.tell(&ToWatchdog::Stop);
        let patience = PATIENCE.min(self.kill_after / 2);
        self.phase = Phase::Asked {
            take_over_at: SystemClock.now() + patience,
            kill_at: self.kill_at(),
        };
    }

    /// When a command that is told to end now has to be gone.
    fn kill_at(&self) -> Instant {
        let deadline = *self.deadlines.borrow();
        deadline.min(SystemClock.now()) + self.kill_after
    }

    fn pass_on(&mut self, signal: Signal) {
        match self.group {
            // In one line with what else the watchdog does about it.
            _ if signal == Signal::TSTP => self.watchdog.tell(&ToWatchdog::Pause),
            Some(group) => group.signal(signal),
            None => self.to_pass_on.push(signal),
        }
    }

    /// The command was stopped from its terminal: to the shell that started us we are one job with it.
    fn pause_with_the_command(&self, signal: i32) {
        tracing::debug!(signal, "the command was stopped; stopping with it");
        if a_shell_can_continue_us() {
            // Returns when somebody continued us. The lease was not renewed in the meantime: if that took too
            // long, the watchdog has ended the command, and its report is waiting.
            let _ = kill_current_process_group(Signal::STOP);
        }
        self.watchdog.tell(&ToWatchdog::Continue);
    }

    /// Ends the command without the watchdog.
    async fn take_over(self) -> Outcome {
        let (kill_at, reason) = match self.phase {
            Phase::Running => (SystemClock.now() + self.kill_after, Outcome::Unwatched),
            Phase::Asked { kill_at, .. } | Phase::Ending { kill_at } => (kill_at, Outcome::Lost),
        };
        if take_over::end(self.watchdog, self.group, kill_at).await {
            reason
        } else {
            Outcome::Stuck
        }
    }
}

/// Never resolves once there are no more deadlines.
async fn next_deadline(deadlines: &mut watch::Receiver<Instant>) -> Instant {
    if deadlines.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    *deadlines.borrow_and_update()
}

async fn out_of_patience(phase: Phase) {
    let until = match phase {
        Phase::Running => return std::future::pending().await,
        Phase::Asked { take_over_at, .. } => take_over_at,
        Phase::Ending { kill_at } => kill_at + PATIENCE,
    };
    sleep_until(&SystemClock, until).await;
}

/// Whether this process belongs to a job of a shell. The group of the session's leader belongs to none: there
/// is nobody who would notice that it stopped.
fn a_shell_can_continue_us() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}
