use futures::StreamExt;
use futures::stream;
use leasehold_core::outcome::Renew;
use leasehold_core::{LeaseState, StoreError};

use super::case::{Case, expect_lasted};
use super::situation::Free;

fn is_renewed(answer: &Result<Renew, StoreError>) -> bool {
    matches!(answer, Ok(Renew::Renewed))
}

fn is_not_held(answer: &Result<Renew, StoreError>) -> bool {
    matches!(answer, Ok(Renew::NotHeld(_)))
}

pub(super) async fn of_nothing_answers_nothing(case: &Case) {
    let answers = case.renew_many(&[]).await;
    assert!(answers.is_empty(), "{answers:?}");
}

pub(super) async fn answers_each_in_order(case: &Case) {
    let (first, other, last) = (
        case.leased("first").await,
        case.leased("other").await,
        case.leased("last").await,
    );
    let (released, absent) = (
        case.free(Free::Released).await,
        case.free(Free::Absent).await,
    );
    let breaking = case.breaking("breaking").await;
    let batch = [
        (released.key, released.id, false),
        (first.key.clone(), first.id, true),
        (absent.key.clone(), absent.id, false),
        (other.key.clone(), case.id(), false),
        (breaking.key, breaking.id, false),
        (last.key.clone(), last.id, true),
        (first.key, first.id, true),
    ];
    let leases: Vec<_> = batch
        .iter()
        .map(|(key, id, _)| (key.clone(), *id))
        .collect();
    let answers = case.renew_many(&leases).await;
    assert_eq!(answers.len(), batch.len(), "{answers:?}");
    for ((key, id, holds), answer) in batch.iter().zip(&answers) {
        let right = if *holds {
            is_renewed(answer)
        } else {
            is_not_held(answer)
        };
        assert!(
            right,
            "renewal of {key} by {id} in a batch: got {answer:?}; held by it: {holds}"
        );
    }
    case.expect_unchanged(&other.record).await;
    case.expect_absent(&absent.key).await;
}

pub(super) async fn restarts_each_clock(case: &Case) {
    let term = case.short();
    let (one, two) = ((case.key("one"), case.id()), (case.key("two"), case.id()));
    for (key, id) in [&one, &two] {
        case.acquire(key, *id, term).await.granted();
    }
    case.sleep(term / 2).await;
    let sent = case.clock.now();
    let answers = case.renew_many(&[one.clone(), two.clone()]).await;
    assert!(answers.iter().all(is_renewed), "{answers:?}");
    let (stranger, another) = (case.id(), case.id());
    let ((_, first), (_, second)) = futures::join!(
        case.take_over(&one.0, stranger, term),
        case.take_over(&two.0, another, term)
    );
    expect_lasted(&one.0, sent, first, term);
    expect_lasted(&two.0, sent, second, term);
}

pub(super) async fn may_have_hundreds(case: &Case) {
    let mut batch: Vec<_> = stream::iter((0..300).map(|number| format!("{number}")))
        .map(|name| async move {
            let leased = case.leased(&name).await;
            (leased.key, leased.id)
        })
        .buffered(32)
        .collect()
        .await;
    // Every third is somebody else's.
    for (_, id) in batch.iter_mut().step_by(3) {
        *id = case.id();
    }
    let answers = case.renew_many(&batch).await;
    assert_eq!(answers.len(), batch.len());
    for (number, answer) in answers.iter().enumerate() {
        let right = if number % 3 == 0 {
            is_not_held(answer)
        } else {
            is_renewed(answer)
        };
        assert!(right, "answer {number} of the batch is {answer:?}");
    }
    let (key, _) = &batch[0];
    case.record(key, "leased still", |record| {
        record.state == LeaseState::Leased
    })
    .await;
}
