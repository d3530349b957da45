use std::time::Duration;

use leasehold::clock::{Clock, Instant, SystemClock, sleep_until};
use rustix::process::{Pid, Signal, getpgrp, getpid};

use super::launch::WatchdogProcess;
use crate::group::Group;
use crate::terminal::Terminal;

/// How often a group that is being ended is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long after KILL a group that is still there is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// Ends the command in the watchdog's place: TERM now, KILL at `kill_at`. Whether all of its group is gone.
///
/// The watchdog is killed first. What it leaves behind becomes our child, so that we can wait for it.
pub(super) async fn end(watchdog: WatchdogProcess, known: Option<Group>, kill_at: Instant) -> bool {
    watchdog.kill().await;
    // A watchdog that was killed just after it started the command could not tell us.
    let Some(group) = known.or_else(orphaned_group) else {
        return true;
    };
    group.terminate();
    let give_up_at = kill_at + GIVE_UP_AFTER;
    let gone = loop {
        group.reap();
        let now = SystemClock.now();
        if group.is_gone() {
            break true;
        }
        if give_up_at <= now {
            break false;
        }
        let next = if kill_at <= now {
            group.signal(Signal::KILL);
            now + LOOK_AGAIN
        } else {
            kill_at.min(now + LOOK_AGAIN)
        };
        sleep_until(&SystemClock, next).await;
    };
    if let Some(terminal) = Terminal::of_session(getpgrp()) {
        terminal.take_back_from(group);
    }
    gone
}

/// The group of a child of this process. With the watchdog gone, that is the command.
fn orphaned_group() -> Option<Group> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .find(|pid| parent_of(*pid) == Some(getpid()))
        .map(Group::new)
}

/// The fourth field of `/proc/PID/stat`; the second is a name in parentheses, which may hold anything.
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
}
