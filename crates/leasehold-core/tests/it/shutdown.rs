//! The end of a client: nobody waits in vain, what was let go of is released, and what is left is named.

use leasehold_core::{AcquireError, ErrorKind, LeaseState, Leases, TryAcquire};
use leasehold_testkit::faulty::{Fault, Operation};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{World, acquired, assert_at, key, ms, s, sleep};

fn waiter(leases: &Leases, name: &'static str) -> JoinHandle<Result<TryAcquire, AcquireError>> {
    let leases = leases.clone();
    tokio::spawn(async move { leases.acquire_timeout(&key(name), s(600)).await })
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_and_nothing_more_is_acquired() {
    let world = World::new();
    let leases = world.client();
    let elsewhere = world.rival().acquire(&key("elsewhere")).await.unwrap();
    let here = leases.acquire(&key("here")).await.unwrap();
    let names = ["elsewhere", "elsewhere", "here", "here"];
    let waiting: Vec<_> = names.map(|name| waiter(&leases, name)).into();
    sleep(s(1)).await;
    let left = leases.clone().shutdown(s(5)).await;
    assert_eq!(left, [key("here")]);
    assert_at(world.elapsed(), s(1));
    for waiter in waiting {
        let answer = waiter.await.unwrap();
        assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
    }

    let asked = world.store.calls(Operation::Acquire);
    for name in ["free", "here"] {
        let answer = leases.acquire(&key(name)).await;
        assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
        let answer = leases.try_acquire(&key(name)).await;
        assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
        let answer = leases.acquire_timeout(&key(name), s(1)).await;
        assert!(matches!(answer, Err(AcquireError::ShutDown)), "{answer:?}");
    }
    assert_eq!(world.store.calls(Operation::Acquire), asked);
    drop((elsewhere, here));
}

#[tokio::test(start_paused = true)]
async fn what_was_let_go_of_is_released_before_it_ends() {
    let world = World::new();
    let leases = world.client();
    world
        .store
        .plan(Operation::Release, Fault::DelayBefore(s(2)));
    let names: Vec<_> = (0..100).map(|n| key(&n.to_string())).collect();
    for name in &names {
        drop(leases.acquire(name).await.unwrap());
    }
    assert!(leases.shutdown(s(5)).await.is_empty());
    assert_at(world.elapsed(), s(2));
    for name in &names {
        assert_eq!(world.state(name).await, LeaseState::Available);
    }
    // Once more is as good, and takes no time.
    assert!(leases.shutdown(s(5)).await.is_empty());
    assert_at(world.elapsed(), s(2));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_named_and_the_limit_is_kept_when_the_store_hangs() {
    let world = World::new();
    let leases = world.client();
    let alive = leases.acquire(&key("alive")).await.unwrap();
    let hung = leases.acquire(&key("hung")).await.unwrap();
    let refused = leases.acquire(&key("refused")).await.unwrap();
    let abandoned = leases.acquire(&key("abandoned")).await.unwrap();
    let released = leases.acquire(&key("released")).await.unwrap();
    released.release().await.unwrap();
    let unauthorized = Fault::Fail(ErrorKind::Unauthorized);
    world.store.plan(Operation::Release, unauthorized).times(1);
    world.store.plan(Operation::Release, Fault::Hang);
    assert!(refused.release().await.is_err());
    abandoned.abandon();
    drop(hung);
    let left = ["abandoned", "alive", "hung", "refused"].map(key);
    assert_eq!(leases.shutdown(s(3)).await, left);
    assert_at(world.elapsed(), s(3));
    for name in &left {
        assert_eq!(world.state(name).await, LeaseState::Leased);
    }
    // No time at all is a limit, too.
    assert_eq!(leases.shutdown(s(0)).await, left);
    assert_at(world.elapsed(), s(3));

    // A guard that is alive goes on, and the others expire.
    world.store.clear_plans();
    sleep(s(100)).await;
    alive.check().unwrap();
    assert_eq!(leases.shutdown(s(3)).await, [key("alive")]);
    alive.release().await.unwrap();
    assert!(leases.shutdown(s(3)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_being_acquired_is_released_before_it_ends() {
    for fault in [
        Fault::DelayAfter(s(2)),
        Fault::DelayBefore(s(2)),
        Fault::ApplyAndHang,
    ] {
        let world = World::new();
        let leases = world.client();
        world.store.plan(Operation::Acquire, fault).times(1);
        let asking = waiter(&leases, "k");
        world.store.wait_for_calls(Operation::Acquire, 1).await;
        assert!(leases.shutdown(s(10)).await.is_empty());
        assert!(world.elapsed() < s(2), "{:?}", world.elapsed());
        assert!(matches!(asking.await.unwrap(), Err(AcquireError::ShutDown)));
        assert!(!world.state(&key("k")).await.is_held());
        sleep(s(5)).await;
        drop(acquired(
            world.rival().try_acquire(&key("k")).await.unwrap(),
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_nobody_polls_is_waited_for() {
    let world = World::new();
    let leases = world.client();
    world.store.plan(Operation::Acquire, Fault::ApplyAndHang);
    let busy = leases.clone();
    tokio::spawn(async move {
        let key = key("k");
        let mut asking = Box::pin(busy.acquire(&key));
        let asked = timeout(ms(1), &mut asking).await;
        assert!(asked.is_err());
        // Does something else before it looks again.
        sleep(s(2)).await;
        drop(asking);
    });
    sleep(ms(10)).await;
    assert!(leases.shutdown(s(10)).await.is_empty());
    assert!(world.elapsed() >= s(2), "{:?}", world.elapsed());
    assert_eq!(world.state(&key("k")).await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_in_time_is_told() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unavailable));
    drop(lease);
    let closing = tokio::spawn(async move { leases.shutdown(s(30)).await });
    sleep(s(20)).await;
    assert_eq!(world.state(&key("k")).await, LeaseState::Leased);
    assert!(!closing.is_finished());
    world.store.end_outage();
    assert!(closing.await.unwrap().is_empty());
    assert_eq!(world.state(&key("k")).await, LeaseState::Available);
    assert!(world.elapsed() <= s(20) + ms(2002), "{:?}", world.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_given_up_half_way_goes_on_releasing() {
    let world = World::new();
    let leases = world.client();
    world
        .store
        .plan(Operation::Release, Fault::DelayBefore(s(2)));
    drop(leases.acquire(&key("k")).await.unwrap());
    let closing = timeout(s(1), leases.shutdown(s(60))).await;
    assert!(closing.is_err());
    assert!(matches!(
        leases.try_acquire(&key("k")).await,
        Err(AcquireError::ShutDown)
    ));
    world.wait_until_free(&key("k")).await;
    assert_at(world.elapsed(), s(2));
}
