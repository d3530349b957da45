use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use leasehold_core::do_once::{DoOnceError, FailurePolicy};
use leasehold_core::{DoOnce, LeaseState};
use leasehold_testkit::faulty::Operation;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Outcome, SECOND, Setup, value};

fn attempts(limit: u32) -> FailurePolicy {
    FailurePolicy::Attempts(NonZeroU32::new(limit).unwrap())
}

fn given_up(outcome: Outcome) -> (u32, String) {
    match outcome {
        Err(DoOnceError::GivenUp {
            attempts, error, ..
        }) => (attempts, error),
        other => panic!("not given up: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_goes_to_its_caller_and_the_next_tries_again() {
    let setup = Setup::new();
    for number in 1..=3 {
        let client = setup.client();
        let error = setup.fail(&client.once, "no route").await.unwrap_err();
        assert!(
            matches!(&error, DoOnceError::Failed { attempt, error, .. } if *attempt == number && error == "no route")
        );
        assert_eq!(
            error.to_string(),
            format!("attempt {number} at deploy/42 failed: no route")
        );
        let record = setup.record().await;
        assert_eq!(
            (value(&record, "progress"), value(&record, "error")),
            ("failed", "no route")
        );
        assert_eq!(record.state, LeaseState::Available);
    }
    let done = setup.call(&setup.client().once, SECOND).await.unwrap();
    assert_eq!((done.attempt, done.performed_here), (4, true));
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_each_gets_its_own_failure_and_the_last_is_not_forgotten() {
    let setup = Setup::new();
    let client = setup.client();
    let (failing, work) = tokio::join!(
        async {
            let calls = (0..5).map(|_| setup.fail(&client.once, "no"));
            futures::future::join_all(calls).await
        },
        async {
            sleep(SECOND).await;
            setup.call(&client.once, SECOND).await
        }
    );
    assert!(
        failing
            .iter()
            .all(|outcome| matches!(outcome, Err(DoOnceError::Failed { .. })))
    );
    assert_eq!(work.unwrap().attempt, 6);
}

#[tokio::test(start_paused = true)]
async fn with_a_number_of_attempts_the_crashed_ones_count_and_then_all_are_told() {
    let setup = Setup::new();
    let once = |client: &super::Client| client.once.clone().failure_policy(attempts(3));
    setup
        .fail(&once(&setup.client()), "first")
        .await
        .unwrap_err();
    setup.crash(SECOND).await;
    // It follows the crashed one when that one's term is over.
    let third = setup
        .fail(&once(&setup.client()), "third")
        .await
        .unwrap_err();
    assert!(
        matches!(third, DoOnceError::Failed { attempt: 3, .. }),
        "{third:?}"
    );
    let client = setup.client();
    for _ in 0..2 {
        let outcome = setup.call(&once(&client), SECOND).await;
        assert_eq!(given_up(outcome), (3, "third".into()));
    }
    assert_eq!(client.store.calls(Operation::Acquire), 0);
    assert_eq!(setup.runs(), 3);
    // Each caller judges by its own policy.
    let done = setup
        .call(&client.once.clone().failure_policy(attempts(4)), SECOND)
        .await;
    assert_eq!(done.unwrap().attempt, 4);
}

#[tokio::test(start_paused = true)]
async fn when_the_last_attempt_allowed_crashed_everybody_learns_that_it_did() {
    let setup = Setup::new();
    setup.crash(SECOND).await;
    let client = setup.client();
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let once = client.once.clone().failure_policy(FailurePolicy::GiveUp);
        calls.spawn(setup.call(&once, SECOND));
    }
    for outcome in calls.join_all().await {
        let (attempts, error) = given_up(outcome);
        assert_eq!(attempts, 1);
        assert!(error.contains("crashed"), "{error}");
    }
    assert_eq!(setup.runs(), 1);
    let record = setup.record().await;
    assert_eq!(
        (value(&record, "progress"), value(&record, "attempt")),
        ("failed", "1")
    );
    let later = setup.client();
    let once = later.once.clone().failure_policy(FailurePolicy::GiveUp);
    given_up(setup.call(&once, SECOND).await);
    assert_eq!(later.store.calls(Operation::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn giving_up_for_all_tells_those_who_wait_without_a_lease() {
    let setup = Setup::new();
    let working = setup.client();
    let once = |once: &DoOnce| once.clone().failure_policy(FailurePolicy::GiveUp);
    let failing = once(&working.once);
    let work = tokio::spawn(async move {
        let outcome: Outcome = failing
            .run(|_| async {
                sleep(30 * SECOND).await;
                Err("disk full".to_owned())
            })
            .await;
        outcome
    });
    working.store.wait_for_calls(Operation::Write, 1).await;
    let calls: Vec<_> = (0..3)
        .map(|_| tokio::spawn(setup.call(&once(&setup.client().once), SECOND)))
        .collect();
    assert!(matches!(
        work.await.unwrap(),
        Err(DoOnceError::Failed { .. })
    ));
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "given up on deploy/42 after 1 attempts; the last: disk full"
        );
    }
    assert_eq!(setup.record().await.token.unwrap().get(), 1);
    assert_eq!(setup.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_reaches_its_caller_and_counts_as_an_attempt() {
    fn boom() -> Result<Option<String>, String> {
        panic!("boom")
    }
    let setup = Setup::new();
    let client = setup.client();
    let begin = setup.now();
    let call = client.once.run(|_| async { boom() });
    let panicked = AssertUnwindSafe(call).catch_unwind().await.unwrap_err();
    assert_eq!(panicked.downcast_ref::<&str>(), Some(&"boom"));
    let done = setup.call(&client.once, SECOND).await.unwrap();
    assert_eq!(done.attempt, 2);
    assert!(setup.now() < begin + 5 * SECOND, "it was left to expire");
}

#[tokio::test(start_paused = true)]
async fn a_successor_goes_on_from_the_checkpoints_of_a_crashed_attempt() {
    let setup = Setup::new();
    let crashing = setup.client();
    let once = crashing.once.clone();
    let work = tokio::spawn(async move {
        let outcome: Outcome = once
            .run(|attempt| async move {
                for name in ["schema", "tables"] {
                    assert!(!attempt.reached(name));
                    attempt.checkpoint(name).await.unwrap();
                    assert!(attempt.reached(name));
                }
                std::future::pending().await
            })
            .await;
        outcome
    });
    crashing.store.wait_for_calls(Operation::Write, 3).await;
    crashing
        .store
        .start_outage(leasehold_testkit::faulty::Fault::Hang);
    work.abort();
    let client = setup.client();
    let begin = setup.now();
    let done: Outcome = client
        .once
        .run(|attempt| async move {
            assert_eq!(attempt.number(), 2);
            assert!(attempt.reached("schema") && attempt.reached("tables"));
            assert!(!attempt.reached("rows"));
            attempt.checkpoint("rows").await.unwrap();
            Ok(None)
        })
        .await;
    assert_eq!(done.unwrap().attempt, 2);
    // Not before the term of the crashed one was over, and not much later.
    assert!(setup.now() > begin + 55 * SECOND);
    assert!(setup.now() < begin + 62 * SECOND);
    let progress = client.once.progress().await.unwrap().unwrap();
    assert_eq!(progress.checkpoints, ["schema", "tables", "rows"]);
}
