use std::time::Duration;

use leasehold_core::{FencingToken, Precondition, Record};

use super::case::{Case, note};

/// The token that the next holder has to top.
struct Latest<'a> {
    case: &'a Case,
    token: Option<FencingToken>,
}

impl<'a> Latest<'a> {
    fn of(case: &'a Case, record: &Record) -> Self {
        case.expect_greater(record, None);
        Self {
            case,
            token: record.token,
        }
    }

    #[track_caller]
    fn topped_by(&mut self, record: &Record) {
        self.case.expect_greater(record, self.token);
        self.token = record.token;
    }
}

pub(super) async fn grow_across_release(case: &Case) {
    let key = case.key("release");
    let mut id = case.id();
    let first = case.acquire(&key, id, case.long()).await.granted();
    let mut latest = Latest::of(case, &first);
    for turn in 0..6 {
        case.release(&key, id).await.released();
        // The same id again is a new grant like any other.
        if turn % 2 == 1 {
            id = case.id();
        }
        latest.topped_by(&case.acquire(&key, id, case.long()).await.granted());
    }
}

pub(super) async fn grow_across_expiry(case: &Case) {
    let (key, id) = (case.key("expiry"), case.id());
    let first = case.acquire(&key, id, case.shortest()).await.granted();
    let mut latest = Latest::of(case, &first);
    // The same id, and not before the end: until then that is the same grant.
    case.until_free(&key, case.shortest()).await;
    let (record, _) = case.take_over(&key, id, case.shortest()).await;
    latest.topped_by(&record);
}

pub(super) async fn grow_across_break(case: &Case) {
    let (key, id) = (case.key("break"), case.id());
    let first = case.acquire(&key, id, case.long()).await.granted();
    let mut latest = Latest::of(case, &first);
    for _ in 0..3 {
        case.break_lease(&key, Some(Duration::ZERO)).await.broken();
        latest.topped_by(&case.acquire(&key, id, case.long()).await.granted());
    }
}

pub(super) async fn grow_across_deletion(case: &Case) {
    let (key, id) = (case.key("deletion"), case.id());
    let first = case.acquire(&key, id, case.long()).await.granted();
    let mut latest = Latest::of(case, &first);
    for turn in 0..6 {
        // By its holder, by somebody after the release, and with the record written anew between.
        if turn % 2 == 0 {
            case.delete(&key, Precondition::Any, Some(id))
                .await
                .deleted();
        } else {
            case.release(&key, id).await.released();
            case.delete(&key, Precondition::Any, None).await.deleted();
        }
        if turn % 3 == 0 {
            case.write(&key, &note("anew"), Precondition::IfAbsent, None)
                .await
                .written();
        }
        latest.topped_by(&case.acquire(&key, id, case.long()).await.granted());
    }
}

pub(super) async fn grow_across_change(case: &Case) {
    let leased = case.leased("change").await;
    let mut latest = Latest::of(case, &leased.record);
    let new = case.id();
    case.change(&leased.key, leased.id, new).await.changed();
    case.release(&leased.key, new).await.released();
    latest.topped_by(
        &case
            .acquire(&leased.key, leased.id, case.long())
            .await
            .granted(),
    );
}

pub(super) async fn stay_with_the_record_when_it_is_released_or_written(case: &Case) {
    let leased = case.leased("stay").await;
    let same = |record: &Record| record.token == leased.record.token;
    case.record(&leased.key, "the token of the grant", same)
        .await;
    case.release(&leased.key, leased.id).await.released();
    case.record(&leased.key, "the token of the last grant", same)
        .await;
    case.write(&leased.key, &note("later"), Precondition::Any, None)
        .await
        .written();
    case.record(&leased.key, "the token of the last grant", same)
        .await;
}
