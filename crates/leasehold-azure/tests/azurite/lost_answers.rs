//! Connections that are cut before or after a request arrived: the outcome is the one that it would have been.

use std::time::Duration;

use leasehold_core::outcome::{Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{LeaseState, LeaseStore, Precondition};
use leasehold_testkit::servers::Azurite;

use crate::relay::{Cut, Relay};
use crate::support::{acquire, id, key, note, open};

/// No operation takes more requests than this.
const MOST: usize = 8;

/// Every request of an operation in turn is cut, in both ways.
fn plans() -> impl Iterator<Item = Vec<Option<Cut>>> {
    (0..MOST).flat_map(|at| {
        [Cut::Request, Cut::Answer].map(|cut| {
            let mut plan = vec![None; at];
            plan.push(Some(cut));
            plan
        })
    })
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn an_acquisition_is_granted_whichever_of_its_answers_is_lost() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    for (number, plan) in plans().enumerate() {
        let (store, key) = (open(relay.endpoint()), key(&format!("acquire {number}")));
        let mut token = None;
        for round in 0..2 {
            relay.plan(plan.clone());
            let record = acquire(&store, &key, id(1)).await;
            relay.plan(Vec::new());
            assert!(
                record.token > token,
                "round {round} of {plan:?}: {record:?}"
            );
            token = record.token;
            let read = store.read(&key).await.unwrap().unwrap();
            assert_eq!(
                (read.state, read.token),
                (LeaseState::Leased, token),
                "{plan:?}"
            );
            assert_eq!(read.version, record.version, "{plan:?}");
            assert_eq!(store.release(&key, id(1)).await.unwrap(), Release::Released);
        }
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn what_is_done_under_a_lease_is_done_whichever_of_its_answers_is_lost() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    for (number, plan) in plans().enumerate() {
        let (store, key) = (open(relay.endpoint()), key(&format!("held {number}")));
        let record = acquire(&store, &key, id(1)).await;

        relay.plan(plan.clone());
        let if_version = Precondition::IfVersion(record.version);
        let written = store
            .write(&key, &note("a"), &if_version, Some(id(1)))
            .await
            .unwrap();
        relay.plan(plan.clone());
        assert_eq!(
            store.renew(&key, id(1)).await.unwrap(),
            Renew::Renewed,
            "{plan:?}"
        );
        relay.plan(plan.clone());
        let changed = store.change(&key, id(1), id(2)).await.unwrap();
        assert_eq!(changed, Change::Changed, "{plan:?}");
        relay.plan(plan.clone());
        let read = store.read(&key).await.unwrap().unwrap();
        assert_eq!(written, Write::Written(read.version), "{plan:?}");
        assert_eq!(
            (read.token, read.metadata),
            (record.token, note("a")),
            "{plan:?}"
        );
        relay.plan(plan.clone());
        let broken = store
            .break_lease(&key, Some(Duration::from_secs(30)))
            .await
            .unwrap();
        assert!(matches!(broken, Break::Breaking(_)), "{plan:?}: {broken:?}");

        relay.plan(plan.clone());
        let deleted = store
            .delete(&key, &Precondition::Any, Some(id(2)))
            .await
            .unwrap();
        assert_eq!(deleted, Delete::Deleted, "{plan:?}");
        relay.plan(plan.clone());
        let written = store
            .write(&key, &note("b"), &Precondition::IfAbsent, None)
            .await
            .unwrap();
        assert!(
            matches!(written, Write::Written(_)),
            "{plan:?}: {written:?}"
        );
        relay.plan(Vec::new());
        assert!(
            acquire(&store, &key, id(3)).await.token > record.token,
            "{plan:?}"
        );
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_release_frees_the_lease_whichever_of_its_answers_is_lost() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    let store = open(relay.endpoint());
    for cut in [Cut::Request, Cut::Answer] {
        let key = key(&format!("release {cut:?}"));
        acquire(&store, &key, id(1)).await;
        relay.plan(vec![Some(cut)]);
        store.release(&key, id(1)).await.unwrap();
        let read = store.read(&key).await.unwrap().unwrap();
        assert_eq!(read.state, LeaseState::Available, "{cut:?}");
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn a_server_that_never_answers_is_given_up_with_the_effect_unknown() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    let store = open(relay.endpoint());
    acquire(&store, &key("a"), id(1)).await;
    relay.plan(vec![Some(Cut::Answer); 20]);
    let error = store.renew(&key("a"), id(1)).await.unwrap_err();
    assert_eq!(error.effect(), leasehold_core::Effect::Unknown, "{error}");
    assert!(error.is_retryable(), "{error}");
}
