use leasehold_core::outcome::Release;
use leasehold_core::{ErrorKind, LeaseState, LeaseStatus, LossCause};
use leasehold_testkit::faulty::{Fault, Operation};

use crate::support::{World, acquired, assert_at, held, key, ms, s, sleep};

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_over_at_once_and_then_free_for_others() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    let (token, handle, status) = (lease.cancellation_token(), lease.handle(), lease.status());
    drop(lease);
    assert!(token.is_cancelled());
    assert!(handle.check().is_err());
    assert_eq!(*status.borrow(), LeaseStatus::Released);
    // Nothing was awaited yet, so nobody told the store.
    assert_eq!(world.state(&key("k")).await, LeaseState::Leased);
    world.wait_until_free(&key("k")).await;
    assert!(world.elapsed() < ms(5));
    drop(acquired(
        world.rival().try_acquire(&key("k")).await.unwrap(),
    ));
}

#[tokio::test(start_paused = true)]
async fn a_token_given_away_can_be_cancelled_without_ending_the_lease() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    lease.cancellation_token().cancel();
    assert!(!lease.cancellation_token().is_cancelled());
    lease.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_never_renewed_again() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    // Also while the store cannot be told of it.
    world.store.start_outage(Fault::Hang);
    drop(lease);
    sleep(s(300)).await;
    assert_eq!(world.store.calls(Operation::Renew), 0);
    // Nor is it tried for ever to release what has expired.
    let calls = world.store.calls(Operation::Release);
    sleep(s(300)).await;
    assert_eq!(world.store.calls(Operation::Release), calls);
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_while_it_is_being_renewed_is_released_all_the_same() {
    for fault in [Fault::DelayBefore(ms(300)), Fault::DelayAfter(ms(300))] {
        let world = World::new();
        let leases = world.client();
        world.store.plan(Operation::Renew, fault);
        let lease = leases.acquire(&key("k")).await.unwrap();
        world.store.wait_for_calls(Operation::Renew, 1).await;
        drop(lease);
        assert!(leases.shutdown(s(10)).await.is_empty());
        sleep(s(1)).await;
        assert_eq!(world.state(&key("k")).await, LeaseState::Available);
        assert_eq!(world.store.calls(Operation::Renew), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_is_repeated_and_is_no_error() {
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Hang,
        Fault::ApplyAndHang,
    ] {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        world.store.plan(Operation::Release, fault).times(1);
        let handle = lease.handle();
        let released = lease.release().await.unwrap();
        let applied = matches!(fault, Fault::LoseAnswer | Fault::ApplyAndHang);
        let expected = if applied {
            Release::NotHeld
        } else {
            Release::Released
        };
        assert_eq!(released, expected);
        assert_eq!(world.state(&key("k")).await, LeaseState::Available);
        assert!(world.elapsed() < s(6));
        assert_eq!(handle.check().unwrap_err().cause, LossCause::Expired);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_reaches_nobody_ends_with_the_term_and_says_that_it_is_left_to_expire() {
    for fault in [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::Hang,
    ] {
        for term in [1, 60] {
            let world = World::new();
            let leases = world.builder("us").term(s(term)).build().unwrap();
            let lease = leases.acquire(&key("k")).await.unwrap();
            world.store.start_outage(fault);
            let error = lease.release().await.unwrap_err();
            let took = world.elapsed();
            assert!(
                took >= s(term) && took < s(term) + s(3),
                "{fault:?} {took:?}"
            );
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let message = error.to_string();
            assert!(message.contains("left to expire"), "{message}");
            assert_eq!(world.state(&key("k")).await, LeaseState::Expired);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_refused_is_an_error_at_once() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unauthorized));
    let error = lease.release().await.unwrap_err();
    assert_eq!(world.elapsed(), s(0));
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.to_string().contains("left to expire"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_goes_on() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    world
        .store
        .plan(Operation::Release, Fault::DelayBefore(s(1)));
    let token = lease.cancellation_token();
    let waited = tokio::time::timeout(ms(100), lease.release()).await;
    assert!(waited.is_err());
    assert!(token.is_cancelled());
    world.wait_until_free(&key("k")).await;
    assert_at(world.elapsed(), s(1));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_stays_leased_until_its_term_is_over() {
    let world = World::new();
    let (leases, rival) = (world.client(), world.rival());
    let lease = leases.acquire(&key("k")).await.unwrap();
    sleep(s(50)).await;
    assert_eq!(world.store.calls(Operation::Renew), 1);
    let token = lease.cancellation_token();
    lease.abandon();
    assert!(token.is_cancelled());
    held(leases.try_acquire(&key("k")).await.unwrap());
    let _next = rival.acquire(&key("k")).await.unwrap();
    assert_at(world.elapsed(), s(100) + ms(5));
    assert_eq!(world.store.calls(Operation::Renew), 1);
    assert_eq!(world.store.calls(Operation::Release), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_this_process_gets_a_lost_lease_as_soon_as_others_could() {
    let world = World::new();
    let leases = world.client();
    let lease = leases.acquire(&key("k")).await.unwrap();
    world
        .store
        .plan(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    // The lost guard is alive all the time.
    let second = leases.acquire(&key("k")).await.unwrap();
    assert!(world.elapsed() >= s(60) && world.elapsed() < s(61));
    assert!(second.fencing_token() > lease.fencing_token());
    drop(lease);
    sleep(s(10)).await;
    second.check().unwrap();
    assert_eq!(world.state(&key("k")).await, LeaseState::Leased);
}
