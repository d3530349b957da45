use leasehold_core::{LeaseState, Metadata, Precondition, Version};

use super::case::{Case, holder_of, note};
use super::situation::{Free, expect_told};

/// A version that no store gives out.
fn strange() -> Version {
    Version::new("no-such-version")
}

/// A conflict tells the version that is there, or nothing.
#[track_caller]
fn expect_found(found: Option<&Version>, there: &Version) {
    assert!(
        found.is_none_or(|found| found == there),
        "the conflict tells version {found:?}; the record has {there}"
    );
}

pub(super) async fn without_a_lease_is_done_when_nobody_holds_it(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let metadata = note("new");
        let version = case
            .write(&was.key, &metadata, Precondition::Any, None)
            .await
            .written();
        case.record(&was.key, "it written, and free as before", |record| {
            record.metadata == metadata && record.version == version && !record.state.is_held()
        })
        .await;
    }
}

pub(super) async fn under_a_lease_that_is_not_held_is_refused(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let before = case.look(&was.key, "anything", |_| true).await;
        for id in [was.id, case.id()] {
            let found = case
                .write(&was.key, &note("new"), Precondition::Any, Some(id))
                .await
                .not_held();
            expect_told(&found, situation.state(), None);
        }
        match before {
            None => case.expect_absent(&was.key).await,
            Some(before) => case.expect_unchanged(&before).await,
        }
    }
}

pub(super) async fn under_its_lease_is_done_and_keeps_the_lease(case: &Case) {
    let leased = case.leased("leased").await;
    let version = case
        .write(
            &leased.key,
            &note("new"),
            Precondition::Any,
            Some(leased.id),
        )
        .await
        .written();
    case.record(&leased.key, "it written, and leased as before", |record| {
        record.metadata == note("new")
            && record.version == version
            && record.state == LeaseState::Leased
            && record.token == leased.record.token
            && record.holder == Some(holder_of(leased.id))
    })
    .await;
    case.expect_holds(&leased.key, leased.id).await;
}

pub(super) async fn without_the_lease_is_refused_while_another_holds_it(case: &Case) {
    let leased = case.leased("leased").await;
    let held_by = case
        .write(&leased.key, &note("new"), Precondition::Any, None)
        .await
        .leased();
    case.expect_held_by(&held_by, LeaseState::Leased, &leased);
    let found = case
        .write(
            &leased.key,
            &note("new"),
            Precondition::Any,
            Some(case.id()),
        )
        .await
        .not_held();
    expect_told(&found, Some(LeaseState::Leased), Some(leased.id));
    case.expect_unchanged(&leased.record).await;
}

pub(super) async fn while_breaking_needs_the_lease(case: &Case) {
    let leased = case.breaking("breaking").await;
    let held_by = case
        .write(&leased.key, &note("new"), Precondition::Any, None)
        .await
        .leased();
    case.expect_held_by(&held_by, LeaseState::Breaking, &leased);
    let found = case
        .write(
            &leased.key,
            &note("new"),
            Precondition::Any,
            Some(case.id()),
        )
        .await
        .not_held();
    expect_told(&found, Some(LeaseState::Breaking), Some(leased.id));
    case.write(
        &leased.key,
        &note("mine"),
        Precondition::Any,
        Some(leased.id),
    )
    .await
    .written();
    case.record(&leased.key, "it written, and breaking still", |record| {
        record.metadata == note("mine") && record.state == LeaseState::Breaking
    })
    .await;
}

pub(super) async fn makes_a_new_version_each_time_also_of_the_same_content(case: &Case) {
    let key = case.key("versions");
    let mut versions = Vec::new();
    for _ in 0..4 {
        let version = case
            .write(&key, &note("same"), Precondition::Any, None)
            .await
            .written();
        assert!(
            !versions.contains(&version),
            "{version} came back: {versions:?}"
        );
        case.record(&key, "the version answered", |record| {
            record.version == version
        })
        .await;
        versions.push(version);
    }
}

