use leasehold_core::{ErrorKind, LeaseError, LossCause, Metadata};
use leasehold_testkit::faulty::{Fault, Operation};

use crate::support::{World, assert_at, key, ms, s, sleep};

fn note(value: &str) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("note", value).unwrap();
    metadata
}

async fn stored(world: &World) -> String {
    let record = world.record(&key("k")).await.unwrap();
    record.metadata.get("note").unwrap_or("nothing").to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_in_the_record_and_stays_after_the_release() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    let version = lease.write(&note("one")).await.unwrap();
    assert_eq!(lease.record().version, version);
    assert_eq!(lease.record().metadata, note("one"));
    assert_eq!(lease.read().await.unwrap().metadata, note("one"));
    lease.release().await.unwrap();
    let second = leases.acquire(&key("k")).await.unwrap();
    assert_eq!(second.record().metadata, note("one"));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_repeated_until_it_is_certain() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Hang,
        Fault::ApplyAndHang,
        Fault::ApplyLate(ms(30)),
    ] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        world.store.plan(Operation::Write, fault).times(1);
        // Reading it back fails at first, too.
        world.store.plan(Operation::Read, fault).times(1);
        let version = lease.write(&note("one")).await.unwrap();
        let record = world.record(&key("k")).await.unwrap();
        assert_eq!(record.metadata, note("one"), "{fault:?}");
        assert_eq!(record.version, version, "{fault:?}");
        lease.write(&note("two")).await.unwrap();
        assert_eq!(stored(&world).await, "two");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_comes_late_does_not_undo_the_next_one() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    // The first request arrives after its repetition and after the next write.
    world
        .store
        .plan(Operation::Write, Fault::ApplyLate(s(5)))
        .times(1);
    lease.write(&note("one")).await.unwrap();
    lease.write(&note("two")).await.unwrap();
    world.store.settle().await;
    assert!(world.elapsed() >= s(5));
    assert_eq!(stored(&world).await, "two");
}

#[tokio::test(start_paused = true)]
async fn a_write_given_up_by_its_caller_does_not_undo_the_next_one() {
    for late in [ms(1), ms(150), s(5)] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        world
            .store
            .plan(Operation::Write, Fault::ApplyLate(late))
            .times(1);
        let given_up = note("one");
        let writing = tokio::time::timeout(ms(10), lease.write(&given_up));
        assert!(writing.await.is_err());
        lease.write(&note("two")).await.unwrap();
        world.store.settle().await;
        assert_eq!(stored(&world).await, "two", "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_write_does_not_undo_one_that_was_begun_after_it() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::ApplyAndHang] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let (first, second) = (lease.handle(), lease.handle());
        world.store.plan(Operation::Write, fault).times(1);
        let first = tokio::spawn(async move { first.write(&note("one")).await });
        world.store.wait_for_calls(Operation::Write, 1).await;
        second.write(&note("two")).await.unwrap();
        assert_eq!(stored(&world).await, "two", "{fault:?}");
        first.await.unwrap().unwrap();
        assert_eq!(stored(&world).await, "two", "{fault:?}");
        assert_eq!(lease.record().metadata, note("two"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_store_refuses_is_an_error_at_once() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .store
        .plan(Operation::Write, Fault::Fail(ErrorKind::Unauthorized));
    let Err(LeaseError::Store(error)) = lease.write(&note("one")).await else {
        panic!("not refused");
    };
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert_eq!(world.store.calls(Operation::Write), 1);
    lease.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_reaches_nobody_ends_at_the_deadline_as_a_loss() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::Hang,
    ] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        world.store.start_outage(fault);
        let Err(LeaseError::Lost(lost)) = lease.write(&note("one")).await else {
            panic!("written or refused");
        };
        assert_eq!(lost.cause, LossCause::Expired);
        assert!(
            world.elapsed() >= s(57) && world.elapsed() <= s(57) + ms(150),
            "{:?}",
            world.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_letting_go() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    let handle = lease.handle();
    drop(lease);
    assert!(matches!(
        handle.write(&note("one")).await,
        Err(LeaseError::Lost(_))
    ));
    assert_eq!(world.store.calls(Operation::Write), 0);
    assert_at(world.elapsed(), s(0));
    sleep(s(1)).await;
    assert_eq!(stored(&world).await, "nothing");
}
