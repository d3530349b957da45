//! The whole contract, through two handles on one file, as two processes would have.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::sync::Arc;

use leasehold_sqlite::SqliteStore;
use leasehold_testkit::conformance::Suite;

leasehold_testkit::conformance!(sqlite, two_handles());

async fn two_handles() -> Suite {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let one = SqliteStore::open(&path).await.unwrap();
    let other = SqliteStore::open(&path).await.unwrap();
    Suite::new(Arc::new(one))
        .client(Arc::new(other))
        .keep(folder)
}
