use std::time::Duration;

use leasehold_core::{LeaseState, Precondition, Term};

use super::case::{Case, expect_lasted, holder_of, note};
use super::situation::Free;

pub(super) async fn is_granted_with_a_greater_token_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let id = case.id();
        let record = if situation == Free::Expired {
            case.take_over(&was.key, id, case.shortest()).await.0
        } else {
            case.acquire(&was.key, id, case.long()).await.granted()
        };
        assert_eq!(record.key, was.key, "{situation:?}");
        assert_eq!(record.state, LeaseState::Leased, "{situation:?}");
        assert_eq!(record.holder, Some(holder_of(id)), "{situation:?}");
        case.expect_greater(&record, was.token);
        let term = Term::Finite(case.long());
        assert!(
            record.term.is_none_or(|told| told == term),
            "{situation:?}: {record:?}"
        );
        assert!(
            record.remaining.is_none_or(|told| told <= case.long()),
            "{situation:?}: {record:?}"
        );
        case.expect_unchanged(&record).await;
        case.expect_holds(&was.key, id).await;
    }
}

pub(super) async fn is_granted_to_the_id_that_held_it_last_like_to_any_other(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let record = if situation == Free::Expired {
            case.take_over(&was.key, was.id, case.shortest()).await.0
        } else {
            case.acquire(&was.key, was.id, case.long()).await.granted()
        };
        assert_eq!(record.state, LeaseState::Leased, "{situation:?}");
        case.expect_greater(&record, was.token);
        case.expect_holds(&was.key, was.id).await;
    }
}

pub(super) async fn is_granted_again_to_the_id_that_holds_it(case: &Case) {
    let leased = case.leased("again").await;
    for _ in 0..3 {
        let again = case
            .acquire(&leased.key, leased.id, case.long())
            .await
            .granted();
        assert_eq!(again.state, LeaseState::Leased);
        assert_eq!(again.holder, leased.record.holder);
        assert!(
            again.token >= leased.record.token,
            "the token went back from {:?} to {:?}",
            leased.record.token,
            again.token
        );
        case.expect_unchanged(&again).await;
    }
    case.expect_holds(&leased.key, leased.id).await;
    case.release(&leased.key, leased.id).await.released();
}

pub(super) async fn repeated_by_its_holder_restarts_the_clock(case: &Case) {
    let (key, id, term) = (case.key("clock"), case.id(), case.short());
    case.acquire(&key, id, term).await.granted();
    case.sleep(term / 2).await;
    let sent = case.clock.now();
    case.acquire(&key, id, term).await.granted();
    let (_, answered) = case.take_over(&key, case.id(), term).await;
    expect_lasted(&key, sent, answered, term);
}

pub(super) async fn repeated_by_its_holder_takes_the_new_term(case: &Case) {
    let (key, id) = (case.key("term"), case.id());
    case.acquire(&key, id, case.shortest()).await.granted();
    let sent = case.clock.now();
    let longer = case.short();
    let again = case.acquire(&key, id, longer).await.granted();
    assert!(
        again
            .term
            .is_none_or(|term| term == Term::Finite(case.short())),
        "{again:?}"
    );
    let (_, answered) = case.take_over(&key, case.id(), longer).await;
    expect_lasted(&key, sent, answered, longer);
}

pub(super) async fn answers_held_while_another_holds_it(case: &Case) {
    let leased = case.leased("held").await;
    let held_by = case
        .acquire(&leased.key, case.id(), case.long())
        .await
        .held();
    case.expect_held_by(&held_by, LeaseState::Leased, &leased);
    case.expect_unchanged(&leased.record).await;
    case.expect_holds(&leased.key, leased.id).await;
}

pub(super) async fn answers_held_while_breaking_also_to_the_id_that_held_it(case: &Case) {
    let leased = case.breaking("breaking").await;
    for id in [leased.id, case.id()] {
        let held_by = case.acquire(&leased.key, id, case.long()).await.held();
        case.expect_held_by(&held_by, LeaseState::Breaking, &leased);
    }
    case.record(&leased.key, "breaking still", |record| {
        record.state == LeaseState::Breaking && record.token == leased.record.token
    })
    .await;
}

pub(super) async fn is_granted_when_the_break_ends_and_not_before(case: &Case) {
    let leased = case.leased("break ends").await;
    let after = Duration::from_secs(1).min(case.long() / 2);
    let sent = case.clock.now();
    case.break_lease(&leased.key, Some(after)).await.breaking();
    let (record, answered) = case.take_over(&leased.key, leased.id, after).await;
    expect_lasted(&leased.key, sent, answered, after);
    case.expect_greater(&record, leased.record.token);
}

pub(super) async fn returns_the_record_as_of_the_grant(case: &Case) {
    let (key, id) = (case.key("record"), case.id());
    let metadata = note("written before");
    case.write(&key, &metadata, Precondition::Any, None)
        .await
        .written();
    let record = case.acquire(&key, id, case.long()).await.granted();
    assert_eq!(record.metadata, metadata);
    // The version has to be good for a write at once, without another read.
    let if_unmodified = Precondition::IfVersion(record.version);
    case.write(&key, &note("under the lease"), if_unmodified, Some(id))
        .await
        .written();
    let again = case.acquire(&key, id, case.long()).await.granted();
    assert_eq!(again.metadata, note("under the lease"));
    let if_unmodified = Precondition::IfVersion(again.version);
    case.write(&key, &metadata, if_unmodified, Some(id))
        .await
        .written();
}
