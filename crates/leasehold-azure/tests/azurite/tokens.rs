use leasehold_core::outcome::Acquire;
use leasehold_core::{
    Effect, ErrorKind, FencingToken, Holder, LeaseState, LeaseStore, Precondition, Term,
};
use leasehold_testkit::servers::Azurite;

use crate::relay::{Cut, Relay};
use crate::support::{Raw, acquire, builder, id, key, note, open};

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_holder_that_dies_before_its_token_is_written_has_none_and_the_next_gets_a_greater_one() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    let (store, key) = (open(relay.endpoint()), key("a"));
    let first = acquire(&store, &key, id(1)).await.token;
    store.release(&key, id(1)).await.unwrap();
    // Granted, and from then on nothing arrives any more.
    let mut plan = vec![None];
    plan.extend([Some(Cut::Request); 20]);
    relay.plan(plan);
    let holder = Holder::new("doomed").unwrap();
    let error = store
        .acquire(&key, id(2), Term::DEFAULT, &holder)
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert!(error.is_retryable(), "{error}");

    let direct = open(azurite.endpoint());
    direct
        .break_lease(&key, Some(std::time::Duration::ZERO))
        .await
        .unwrap();
    let next = acquire(&direct, &key, id(3)).await.token;
    assert!(next > first, "{next:?} after {first:?}");
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_token_that_is_no_number_is_reported_and_the_lease_let_go_of() {
    let azurite = Azurite::start();
    let (store, raw, key) = (open(azurite.endpoint()), Raw::new(&azurite), key("a"));
    acquire(&store, &key, id(1)).await;
    store.release(&key, id(1)).await.unwrap();
    let garbled = [("x-ms-meta-_leasehold_token", "garbled")];
    let (status, ..) = raw.send("PUT", "a", "comp=metadata", &garbled, "").await;
    assert_eq!(status, 200);
    let holder = Holder::new("me").unwrap();
    let error = store
        .acquire(&key, id(2), Term::DEFAULT, &holder)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let (_, headers, _) = raw.send("HEAD", "a", "", &[], "").await;
    assert_eq!(headers["x-ms-lease-state"], "available");
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn tokens_go_on_for_every_client_and_key_made_after_a_deletion() {
    let azurite = Azurite::start();
    let [store, other] = [(); 2].map(|()| open(azurite.endpoint()));
    for _ in 0..3 {
        acquire(&store, &key("a"), id(1)).await;
    }
    store
        .delete(&key("a"), &Precondition::Any, Some(id(1)))
        .await
        .unwrap();
    for name in ["a", "b"] {
        let record = acquire(&other, &key(name), id(2)).await;
        assert_eq!(record.token, Some(FencingToken::new(4)));
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn without_fencing_there_is_a_lease_and_no_token() {
    let azurite = Azurite::start();
    let [store, other] = [(); 2].map(|()| {
        let builder = builder(azurite.endpoint()).fencing(false);
        builder.build().expect("the store opens")
    });
    let key = key("a");
    store
        .write(&key, &note("kept"), &Precondition::Any, None)
        .await
        .unwrap();
    for holder in [&store, &other] {
        let record = acquire(holder, &key, id(1)).await;
        assert_eq!((record.token, record.metadata), (None, note("kept")));
        let read = other.read(&key).await.unwrap().unwrap();
        assert_eq!((read.state, read.token), (LeaseState::Leased, None));
        assert_eq!(read.version, record.version);
        let refused = other
            .acquire(&key, id(2), Term::DEFAULT, &Holder::new("x").unwrap())
            .await;
        assert!(matches!(refused, Ok(Acquire::Held(_))), "{refused:?}");
        holder.release(&key, id(1)).await.unwrap();
    }
}
