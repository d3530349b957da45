//! Every store that `leasehold::open` knows keeps the contract: one line a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_testkit::conformance::Suite;

async fn suite(url: String) -> Suite {
    let store = leasehold::open(&url).await.expect("the store opens");
    Suite::new(store)
}

/// A file of its own for each test, in a folder that the next run empties.
fn file() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the files");
        folder
    });
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    FOLDER.join(format!("{number}.db"))
}

leasehold_testkit::conformance!(memory, suite("memory:".into()));
leasehold_testkit::conformance!(sqlite, suite(format!("sqlite:{}", file().display())));
