use leasehold_core::outcome::{Acquire, Renew};
use leasehold_core::{Holder, LeaseState, LeaseStore, Precondition, Term};
use leasehold_testkit::servers::Azurite;

use crate::support::{Raw, acquire, id, key, note, open};

const BLOCK: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn content_and_metadata_of_others_are_kept() {
    let azurite = Azurite::start();
    let (store, raw, key) = (
        open(azurite.endpoint()),
        Raw::new(&azurite),
        key("shared/config.json"),
    );
    // Makes the container.
    acquire(&store, &crate::support::key("other"), id(9)).await;
    let theirs = [
        BLOCK,
        ("x-ms-meta-_private", "kept"),
        ("x-ms-meta-owner", "theirs"),
    ];
    let (status, ..) = raw
        .send("PUT", "shared/config.json", "", &theirs, "content")
        .await;
    assert_eq!(status, 201);

    let record = acquire(&store, &key, id(1)).await;
    assert_eq!(record.metadata.get("owner"), Some("theirs"));
    store
        .write(&key, &note("ours"), &Precondition::Any, Some(id(1)))
        .await
        .unwrap();
    store.release(&key, id(1)).await.unwrap();
    let (status, headers, body) = raw.send("GET", "shared/config.json", "", &[], "").await;
    assert_eq!((status, body.as_str()), (200, "content"));
    assert_eq!(headers["x-ms-meta-_private"], "kept");
    assert_eq!(headers["x-ms-meta-note"], "ours");
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_lease_of_anothers_client_is_waited_for_and_ours_keeps_it_out() {
    let azurite = Azurite::start();
    let (store, raw, key) = (open(azurite.endpoint()), Raw::new(&azurite), key("a"));
    let holder = Holder::new("us").unwrap();
    acquire(&store, &key, id(1)).await;

    let theirs = id(7).expose();
    let lease = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", theirs.as_str()),
    ];
    let (status, headers, _) = raw.send("PUT", "a", "comp=lease", &lease, "").await;
    assert_eq!(
        (status, &headers["x-ms-error-code"]),
        (409, &"LeaseAlreadyPresent".parse().unwrap())
    );
    let (status, headers, _) = raw.send("PUT", "a", "comp=metadata", &[], "").await;
    assert_eq!(
        (status, &headers["x-ms-error-code"]),
        (412, &"LeaseIdMissing".parse().unwrap())
    );

    store.release(&key, id(1)).await.unwrap();
    assert_eq!(raw.send("PUT", "a", "comp=lease", &lease, "").await.0, 201);
    let refused = store
        .acquire(&key, id(2), Term::DEFAULT, &holder)
        .await
        .unwrap();
    assert!(
        matches!(&refused, Acquire::Held(by) if by.state == LeaseState::Leased),
        "{refused:?}"
    );
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_holder_learns_that_anothers_client_broke_its_lease_or_deleted_its_blob() {
    let azurite = Azurite::start();
    let (store, raw) = (open(azurite.endpoint()), Raw::new(&azurite));
    for name in ["broken", "deleted"] {
        acquire(&store, &key(name), id(1)).await;
    }
    let at_once = [
        ("x-ms-lease-action", "break"),
        ("x-ms-lease-break-period", "0"),
    ];
    assert_eq!(
        raw.send("PUT", "broken", "comp=lease", &at_once, "")
            .await
            .0,
        202
    );
    let ours = id(1).expose();
    let under = [("x-ms-lease-id", ours.as_str())];
    assert_eq!(raw.send("DELETE", "deleted", "", &under, "").await.0, 202);

    for (name, state) in [("broken", Some(LeaseState::Broken)), ("deleted", None)] {
        match store.renew(&key(name), id(1)).await.unwrap() {
            Renew::NotHeld(found) => assert_eq!(found.state, state),
            Renew::Renewed => panic!("{name} was renewed"),
        }
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_plain_value_and_the_token_can_be_read_by_anybody() {
    let azurite = Azurite::start();
    let (store, raw, key) = (
        open(azurite.endpoint()),
        Raw::new(&azurite),
        key("deploy-42/setup"),
    );
    acquire(&store, &key, id(1)).await;
    let mut metadata = note("line\nline");
    metadata.set("progress", "done").unwrap();
    store
        .write(&key, &metadata, &Precondition::Any, Some(id(1)))
        .await
        .unwrap();
    let (_, headers, _) = raw.send("HEAD", "deploy-42/setup", "", &[], "").await;
    assert_eq!(headers["x-ms-meta-progress"], "done");
    assert_eq!(headers["x-ms-meta-_leasehold_token"], "1");
    assert_eq!(headers["x-ms-meta-note"], "~bGluZQpsaW5l");
}
