use leasehold_core::do_once::DoOnceError;
use leasehold_core::{AcquireError, ErrorKind, LeaseState, LossCause};
use leasehold_testkit::faulty::{Fault, Operation};

use tokio::time::timeout;

use super::{DOWN, Outcome, SECOND, Setup, value};

#[tokio::test(start_paused = true)]
async fn when_the_answer_to_the_last_write_is_lost_it_is_done_and_not_done_again() {
    for fault in [
        Fault::LoseAnswer,
        Fault::ApplyAndHang,
        Fault::LoseRequest,
        Fault::Hang,
        Fault::ApplyLate(SECOND),
    ] {
        for read_fails in [false, true] {
            let setup = Setup::new();
            let client = setup.client();
            client.store.plan(Operation::Write, fault).after(1).times(1);
            if read_fails {
                client.store.plan(Operation::Read, DOWN).after(1).times(1);
            }
            let done = setup.call(&client.once, SECOND).await;
            assert!(done.unwrap().performed_here, "{fault:?}");
            let again = setup.call(&setup.client().once, SECOND).await.unwrap();
            assert!(!again.performed_here);
            client.store.settle().await;
            assert_eq!(value(&setup.record().await, "progress"), "done");
            assert_eq!(setup.runs(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_lease_is_lost_with_the_answer_to_the_last_write_it_is_done_all_the_same() {
    let setup = Setup::new();
    let client = setup.client();
    client.store.plan(Operation::Renew, DOWN);
    client
        .store
        .plan(Operation::Write, Fault::ApplyAndHang)
        .after(1)
        .times(1);
    client.store.plan(Operation::Write, DOWN);
    let done = setup.call(&client.once, 50 * SECOND).await.unwrap();
    assert_eq!(
        (done.performed_here, done.result.as_deref()),
        (true, Some("1"))
    );
    assert_eq!(value(&setup.record().await, "progress"), "done");
}

#[tokio::test(start_paused = true)]
async fn when_the_first_write_never_succeeds_the_work_does_not_begin() {
    let setup = Setup::new();
    let client = setup.client();
    client
        .store
        .plan(Operation::Write, Fault::Fail(ErrorKind::Unauthorized));
    let error = setup.call(&client.once, SECOND).await.unwrap_err();
    assert!(matches!(&error, DoOnceError::Store(error) if error.kind() == ErrorKind::Unauthorized));
    assert_eq!(setup.runs(), 0);
    client.leases.shutdown(SECOND).await;
    assert_eq!(setup.record().await.state, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_cannot_be_recorded_is_still_told_to_its_caller() {
    let setup = Setup::new();
    let client = setup.client();
    client
        .store
        .plan(Operation::Write, Fault::Fail(ErrorKind::Unauthorized))
        .after(1);
    let error = setup.fail(&client.once, "no route").await.unwrap_err();
    assert!(
        matches!(error, DoOnceError::Failed { attempt: 1, .. }),
        "{error:?}"
    );
    // It counts as one that ended without a word.
    assert_eq!(
        setup
            .call(&setup.client().once, SECOND)
            .await
            .unwrap()
            .attempt,
        2
    );
}

#[tokio::test(start_paused = true)]
async fn work_is_stopped_when_its_lease_is_lost_and_before_anybody_else_begins() {
    let setup = Setup::new();
    let cut_off = setup.client();
    let call = tokio::spawn(setup.call(&cut_off.once, 3600 * SECOND));
    cut_off.store.wait_for_calls(Operation::Write, 1).await;
    let successor = setup.client();
    let next = tokio::spawn(setup.call(&successor.once, SECOND));
    cut_off.store.start_outage(Fault::Hang);
    let error = call.await.unwrap().unwrap_err();
    let DoOnceError::Interrupted(lost) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(lost.cause, LossCause::Expired);
    assert!(error.to_string().contains("deploy/42"), "{error}");
    assert_eq!(next.await.unwrap().unwrap().attempt, 2);
    let begun = setup.work.begun.lock().unwrap();
    let ended = setup.work.ended.lock().unwrap();
    assert!(ended[0] < begun[1].0, "{ended:?} {begun:?}");
    assert!(begun[0].1 < begun[1].1, "the tokens grow");
}

#[tokio::test(start_paused = true)]
async fn what_ends_after_its_lease_was_lost_is_not_done() {
    let setup = Setup::new();
    let client = setup.client();
    client.store.plan(Operation::Renew, DOWN);
    let outcome: Outcome = client
        .once
        .run(|attempt| async move {
            attempt.lease().lost().await;
            let late = attempt.checkpoint("late").await;
            assert!(late.is_err(), "{late:?}");
            Ok(Some("too late".into()))
        })
        .await;
    assert!(
        matches!(outcome, Err(DoOnceError::Interrupted(_))),
        "{outcome:?}"
    );
    let record = setup.record().await;
    assert_eq!(
        (value(&record, "progress"), value(&record, "result")),
        ("running", "(none)")
    );
    assert_eq!(
        setup
            .call(&setup.client().once, SECOND)
            .await
            .unwrap()
            .attempt,
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_or_hangs_does_not_keep_from_doing_it() {
    for fault in [Fault::Hang, DOWN, Fault::LoseAnswer] {
        let setup = Setup::new();
        let client = setup.client();
        client.store.plan(Operation::Read, fault);
        let done = timeout(15 * SECOND, setup.call(&client.once, SECOND)).await;
        assert!(done.unwrap().unwrap().performed_here, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_down_is_an_error_after_about_a_term() {
    for fault in [Fault::Hang, DOWN] {
        let setup = Setup::new();
        let client = setup.client();
        client.store.start_outage(fault);
        let failed = timeout(90 * SECOND, setup.call(&client.once, SECOND)).await;
        let error = failed.unwrap().unwrap_err();
        assert!(
            matches!(error, DoOnceError::Acquire(AcquireError::Store(_))),
            "{error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_an_error_at_once() {
    let setup = Setup::new();
    let client = setup.client();
    client
        .store
        .start_outage(Fault::Fail(ErrorKind::Unauthorized));
    let begin = setup.now();
    let error = setup.call(&client.once, SECOND).await.unwrap_err();
    assert!(matches!(error, DoOnceError::Store(_)), "{error:?}");
    assert_eq!(setup.now(), begin);
}
