//! A test that runs itself again in other processes: what it then is to do is its role.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

const ROLE: &str = "LEASEHOLD_TEST_ROLE";
const PATH: &str = "LEASEHOLD_TEST_PATH";

/// What this process is to do, on which path; `None` in the one that was started first.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = env::var(ROLE).ok()?;
    Some((role, env::var_os(PATH)?.into()))
}

/// A process that runs the test of this name in this role. It reports by [`tell`].
pub(crate) fn start(test: &str, role: &str, path: &Path) -> Running {
    let program = env::current_exe().unwrap();
    run(Command::new(program), test, role, path)
}

/// The same in mount and user namespaces of its own, where it is root and may mount what it likes: `mount`
/// is a shell command that does so, with the path as `$1`.
///
/// A machine that does not allow it fails the test: nothing would have been shown.
pub(crate) fn start_with_mounts(test: &str, role: &str, path: &Path, mount: &str) -> Running {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
    command.arg(format!("{mount}; shift; exec \"$@\""));
    command.arg("sh").arg(path).arg(env::current_exe().unwrap());
    run(command, test, role, path)
}

fn run(mut command: Command, test: &str, role: &str, path: &Path) -> Running {
    let mut child = command
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(ROLE, role)
        .env(PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stderr.take().unwrap());
    Running { child, told }
}

/// One line to the process that started this one, in one piece.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stderr().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Waits until the process that started this one says so.
pub(crate) fn wait_for_go() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

pub(crate) struct Running {
    child: Child,
    told: BufReader<ChildStderr>,
}

impl Running {
    /// The next line that it told; `None` at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        // A line cut short was told by somebody who was killed over it.
        line.strip_suffix('\n').map(str::to_owned)
    }

    pub(crate) fn expect(&mut self, wanted: &str) {
        let line = self.line();
        if line.as_deref() != Some(wanted) {
            let rest: Vec<_> = std::iter::from_fn(|| self.line()).collect();
            panic!("expected {wanted:?}, got {line:?}, then {rest:#?}");
        }
    }

    pub(crate) fn go(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn succeeds(mut self) {
        let rest: Vec<_> = std::iter::from_fn(|| self.line()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest:#?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only where the test failed is it still there.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
