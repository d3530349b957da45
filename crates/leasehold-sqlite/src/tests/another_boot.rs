use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_core::clock::SystemClock;
use leasehold_core::outcome::{Break, Release, Renew};
use leasehold_core::{LeaseState, LeaseStore, Term};

use leasehold_testkit::conformance::{Suite, rule_names, run_rule};

use super::{HandClock, id, key, open, try_acquire};
use crate::SqliteStore;

const MINUTE: Term = Term::Finite(Duration::from_secs(60));
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_lease_of_another_boot_is_in_the_way_for_one_whole_term_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let before = open(&path, &HandClock::at_seconds(1_000_000), "before").await;
    let first = try_acquire(&before, 1, MINUTE).await.unwrap();
    drop(before);

    // The clock of this boot has only just begun.
    let clock = HandClock::at_seconds(5);
    let after = open(&path, &clock, "after").await;
    let held_by = try_acquire(&after, 2, MINUTE).await.unwrap_err();
    assert_eq!(held_by.state, LeaseState::Leased);
    assert_eq!(held_by.remaining, Some(Duration::from_secs(60)));

    clock.advance(Duration::from_secs(60) - Duration::from_nanos(1));
    try_acquire(&after, 2, MINUTE).await.unwrap_err();
    clock.advance(Duration::from_nanos(1));
    let granted = try_acquire(&after, 2, MINUTE).await.unwrap();
    assert!(granted.token > first.token);
    assert_eq!(granted.remaining, Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn a_lease_that_ended_long_ago_in_a_boot_with_a_slower_clock_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let before = open(&path, &HandClock::at_seconds(10), "before").await;
    try_acquire(&before, 1, MINUTE).await.unwrap();

    // By the numbers alone it would be over; but those are of another clock.
    let after = open(&path, &HandClock::at_seconds(1_000_000), "after").await;
    try_acquire(&after, 2, MINUTE).await.unwrap_err();
    assert_eq!(before.renew(&key(), id(1)).await.unwrap(), Renew::Renewed);
}

#[tokio::test]
async fn a_lease_that_is_renewed_in_another_namespace_stays_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let (there, here) = (HandClock::at_seconds(1_000_000), HandClock::at_seconds(5));
    let holding = open(&path, &there, "there").await;
    let waiting = open(&path, &here, "here").await;
    try_acquire(&holding, 1, MINUTE).await.unwrap();

    for _ in 0..10 {
        try_acquire(&waiting, 2, MINUTE).await.unwrap_err();
        for clock in [&there, &here] {
            clock.advance(40 * SECOND);
        }
        assert_eq!(holding.renew(&key(), id(1)).await.unwrap(), Renew::Renewed);
    }
    try_acquire(&waiting, 2, MINUTE).await.unwrap_err();
    here.advance(60 * SECOND);
    try_acquire(&waiting, 2, MINUTE).await.unwrap();
}

#[tokio::test]
async fn two_namespaces_that_wait_for_a_third_do_not_make_each_other_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let holding = open(&path, &HandClock::at_seconds(1_000_000), "holding").await;
    try_acquire(&holding, 1, MINUTE).await.unwrap();
    drop(holding);

    let clocks = [HandClock::at_seconds(100), HandClock::at_seconds(7_000)];
    let first = open(&path, &clocks[0], "first").await;
    let second = open(&path, &clocks[1], "second").await;
    // They look by turns, as waiters do.
    for _ in 0..6 {
        try_acquire(&first, 2, MINUTE).await.unwrap_err();
        try_acquire(&second, 3, MINUTE).await.unwrap_err();
        for clock in &clocks {
            clock.advance(10 * SECOND);
        }
    }
    try_acquire(&second, 3, MINUTE).await.unwrap();
    // What was observed of the old lease says nothing about the new one.
    let held_by = try_acquire(&first, 2, MINUTE).await.unwrap_err();
    assert_eq!(held_by.remaining, Some(60 * SECOND));
}

