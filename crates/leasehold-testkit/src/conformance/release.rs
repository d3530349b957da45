use leasehold_core::{LeaseState, Precondition};

use super::case::{Case, note};
use super::situation::Free;

pub(super) async fn answers_not_held_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let last = case.release(&was.key, was.id).await;
        if matches!(situation, Free::Expired | Free::Broken) {
            // A store may remember who held it last, and let go of that. Either way nobody holds it.
            last.ok();
        } else {
            last.not_held();
        }
        case.release(&was.key, case.id()).await.not_held();
        if situation == Free::Absent {
            case.expect_absent(&was.key).await;
        }
    }
}

pub(super) async fn frees_the_lease_at_once(case: &Case) {
    let leased = case.leased("at once").await;
    case.release(&leased.key, leased.id).await.released();
    case.acquire(&leased.key, case.id(), case.long())
        .await
        .granted();
}

pub(super) async fn repeated_answers_not_held_which_is_not_an_error(case: &Case) {
    let leased = case.leased("twice").await;
    case.release(&leased.key, leased.id).await.released();
    for _ in 0..2 {
        case.release(&leased.key, leased.id).await.not_held();
    }
}

pub(super) async fn repeated_does_not_end_the_next_ones_lease(case: &Case) {
    let leased = case.leased("late repeat").await;
    case.release(&leased.key, leased.id).await.released();
    let next = case.id();
    case.acquire(&leased.key, next, case.long()).await.granted();
    case.release(&leased.key, leased.id).await.not_held();
    case.expect_holds(&leased.key, next).await;
}

pub(super) async fn by_another_answers_not_held_and_changes_nothing(case: &Case) {
    let leased = case.leased("another").await;
    case.release(&leased.key, case.id()).await.not_held();
    case.expect_unchanged(&leased.record).await;
    case.expect_holds(&leased.key, leased.id).await;
}

pub(super) async fn while_breaking_frees_the_lease_at_once(case: &Case) {
    let leased = case.breaking("breaking").await;
    case.release(&leased.key, case.id()).await.not_held();
    case.release(&leased.key, leased.id).await.released();
    let record = case
        .acquire(&leased.key, case.id(), case.long())
        .await
        .granted();
    case.expect_greater(&record, leased.record.token);
}

pub(super) async fn leaves_the_record_and_no_holder(case: &Case) {
    let leased = case.leased("record").await;
    case.write(
        &leased.key,
        &note("kept"),
        Precondition::Any,
        Some(leased.id),
    )
    .await
    .written();
    case.release(&leased.key, leased.id).await.released();
    case.record(&leased.key, "available, with its metadata", |record| {
        record.state == LeaseState::Available
            && record.holder.is_none()
            && record.term.is_none()
            && record.remaining.is_none()
            && record.token == leased.record.token
            && record.metadata == note("kept")
    })
    .await;
}
