use std::time::Duration;

use leasehold_core::{LeaseState, Term};

use super::case::{Case, expect_lasted, holder_of};

impl Case {
    /// Terms just outside of what the store takes, and far outside.
    fn terms_out_of_range(&self) -> Vec<Term> {
        let range = self.capabilities().terms;
        let mut terms = vec![
            Term::Finite(Duration::ZERO),
            Term::Finite(range.min / 2),
            Term::Finite(range.min.saturating_sub(Duration::from_millis(1))),
        ];
        let longer = range.max.checked_add(Duration::from_secs(1));
        terms.extend(longer.map(Term::Finite));
        terms.extend((range.max < Duration::MAX).then_some(Term::Finite(Duration::MAX)));
        terms.extend((!range.infinite).then_some(Term::Infinite));
        terms
    }

    #[track_caller]
    fn expect_names_the_range(&self, term: Term, message: &str) {
        let range = self.capabilities().terms;
        for end in [range.min, range.max] {
            let end = Term::Finite(end).to_string();
            assert!(
                message.contains(&end),
                "a term of {term} was refused without saying that {end} is an end of what is allowed: {message}"
            );
        }
    }
}

pub(super) async fn out_of_range_are_invalid_input_and_leave_no_trace(case: &Case) {
    let key = case.key("none");
    for term in case.terms_out_of_range() {
        let message = case.acquire(&key, case.id(), term).await.invalid();
        case.expect_names_the_range(term, &message);
        case.expect_absent(&key).await;
    }
}

pub(super) async fn out_of_range_leave_a_lease_as_it_is(case: &Case) {
    let leased = case.leased("as it is").await;
    for term in case.terms_out_of_range() {
        case.acquire(&leased.key, leased.id, term).await.invalid();
    }
    case.expect_unchanged(&leased.record).await;
    case.expect_holds(&leased.key, leased.id).await;
}

pub(super) async fn at_both_ends_of_the_range_are_taken(case: &Case) {
    let range = case.capabilities().terms;
    for length in [range.min, range.max] {
        let (key, id) = (case.key(&format!("{length:?}")), case.id());
        let record = case.acquire(&key, id, length).await.granted();
        assert!(
            record.term.is_none_or(|term| term == Term::Finite(length)),
            "{record:?}"
        );
    }
}

pub(super) async fn that_end_free_the_lease_then_and_not_before(case: &Case) {
    let (key, term) = (case.key("ends"), case.shortest());
    let sent = case.clock.now();
    let first = case.acquire(&key, case.id(), term).await.granted();
    let (record, answered) = case.take_over(&key, case.id(), term).await;
    expect_lasted(&key, sent, answered, term);
    case.expect_greater(&record, first.token);
}

pub(super) async fn that_end_leave_the_record_expired(case: &Case) {
    let (key, id, term) = (case.key("expired"), case.id(), case.shortest());
    let first = case.acquire(&key, id, term).await.granted();
    let record = case.until_free(&key, term).await;
    assert_eq!(record.state, LeaseState::Expired, "{record:?}");
    assert_eq!(record.holder, Some(holder_of(id)), "{record:?}");
    assert_eq!(record.token, first.token, "{record:?}");
    assert_eq!(
        (record.term, record.remaining),
        (None, None),
        "nothing is left of a term that ended: {record:?}"
    );
}

pub(super) async fn that_are_infinite_do_not_end(case: &Case) {
    let (key, id) = (case.key("infinite"), case.id());
    if !case.capabilities().terms.infinite {
        let message = case.acquire(&key, id, Term::Infinite).await.invalid();
        case.expect_names_the_range(Term::Infinite, &message);
        return;
    }
    let first = case.acquire(&key, id, Term::Infinite).await.granted();
    let infinite = first.term.is_none_or(|term| term == Term::Infinite);
    assert!(infinite && first.remaining.is_none(), "{first:?}");
    case.sleep(case.shortest() * 2).await;
    case.expect_unchanged(&first).await;
    case.expect_holds(&key, id).await;
    // An infinite lease can be given an end, by its holder.
    case.acquire(&key, id, case.shortest()).await.granted();
    case.take_over(&key, case.id(), case.shortest()).await;
}
