//! The process between the holder of a lease and its command: the command's parent, which ends it when the
//! lease's time is over, whatever became of the holder.

mod order;
mod shield;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use leasehold::clock::{Clock, Instant, SystemClock, sleep_until};
use nix::fcntl::OFlag;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::order::Order;
use crate::exit::Exit;
use crate::group::{self, Change, Ended, Group};
use crate::log::say;
use crate::terminal::Terminal;
use crate::wire::{FromWatchdog, ToWatchdog};

/// How often a group that is being ended is looked at: nothing tells when its last process is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs the watchdog until its command is gone.
pub(crate) fn main(order: Order) -> ExitCode {
    group::adopt_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(watch(order))) {
        Ok(()) => Exit::DONE.into(),
        Err(error) => {
            say(format_args!("the watchdog cannot start: {error}"));
            Exit::INTERNAL.into()
        }
    }
}

async fn watch(order: Order) -> io::Result<()> {
    let _caught = shield::catch()?;
    let mut orders = BufReader::new(reopen(order.read, |path| {
        pipe::OpenOptions::new().open_receiver(path)
    })?)
    .lines();
    let reports = reopen(order.write, |path| {
        let unblocked = OFlag::O_NONBLOCK.bits();
        File::options()
            .write(true)
            .custom_flags(unblocked)
            .open(path)
    })?;
    let mut children = signal(SignalKind::child())?;
    let Some(mut dog) = Watchdog::start(&order, reports) else {
        return Ok(());
    };
    loop {
        if let Some(ended) = dog.look() {
            dog.report(&FromWatchdog::Ended(ended));
            return Ok(());
        }
        tokio::select! {
            told = next(&mut orders), if dog.has_a_holder => dog.obey(told.as_ref()),
            _ = children.recv() => {}
            () = dog.wait_for_next_step() => dog.take_next_step(),
        }
    }
}

/// Opens the pipe of this number anew, close-on-exec and not blocking, and closes the number: what the
/// command inherited would keep the pipe from ever ending.
fn reopen<T>(inherited: RawFd, open: impl FnOnce(String) -> io::Result<T>) -> io::Result<T> {
    let opened = open(format!("/dev/fd/{inherited}"))?;
    nix::unistd::close(inherited)?;
    Ok(opened)
}

/// The next thing told; `None` once there is nobody to tell it. What cannot be understood ends the command,
/// too: it comes from another version, or from nobody we know.
async fn next(orders: &mut Lines<BufReader<pipe::Receiver>>) -> Option<ToWatchdog> {
    let line = orders.next_line().await.ok().flatten()?;
    ToWatchdog::parse(&line)
}

#[derive(Debug)]
struct Watchdog {
    group: Group,
    ended: Option<Ended>,
    phase: Phase,
    deadline: Instant,
    kill_after: Duration,
    reports: File,
    has_a_holder: bool,
    terminal: Option<Terminal>,
    /// It was told to stop, and nobody has continued it since.
    pausing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The command may run until the deadline.
    Watching,
    /// It was told to end, and will be killed then.
    Ending { kill_at: Instant },
    /// It was killed. The group is killed again until it is gone: a process may have joined it since.
    Killing,
}

impl Watchdog {
    /// Starts the command. `None` when it was not started, and the holder was told why.
    fn start(order: &Order, reports: File) -> Option<Self> {
        if order.deadline <= SystemClock.now() {
            tell(&reports, &FromWatchdog::Stopping);
            return None;
        }
        let child = Command::new(&order.program)
            .args(&order.arguments)
            .process_group(0)
            .spawn();
        let pid = match child.map(|child| i32::try_from(child.id())) {
            Ok(pid) => pid.ok().and_then(Pid::from_raw)?,
            Err(error) => {
                tell(&reports, &not_started(order, &error));
                return None;
            }
        };
        let group = Group::new(pid);
        shield::block();
        tell(&reports, &FromWatchdog::Started(group));
        let terminal = Terminal::of_session(order.lender);
        if Terminal::is_wanted_from_the_start()
            && let Some(terminal) = &terminal
        {
            // If it asked for the terminal a moment earlier and was stopped for it, that is found later.
            terminal.lend_to(group);
        }
        Some(Self {
            group,
            ended: None,
            phase: Phase::Watching,
            deadline: order.deadline,
            kill_after: order.kill_after,
            reports,
            has_a_holder: true,
            terminal,
            pausing: false,
        })
    }

