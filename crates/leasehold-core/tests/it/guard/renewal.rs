use std::sync::Arc;
use std::time::SystemTime;

use leasehold_core::{ErrorKind, LeaseStatus, LossCause, MemoryStore};
use leasehold_testkit::faulty::{Fault, Operation};

use tokio::time::timeout;

use crate::support::{Shaped, World, assert_at, held, history, key, ms, s, sleep};

#[tokio::test(start_paused = true)]
async fn a_default_guard_is_first_renewed_after_40_seconds() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    assert_eq!(lease.deadline(), world.at(s(57)));
    assert_eq!(lease.remaining(), s(57));
    world.store.wait_for_calls(Operation::Renew, 1).await;
    assert_at(world.elapsed(), s(40));
    sleep(ms(10)).await;
    assert_at(lease.remaining(), ms(56_990));
    world.store.wait_for_calls(Operation::Renew, 2).await;
    assert_at(world.elapsed(), s(80));
    assert_eq!(world.store.calls(Operation::Acquire), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_from_before_the_request_was_sent() {
    for fault in [Fault::DelayBefore(s(5)), Fault::DelayAfter(s(5))] {
        let world = World::new();
        world.store.plan(Operation::Acquire, fault).times(1);
        world.store.plan(Operation::Renew, fault).times(1);
        let lease = world.client().acquire(&key("k")).await.unwrap();
        assert_at(world.elapsed(), s(5));
        assert_eq!(lease.deadline(), world.at(s(57)));

        let mut deadlines = lease.deadlines();
        deadlines.changed().await.unwrap();
        assert_at(world.elapsed(), s(45));
        let moved = lease.deadline().saturating_duration_since(world.at(s(0)));
        assert_at(moved, s(97));
        assert_eq!(*deadlines.borrow(), lease.deadline());
        // And the next renewal, too, 40 s after this one was sent.
        world.store.wait_for_calls(Operation::Renew, 2).await;
        assert_at(world.elapsed(), s(80));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_repeated_request_is_counted_from_the_repetition() {
    let world = World::new();
    world
        .store
        .plan(Operation::Acquire, Fault::LoseRequest)
        .times(1);
    let lease = world.client().acquire(&key("k")).await.unwrap();
    assert!(world.elapsed() >= ms(25));
    assert_eq!(lease.remaining(), s(57));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_for_ever_is_lost_at_the_deadline_and_not_before() {
    for fault in [Fault::Hang, Fault::ApplyAndHang] {
        let world = World::new();
        world.store.plan(Operation::Renew, fault);
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let history = history(&lease);
        sleep(ms(56_999)).await;
        lease.check().unwrap();
        let lost = lease.lost().await;
        assert_at(world.elapsed(), s(57));
        assert_eq!(lost.cause, LossCause::Expired);
        assert_eq!(lease.remaining(), s(0));
        drop(lease);
        assert_eq!(history.await.unwrap(), ["held", "jeopardy", "lost"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewal_hangs_delays_no_other() {
    let world = World::new();
    for batches in [false, true] {
        let mut store = Shaped::new(Arc::<MemoryStore>::clone(&world.memory));
        store.batches = batches;
        store.hung.lock().unwrap().insert(key("7"));
        let leases = world.builder_on(Arc::new(store), "us").build().unwrap();
        let began = world.elapsed();
        let mut guards = Vec::new();
        for n in 0..50 {
            guards.push(leases.acquire(&key(&n.to_string())).await.unwrap());
        }
        let hung = guards.remove(7);
        hung.lost().await;
        assert_at(world.since(began), s(57));
        for guard in &guards {
            assert_eq!(*guard.status().borrow(), LeaseStatus::Held, "{guard:?}");
        }
        sleep(s(300)).await;
        for guard in &guards {
            guard.check().unwrap();
        }
        assert!(leases.shutdown(s(10)).await.len() >= 49);
        drop((hung, guards));
        leases.shutdown(s(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_failed_renewal_is_jeopardy_and_then_held_again() {
    let faults = [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::Fail(ErrorKind::Unauthorized),
        Fault::Fail(ErrorKind::Internal),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ApplyLate(s(1)),
        Fault::Hang,
        Fault::ApplyAndHang,
    ];
    for fault in faults {
        let world = World::new();
        world.store.plan(Operation::Renew, fault).times(1);
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let history = history(&lease);
        let mut status = lease.status();
        let changed = timeout(
            s(50),
            status.wait_for(|status| *status != LeaseStatus::Held),
        );
        let LeaseStatus::Jeopardy { remaining } = *changed.await.unwrap().unwrap() else {
            panic!("waited for jeopardy");
        };
        lease.check().unwrap();
        assert_eq!(remaining, lease.remaining());
        assert!(remaining > s(11) && remaining <= s(17), "{remaining:?}");
        sleep(s(200)).await;
        lease.check().unwrap();
        drop(lease);
        let words = ["held", "jeopardy", "held", "released"];
        assert_eq!(history.await.unwrap(), words, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_window_is_survived_and_nobody_else_gets_in() {
    let faults = [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ApplyLate(s(2)),
        Fault::Hang,
        Fault::ApplyAndHang,
    ];
    for fault in faults {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let history = history(&lease);
        let rival = world.rival();
        let contender = tokio::spawn(async move { rival.acquire_timeout(&key("k"), s(300)).await });
        sleep(s(39)).await;
        world.store.start_outage(fault);
        sleep(s(14)).await;
        world.store.end_outage();
        sleep(s(200)).await;
        lease.check().unwrap();
        held(contender.await.unwrap().unwrap());
        drop(lease);
        let words = ["held", "jeopardy", "held", "released"];
        assert_eq!(history.await.unwrap(), words, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_past_the_deadline_is_a_loss_and_the_next_is_granted_only_after_it() {
    let faults = [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ApplyLate(s(2)),
        Fault::Hang,
        Fault::ApplyAndHang,
    ];
    for fault in faults {
        let world = World::new();
        let lease = world.client().acquire(&key("k")).await.unwrap();
        let rival = world.rival();
        let contender = tokio::spawn(async move {
            let lease = rival.acquire(&key("k")).await.unwrap();
            (rival.clock().now(), lease)
        });
        world.store.start_outage(fault);
        lease.lost().await;
        let lost_at = world.elapsed();
        assert_at(lost_at, s(57));
        assert!(!contender.is_finished());
        let (granted_at, second) = contender.await.unwrap();
        assert!(granted_at >= world.at(s(60)), "{fault:?}: {granted_at:?}");
        // Renewals that were applied although nobody heard of them kept it until then, and no longer.
        assert!(granted_at <= world.at(s(57 + 60 + 6)), "{fault:?}");
        assert!(second.fencing_token() > lease.fencing_token());
        second.check().unwrap();
        assert!(lease.check().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_by_the_wall_clock() {
    let world = World::new();
    let lease = world.client().acquire(&key("k")).await.unwrap();
    let history = history(&lease);
    for (wait, wall) in [(39, 0), (2, 4_000_000_000), (60, 1), (60, 2_000_000_000)] {
        world.clock.set_wall(SystemTime::UNIX_EPOCH + s(wall));
        sleep(s(wait)).await;
        lease.check().unwrap();
    }
    assert_eq!(world.store.calls(Operation::Renew), 4);
    drop(lease);
    assert_eq!(history.await.unwrap(), ["held", "released"]);
}
