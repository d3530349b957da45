use std::sync::Arc;

use leasehold_core::clock::TestClock;
use leasehold_core::outcome::Delete;
use leasehold_core::{
    AutoRenewLease, ErrorKind, LeaseError, LeaseStatus, LeaseStore, LossCause, MemoryStore,
    Metadata, Precondition,
};
use leasehold_testkit::faulty::{Fault, Operation};

use crate::support::{World, assert_at, history, key, ms, s, sleep};

async fn delete(world: &World, lease: &AutoRenewLease) {
    let id = Some(lease.lease_id());
    let deleted = world.memory.delete(lease.key(), &Precondition::Any, id);
    assert_eq!(deleted.await.unwrap(), Delete::Deleted);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_lease_was_broken_says_so() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world.memory.break_lease(&key("k"), None).await.unwrap();
    let lost = lease.lost().await;
    assert_at(world.elapsed(), s(40));
    assert_eq!(lost.cause, LossCause::Broken);
    assert_eq!(lost.to_string(), "the lease on k is lost: it was broken");
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_lease_was_taken_over_says_so() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .memory
        .break_lease(&key("k"), Some(s(0)))
        .await
        .unwrap();
    let second = world.rival().acquire(&key("k")).await.unwrap();
    assert_eq!(lease.lost().await.cause, LossCause::TakenOver);
    // Letting go of what is lost takes nothing from its successor.
    lease.release().await.unwrap();
    sleep(s(100)).await;
    second.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_successor_has_let_go_already_was_taken_over() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .memory
        .break_lease(&key("k"), Some(s(0)))
        .await
        .unwrap();
    let second = world.rival().acquire(&key("k")).await.unwrap();
    second.release().await.unwrap();
    assert_eq!(lease.lost().await.cause, LossCause::TakenOver);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_record_was_deleted_says_so() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    delete(&world, &lease).await;
    assert_eq!(lease.lost().await.cause, LossCause::Deleted);
    assert_at(world.elapsed(), s(40));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_reads_finds_its_record_deleted_at_once_and_never_renews() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    delete(&world, &lease).await;
    let Err(LeaseError::Lost(lost)) = lease.read().await else {
        panic!("read a deleted record");
    };
    assert_eq!(lost.cause, LossCause::Deleted);
    assert_eq!(lease.check(), Err(lost));
    sleep(s(100)).await;
    assert_eq!(world.store.calls(Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_learned_of_its_loss_by_writing_never_renews() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .memory
        .break_lease(&key("k"), Some(s(0)))
        .await
        .unwrap();
    let Err(LeaseError::Lost(lost)) = lease.write(&Metadata::new()).await else {
        panic!("wrote under a broken lease");
    };
    assert_eq!(lost.cause, LossCause::Broken);
    assert!(lease.cancellation_token().is_cancelled());
    sleep(s(100)).await;
    assert_eq!(world.store.calls(Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_a_loss_only_at_the_deadline() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    let history = history(&lease);
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unauthorized));
    assert_eq!(lease.lost().await.cause, LossCause::Unauthorized);
    assert_at(world.elapsed(), s(57));
    drop(lease);
    assert_eq!(history.await.unwrap(), ["held", "jeopardy", "lost"]);
}

#[tokio::test(start_paused = true)]
async fn the_cause_is_the_same_for_whoever_finds_the_loss_first() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unauthorized));
    sleep(s(45)).await;
    world.clock.suspend(s(100));
    assert_eq!(lease.check().unwrap_err().cause, LossCause::Unauthorized);
    assert_eq!(lease.lost().await.cause, LossCause::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_early_by_the_clock_of_the_store_has_expired() {
    let world = World::new();
    let clock = Arc::new(TestClock::new());
    let store = MemoryStore::with_clock(Arc::<TestClock>::clone(&clock));
    let leases = world.builder_on(Arc::new(store), "us").build().unwrap();
    let lease = leases.acquire(&key("k")).await.unwrap();
    clock.suspend(s(60));
    assert_eq!(lease.lost().await.cause, LossCause::Expired);
    assert_at(world.elapsed(), s(40));
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_stays_lost_and_asks_the_store_for_nothing() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unavailable));
    let lost = lease.lost().await;
    world.store.end_outage();
    let calls = world.store.calls(Operation::Renew);
    sleep(s(300)).await;
    assert_eq!(world.store.calls(Operation::Renew), calls);
    assert_eq!(lease.check(), Err(lost.clone()));
    assert_eq!(lease.lost().await, lost);
    assert_eq!(*lease.status().borrow(), LeaseStatus::Lost(lost.cause));
    assert!(matches!(
        lease.write(&Metadata::new()).await,
        Err(LeaseError::Lost(_))
    ));
    assert!(matches!(lease.read().await, Err(LeaseError::Lost(_))));
    assert_eq!(world.store.calls(Operation::Write), 0);
    assert_eq!(world.store.calls(Operation::Read), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_lost_at_once_when_the_machine_slept_past_the_deadline() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    sleep(s(10)).await;
    world.clock.suspend(s(46));
    lease.check().unwrap();
    world.clock.suspend(s(1));
    assert_eq!(lease.check().unwrap_err().cause, LossCause::Expired);
    assert_eq!(lease.remaining(), s(0));
    assert!(lease.cancellation_token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_loss_hears_of_it_soon_after_the_machine_woke_up() {
    for awake in [1, 100, 1000, 39_999, 41_000] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        sleep(ms(awake)).await;
        world.clock.suspend(s(100));
        let woke = world.elapsed();
        assert_eq!(lease.lost().await.cause, LossCause::Expired);
        assert!(world.since(woke) <= ms(251), "{awake}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_found_lost_after_a_suspend_is_not_renewed_first() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    sleep(s(10)).await;
    // The store slept as well: it would say yes.
    world.clock.suspend(s(48));
    lease.lost().await;
    sleep(s(100)).await;
    assert_eq!(world.store.calls(Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_comes_after_the_deadline_brings_nothing_back() {
    // At every moment between two looks of the driver at its clock.
    for delay in (10..300).step_by(10) {
        let world = World::new();
        let delay = ms(delay);
        world.store.plan(Operation::Renew, Fault::DelayAfter(delay));
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let history = history(&lease);
        world.store.wait_for_calls(Operation::Renew, 1).await;
        // Renewed at the store; the machine sleeps before the answer is read.
        world.clock.suspend(s(20));
        sleep(delay + ms(2)).await;
        assert_eq!(lease.check().unwrap_err().cause, LossCause::Expired);
        sleep(s(100)).await;
        assert!(lease.check().is_err());
        assert_eq!(world.store.calls(Operation::Renew), 1);
        drop(lease);
        assert_eq!(history.await.unwrap(), ["held", "lost"]);
    }
}
