//! What the holder of the lease and the watchdog of its command tell each other: one line each.

use std::time::Duration;

use leasehold::clock::Instant;
use rustix::process::Pid;

use crate::exit::Exit;
use crate::group::{Ended, Group};

/// From the holder to the watchdog. That the pipe ends means [`Stop`](Self::Stop): the holder is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToWatchdog {
    /// From here on the command may run until this instant, on the boot clock that both read.
    Deadline(Instant),
    /// Stop the command now.
    Stop,
    /// Somebody wants the job stopped that the holder and its command are: stop the command.
    Pause,
    /// Somebody continued the holder: continue the command, with the terminal if it is ours again.
    Continue,
}

/// From the watchdog to the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromWatchdog {
    /// The command runs, in this group.
    Started(Group),
    /// It could not be started; the exit code, and why.
    NotStarted(Exit, String),
    /// It was stopped by this signal, for somebody to continue.
    Paused(i32),
    /// The watchdog has begun to end it, because the deadline came or because it was told to.
    Stopping,
    /// It ended, and if it was being stopped, all of its group did.
    Ended(Ended),
}

impl ToWatchdog {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Deadline(at) => format!("deadline {}\n", at.since_origin().as_nanos()),
            Self::Stop => "stop\n".into(),
            Self::Pause => "pause\n".into(),
            Self::Continue => "continue\n".into(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("deadline", nanos) => parse_instant(nanos).map(Self::Deadline),
            ("stop", "") => Some(Self::Stop),
            ("pause", "") => Some(Self::Pause),
            ("continue", "") => Some(Self::Continue),
            _ => None,
        }
    }
}

impl FromWatchdog {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started(group) => format!("started {}\n", group.pid().as_raw_nonzero()),
            Self::NotStarted(exit, why) => {
                format!(
                    "failed {} {}\n",
                    exit.number(),
                    why.replace(char::is_control, " ")
                )
            }
            Self::Paused(signal) => format!("paused {signal}\n"),
            Self::Stopping => "stopping\n".into(),
            Self::Ended(Ended::Exited(code)) => format!("exited {code}\n"),
            Self::Ended(Ended::Killed(signal)) => format!("killed {signal}\n"),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "started" => {
                let pid = Pid::from_raw(rest.parse().ok()?)?;
                Some(Self::Started(Group::new(pid)))
            }
            "failed" => {
                let (code, why) = rest.split_once(' ')?;
                let exit = Exit::code(code.parse().ok()?);
                Some(Self::NotStarted(exit, why.into()))
            }
            "paused" => rest.parse().ok().map(Self::Paused),
            "stopping" => Some(Self::Stopping),
            "exited" => rest
                .parse()
                .ok()
                .map(|code| Self::Ended(Ended::Exited(code))),
            "killed" => rest
                .parse()
                .ok()
                .map(|signal| Self::Ended(Ended::Killed(signal))),
            _ => None,
        }
    }
}

/// An instant as it was written by the other side.
pub(crate) fn parse_instant(nanos: &str) -> Option<Instant> {
    let nanos = nanos.parse().ok()?;
    Some(Instant::from_origin(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_back_as_it_was_meant() {
        let at = Instant::from_origin(Duration::new(86_400, 7));
        for told in [
            ToWatchdog::Deadline(at),
            ToWatchdog::Stop,
            ToWatchdog::Pause,
            ToWatchdog::Continue,
        ] {
            assert_eq!(ToWatchdog::parse(told.line().trim_end()), Some(told));
        }
        for told in [
            FromWatchdog::Started(Group::new(Pid::from_raw(7).unwrap())),
            FromWatchdog::NotStarted(Exit::NOT_FOUND, "x: not found".into()),
            FromWatchdog::Paused(20),
            FromWatchdog::Stopping,
            FromWatchdog::Ended(Ended::Exited(3)),
            FromWatchdog::Ended(Ended::Killed(9)),
        ] {
            assert_eq!(FromWatchdog::parse(told.line().trim_end()), Some(told));
        }
    }

    #[test]
    fn a_message_stays_in_its_line_and_nonsense_is_nothing() {
        let line = FromWatchdog::NotStarted(Exit::NOT_EXECUTABLE, "a\nexited 0".into()).line();
        assert_eq!(line, "failed 126 a exited 0\n");
        for line in [
            "",
            "started 0",
            "started",
            "exited x",
            "deadline",
            "deadline -1",
            "stop now",
        ] {
            assert_eq!(FromWatchdog::parse(line), None, "{line}");
            assert_eq!(ToWatchdog::parse(line), None, "{line}");
        }
    }
}
