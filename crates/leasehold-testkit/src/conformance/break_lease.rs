use std::time::Duration;

use leasehold_core::{LeaseState, Term};

use super::case::{Case, holder_of};
use super::situation::Free;

/// What a store may round a period down by when it answers.
const ROUNDING: Duration = Duration::from_secs(1);

/// A break period that was answered: what was asked for, or what remained, and never more.
#[track_caller]
fn expect_period(period: Duration, expected: Duration) {
    assert!(
        period <= expected && period + ROUNDING >= expected,
        "breaking for {period:?}; expected {expected:?}, or up to {ROUNDING:?} less"
    );
}

pub(super) async fn answers_not_held_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        for after in [None, Some(Duration::ZERO), Some(case.long() / 2)] {
            case.break_lease(&was.key, after).await.not_held();
        }
        if situation == Free::Absent {
            case.expect_absent(&was.key).await;
        }
    }
}

pub(super) async fn lasts_as_long_as_asked_when_more_remains(case: &Case) {
    let leased = case.leased("asked").await;
    let after = case.long() / 6;
    let period = case.break_lease(&leased.key, Some(after)).await.breaking();
    expect_period(period, after);
    case.record(&leased.key, "breaking, by the same holder", |record| {
        record.state == LeaseState::Breaking
            && record.holder == leased.record.holder
            && record.token == leased.record.token
            && record.remaining.is_none_or(|left| left <= after)
    })
    .await;
}

pub(super) async fn lasts_what_remains_when_more_is_asked_or_nothing_said(case: &Case) {
    for after in [None, Some(case.long() * 2)] {
        let sent = case.clock.now();
        let leased = case.leased(&format!("{after:?}")).await;
        let period = case.break_lease(&leased.key, after).await.breaking();
        let passed = case.clock.now().saturating_duration_since(sent);
        assert!(
            period <= case.long() && period + passed + ROUNDING >= case.long(),
            "broken after {after:?}, it breaks for {period:?}; {:?} less {passed:?} remained",
            case.long()
        );
    }
}

pub(super) async fn with_a_period_of_zero_ends_the_lease_at_once(case: &Case) {
    let leased = case.leased("zero").await;
    case.break_lease(&leased.key, Some(Duration::ZERO))
        .await
        .broken();
    case.record(&leased.key, "broken, and who held it last", |record| {
        record.state == LeaseState::Broken
            && record.holder == Some(holder_of(leased.id))
            && record.term.is_none()
            && record.remaining.is_none()
    })
    .await;
    case.renew(&leased.key, leased.id).await.not_held();
    case.acquire(&leased.key, case.id(), case.long())
        .await
        .granted();
}

pub(super) async fn ends_in_broken(case: &Case) {
    let leased = case.leased("ends").await;
    let after = Duration::from_secs(1).min(case.long() / 2);
    case.break_lease(&leased.key, Some(after)).await.breaking();
    let record = case.until_free(&leased.key, after).await;
    assert_eq!(record.state, LeaseState::Broken, "{record:?}");
    assert_eq!(record.holder, Some(holder_of(leased.id)), "{record:?}");
    assert_eq!(record.token, leased.record.token, "{record:?}");
}

pub(super) async fn of_what_is_breaking_only_shortens(case: &Case) {
    let leased = case.leased("shortens").await;
    let (first, shorter) = (case.long() / 6, case.long() / 12);
    case.break_lease(&leased.key, Some(first)).await.breaking();
    for longer in [Some(case.long() / 2), None, Some(first * 3)] {
        let period = case.break_lease(&leased.key, longer).await.breaking();
        assert!(
            period <= first,
            "broken again after {longer:?}, the break lasts {period:?} instead of {first:?}"
        );
    }
    let period = case
        .break_lease(&leased.key, Some(shorter))
        .await
        .breaking();
    expect_period(period, shorter);
    case.break_lease(&leased.key, Some(Duration::ZERO))
        .await
        .broken();
    case.acquire(&leased.key, case.id(), case.long())
        .await
        .granted();
}

pub(super) async fn of_an_infinite_lease_ends_it_at_once_or_after_the_period(case: &Case) {
    if !case.capabilities().terms.infinite {
        let (key, id) = (case.key("infinite"), case.id());
        case.acquire(&key, id, Term::Infinite).await.invalid();
        return;
    }
    let (key, id) = (case.key("at once"), case.id());
    case.acquire(&key, id, Term::Infinite).await.granted();
    case.break_lease(&key, None).await.broken();
    case.renew(&key, id).await.not_held();
    case.acquire(&key, case.id(), case.long()).await.granted();

    let (key, id, after) = (case.key("period"), case.id(), case.long() / 6);
    case.acquire(&key, id, Term::Infinite).await.granted();
    let period = case.break_lease(&key, Some(after)).await.breaking();
    expect_period(period, after);
    case.acquire(&key, id, Term::Infinite).await.held();
    case.break_lease(&key, Some(Duration::ZERO)).await.broken();
}
