use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::{Leases, LossCause, TryAcquire};
use leasehold_testkit::servers::Azurite;

use crate::support::{Raw, key, open};

/// The shortest that the service takes.
const TERM: Duration = Duration::from_secs(15);

/// Two clients, as of two processes.
fn both(azurite: &Azurite) -> [Leases; 2] {
    [(); 2].map(|()| {
        let leases = Leases::builder(Arc::new(open(azurite.endpoint()))).term(TERM);
        leases.build().expect("a client with the shortest term")
    })
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_guard_holds_for_more_than_two_terms_and_hands_over_on_release() {
    let azurite = Azurite::start();
    let ([ours, theirs], key) = (both(&azurite), key("held"));
    let lease = ours.acquire(&key).await.unwrap();
    let waited = theirs.acquire_timeout(&key, TERM * 5 / 2).await.unwrap();
    assert!(matches!(waited, TryAcquire::Held(by) if by.holder.as_ref() == Some(ours.holder())));
    lease.check().unwrap();
    let token = lease.fencing_token();
    lease.release().await.unwrap();
    let next = theirs.acquire(&key).await.unwrap();
    assert!(next.fencing_token() > token);
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn an_abandoned_lease_is_taken_over_within_five_seconds_of_its_end_and_not_before() {
    let azurite = Azurite::start();
    let ([ours, theirs], key) = (both(&azurite), key("abandoned"));
    let lease = ours.acquire(&key).await.unwrap();
    let (token, deadline) = (lease.fencing_token(), lease.deadline());
    lease.abandon();
    let next = theirs.acquire(&key).await.unwrap();
    let now = SystemClock.now();
    assert!(now >= deadline, "taken over before we would have given up");
    assert!(
        now < deadline + Duration::from_secs(5),
        "it waited too long"
    );
    assert!(next.fencing_token() > token);
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_guard_is_told_that_anothers_client_broke_its_lease_or_deleted_its_blob() {
    let azurite = Azurite::start();
    let ([ours, _], raw) = (both(&azurite), Raw::new(&azurite));
    let broken = ours.acquire(&key("broken")).await.unwrap();
    let deleted = ours.acquire(&key("deleted")).await.unwrap();
    let at_once = [
        ("x-ms-lease-action", "break"),
        ("x-ms-lease-break-period", "0"),
    ];
    for name in ["broken", "deleted"] {
        assert_eq!(
            raw.send("PUT", name, "comp=lease", &at_once, "").await.0,
            202
        );
    }
    assert_eq!(raw.send("DELETE", "deleted", "", &[], "").await.0, 202);
    let (broken, deleted) = tokio::join!(broken.lost(), deleted.lost());
    assert_eq!(broken.cause, LossCause::Broken);
    assert_eq!(deleted.cause, LossCause::Deleted);
}
