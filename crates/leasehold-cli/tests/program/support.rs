use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use leasehold::clock::{Clock, Instant, SystemClock};
use leasehold_testkit::servers::Azurite;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a store of its own; commands run in it.
pub(crate) struct Place {
    dir: TempDir,
    store: Vec<(&'static str, String)>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("leases.db").display());
        let store = vec![("LEASEHOLD_STORE", url)];
        Self { dir, store }
    }

    /// The same, with its store in a container there.
    pub(crate) fn on(azurite: &Azurite) -> Self {
        let mut place = Self::new();
        place.store = vec![
            ("LEASEHOLD_STORE", "azure://leases/tests".into()),
            (
                "AZURE_STORAGE_CONNECTION_STRING",
                azurite.connection_string(),
            ),
        ];
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a command left in a file there; empty when it left none.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until the file holds a whole line, and gives it.
    pub(crate) fn line(&self, name: &str) -> String {
        wait_until(name, || self.text(name).ends_with('\n'));
        self.text(name).trim().to_owned()
    }

    /// Waits for the process id in this file.
    pub(crate) fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.line(name).parse().unwrap()).unwrap()
    }

    /// The program with these arguments, in an environment without any settings but the store.
    pub(crate) fn leasehold<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command
            .args(args)
            .envs(self.store.iter().map(|(name, value)| (name, value)))
            .env_remove("LEASEHOLD_LOG")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::of(self.leasehold(args).output().unwrap())
    }

    /// Starts it.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.leasehold(args))
    }

    /// What `show --json` says.
    pub(crate) fn show(&self, key: &str) -> Value {
        let shown = self.run(["--json", "show", key]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        serde_json::from_str(&shown.stdout).unwrap()
    }

    pub(crate) fn state(&self, key: &str) -> String {
        self.show(key)["state"].as_str().unwrap().to_owned()
    }
}

/// What a program left that ran to its end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts the exit code and that stderr is one line which holds these words.
    pub(crate) fn assert_refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:?}");
        }
    }
}

/// A started program; killed when the test ends before it does.
pub(crate) struct Running {
    child: Option<Child>,
    pub(crate) pid: Pid,
    /// Just before it was started: any lease it holds was granted later.
    pub(crate) since: Instant,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let since = SystemClock.now();
        let child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        Self {
            child: Some(child),
            pid,
            since,
        }
    }

    /// Another program, in the place's directory.
    pub(crate) fn start_in(place: &Place, command: &mut Command) -> Self {
        let mut owned = Command::new(command.get_program());
        owned.args(command.get_args()).current_dir(place.path(""));
        Self::start(owned)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end. Its output must be little.
    pub(crate) fn wait(mut self) -> Ran {
        wait_until("the program ends", || self.has_ended());
        Ran::of(self.child.take().unwrap().wait_with_output().unwrap())
    }

    /// Kills it. Its output is not read, but stays open: whoever else still writes there must not fail.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.as_mut().unwrap().wait().unwrap();
    }

    /// Its only child: the watchdog.
    pub(crate) fn watchdog(&self) -> Pid {
        children(self.pid)[0]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The processes whose parent this is.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let wanted = parent.as_raw_nonzero().to_string();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name();
        let stat = fs::read_to_string(format!("/proc/{}/stat", name.to_str()?)).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let parent = fields.split_whitespace().nth(1)?;
        (parent == wanted).then(|| Pid::from_raw(name.to_str()?.parse().ok()?))?
    });
    pids.collect()
}

pub(crate) fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

/// Waits until the process is gone; when that was seen.
pub(crate) fn end_of(pid: Pid) -> Instant {
    wait_until("the process is gone", || !is_alive(pid));
    SystemClock.now()
}

/// Waits for a condition; fails the test if it does not come about.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = SystemClock.now() + PATIENCE;
    while !condition() {
        assert!(SystemClock.now() < until, "waited in vain: {what}");
        sleep(Duration::from_millis(2));
    }
}
