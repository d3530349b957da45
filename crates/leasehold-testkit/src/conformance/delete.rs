use leasehold_core::outcome::Delete;
use leasehold_core::{LeaseState, Precondition, Version};

use super::case::{Case, note};
use super::situation::{Free, expect_told};

pub(super) async fn without_a_lease_is_done_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let answer = case.delete(&was.key, Precondition::Any, None).await;
        if situation == Free::Absent {
            answer.absent();
        } else {
            answer.deleted();
        }
        case.expect_absent(&was.key).await;
        case.delete(&was.key, Precondition::Any, None)
            .await
            .absent();
    }
}

pub(super) async fn under_a_lease_that_is_not_held_is_refused(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        for id in [was.id, case.id()] {
            let answer = case.delete(&was.key, Precondition::Any, Some(id)).await;
            if situation == Free::Absent {
                // Nothing is there either way, and either answer says so.
                let gone = answer.ok();
                assert!(
                    matches!(gone, Delete::Absent | Delete::NotHeld(_)),
                    "{gone:?}"
                );
                case.expect_absent(&was.key).await;
            } else {
                let found = answer.not_held();
                expect_told(&found, situation.state(), None);
                case.record(&was.key, "the record still", |_| true).await;
            }
        }
    }
}

pub(super) async fn under_its_lease_ends_the_lease_too(case: &Case) {
    let leased = case.leased("leased").await;
    let breaking = case.breaking("breaking").await;
    for held in [leased, breaking] {
        case.delete(&held.key, Precondition::Any, Some(held.id))
            .await
            .deleted();
        case.expect_absent(&held.key).await;
        case.renew(&held.key, held.id).await.not_held();
        case.release(&held.key, held.id).await.not_held();
        case.acquire(&held.key, case.id(), case.long())
            .await
            .granted();
    }
}

pub(super) async fn without_the_lease_is_refused_while_another_holds_it(case: &Case) {
    let leased = case.leased("leased").await;
    let breaking = case.breaking("breaking").await;
    for (held, state) in [
        (leased, LeaseState::Leased),
        (breaking, LeaseState::Breaking),
    ] {
        let held_by = case
            .delete(&held.key, Precondition::Any, None)
            .await
            .leased();
        case.expect_held_by(&held_by, state, &held);
        let found = case
            .delete(&held.key, Precondition::Any, Some(case.id()))
            .await
            .not_held();
        expect_told(&found, Some(state), Some(held.id));
        case.record(&held.key, "held still", |record| record.state == state)
            .await;
    }
}

pub(super) async fn if_absent_is_invalid_input(case: &Case) {
    let leased = case.leased("leased").await;
    let if_absent = Precondition::IfAbsent;
    case.delete(&leased.key, if_absent.clone(), Some(leased.id))
        .await
        .invalid();
    case.expect_unchanged(&leased.record).await;
    for situation in [Free::Absent, Free::Written] {
        let was = case.free(situation).await;
        case.delete(&was.key, if_absent.clone(), None)
            .await
            .invalid();
    }
}

pub(super) async fn if_version_is_done_only_on_that_version(case: &Case) {
    let key = case.key("version");
    let version = || Precondition::IfVersion(Version::new("no-such-version"));
    for precondition in [version(), Precondition::IfExists] {
        case.delete(&key, precondition, None).await.absent();
    }
    let first = case
        .write(&key, &note("a"), Precondition::Any, None)
        .await
        .written();
    let second = case
        .write(&key, &note("b"), Precondition::Any, None)
        .await
        .written();
    for precondition in [version(), Precondition::IfVersion(first)] {
        let found = case.delete(&key, precondition, None).await.conflict();
        assert!(
            found.is_none() || found.as_ref() == Some(&second),
            "the conflict tells version {found:?}; the record has {second}"
        );
    }
    case.record(&key, "the record still", |record| record.version == second)
        .await;
    case.delete(&key, Precondition::IfVersion(second), None)
        .await
        .deleted();
    case.expect_absent(&key).await;
}

pub(super) async fn looks_at_the_lease_before_the_precondition(case: &Case) {
    let leased = case.leased("leased").await;
    let version = || Precondition::IfVersion(Version::new("no-such-version"));
    case.delete(&leased.key, version(), None).await.leased();
    case.delete(&leased.key, version(), Some(case.id()))
        .await
        .not_held();
    case.delete(&leased.key, version(), Some(leased.id))
        .await
        .conflict();
    let exists = Precondition::IfExists;
    case.delete(&leased.key, exists, Some(leased.id))
        .await
        .deleted();
}

pub(super) async fn leaves_no_version_that_comes_back(case: &Case) {
    let key = case.key("again");
    let mut seen = Vec::new();
    for _ in 0..4 {
        let version = case
            .write(&key, &note("same"), Precondition::IfAbsent, None)
            .await
            .written();
        assert!(!seen.contains(&version), "{version} came back: {seen:?}");
        if let Some(old) = seen.last().cloned() {
            case.write(&key, &note("stale"), Precondition::IfVersion(old), None)
                .await
                .conflict();
        }
        seen.push(version);
        case.delete(&key, Precondition::Any, None).await.deleted();
    }
}