pub(super) async fn if_absent_is_done_only_where_there_is_no_record(case: &Case) {
    let key = case.key("absent");
    let version = case
        .write(&key, &note("first"), Precondition::IfAbsent, None)
        .await
        .written();
    let found = case
        .write(&key, &note("second"), Precondition::IfAbsent, None)
        .await
        .conflict();
    expect_found(found.as_ref(), &version);
    case.record(&key, "the first still", |record| {
        record.metadata == note("first") && record.version == version
    })
    .await;

    let leased = case.leased("leased").await;
    case.write(
        &leased.key,
        &note("new"),
        Precondition::IfAbsent,
        Some(leased.id),
    )
    .await
    .conflict();
}

pub(super) async fn if_exists_is_done_only_where_there_is_a_record(case: &Case) {
    let key = case.key("exists");
    let found = case
        .write(&key, &note("first"), Precondition::IfExists, None)
        .await
        .conflict();
    assert_eq!(found, None, "a version found where there is no record");
    case.expect_absent(&key).await;
    for precondition in [Precondition::Any, Precondition::IfExists] {
        case.write(&key, &note("there"), precondition, None)
            .await
            .written();
    }
}

pub(super) async fn if_version_is_done_only_on_that_version(case: &Case) {
    let key = case.key("version");
    let found = case
        .write(&key, &note("a"), Precondition::IfVersion(strange()), None)
        .await
        .conflict();
    assert_eq!(found, None, "a version found where there is no record");
    case.expect_absent(&key).await;

    let first = case
        .write(&key, &note("a"), Precondition::Any, None)
        .await
        .written();
    let second = case
        .write(
            &key,
            &note("b"),
            Precondition::IfVersion(first.clone()),
            None,
        )
        .await
        .written();
    for stale in [first, strange()] {
        let found = case
            .write(&key, &note("c"), Precondition::IfVersion(stale), None)
            .await
            .conflict();
        expect_found(found.as_ref(), &second);
    }
    case.record(&key, "the second still", |record| {
        record.metadata == note("b") && record.version == second
    })
    .await;
}

pub(super) async fn if_version_holds_under_a_lease_too(case: &Case) {
    let leased = case.leased("leased").await;
    let first = leased.record.version.clone();
    let if_first = Precondition::IfVersion(first);
    let second = case
        .write(&leased.key, &note("a"), if_first.clone(), Some(leased.id))
        .await
        .written();
    let found = case
        .write(&leased.key, &note("b"), if_first, Some(leased.id))
        .await
        .conflict();
    expect_found(found.as_ref(), &second);
    case.record(&leased.key, "the first write still", |record| {
        record.metadata == note("a")
    })
    .await;
}

pub(super) async fn looks_at_the_lease_before_the_precondition(case: &Case) {
    let failing = || [Precondition::IfAbsent, Precondition::IfVersion(strange())];
    let leased = case.leased("leased").await;
    let breaking = case.breaking("breaking").await;
    for held in [&leased, &breaking] {
        for precondition in failing() {
            case.write(&held.key, &note("new"), precondition.clone(), None)
                .await
                .leased();
            case.write(&held.key, &note("new"), precondition, Some(case.id()))
                .await
                .not_held();
        }
    }
    let was = case.free(Free::Released).await;
    for precondition in failing() {
        case.write(&was.key, &note("new"), precondition, Some(was.id))
            .await
            .not_held();
    }
    let absent = case.key("absent");
    let found = case
        .write(
            &absent,
            &note("new"),
            Precondition::IfExists,
            Some(case.id()),
        )
        .await
        .not_held();
    expect_told(&found, None, None);
}

pub(super) async fn replaces_the_whole_metadata(case: &Case) {
    let key = case.key("whole");
    let mut both = note("a");
    both.set("other", "b").expect("a short value");
    for metadata in [both, note("c"), Metadata::new()] {
        case.write(&key, &metadata, Precondition::Any, None)
            .await
            .written();
        case.record(&key, "just what was written last", |record| {
            record.metadata == metadata
        })
        .await;
    }
}
