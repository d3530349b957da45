use std::sync::Arc;

use leasehold_core::do_once::{DoOnceError, Stage};
use leasehold_core::{ErrorKind, LeaseError, LeaseState, Metadata};
use leasehold_testkit::faulty::{Fault, Operation};

use super::{Outcome, SECOND, Setup, value};

#[tokio::test(start_paused = true)]
async fn the_record_says_who_did_what_when() {
    let setup = Setup::new();
    let client = setup.client();
    assert_eq!(client.once.progress().await.unwrap(), None);
    let call = tokio::spawn(setup.call(&client.once, SECOND));
    client.store.wait_for_calls(Operation::Write, 1).await;
    let progress = client.once.progress().await.unwrap().unwrap();
    let holder = Some(client.leases.holder().to_string());
    assert_eq!((progress.stage, progress.attempt), (Stage::Running, 1));
    assert_eq!(progress.holder, holder);
    assert_eq!(progress.started.as_deref(), Some("2023-11-14T22:13:20Z"));
    assert_eq!((progress.finished, progress.result), (None, None));
    let done = call.await.unwrap().unwrap();
    let progress = client.once.progress().await.unwrap().unwrap();
    assert_eq!(progress.stage, Stage::Done);
    assert_eq!(progress.result.as_deref(), Some("1"));
    assert_eq!(
        (progress.finished, progress.holder),
        (done.finished, done.holder)
    );
    let record = setup.record().await;
    assert_eq!(record.state, LeaseState::Available);
    assert_eq!(value(&record, "progress"), "done");
    assert_eq!(value(&record, "attempt"), "1");
    assert_eq!(value(&record, "error"), "(none)");
}

