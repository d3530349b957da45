use std::time::Duration;

use futures::StreamExt;
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{Holder, LeaseStore, Metadata, Precondition, Term};
use leasehold_testkit::servers::Azurite;

use crate::relay::Relay;
use crate::support::{acquire, builder, id, key, note, open};

/// The table in the crate's documentation.
#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn every_operation_costs_what_the_documentation_says() {
    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    let costs = |operation: &str, expected: usize| {
        let requests = relay.take();
        assert_eq!(requests.len(), expected, "{operation}: {requests:#?}");
    };
    let (store, fresh) = (open(relay.endpoint()), || open(relay.endpoint()));
    let (key, first, second) = (key("a"), id(1), id(2));
    let holder = Holder::new("other").unwrap();

    assert!(store.read(&key).await.unwrap().is_none());
    costs("read of nothing", 1);
    acquire(&store, &key, first).await;
    // Refused, the blob refused, the container made, the blob made, granted, the deleted tokens, the token.
    costs("acquire of a new key in a new container", 7);
    acquire(&store, &crate::support::key("b"), first).await;
    costs("acquire of a new key", 5);
    let refused = store.acquire(&key, second, Term::DEFAULT, &holder).await;
    assert!(matches!(refused, Ok(Acquire::Held(_))), "{refused:?}");
    costs("acquire, refused", 2);
    assert_eq!(store.renew(&key, first).await.unwrap(), Renew::Renewed);
    costs("renew", 1);
    assert!(matches!(
        store.renew(&key, second).await,
        Ok(Renew::NotHeld(_))
    ));
    costs("renew, refused", 2);
    assert_eq!(
        store.change(&key, first, second).await.unwrap(),
        Change::Changed
    );
    costs("change", 1);
    assert_eq!(
        store.release(&key, second).await.unwrap(),
        Release::Released
    );
    costs("release", 1);
    assert_eq!(store.release(&key, second).await.unwrap(), Release::NotHeld);
    costs("release, refused", 1);

    acquire(&store, &key, first).await;
    costs("acquire, version seen", 2);
    store.release(&key, first).await.unwrap();
    relay.take();
    let other = fresh();
    acquire(&other, &key, first).await;
    costs("acquire, version not seen", 3);
    let unfenced = builder(relay.endpoint()).fencing(false).build().unwrap();
    acquire(&unfenced, &key, first).await;
    costs("acquire without fencing, version not seen", 2);
    acquire(&unfenced, &key, first).await;
    costs("acquire without fencing, version seen", 1);
    acquire(&unfenced, &crate::support::key("c"), first).await;
    costs("acquire of a new key without fencing", 3);

    let any = Precondition::Any;
    let under = Some(first);
    let written = other.write(&key, &note("a"), &any, under).await.unwrap();
    let Write::Written(version) = written else {
        panic!("{written:?}");
    };
    costs("write under the lease, version seen", 1);
    let if_version = Precondition::IfVersion(version);
    other
        .write(&key, &note("b"), &if_version, under)
        .await
        .unwrap();
    costs("write under the lease if it is the version seen", 1);
    fresh().write(&key, &note("c"), &any, under).await.unwrap();
    costs("write, version not seen", 2);
    let new = crate::support::key("d");
    store
        .write(&new, &Metadata::new(), &Precondition::IfAbsent, None)
        .await
        .unwrap();
    costs("write of what is absent", 2);

    let broken = store.break_lease(&key, Some(Duration::from_secs(30))).await;
    assert!(matches!(broken, Ok(Break::Breaking(_))), "{broken:?}");
    costs("break", 2);
    assert!(store.read(&key).await.unwrap().is_some());
    costs("read", 1);
    assert_eq!(
        store.delete(&new, &any, None).await.unwrap(),
        Delete::Deleted
    );
    costs("delete of what never was leased", 2);
    assert_eq!(
        store.delete(&key, &any, under).await.unwrap(),
        Delete::Deleted
    );
    costs("delete whose token is the greatest yet", 4);
    assert_eq!(store.list("").count().await, 2);
    costs("list", 1);
}
