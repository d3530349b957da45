use leasehold_core::outcome::Renew;
use leasehold_core::{LeaseState, Precondition};

use super::case::{Case, expect_lasted, note, same_grant};
use super::situation::{Free, expect_told};

pub(super) async fn is_refused_when_nobody_holds_it(case: &Case) {
    for situation in [Free::Absent, Free::Written, Free::Released, Free::Broken] {
        let was = case.free(situation).await;
        for id in [was.id, case.id()] {
            let found = case.renew(&was.key, id).await.not_held();
            expect_told(&found, situation.state(), None);
        }
        if situation == Free::Absent {
            case.expect_absent(&was.key).await;
        }
    }
}

pub(super) async fn restarts_the_clock(case: &Case) {
    let (key, id, term) = (case.key("clock"), case.id(), case.short());
    case.acquire(&key, id, term).await.granted();
    let mut sent = case.clock.now();
    for _ in 0..2 {
        case.sleep(term / 2).await;
        sent = case.clock.now();
        case.renew(&key, id).await.renewed();
    }
    let (_, answered) = case.take_over(&key, case.id(), term).await;
    expect_lasted(&key, sent, answered, term);
}

pub(super) async fn keeps_token_holder_and_metadata(case: &Case) {
    let leased = case.leased("keeps").await;
    for _ in 0..3 {
        case.renew(&leased.key, leased.id).await.renewed();
        let expected = format!("the same grant and metadata as in {:?}", leased.record);
        case.record(&leased.key, &expected, |now| {
            same_grant(&leased.record, now) && now.metadata == leased.record.metadata
        })
        .await;
    }
}

pub(super) async fn is_refused_to_another_id(case: &Case) {
    let leased = case.leased("another").await;
    let found = case.renew(&leased.key, case.id()).await.not_held();
    expect_told(&found, Some(LeaseState::Leased), Some(leased.id));
    case.expect_unchanged(&leased.record).await;
}

pub(super) async fn is_refused_while_breaking(case: &Case) {
    let leased = case.breaking("breaking").await;
    for id in [leased.id, case.id()] {
        let found = case.renew(&leased.key, id).await.not_held();
        expect_told(&found, Some(LeaseState::Breaking), Some(leased.id));
    }
    case.record(&leased.key, "breaking still", |record| {
        record.state == LeaseState::Breaking
    })
    .await;
}

pub(super) async fn of_an_expired_lease_gives_the_same_grant_or_none(case: &Case) {
    let was = case.free(Free::Expired).await;
    let found = case.renew(&was.key, case.id()).await.not_held();
    expect_told(&found, Some(LeaseState::Expired), None);
    let (sent, term) = (case.clock.now(), case.shortest());
    match case.renew(&was.key, was.id).await.ok() {
        Renew::NotHeld(found) => expect_told(&found, Some(LeaseState::Expired), None),
        Renew::Renewed => {
            case.record(&was.key, "the same token", |record| {
                record.token == was.token
            })
            .await;
            let (_, answered) = case.take_over(&was.key, case.id(), term).await;
            expect_lasted(&was.key, sent, answered, term);
        }
    }
}

pub(super) async fn of_an_expired_lease_is_refused_once_another_holds_it(case: &Case) {
    let was = case.free(Free::Expired).await;
    let other = case.id();
    case.take_over(&was.key, other, case.shortest()).await;
    let found = case.renew(&was.key, was.id).await.not_held();
    expect_told(&found, Some(LeaseState::Leased), Some(other));
    case.expect_holds(&was.key, other).await;
}

pub(super) async fn of_an_expired_lease_is_refused_once_another_held_it(case: &Case) {
    let was = case.free(Free::Expired).await;
    let other = case.id();
    case.take_over(&was.key, other, case.shortest()).await;
    case.release(&was.key, other).await.released();
    let found = case.renew(&was.key, was.id).await.not_held();
    expect_told(&found, Some(LeaseState::Available), None);
    case.acquire(&was.key, other, case.long()).await.granted();
}

pub(super) async fn of_an_expired_lease_is_refused_once_somebody_wrote(case: &Case) {
    let was = case.free(Free::Expired).await;
    case.write(&was.key, &note("meanwhile"), Precondition::Any, None)
        .await
        .written();
    case.renew(&was.key, was.id).await.not_held();
    let other = case.id();
    case.take_over(&was.key, other, case.shortest()).await;
}