    /// Looks at the command. How it ended, once there is nothing left to do: in peace that is when the
    /// command itself ended, else when all of its group is gone.
    fn look(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            match self.group.look_at_leader() {
                Some(Change::Ended(ended)) => self.ended = Some(ended),
                Some(Change::Paused(signal)) if self.phase == Phase::Watching => {
                    self.paused(signal);
                }
                Some(Change::Paused(_)) | None => {}
            }
        }
        self.ended = self.group.reap().or(self.ended);
        if self.phase == Phase::Killing {
            self.group.signal(Signal::KILL);
        }
        let over = self.phase == Phase::Watching || self.group.is_gone();
        let ended = self.ended.filter(|_| over)?;
        if let Some(terminal) = &self.terminal {
            terminal.take_back_from(self.group);
        }
        Some(ended)
    }

    /// Does what it is told; `None` is that the holder is gone.
    fn obey(&mut self, told: Option<&ToWatchdog>) {
        match told {
            Some(ToWatchdog::Deadline(at)) => self.deadline = *at,
            Some(ToWatchdog::Stop) => self.begin_to_end(),
            Some(ToWatchdog::Pause) => {
                self.pausing = true;
                self.group.signal(Signal::TSTP);
            }
            Some(ToWatchdog::Continue) => {
                self.pausing = false;
                if let Some(terminal) = &self.terminal {
                    terminal.lend_to(self.group);
                }
                self.group.signal(Signal::CONT);
            }
            None => {
                self.has_a_holder = false;
                if self.phase == Phase::Watching {
                    say(format_args!(
                        "whoever held the lease is gone; ending its command"
                    ));
                    self.begin_to_end();
                }
            }
        }
    }

    /// TERM at once; KILL as long after as was asked for, but never later than the lease allows.
    fn begin_to_end(&mut self) {
        if self.phase != Phase::Watching {
            return;
        }
        self.report(&FromWatchdog::Stopping);
        let begun = self.deadline.min(SystemClock.now());
        self.phase = Phase::Ending {
            kill_at: begun + self.kill_after,
        };
        self.group.terminate();
    }

    async fn wait_for_next_step(&self) {
        match self.phase {
            Phase::Watching => sleep_until(&SystemClock, self.deadline).await,
            Phase::Ending { kill_at } => {
                let look_again = SystemClock.now() + LOOK_AGAIN;
                sleep_until(&SystemClock, kill_at.min(look_again)).await;
            }
            Phase::Killing => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }

    fn take_next_step(&mut self) {
        let now = SystemClock.now();
        match self.phase {
            Phase::Watching if self.deadline <= now => self.begin_to_end(),
            Phase::Ending { kill_at } if kill_at <= now => {
                self.phase = Phase::Killing;
                self.group.signal(Signal::KILL);
            }
            Phase::Watching | Phase::Ending { .. } | Phase::Killing => {}
        }
    }

    fn paused(&mut self, signal: i32) {
        let wants_the_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        // To continue it would take back what it was told since.
        if wants_the_terminal
            && !self.pausing
            && let Some(terminal) = &self.terminal
            && terminal.lend_to(self.group)
        {
            self.group.signal(Signal::CONT);
            return;
        }
        let had_the_terminal = self
            .terminal
            .as_ref()
            .is_some_and(|terminal| terminal.take_back_from(self.group));
        // Whoever sent STOP to a command in the background continues it as well.
        if had_the_terminal || signal != Signal::STOP.as_raw() {
            self.report(&FromWatchdog::Paused(signal));
        }
    }

    fn report(&self, report: &FromWatchdog) {
        tell(&self.reports, report);
    }
}

/// A line is short enough to be written whole or not at all. If it is not, the holder reads nothing any more,
/// and will find this end of the pipe closed.
fn tell(mut reports: &File, report: &FromWatchdog) {
    if let Err(error) = reports.write_all(report.line().as_bytes()) {
        tracing::debug!(?report, %error, "telling the holder");
    }
}

fn not_started(order: &Order, error: &io::Error) -> FromWatchdog {
    let program = order.program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => {
            FromWatchdog::NotStarted(Exit::NOT_FOUND, format!("{program}: not found"))
        }
        _ => FromWatchdog::NotStarted(Exit::NOT_EXECUTABLE, format!("{program}: {error}")),
    }
}
