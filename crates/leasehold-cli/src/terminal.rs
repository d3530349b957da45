use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::group::Group;

/// The terminal that controls this session, and the process group whose place in its foreground is lent to
/// the command.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    lender: Pid,
}

impl Terminal {
    /// `None` where the session has no terminal.
    pub(crate) fn of_session(lender: Pid) -> Option<Self> {
        let tty = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        Some(Self { tty, lender })
    }

    /// Whether a command should have the terminal from the start. One whose output goes elsewhere should not:
    /// where that is a pager, the pager needs it. It still gets it when it asks for it.
    pub(crate) fn is_wanted_from_the_start() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Puts the group in the foreground, if the lender is there. Whether the group is there now.
    pub(crate) fn lend_to(&self, group: Group) -> bool {
        match tcgetpgrp(&self.tty) {
            Ok(foreground) if foreground == group.pid() => true,
            Ok(foreground) if foreground == self.lender => self.put_in_front(group.pid()),
            _ => false,
        }
    }

    /// Puts the lender in the foreground again, if the group is there. Whether it was.
    pub(crate) fn take_back_from(&self, group: Group) -> bool {
        tcgetpgrp(&self.tty) == Ok(group.pid()) && self.put_in_front(self.lender)
    }

    fn put_in_front(&self, group: Pid) -> bool {
        // Who moves the foreground from the background is stopped by TTOU unless it blocks it.
        let mut background_write = SigSet::empty();
        background_write.add(Signal::SIGTTOU);
        background_write.thread_block().is_ok() && tcsetpgrp(&self.tty, group).is_ok()
    }
}
