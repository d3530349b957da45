use leasehold_core::LeaseState;

use super::case::Case;
use super::situation::{Free, expect_told};

pub(super) async fn is_refused_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let found = case.change(&was.key, was.id, case.id()).await.not_held();
        expect_told(&found, situation.state(), None);
        if situation == Free::Absent {
            case.expect_absent(&was.key).await;
        }
    }
}

pub(super) async fn hands_the_lease_to_the_new_id_with_the_same_token(case: &Case) {
    let leased = case.leased("hand over").await;
    let (key, old, new) = (&leased.key, leased.id, case.id());
    case.change(key, old, new).await.changed();
    case.record(key, "leased with the same token", |record| {
        record.state == LeaseState::Leased && record.token == leased.record.token
    })
    .await;
    case.renew(key, old).await.not_held();
    case.acquire(key, old, case.long()).await.held();
    case.release(key, old).await.not_held();
    case.expect_holds(key, new).await;
    let again = case.acquire(key, new, case.long()).await.granted();
    assert!(again.token >= leased.record.token, "{again:?}");
    case.release(key, new).await.released();
}

pub(super) async fn repeated_says_yes_again(case: &Case) {
    let leased = case.leased("repeated").await;
    let (key, new) = (&leased.key, case.id());
    for _ in 0..3 {
        case.change(key, leased.id, new).await.changed();
        case.record(key, "leased with the same token", |record| {
            record.state == LeaseState::Leased && record.token == leased.record.token
        })
        .await;
    }
    case.renew(key, leased.id).await.not_held();
    case.expect_holds(key, new).await;
}

pub(super) async fn does_not_lengthen_the_term(case: &Case) {
    let leased = case.leased("term").await;
    let before = case.record(&leased.key, "leased", |_| true).await;
    case.change(&leased.key, leased.id, case.id())
        .await
        .changed();
    case.record(&leased.key, "the same term, no more of it left", |now| {
        now.term == before.term && now.remaining <= before.remaining
    })
    .await;
}

pub(super) async fn is_refused_to_another_id(case: &Case) {
    let leased = case.leased("another").await;
    let found = case
        .change(&leased.key, case.id(), case.id())
        .await
        .not_held();
    expect_told(&found, Some(LeaseState::Leased), Some(leased.id));
    case.expect_unchanged(&leased.record).await;
    case.expect_holds(&leased.key, leased.id).await;
}

pub(super) async fn is_refused_while_breaking(case: &Case) {
    let leased = case.breaking("breaking").await;
    for id in [leased.id, case.id()] {
        let found = case.change(&leased.key, id, case.id()).await.not_held();
        expect_told(&found, Some(LeaseState::Breaking), Some(leased.id));
    }
}