#[tokio::test]
async fn an_infinite_lease_of_another_boot_stays_held_until_it_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let before = open(&path, &HandClock::at_seconds(10), "before").await;
    try_acquire(&before, 1, Term::Infinite).await.unwrap();

    let clock = HandClock::at_seconds(5);
    let after = open(&path, &clock, "after").await;
    try_acquire(&after, 2, MINUTE).await.unwrap_err();
    clock.advance(Duration::from_secs(1 << 32));
    try_acquire(&after, 2, MINUTE).await.unwrap_err();
    let broken = after.break_lease(&key(), None).await.unwrap();
    assert_eq!(broken, Break::Broken);
    try_acquire(&after, 2, MINUTE).await.unwrap();
}

#[tokio::test]
async fn a_break_period_of_another_boot_lasts_as_long_as_it_was_set_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let before = open(&path, &HandClock::at_seconds(1_000_000), "before").await;
    try_acquire(&before, 1, MINUTE).await.unwrap();
    let breaking = before.break_lease(&key(), Some(20 * SECOND)).await;
    assert_eq!(breaking.unwrap(), Break::Breaking(20 * SECOND));
    drop(before);

    let clock = HandClock::at_seconds(5);
    let after = open(&path, &clock, "after").await;
    let held_by = try_acquire(&after, 2, MINUTE).await.unwrap_err();
    assert_eq!(held_by.state, LeaseState::Breaking);
    assert_eq!(held_by.remaining, Some(20 * SECOND));
    clock.advance(20 * SECOND);
    try_acquire(&after, 2, MINUTE).await.unwrap();
}

#[tokio::test]
async fn a_mere_look_at_a_lease_of_another_boot_shows_it_held_and_starts_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let before = open(&path, &HandClock::at_seconds(10), "before").await;
    try_acquire(&before, 1, MINUTE).await.unwrap();

    let clock = HandClock::at_seconds(1_000_000);
    let after = open(&path, &clock, "after").await;
    for _ in 0..2 {
        let record = after.read(&key()).await.unwrap().unwrap();
        assert_eq!(record.state, LeaseState::Leased);
        assert_eq!((record.term, record.remaining), (Some(MINUTE), None));
        clock.advance(3_600 * SECOND);
    }
    // Once somebody asked for it, the look tells what remains, and then that it is over.
    try_acquire(&after, 2, MINUTE).await.unwrap_err();
    clock.advance(45 * SECOND);
    let record = after.read(&key()).await.unwrap().unwrap();
    assert_eq!(record.remaining, Some(15 * SECOND));
    clock.advance(15 * SECOND);
    let record = after.read(&key()).await.unwrap().unwrap();
    assert_eq!(record.state, LeaseState::Expired);
}

#[tokio::test]
async fn the_holder_renews_and_releases_from_another_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let there = open(&path, &HandClock::at_seconds(10), "there").await;
    let here = open(&path, &HandClock::at_seconds(1_000_000), "here").await;
    try_acquire(&there, 1, MINUTE).await.unwrap();
    assert_eq!(here.renew(&key(), id(1)).await.unwrap(), Renew::Renewed);
    assert_eq!(
        there.release(&key(), id(1)).await.unwrap(),
        Release::Released
    );
    try_acquire(&here, 2, MINUTE).await.unwrap();
}

#[tokio::test]
async fn setting_the_wall_clock_neither_ends_a_lease_nor_prolongs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let clock = HandClock::at_seconds(5);
    let store = open(&path, &clock, "boot").await;
    try_acquire(&store, 1, MINUTE).await.unwrap();
    clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33));
    try_acquire(&store, 2, MINUTE).await.unwrap_err();
    clock.set_wall(SystemTime::UNIX_EPOCH);
    clock.advance(60 * SECOND);
    try_acquire(&store, 2, MINUTE).await.unwrap();
}

/// The rest of the contract is for clients that share a clock: these agree late that a lease has ended.
#[test]
fn clients_of_two_namespaces_never_hold_at_the_same_time() {
    for race in rule_names().filter(|rule| rule.starts_with("race::")) {
        run_rule(race, || async {
            let folder = tempfile::tempdir().unwrap();
            let open = |epoch: &str| {
                let path = folder.path().join("leases.db");
                SqliteStore::open_in(path, Arc::new(SystemClock), epoch.to_owned())
            };
            let (here, there) = (open("here").await.unwrap(), open("there").await.unwrap());
            Suite::new(Arc::new(here))
                .client(Arc::new(there))
                .keep(folder)
        });
    }
}
