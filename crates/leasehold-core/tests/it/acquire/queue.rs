use std::sync::{Arc, Mutex};

use futures::future::join_all;
use leasehold_core::outcome::HeldBy;
use leasehold_core::{FencingToken, Holder, LeaseState, TryAcquire};
use leasehold_testkit::faulty::{FaultyStore, Operation};

use crate::support::{Hinting, Shaped, World, acquired, assert_at, held, key, ms, s, sleep};

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_are_served_in_the_order_they_came() {
    let world = World::new();
    let leases = world.client();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for n in 0..20 {
        let (leases, order) = (leases.clone(), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let lease = leases.acquire(&key("k")).await.unwrap();
            order.lock().unwrap().push(n);
            sleep(ms(10)).await;
            lease.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    join_all(waiting).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert_at(world.elapsed(), ms(200));
    assert_eq!(world.store.calls(Operation::Acquire), 20);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_of_one_process_cost_the_store_as_one() {
    let mut calls = Vec::new();
    for waiters in [1, 100] {
        let world = World::new();
        let leases = world.builder("us").seed(1).build().unwrap();
        let lease = world.rival().acquire(&key("k")).await.unwrap();
        let waiting: Vec<_> = (0..waiters)
            .map(|_| {
                let leases = leases.clone();
                tokio::spawn(async move { leases.acquire(&key("k")).await.map(drop) })
            })
            .collect();
        sleep(s(300)).await;
        lease.check().unwrap();
        let asked = world.store.calls(Operation::Acquire) + world.store.calls(Operation::Watch);
        calls.push(asked);
        drop(lease);
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
    }
    assert_eq!(calls[0], calls[1]);
    assert!(calls[0] < 200, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_learns_of_a_release_at_once_where_the_store_hints_and_within_a_second_where_not()
{
    for (hints, at_most) in [(Hinting::WhenChanged, ms(2)), (Hinting::Never, s(1))] {
        let world = World::new();
        let mut store = Shaped::new(Arc::<leasehold_core::MemoryStore>::clone(&world.memory));
        store.hints = hints;
        let leases = world.builder_on(Arc::new(store), "us").build().unwrap();
        let lease = world.rival().acquire(&key("k")).await.unwrap();
        let waiting = tokio::spawn(async move { leases.acquire(&key("k")).await });
        sleep(s(100)).await;
        lease.release().await.unwrap();
        let released = world.elapsed();
        let _lease = waiting.await.unwrap().unwrap();
        assert!(world.since(released) <= at_most, "hints: {hints:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hints_without_end_is_not_asked_without_end() {
    let world = World::new();
    let mut store = Shaped::new(Arc::<FaultyStore>::clone(&world.store));
    store.hints = Hinting::Needlessly;
    let leases = world.builder_on(Arc::new(store), "us").build().unwrap();
    let lease = world.rival().acquire(&key("k")).await.unwrap();
    held(leases.acquire_timeout(&key("k"), s(10)).await.unwrap());
    let asked = world.store.calls(Operation::Acquire);
    assert!(
        (500..=2_100).contains(&asked),
        "asked {asked} times in 10 s"
    );
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn a_key_held_in_this_process_is_held_by_us_and_the_store_is_not_asked() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    let ours = HeldBy {
        state: LeaseState::Leased,
        holder: Some(Holder::new("us").unwrap()),
        token: Some(FencingToken::new(1)),
        remaining: None,
    };
    assert_eq!(held(leases.try_acquire(&key("k")).await.unwrap()), ours);
    let in_time = leases.acquire_timeout(&key("k"), s(5)).await.unwrap();
    assert_eq!(held(in_time), ours);
    assert_at(world.elapsed(), s(5));
    assert_eq!(world.store.calls(Operation::Acquire), 1);
    lease.release().await.unwrap();
    drop(acquired(leases.try_acquire(&key("k")).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_key_held_elsewhere_names_its_holder_in_time() {
    let world = World::new();
    let leases = world.client();
    let _lease = world.rival().acquire(&key("k")).await.unwrap();
    for limit in [s(0), ms(1), s(3), s(70)] {
        let began = world.elapsed();
        let by = held(leases.acquire_timeout(&key("k"), limit).await.unwrap());
        assert_at(world.since(began), limit);
        assert_eq!(by.holder, Some(Holder::new("rival").unwrap()));
        assert_eq!(by.token, Some(FencingToken::new(1)));
    }
    let by = held(leases.try_acquire(&key("k")).await.unwrap());
    assert_eq!(by.holder, Some(Holder::new("rival").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_no_time_asks_once() {
    let world = World::new();
    let leases = world.client();
    let _lease = world.rival().acquire(&key("k")).await.unwrap();
    held(leases.acquire_timeout(&key("k"), s(0)).await.unwrap());
    assert_eq!(world.store.calls(Operation::Acquire), 1);
    assert_eq!(world.store.calls(Operation::Watch), 0);
    drop(acquired(
        leases.acquire_timeout(&key("other"), s(0)).await.unwrap(),
    ));
    assert_eq!(world.store.calls(Operation::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn waiters_behind_one_who_holds_it_time_out_each_in_their_own_time() {
    let world = World::new();
    let leases = world.client();
    let _lease = leases.acquire(&key("k")).await.unwrap();
    let waiting: Vec<_> = (1..=50)
        .map(|n| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let answer = leases.acquire_timeout(&key("k"), ms(n * 100)).await;
                (n, leases.clock().now(), answer.unwrap())
            })
        })
        .collect();
    for waiter in waiting {
        let (n, at, answer) = waiter.await.unwrap();
        held(answer);
        assert_at(at.saturating_duration_since(world.at(s(0))), ms(n * 100));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_the_queue_holds_up_nobody_behind() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    let mut waiting: Vec<_> = (0..30)
        .map(|n| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let lease = leases.acquire(&key("k")).await.unwrap();
                (n, lease.fencing_token().map(FencingToken::get))
            })
        })
        .collect();
    sleep(ms(1)).await;
    for n in (0..30).rev().step_by(2) {
        waiting.remove(n).abort();
    }
    drop(lease);
    for (place, waiter) in waiting.into_iter().enumerate() {
        let (n, token) = waiter.await.unwrap();
        assert_eq!((n, token), (place * 2, Some(place as u64 + 2)));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let world = World::new();
    let leases = world.client();
    let _lease = world.rival().acquire(&key("a")).await.unwrap();
    let blocked = leases.clone();
    let waiting = tokio::spawn(async move { blocked.acquire(&key("a")).await });
    sleep(ms(1)).await;
    let began = world.elapsed();
    let TryAcquire::Acquired(_) = leases.try_acquire(&key("b")).await.unwrap() else {
        panic!("b is free");
    };
    assert_eq!(world.elapsed(), began);
    waiting.abort();
}