#[tokio::test(start_paused = true)]
async fn work_may_have_no_result() {
    let setup = Setup::new();
    let client = setup.client();
    for performed_here in [true, false] {
        let done: Outcome = client.once.run(|_| async { Ok(None) }).await;
        let done = done.unwrap();
        assert_eq!((done.performed_here, done.result), (performed_here, None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_keep_in_the_record_stays_there() {
    let setup = Setup::new();
    setup
        .put(&[("owner", "team a"), ("progress_of_others", "7")])
        .await;
    let client = setup.client();
    setup.fail(&client.once, "no").await.unwrap_err();
    setup.call(&client.once, SECOND).await.unwrap();
    let record = setup.record().await;
    assert_eq!(value(&record, "owner"), "team a");
    assert_eq!(value(&record, "progress_of_others"), "7");
    assert_eq!(value(&record, "attempt"), "2");
    assert_eq!(
        value(&record, "error"),
        "(none)",
        "the error of the first attempt"
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_too_large_to_be_kept_fails_the_attempt_and_says_so() {
    let setup = Setup::new();
    let client = setup.client();
    let result = "x".repeat(Metadata::MAX_BYTES);
    let outcome: Outcome = client.once.run(|_| async { Ok(Some(result)) }).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, DoOnceError::Result(_)), "{error}");
    assert!(error.to_string().contains("at most 4096 bytes"), "{error}");
    let record = setup.record().await;
    assert_eq!(value(&record, "progress"), "failed");
    assert!(value(&record, "error").contains("at most 4096 bytes"));
    assert_eq!(setup.call(&client.once, SECOND).await.unwrap().attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_error_is_cut_between_characters_and_given_in_full_to_its_caller() {
    let setup = Setup::new();
    let client = setup.client();
    // 1 byte, then 3 bytes each: 512 is within one.
    let text = format!("x{}", "锁".repeat(1000));
    let error = setup.fail(&client.once, &text).await.unwrap_err();
    assert!(error.to_string().contains(&text));
    let record = setup.record().await;
    let kept = value(&record, "error");
    assert_eq!(kept.len(), 511);
    assert!(text.starts_with(kept));
}

#[tokio::test(start_paused = true)]
async fn a_full_record_is_a_clear_error_and_nothing_is_done() {
    let setup = Setup::new();
    setup.put(&[("owner", &"x".repeat(4080))]).await;
    let client = setup.client();
    let error = setup
        .call(&client.once, SECOND)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("deploy/42") && error.contains("at most 4096 bytes"),
        "{error}"
    );
    assert_eq!(setup.runs(), 0);
    client.leases.shutdown(SECOND).await;
    assert_eq!(setup.record().await.state, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_does_not_fit_is_left_out_and_the_attempt_counts_all_the_same() {
    let setup = Setup::new();
    setup.put(&[("owner", &"x".repeat(3800))]).await;
    let client = setup.client();
    setup
        .fail(&client.once, &"e".repeat(400))
        .await
        .unwrap_err();
    let record = setup.record().await;
    assert_eq!(
        (value(&record, "progress"), value(&record, "error")),
        ("failed", "")
    );
    assert_eq!(setup.call(&client.once, SECOND).await.unwrap().attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_this_library_did_not_write_is_an_error_and_not_a_second_run() {
    for (progress, attempt) in [
        ("finished", "1"),
        ("done", "first"),
        ("done", "-1"),
        ("", "1"),
    ] {
        for under_the_lease in [false, true] {
            let setup = Setup::new();
            setup
                .put(&[("progress", progress), ("attempt", attempt)])
                .await;
            let client = setup.client();
            if under_the_lease {
                client.store.plan(Operation::Read, Fault::LoseRequest);
            }
            let error = setup.call(&client.once, SECOND).await.unwrap_err();
            let DoOnceError::Store(store) = &error else {
                panic!("{error:?}");
            };
            assert_eq!(store.kind(), ErrorKind::Corrupt);
            let text = error.to_string();
            for part in [
                "deploy/42",
                &format!("{progress:?}"),
                &format!("{attempt:?}"),
            ] {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(setup.runs(), 0);
            client.leases.shutdown(SECOND).await;
            assert!(!setup.record().await.state.is_held());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_greatest_attempt_number_is_not_the_end() {
    let setup = Setup::new();
    setup
        .put(&[("progress", "failed"), ("attempt", "4294967294")])
        .await;
    let done = setup.call(&setup.client().once, SECOND).await.unwrap();
    assert_eq!(done.attempt, u32::MAX);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_has_a_name_and_costs_a_request_once() {
    let setup = Setup::new();
    let client = setup.client();
    let store = Arc::clone(&client.store);
    let done: Outcome = client
        .once
        .run(move |attempt| async move {
            for bad in ["", "a b", "a\tb", "a\u{2003}b", "a\0b", &"x".repeat(65)] {
                let error = attempt.checkpoint(bad).await.unwrap_err();
                assert!(error.to_string().contains("1 to 64 bytes"), "{error}");
            }
            assert_eq!(store.calls(Operation::Write), 1);
            for _ in 0..3 {
                attempt.checkpoint(&"x".repeat(64)).await.unwrap();
            }
            assert_eq!(store.calls(Operation::Write), 2);
            assert!(attempt.reached(&"x".repeat(64)));
            assert!(!attempt.reached("x"));
            assert!(!attempt.reached(""));
            Ok(None)
        })
        .await;
    done.unwrap();
}

#[tokio::test(start_paused = true)]
async fn checkpoints_made_at_the_same_time_are_all_kept() {
    let setup = Setup::new();
    let client = setup.client();
    let done: Outcome = client
        .once
        .run(|attempt| async move {
            let (a, b, c) = tokio::join!(
                attempt.checkpoint("a"),
                attempt.checkpoint("b"),
                attempt.checkpoint("c")
            );
            a.and(b).and(c).map_err(|error| error.to_string())?;
            Ok(None)
        })
        .await;
    done.unwrap();
    assert_eq!(value(&setup.record().await, "checkpoints"), "a b c");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_left_behind_by_the_work_does_not_undo_its_end() {
    let setup = Setup::new();
    let client = setup.client();
    // It arrives after the end was written, and while the answer to that is under way.
    client
        .store
        .plan(Operation::Write, Fault::DelayBefore(SECOND))
        .after(1)
        .times(1);
    client
        .store
        .plan(Operation::Write, Fault::DelayAfter(2 * SECOND))
        .times(1);
    let (tell, told) = tokio::sync::oneshot::channel();
    let store = Arc::clone(&client.store);
    let done: Outcome = client
        .once
        .run(|attempt| async move {
            let early = attempt.clone();
            tokio::spawn(async move { early.checkpoint("early").await });
            store.wait_for_calls(Operation::Write, 2).await;
            tell.send(attempt).unwrap();
            Ok(None)
        })
        .await;
    done.unwrap();
    assert_eq!(value(&setup.record().await, "progress"), "done");
    let error = told.await.unwrap().checkpoint("late").await.unwrap_err();
    assert!(matches!(error, LeaseError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("has ended"), "{error}");
    assert!(
        !setup
            .call(&client.once, SECOND)
            .await
            .unwrap()
            .performed_here
    );
}
