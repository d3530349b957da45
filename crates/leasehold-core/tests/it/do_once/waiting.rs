use std::time::Duration;

use leasehold_core::AcquireError;
use leasehold_core::do_once::DoOnceError;
use leasehold_testkit::faulty::{Fault, Operation};
use tokio::time::{sleep, timeout};

use super::{SECOND, Setup};

const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test(start_paused = true)]
async fn a_caller_waits_no_longer_than_it_said_in_the_same_process_or_in_another() {
    for limit in [Duration::ZERO, 10 * SECOND] {
        let setup = Setup::new();
        let working = setup.client();
        let work = tokio::spawn(setup.call(&working.once, 100 * SECOND));
        working.store.wait_for_calls(Operation::Write, 1).await;
        for client in [&working, &setup.client()] {
            // Time in the queue counts: three wait at once, and all leave in time.
            let begin = setup.now();
            let once = client.once.clone().wait_at_most(limit);
            let calls = (0..3).map(|_| setup.call(&once, SECOND));
            for outcome in futures::future::join_all(calls).await {
                let error = outcome.unwrap_err();
                assert!(matches!(error, DoOnceError::TimedOut(_)), "{error:?}");
                assert!(error.to_string().contains("deploy/42"), "{error}");
            }
            assert!(setup.now() >= begin + limit);
            assert!(setup.now() < begin + limit + MOMENT);
        }
        work.await.unwrap().unwrap();
        assert_eq!(setup.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_does_it_when_nobody_else_does_and_takes_what_is_done() {
    let setup = Setup::new();
    for performed_here in [true, false] {
        let once = setup.client().once.wait_at_most(Duration::ZERO);
        // The limit is for waiting, not for the work.
        let done = setup.call(&once, 100 * SECOND).await.unwrap();
        assert_eq!(done.performed_here, performed_here);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_make_a_caller_wait_longer_than_a_look_takes() {
    let setup = Setup::new();
    let client = setup.client();
    client.store.start_outage(Fault::Hang);
    let begin = setup.now();
    let once = client.once.clone().wait_at_most(30 * SECOND);
    let failed = timeout(60 * SECOND, setup.call(&once, SECOND)).await;
    failed.unwrap().unwrap_err();
    assert!(setup.now() < begin + 30 * SECOND + MOMENT);
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_client_tells_all_who_wait_and_lets_the_work_end() {
    let setup = Setup::new();
    let client = setup.client();
    let work = tokio::spawn(setup.call(&client.once, 100 * SECOND));
    client.store.wait_for_calls(Operation::Write, 1).await;
    let calls: Vec<_> = (0..3)
        .map(|_| tokio::spawn(setup.call(&client.once, SECOND)))
        .collect();
    sleep(SECOND).await;
    let begin = setup.now();
    client.leases.shutdown(Duration::ZERO).await;
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(
            matches!(error, DoOnceError::Acquire(AcquireError::ShutDown)),
            "{error:?}"
        );
    }
    assert_eq!(setup.now(), begin);
    assert!(work.await.unwrap().unwrap().performed_here);
}

#[tokio::test(start_paused = true)]
async fn who_waited_is_free_to_go_as_soon_as_it_is_done() {
    let setup = Setup::new();
    let slow = Fault::DelayBefore(Duration::from_millis(5));
    let mut callers = Vec::new();
    for _ in 0..5 {
        let client = setup.client();
        client.store.plan(Operation::Acquire, slow);
        client.store.plan(Operation::Read, slow);
        let call = setup.call(&client.once, 100 * SECOND);
        callers.push(async move {
            call.await.unwrap();
            // Nothing of what was asked for while waiting is in doubt, and has to be looked after.
            client.leases.shutdown(10 * SECOND).await
        });
    }
    let begin = setup.now();
    let left = futures::future::join_all(callers).await;
    assert!(left.iter().all(Vec::is_empty), "{left:?}");
    assert!(setup.now() < begin + 100 * SECOND + MOMENT);
}
