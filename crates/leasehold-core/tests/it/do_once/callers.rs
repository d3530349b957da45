use std::time::Duration;

use leasehold_core::{DoOnce, LeaseState};
use leasehold_testkit::faulty::{Fault, Operation};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{SECOND, Setup};

#[tokio::test(start_paused = true)]
async fn ten_and_two_hundred_callers_of_one_process_all_return_after_one_run() {
    for callers in [10, 200] {
        let setup = Setup::new();
        let client = setup.client();
        let begin = setup.now();
        let mut calls = JoinSet::new();
        for _ in 0..callers {
            calls.spawn(setup.call(&client.once, 5 * SECOND));
        }
        let mut performed = 0;
        for done in calls.join_all().await {
            let done = done.unwrap();
            performed += u32::from(done.performed_here);
            assert_eq!((done.attempt, done.result.as_deref()), (1, Some("1")));
        }
        assert_eq!((performed, setup.runs()), (1, 1));
        assert!(setup.now() < begin + 6 * SECOND);
        // One of them asks the store on behalf of all: each looks before and after, and only one acquires.
        let store = &client.store;
        assert_eq!(store.calls(Operation::Acquire), 1);
        assert_eq!(store.calls(Operation::Write), 2);
        assert!(store.calls(Operation::Read) <= 2 * callers + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_of_several_processes_all_return_after_one_run() {
    let setup = Setup::new();
    let clients: Vec<_> = (0..5).map(|_| setup.client()).collect();
    let mut calls = JoinSet::new();
    for client in &clients {
        for _ in 0..10 {
            calls.spawn(setup.call(&client.once, 300 * SECOND));
        }
    }
    let done: Vec<_> = calls
        .join_all()
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(setup.runs(), 1);
    let mut performed = done.iter().filter(|done| done.performed_here);
    let holder = performed.next().unwrap().holder.clone();
    assert!(performed.next().is_none());
    let by = |client: &super::Client| Some(client.leases.holder().as_str().to_owned());
    assert!(clients.iter().any(|client| by(client) == holder));
    assert!(
        done.iter()
            .all(|done| done.holder == holder && done.finished.is_some())
    );
    // Whoever waited learned of it without ever holding the lease.
    assert_eq!(setup.record().await.token.unwrap().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_gets_the_lease_after_it_was_done_does_not_do_it_again() {
    let setup = Setup::new();
    let late = setup.client();
    // It looks while nothing is done; by the time its request to acquire arrives, all of it is.
    late.store
        .plan(Operation::Acquire, Fault::DelayBefore(5 * SECOND));
    late.store.plan(Operation::Read, Fault::Hang).after(1);
    let call = tokio::spawn(setup.call(&late.once, SECOND));
    late.store.wait_for_calls(Operation::Acquire, 1).await;
    let done = setup.call(&setup.client().once, SECOND).await.unwrap();
    assert!(done.performed_here);
    let learned = call.await.unwrap().unwrap();
    assert!(!learned.performed_here);
    assert_eq!(learned.result, done.result);
    assert_eq!(setup.runs(), 1);
    // It did hold the lease, and let go of it.
    assert_eq!(setup.record().await.token.unwrap().get(), 2);
    late.leases.shutdown(SECOND).await;
    assert_eq!(setup.record().await.state, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn what_is_done_costs_one_read_and_no_lease() {
    let setup = Setup::new();
    setup.call(&setup.client().once, SECOND).await.unwrap();
    let client = setup.client();
    let before = setup.now();
    let done = setup.call(&client.once, SECOND).await.unwrap();
    assert!(!done.performed_here);
    assert_eq!(setup.now(), before);
    assert_eq!(client.store.calls(Operation::Read), 1);
    for operation in [
        Operation::Acquire,
        Operation::Write,
        Operation::Watch,
        Operation::Release,
    ] {
        assert_eq!(client.store.calls(operation), 0, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn doing_it_uncontended_costs_five_requests() {
    let setup = Setup::new();
    let client = setup.client();
    for operation in [Operation::Read, Operation::Acquire, Operation::Write] {
        // As long as a store elsewhere takes.
        client
            .store
            .plan(operation, Fault::DelayAfter(Duration::from_millis(10)));
    }
    setup.call(&client.once, SECOND).await.unwrap();
    for (operation, calls) in [
        (Operation::Read, 1),
        (Operation::Acquire, 1),
        (Operation::Write, 2),
        (Operation::Release, 1),
        (Operation::Watch, 0),
    ] {
        assert_eq!(client.store.calls(operation), calls, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_an_hour_costs_a_bounded_number_of_requests_however_many_wait() {
    // With hints a look every few seconds; without, about one a second; by two who look, one for the lease
    // and one for the end, whichever comes first.
    for (hints, limit) in [(true, 3600), (false, 3600 * 4)] {
        let setup = Setup::new();
        let working = setup.client();
        let work = tokio::spawn(setup.call(&working.once, 3600 * SECOND));
        working.store.wait_for_calls(Operation::Write, 1).await;
        let waiting = setup.client();
        if !hints {
            let unsupported = Fault::Fail(leasehold_core::ErrorKind::Unsupported);
            waiting.store.plan(Operation::Watch, unsupported);
        }
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            calls.spawn(setup.call(&waiting.once, SECOND));
            // In the process that does it, nobody else asks at all.
            calls.spawn(setup.call(&working.once, SECOND));
        }
        work.await.unwrap().unwrap();
        let done = setup.now();
        for done in calls.join_all().await {
            assert!(!done.unwrap().performed_here);
        }
        assert!(setup.now() < done + 2 * SECOND);
        let asked = |client: &super::Client| {
            let of = |operation| client.store.calls(operation);
            of(Operation::Read) + of(Operation::Acquire) + of(Operation::Watch)
        };
        assert!(
            asked(&waiting) < limit,
            "{}, hints {hints}",
            asked(&waiting)
        );
        assert!(asked(&working) < 150, "{}", asked(&working));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_time_leaves_nothing_and_the_next_caller_does_it() {
    let mut performed = 0;
    for step in 0..100 {
        let setup = Setup::new();
        let client = setup.client();
        for operation in [
            Operation::Read,
            Operation::Acquire,
            Operation::Write,
            Operation::Release,
        ] {
            let fault = if step % 2 == 0 {
                Fault::DelayBefore
            } else {
                Fault::DelayAfter
            };
            client
                .store
                .plan(operation, fault(Duration::from_millis(20)));
        }
        let length = Duration::from_millis(100);
        let limit = Duration::from_millis(3) * step;
        let first = tokio::time::timeout(limit, setup.call(&client.once, length)).await;
        let (dropped_at, before) = (setup.now(), setup.runs());
        // In another process; a call of the same one would be next after it.
        let next = setup.call(&setup.client().once, length).await.unwrap();
        assert!(
            setup.now() < dropped_at + 3 * SECOND,
            "step {step}: left to expire"
        );
        assert_eq!(next.performed_here, setup.runs() > before);
        if let Ok(first) = first {
            assert!(first.unwrap().performed_here && !next.performed_here);
            performed += 1;
        }
        let (begun, ended) = (
            setup.work.begun.lock().unwrap(),
            setup.work.ended.lock().unwrap(),
        );
        assert!(
            begun
                .iter()
                .skip(1)
                .zip(ended.iter())
                .all(|(begun, ended)| begun.0 >= *ended)
        );
    }
    assert!(performed > 0, "the longest limit was too short");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_after_any_turn_of_others_leaves_nothing_to_the_callers_of_its_process() {
    for turns in 0..40 {
        let setup = Setup::new();
        let client = setup.client();
        let call = setup.call(&client.once, Duration::ZERO);
        tokio::select! {
            biased;
            done = call => drop(done.unwrap()),
            () = async { for _ in 0..turns { tokio::task::yield_now().await } } => {}
        }
        let begin = setup.now();
        let other = client.once.clone();
        let done = setup.call(&other, SECOND).await.unwrap();
        assert!(setup.now() < begin + 4 * SECOND, "turn {turns}");
        assert!(done.attempt <= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_that_leaves_does_not_hold_up_those_behind_it() {
    let setup = Setup::new();
    let client = setup.client();
    let elsewhere = setup.client();
    let work = tokio::spawn(setup.call(&elsewhere.once, 100 * SECOND));
    elsewhere.store.wait_for_calls(Operation::Write, 1).await;
    let mut calls: Vec<_> = (0..5)
        .map(|_| tokio::spawn(setup.call(&client.once, SECOND)))
        .collect();
    sleep(10 * SECOND).await;
    for leaves in [3, 0] {
        calls.remove(leaves).abort();
    }
    work.await.unwrap().unwrap();
    for call in calls {
        assert!(!call.await.unwrap().unwrap().performed_here);
    }
    assert_eq!(setup.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let setup = Setup::new();
    let client = setup.client();
    let begin = setup.now();
    let other = leasehold_core::Key::new("deploy/43").unwrap();
    let other = DoOnce::new(&client.leases, other);
    let (one, two) = tokio::join!(
        setup.call(&client.once, 10 * SECOND),
        setup.call(&other, 10 * SECOND)
    );
    assert!(one.unwrap().performed_here && two.unwrap().performed_here);
    assert!(setup.now() < begin + 11 * SECOND);
}
