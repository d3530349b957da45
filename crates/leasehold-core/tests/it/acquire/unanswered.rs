use leasehold_core::{AcquireError, ErrorKind, FencingToken};
use leasehold_testkit::faulty::{Fault, Operation};

use crate::support::{World, acquired, held, key, ms, s, sleep};

fn store_error<T: std::fmt::Debug>(answer: Result<T, AcquireError>) -> ErrorKind {
    match answer {
        Err(AcquireError::Store(error)) => error.kind(),
        other => panic!("not an error of the store: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_was_lost_is_recognised_as_ours() {
    for fault in [
        Fault::LoseAnswer,
        Fault::ApplyAndHang,
        Fault::ApplyLate(ms(1)),
        Fault::DelayAfter(s(30)),
    ] {
        let world = World::new();
        world.store.plan(Operation::Acquire, fault).times(2);
        let leases = world.client();
        let lease = leases.acquire(&key("k")).await.unwrap();
        assert_eq!(lease.fencing_token(), Some(FencingToken::new(1)));
        assert!(world.elapsed() < s(25), "{fault:?}: {:?}", world.elapsed());
        lease.release().await.unwrap();

        world.store.plan(Operation::Acquire, fault).times(2);
        let lease = acquired(leases.try_acquire(&key("k")).await.unwrap());
        assert_eq!(lease.fencing_token(), Some(FencingToken::new(2)));
        sleep(s(200)).await;
        lease.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_came_after_its_deadline_is_not_relied_on() {
    let world = World::new();
    let leases = world.client();
    world
        .store
        .plan(Operation::Acquire, Fault::DelayAfter(ms(100)))
        .times(1);
    let asking = tokio::spawn(async move { leases.acquire(&key("k")).await });
    world.store.wait_for_calls(Operation::Acquire, 1).await;
    world.clock.suspend(s(58));
    let lease = asking.await.unwrap().unwrap();
    assert!(lease.remaining() > s(56));
    assert_eq!(world.store.calls(Operation::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn asking_once_gives_the_error_of_a_store_that_is_down() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::Hang,
    ] {
        let world = World::new();
        let (leases, others) = (world.client(), world.client());
        world.store.start_outage(fault);
        assert_eq!(
            store_error(leases.try_acquire(&key("k")).await),
            ErrorKind::Unavailable
        );
        let no_time = others.acquire_timeout(&key("k"), s(0)).await;
        assert_eq!(store_error(no_time), ErrorKind::Unavailable);
        assert!(world.elapsed() < s(100), "{fault:?} {:?}", world.elapsed());
        world.store.end_outage();
        drop(acquired(leases.try_acquire(&key("k")).await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_in_vain_for_a_store_that_is_down_is_an_error_and_not_somebody_holding_it() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseAnswer,
        Fault::Hang,
        Fault::ApplyAndHang,
    ] {
        for limit in [ms(5), s(3), s(30)] {
            let world = World::new();
            let leases = world.client();
            world.store.start_outage(fault);
            // Also for those who wait behind.
            let behind = leases.clone();
            let behind =
                tokio::spawn(async move { behind.acquire_timeout(&key("k"), limit).await });
            let answer = leases.acquire_timeout(&key("k"), limit).await;
            assert_eq!(
                store_error(answer),
                ErrorKind::Unavailable,
                "{fault:?} {limit:?}"
            );
            assert!(world.elapsed() <= limit + ms(2));
            assert_eq!(store_error(behind.await.unwrap()), ErrorKind::Unavailable);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_error_at_once() {
    let world = World::new();
    let leases = world.client();
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unauthorized));
    assert_eq!(
        store_error(leases.acquire(&key("k")).await),
        ErrorKind::Unauthorized
    );
    assert_eq!(
        store_error(leases.try_acquire(&key("k")).await),
        ErrorKind::Unauthorized
    );
    let in_time = leases.acquire_timeout(&key("k"), s(10)).await;
    assert_eq!(store_error(in_time), ErrorKind::Unauthorized);
    assert_eq!(world.elapsed(), s(0));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_survives_an_outage_shorter_than_a_term() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Hang,
        Fault::ApplyAndHang,
    ] {
        for held_before in [false, true] {
            let world = World::new();
            let leases = world.client();
            let rival = world.rival();
            let first = if held_before {
                Some(rival.acquire(&key("k")).await.unwrap())
            } else {
                None
            };
            let waiting = leases.clone();
            world.store.start_outage(fault);
            let waiting = tokio::spawn(async move { waiting.acquire(&key("k")).await });
            sleep(s(50)).await;
            world.store.end_outage();
            if let Some(first) = first {
                sleep(s(50)).await;
                first.release().await.unwrap();
            }
            let lease = waiting.await.unwrap().unwrap();
            assert!(world.elapsed() < s(115), "{fault:?} {:?}", world.elapsed());
            held(rival.try_acquire(&key("k")).await.unwrap());
            lease.check().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_error_of_a_store_that_is_down_for_a_whole_term() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Hang,
    ] {
        let world = World::new();
        let leases = world.client();
        world.store.start_outage(fault);
        assert_eq!(
            store_error(leases.acquire(&key("k")).await),
            ErrorKind::Unavailable
        );
        let took = world.elapsed();
        assert!(took >= s(60) && took < s(85), "{fault:?} {took:?}");
    }
}
