use std::sync::Arc;
use std::time::Duration;

use leasehold_testkit::conformance::{Suite, run_all};
use leasehold_testkit::servers::Azurite;

use crate::support::{ALL, CONTAINER, FAR_FUTURE};
use crate::support::{account_sas, builder};

/// A hundred rules at once, on a machine that may be busy, are about what is answered and not about how soon.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Azurite: cargo xtask test"]
async fn blobs_keep_the_whole_contract() {
    let azurite = Azurite::start();
    // A second client that knows nothing of the first one's writes, and signs in another way.
    let account = leasehold_azure::Account::from_connection_string(&format!(
        "BlobEndpoint={};SharedAccessSignature={}",
        azurite.endpoint(),
        account_sas(ALL, FAR_FUTURE)
    ));
    let account = account.expect("a good connection string");
    let other = leasehold_azure::BlobStore::builder(&account, CONTAINER)
        .limit(LIMIT)
        .build();
    let store = builder(azurite.endpoint()).limit(LIMIT).build();
    let suite = Suite::new(Arc::new(store.expect("the store opens")))
        .client(Arc::new(other.expect("the store opens")))
        .slack(Duration::from_secs(10));
    run_all(&suite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Azurite: cargo xtask test"]
async fn blobs_under_a_prefix_keep_the_whole_contract() {
    let azurite = Azurite::start();
    let builder = builder(azurite.endpoint()).prefix("a/prefix").limit(LIMIT);
    let store = builder.build().expect("the store opens");
    let suite = Suite::new(Arc::new(store)).slack(Duration::from_secs(10));
    run_all(&suite).await;
}
