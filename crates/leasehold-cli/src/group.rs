use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process_group, set_child_subreaper,
    test_kill_process_group, waitpgid, waitpid,
};

/// The process group of a command, named after its leader: the command itself.
///
/// Reached by its number, so it stands for that group only until its last process was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(Pid);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
}

impl Ended {
    pub(crate) fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// What became of a command since it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Ended(Ended),
    Paused(i32),
}

impl Group {
    pub(crate) fn new(leader: Pid) -> Self {
        Self(leader)
    }

    pub(crate) fn pid(self) -> Pid {
        self.0
    }

    /// A group that is gone, or whose processes are all another user's, cannot be told anything; whoever has
    /// to know asks [`is_gone`](Self::is_gone).
    pub(crate) fn signal(self, signal: Signal) {
        if let Err(error) = kill_process_group(self.0, signal) {
            tracing::debug!(group = %self.0.as_raw_nonzero(), ?signal, %error, "signalling the command's group");
        }
    }

    /// TERM, and CONT so that a stopped process hears it.
    pub(crate) fn terminate(self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Whether not one process of it is left. Those that ended and were not waited for still count.
    pub(crate) fn is_gone(self) -> bool {
        test_kill_process_group(self.0) == Err(Errno::SRCH)
    }

    /// What became of the leader, which must be a child of this process.
    pub(crate) fn look_at_leader(self) -> Option<Change> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let (_, status) = waitpid(Some(self.0), options).ok().flatten()?;
        match (ended(status), status.stopping_signal()) {
            (Some(ended), _) => Some(Change::Ended(ended)),
            (None, Some(signal)) => Some(Change::Paused(signal)),
            (None, None) => None,
        }
    }

    /// Waits for those of the group that ended and are children of this process, by birth or by
    /// [`adopt_orphans`]: as long as nobody does, the group is not gone.
    pub(crate) fn reap(self) -> Option<Ended> {
        let mut leader = None;
        while let Ok(Some((pid, status))) = waitpgid(self.0, WaitOptions::NOHANG) {
            if pid == self.0 {
                leader = ended(status);
            }
        }
        leader
    }
}

fn ended(status: WaitStatus) -> Option<Ended> {
    let exited = status.exit_status().map(Ended::Exited);
    exited.or_else(|| status.terminating_signal().map(Ended::Killed))
}

/// Makes this process the parent of what its descendants leave behind, where the system can: only a parent
/// can wait for a dead process, and the first process of a container often does not.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "becoming a subreaper");
    }
}
