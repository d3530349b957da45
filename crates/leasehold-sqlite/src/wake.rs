//! Wakes waiters, also those in other processes: whoever changed something sets the times of the database
//! file, and whoever waits is told so by inotify.

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Notifier, others};
#[cfg(target_os = "linux")]
pub(crate) use linux::{Notifier, others};

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::Arc;
    use std::{io, thread};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, inotify, utimensat};
    use rustix::io::Errno;
    use tokio::sync::watch;

    /// Wakes all who wait on this file, in this process as in others. They are hints: if it cannot be done,
    /// waiters look by themselves, later.
    pub(crate) fn others(path: &Path) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        // Both times: setting one alone tells as "read" or "written", which the database itself does, too.
        // Through the path, because closing a descriptor would drop SQLite's locks; and "now" instead of a
        // given time, which only the file's owner may set.
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        let _ = utimensat(CWD, path, &times, AtFlags::empty());
    }

    /// One thread, one inotify instance a store, for all who wait.
    #[derive(Debug)]
    pub(crate) struct Notifier {
        changes: watch::Receiver<()>,
        stop: Arc<OwnedFd>,
    }

    impl Notifier {
        pub(crate) fn start(path: &Path) -> io::Result<Self> {
            let events =
                inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            inotify::add_watch(&events, path, inotify::WatchFlags::ATTRIB)?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
            let (sender, changes) = watch::channel(());
            let stopped = Arc::clone(&stop);
            thread::Builder::new()
                .name("leasehold-wake".into())
                .spawn(move || pass_on(&events, &stopped, &sender))?;
            Ok(Self { changes, stop })
        }

        /// What changes from now on; ends with the notifier. `None` when it has ended already.
        pub(crate) fn changes(&self) -> Option<watch::Receiver<()>> {
            let mut changes = self.changes.clone();
            changes.has_changed().ok()?;
            changes.mark_unchanged();
            Some(changes)
        }
    }

    impl Drop for Notifier {
        fn drop(&mut self) {
            // Cannot fail while the counter is below 2^64 - 2.
            let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        }
    }

    /// Sleeps until something happens; there is no timer here.
    fn pass_on(events: &OwnedFd, stop: &OwnedFd, changed: &watch::Sender<()>) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        loop {
            let mut ready = [
                PollFd::new(events, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !ready[1].revents().is_empty() {
                return;
            }
            let mut reader = inotify::Reader::new(events, &mut buffer);
            loop {
                match reader.next() {
                    // The file is gone, and nothing will come any more.
                    Ok(event) if event.events().contains(inotify::ReadFlags::IGNORED) => return,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => return,
                }
            }
            changed.send_replace(());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;
    use std::path::Path;

    use tokio::sync::watch;

    pub(crate) fn others(_: &Path) {}

    /// There is none here: waiters poll.
    #[derive(Debug)]
    pub(crate) enum Notifier {}

    impl Notifier {
        pub(crate) fn start(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn changes(&self) -> Option<watch::Receiver<()>> {
            match *self {}
        }
    }
}
