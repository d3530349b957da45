use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::output::Output;

/// Where `cargo xtask test` installs it.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/azurite");
/// How long it may take to listen; it takes about a second.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The emulator of Azure Blob Storage, in memory, on a free port of its own.
///
/// It is stopped when this is dropped, and ends by itself when this process does, however that happens. When a
/// test fails, its last lines of output are printed.
#[derive(Debug)]
#[must_use = "it is stopped when this is dropped"]
pub struct Azurite {
    child: Child,
    output: Output,
    endpoint: String,
}

impl Azurite {
    /// The emulator's account.
    pub const ACCOUNT: &'static str = "devstoreaccount1";
    /// Its key: the same everywhere, and no secret.
    pub const KEY: &'static str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn start() -> Self {
        let folder = Path::new(FOLDER);
        assert!(
            folder.join("node_modules/azurite").is_dir(),
            "Azurite is not installed; `cargo xtask test` installs it and runs the tests"
        );
        let mut child = Command::new("node")
            .arg(folder.join("start.js"))
            // Port 0: the system gives a free one, so that no two of us get the same.
            .args(["--blobHost", "127.0.0.1", "--blobPort", "0"])
            .args(["--inMemoryPersistence", "--disableTelemetry"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("Node does not run; `cargo xtask test` needs it: {error}")
            });
        let output = Output::default();
        let lines = output.read(
            child.stdout.take().expect("its output is piped"),
            child.stderr.take().expect("its errors are piped"),
        );
        let mut azurite = Self {
            child,
            output,
            endpoint: String::new(),
        };
        loop {
            let Ok(line) = lines.recv_timeout(START_LIMIT) else {
                panic!("Azurite does not start: its output ended, or {START_LIMIT:?} passed");
            };
            if let Some((_, url)) = line.split_once("successfully listens on ") {
                azurite.endpoint = format!("{}/{}", url.trim(), Self::ACCOUNT);
                return azurite;
            }
        }
    }

    /// The account's blob endpoint, as `http://127.0.0.1:PORT/devstoreaccount1`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A connection string with the account's key.
    pub fn connection_string(&self) -> String {
        Self::connection_string_of(&self.endpoint)
    }

    /// The same for another way to the same server.
    pub fn connection_string_of(endpoint: &str) -> String {
        format!(
            "AccountName={};AccountKey={};BlobEndpoint={endpoint}",
            Self::ACCOUNT,
            Self::KEY
        )
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("The last of Azurite's output:\n{}", self.output.tail());
        }
    }
}
