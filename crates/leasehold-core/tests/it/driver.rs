//! Many leases of one client: one driver for all of them, and nothing of it is left behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{AutoRenewLease, LeaseStatus, LeaseStore, Leases, MemoryStore};
use leasehold_testkit::faulty::{Fault, FaultyStore, Operation};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::support::{Shaped, World, assert_at, history, key, ms, s, sleep};

const MANY: usize = 10_000;

async fn acquire_many(leases: &Leases, count: usize) -> Vec<AutoRenewLease> {
    let mut guards = Vec::with_capacity(count);
    for n in 0..count {
        guards.push(leases.acquire(&key(&n.to_string())).await.unwrap());
    }
    guards
}

fn shaped(world: &World, batches: bool) -> Arc<Shaped> {
    let mut store = Shaped::new(Arc::<MemoryStore>::clone(&world.memory));
    store.batches = batches;
    Arc::new(store)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_leases_are_all_held_over_many_terms_with_one_renewal_each_40_seconds() {
    for batches in [false, true] {
        let world = World::new();
        let store = shaped(&world, batches);
        let leases = world.builder_on(Arc::<Shaped>::clone(&store), "us");
        let leases = leases.build().unwrap();
        let guards = acquire_many(&leases, MANY).await;
        sleep(s(39)).await;
        assert_eq!(store.renewed(), 0);
        for round in 1..=5 {
            sleep(s(40)).await;
            assert_eq!(store.renewed(), round * MANY);
        }
        for guard in &guards {
            guard.check().unwrap();
            assert_eq!(*guard.status().borrow(), LeaseStatus::Held);
        }
        let requests = store.renewals.borrow().len();
        if batches {
            assert!(requests <= 5 * MANY / 500, "{requests} requests");
        } else {
            assert_eq!(requests, 5 * MANY);
        }
        drop(guards);
        assert!(leases.shutdown(s(5)).await.is_empty());
        sleep(s(200)).await;
        assert_eq!(store.renewed(), 5 * MANY);
    }
}

#[tokio::test(start_paused = true)]
async fn leases_acquired_within_a_second_are_renewed_together() {
    let world = World::new();
    let store = shaped(&world, true);
    let leases = world.builder_on(Arc::<Shaped>::clone(&store), "us");
    let leases = leases.build().unwrap();
    let mut guards = Vec::new();
    for n in 0..90 {
        guards.push(leases.acquire(&key(&format!("k{n}"))).await.unwrap());
        sleep(ms(10)).await;
    }
    sleep(s(39)).await;
    assert_eq!(store.renewed(), 0);
    sleep(s(80)).await;
    assert_eq!(*store.renewals.borrow(), [90, 90]);
    for guard in &guards {
        guard.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_leases_cost_one_task() {
    let world = World::new();
    let store = shaped(&world, true);
    let leases = world.builder_on(store, "us").build().unwrap();
    let _guards = acquire_many(&leases, MANY).await;
    sleep(s(1)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_is_jeopardy_for_each_of_it_and_then_held() {
    let world = World::new();
    let mut inner = Shaped::new(Arc::<FaultyStore>::clone(&world.store));
    inner.batches = true;
    let leases = world.builder_on(Arc::new(inner), "us").build().unwrap();
    // Hangs in the middle of a batch, so that half of it was renewed.
    world
        .store
        .plan(Operation::Renew, Fault::Hang)
        .after(50)
        .times(1);
    let guards = acquire_many(&leases, 100).await;
    let histories: Vec<_> = guards.iter().map(history).collect();
    sleep(s(300)).await;
    for guard in &guards {
        guard.check().unwrap();
    }
    drop(guards);
    for history in histories {
        let words = history.await.unwrap();
        assert_eq!(words, ["held", "jeopardy", "held", "released"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_batch_is_counted_from_before_it_was_sent() {
    let world = World::new();
    let mut store = Shaped::new(Arc::<FaultyStore>::clone(&world.store));
    store.batches = true;
    let leases = world.builder_on(Arc::new(store), "us").build().unwrap();
    let late = Fault::DelayAfter(s(2));
    world.store.plan(Operation::Renew, late).times(2);
    let guards = acquire_many(&leases, 2).await;
    sleep(ms(44_500)).await;
    for guard in &guards {
        assert_at(guard.remaining(), ms(97_000 - 44_500));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_panics_is_jeopardy_and_not_the_end() {
    for batches in [false, true] {
        let world = World::new();
        let store = shaped(&world, batches);
        let leases = world.builder_on(Arc::<Shaped>::clone(&store), "us");
        let leases = leases.build().unwrap();
        let guards = acquire_many(&leases, 3).await;
        let histories: Vec<_> = guards.iter().map(history).collect();
        store.panics.store(1, Ordering::Relaxed);
        sleep(s(100)).await;
        for guard in &guards {
            guard.check().unwrap();
        }
        drop(guards);
        let mut jeopardies = 0;
        for history in histories {
            let words = history.await.unwrap();
            jeopardies += words.iter().filter(|word| **word == "jeopardy").count();
        }
        assert_eq!(jeopardies, if batches { 3 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_guards_that_were_let_go_of() {
    let world = World::new();
    let store: Arc<dyn LeaseStore> = shaped(&world, false);
    let leases = world.builder_on(Arc::clone(&store), "us").build().unwrap();
    let idle_references = Arc::strong_count(&store);
    let mut watched = Vec::new();
    for n in 0..20_000 {
        let lease = leases.acquire(&key(&(n % 100).to_string())).await.unwrap();
        watched.push((lease.status(), lease.deadlines()));
        match n % 3 {
            0 => drop(lease.release().await.unwrap()),
            1 => drop(lease),
            // Free again, or the next one would wait for its term to end.
            _ => {
                let (key, id) = (lease.key().clone(), lease.lease_id());
                lease.abandon();
                store.release(&key, id).await.unwrap();
            }
        }
    }
    let left = leases.shutdown(s(5)).await;
    assert_eq!(left.len(), 100, "what was abandoned, and nothing else");
    // The senders are gone with what the driver kept of each guard.
    for (status, deadlines) in &watched {
        assert!(status.has_changed().is_err());
        assert!(deadlines.has_changed().is_err());
    }
    assert_eq!(Arc::strong_count(&store), idle_references);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_guards_that_were_lost() {
    let world = World::new();
    let leases = world.client();
    let guards = acquire_many(&leases, 500).await;
    world.store.start_outage(Fault::Hang);
    for guard in &guards {
        guard.lost().await;
    }
    assert_at(world.elapsed(), s(57));
    world.store.end_outage();
    let watched: Vec<_> = guards.iter().map(AutoRenewLease::status).collect();
    drop(guards);
    assert!(leases.shutdown(s(30)).await.is_empty());
    sleep(s(60)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    for status in watched {
        assert!(status.has_changed().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_with_the_last_handle_after_everything_is_released() {
    let world = World::new();
    let leases = world.client();
    let guards = acquire_many(&leases, 10).await;
    drop(leases);
    sleep(s(100)).await;
    for guard in &guards {
        guard.check().unwrap();
    }
    world
        .store
        .plan(Operation::Release, Fault::DelayBefore(s(3)));
    drop(guards);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    for n in 0..10 {
        world.wait_until_free(&key(&n.to_string())).await;
    }
    assert_at(world.elapsed(), s(103));
    sleep(ms(1)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(Arc::strong_count(&world.store), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_that_failed_together_are_not_repeated_together() {
    let world = World::new();
    let leases = world.client();
    let guards = acquire_many(&leases, 200).await;
    let fault = Fault::Fail(leasehold_core::ErrorKind::Unavailable);
    world.store.plan(Operation::Renew, fault).times(200);
    world.store.wait_for_calls(Operation::Renew, 200).await;
    let began = world.elapsed();
    // Not one of them after 25 ms, all of them after 50.
    assert!(
        timeout(ms(24), world.store.wait_for_calls(Operation::Renew, 201))
            .await
            .is_err()
    );
    sleep(ms(13)).await;
    let half = world.store.calls(Operation::Renew) - 200;
    assert!((50..150).contains(&half), "{half} of 200 at once");
    world.store.wait_for_calls(Operation::Renew, 400).await;
    assert!(world.since(began) <= ms(52));
    drop(guards);
}
