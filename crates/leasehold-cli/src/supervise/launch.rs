use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use leasehold::clock::Instant;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpgrp;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::Job;
use crate::watchdog::Order;
use crate::wire::{FromWatchdog, ToWatchdog};

/// How long a watchdog that said its last word may take to exit.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// The watchdog as its parent sees it: a child and two pipes.
#[derive(Debug)]
pub(crate) struct WatchdogProcess {
    child: Child,
    orders: File,
    reports: Lines<BufReader<pipe::Receiver>>,
}

impl WatchdogProcess {
    /// Starts the watchdog, and through it the command.
    pub(crate) fn launch(job: &Job, deadline: Instant) -> io::Result<Self> {
        let ours = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (orders_to_read, orders) = pipe_with(ours)?;
        let (reports, reports_to_write) = pipe_with(ours)?;
        let order = Order {
            read: inheritable(&orders_to_read)?,
            write: inheritable(&reports_to_write)?,
            lender: getpgrp(),
            deadline,
            kill_after: job.kill_after,
            program: job.program.clone(),
            arguments: job.arguments.clone(),
        };
        let child = Command::new(this_program()?)
            .arg0("leasehold")
            .args(order.to_args())
            .envs(job.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        Ok(Self {
            child,
            orders: File::from(orders),
            reports: BufReader::new(pipe::Receiver::from_owned_fd(reports)?).lines(),
        })
    }

    /// Told whole or not at all. A watchdog that does not read what it is told acts on what it knows: too
    /// early, never too late.
    pub(crate) fn tell(&self, told: &ToWatchdog) {
        if let Err(error) = (&self.orders).write_all(told.line().as_bytes()) {
            tracing::debug!(?told, %error, "telling the watchdog");
        }
    }

    /// What it says next; `None` when it is gone, or talks nonsense.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next_report(&mut self) -> Option<FromWatchdog> {
        let line = self.reports.next_line().await.ok().flatten()?;
        FromWatchdog::parse(&line)
    }

    /// Waits for one that said its last word.
    pub(crate) async fn wait(&mut self) {
        let _ = tokio::time::timeout(LAST_BREATH, self.child.wait()).await;
    }

    /// Kills it, if it lives, and waits for it: afterwards its children are ours.
    pub(crate) async fn kill(mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::debug!(%error, "killing the watchdog");
        }
    }
}

/// Lets the next child inherit it. There is but one: nothing else in this process starts any.
fn inheritable(fd: &OwnedFd) -> io::Result<i32> {
    fcntl_setfd(fd, FdFlags::empty())?;
    Ok(fd.as_raw_fd())
}

/// On Linux the very file that runs now, also when another one was put in its place since.
fn this_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}
