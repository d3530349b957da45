//! The suite can fail: each of these stores breaks the contract in one way, and the rule about it says so.

#[path = "broken/lease_defects.rs"]
mod lease_defects;
#[path = "broken/record_defects.rs"]
mod record_defects;
#[path = "broken/store.rs"]
mod store;

use std::sync::Arc;

use leasehold_core::MemoryStore;
use leasehold_core::clock::TestClock;
use leasehold_testkit::conformance::{Failure, Suite, check_all};

use store::{Broken, Defect};

/// The seed is fixed: a defect that only some seeds find would make a test that sometimes fails.
async fn failures(defect: impl Defect) -> Vec<Failure> {
    let clock = Arc::new(TestClock::new());
    let good = MemoryStore::with_clock(Arc::<TestClock>::clone(&clock));
    let store = Arc::new(Broken { good, defect });
    check_all(&Suite::new(store).clock(clock).seed(1)).await
}

fn assert_caught(failures: &[Failure], rule: &str, word: &str) {
    let failure = failures.iter().find(|failure| failure.rule == rule);
    let found = failure.is_some_and(|failure| failure.message.contains(word));
    assert!(found, "{rule} should say {word:?}; found: {failures:#?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_defect_no_rule_fails() {
    assert_eq!(failures(lease_defects::None).await, []);
}

macro_rules! caught {
    ($($test:ident: $defect:expr => $($rule:literal: $word:literal),+;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            let failures = failures($defect).await;
            $(assert_caught(&failures, $rule, $word);)+
        }
    )+};
}

mod lease_operations {
    use super::lease_defects::*;
    use super::*;

    caught! {
        an_acquire_that_turns_away_its_own_holder_is_caught: TurnsAwayItsOwnHolder =>
            "acquire::is_granted_again_to_the_id_that_holds_it": "expected Granted, got Held",
            "race::of_one_id_with_itself_grants_every_time": "was told";
        an_acquire_that_looks_and_then_takes_is_caught: LooksAndThenTakes =>
            "race::of_many_ids_grants_just_one": "one grant",
            "race::of_everybody_for_everything_keeps_holds_apart": "track";
        a_grant_that_rarely_overlaps_another_is_caught: SometimesGrantsWhatIsHeld::default() =>
            "race::of_everybody_for_everything_keeps_holds_apart": "track";
        a_grant_during_the_break_is_caught: GrantsToTheBrokenHolder =>
            "acquire::answers_held_while_breaking_also_to_the_id_that_held_it":
                "expected Held, got Granted";
        a_holder_wrongly_named_is_caught: NamesTheWrongHolder =>
            "acquire::answers_held_while_another_holds_it": "the holder is";
        a_term_silently_clamped_is_caught: ClampsTheTerm =>
            "terms::out_of_range_are_invalid_input_and_leave_no_trace": "expected InvalidInput",
            "terms::out_of_range_leave_a_lease_as_it_is": "expected InvalidInput";
        a_term_that_ends_early_is_caught: EndsTermsEarly =>
            "terms::that_end_free_the_lease_then_and_not_before": "it was held for",
            "acquire::repeated_by_its_holder_restarts_the_clock": "it was held for",
            "renew::restarts_the_clock": "it was held for",
            "batch::restarts_each_clock": "it was held for";
        a_term_that_never_ends_is_caught: NeverEndsATerm =>
            "terms::that_end_free_the_lease_then_and_not_before": "should be free";
        a_renewal_of_what_was_overtaken_is_caught: RenewsWhatWasOvertaken::default() =>
            "renew::of_an_expired_lease_is_refused_once_somebody_wrote": "expected NotHeld",
            "renew::of_an_expired_lease_is_refused_once_another_held_it": "expected NotHeld",
            "renew::of_an_expired_lease_gives_the_same_grant_or_none": "same token",
            "renew::is_refused_when_nobody_holds_it": "expected NotHeld";
        a_renewal_that_does_not_restart_the_clock_is_caught: RenewsWithoutRestartingTheClock =>
            "renew::restarts_the_clock": "",
            "batch::restarts_each_clock": "it was held for";
        a_call_that_does_not_end_is_caught: HangsWhereThereIsNoRecord =>
            "renew::is_refused_when_nobody_holds_it": "every call has to end";
        a_change_refused_when_repeated_is_caught: ChangesOnlyOnce =>
            "change::repeated_says_yes_again": "expected Changed";
        an_operation_that_is_not_there_is_caught: CannotChange =>
            "change::hands_the_lease_to_the_new_id_with_the_same_token": "Unsupported";
        a_repeated_release_that_fails_is_caught: FailsARepeatedRelease =>
            "release::repeated_answers_not_held_which_is_not_an_error": "got the error",
            "release::answers_not_held_when_nobody_holds_it": "got the error";
        a_release_for_anybody_is_caught: ReleasesForAnybody =>
            "release::by_another_answers_not_held_and_changes_nothing": "expected NotHeld",
            "release::repeated_does_not_end_the_next_ones_lease": "expected NotHeld";
        a_break_that_is_lengthened_is_caught: LengthensABreak =>
            "break_lease::of_what_is_breaking_only_shortens": "instead of";
    }
}

mod records {
    use super::record_defects::*;
    use super::*;

    caught! {
        tokens_that_restart_after_release_are_caught: RestartsTokensAfterRelease::default() =>
            "tokens::grow_across_release": "the one before was",
            "race::of_everybody_for_everything_keeps_holds_apart": "token";
        tokens_that_restart_after_deletion_are_caught: RestartsTokensAfterDeletion::default() =>
            "tokens::grow_across_deletion": "the one before was";
        metadata_wiped_by_an_acquire_is_caught: WipesMetadataWhenAcquired =>
            "metadata::is_kept_by_every_lease_operation": "unchanged after acquire",
            "acquire::returns_the_record_as_of_the_grant": "expected Written";
        a_write_without_the_lease_is_caught: LetsAnybodyWriteWithoutALease::default() =>
            "write::without_the_lease_is_refused_while_another_holds_it": "expected Leased";
        a_precondition_looked_at_first_is_caught: LooksAtThePreconditionFirst =>
            "write::looks_at_the_lease_before_the_precondition": "expected Leased, got Conflict";
        a_version_not_compared_is_caught: ForgetsToCompareTheVersion =>
            "write::if_version_is_done_only_on_that_version": "expected Conflict",
            "race::of_conditional_writes_lets_just_one_win": "one has to win",
            "race::of_updates_loses_none": "expected";
        a_version_that_stays_is_caught: KeepsTheVersionOfTheSameContent =>
            "write::makes_a_new_version_each_time_also_of_the_same_content": "came back";
        metadata_trimmed_is_caught: TrimsValues =>
            "metadata::comes_back_as_it_was_written": "leading and trailing";
        a_deletion_if_absent_is_caught: DeletesIfAbsent =>
            "delete::if_absent_is_invalid_input": "expected InvalidInput";
        a_list_by_wildcard_is_caught: ListsByWildcard =>
            "list::takes_the_prefix_literally": "ax1";
        keys_that_are_folded_are_caught: FoldsTheCaseOfKeys =>
            "keys::however_awkward_are_independent": "expected Granted, got Held",
            "keys::however_awkward_are_listed_as_they_were_given": "";
        a_batch_out_of_order_is_caught: AnswersABatchBackwards =>
            "batch::answers_each_in_order": "in a batch",
            "batch::may_have_hundreds": "of the batch is";
        a_watch_without_hints_is_caught: GivesNoHints =>
            "watch::hints_of_a_release": "no hint",
            "watch::hints_while_somebody_already_waits": "no hint";
        a_watch_that_begins_too_late_is_caught: SubscribesLate =>
            "watch::hints_of_a_release": "no hint",
            "watch::hints_on_a_key_that_has_no_record_yet": "no hint";
        a_watch_that_was_promised_and_is_not_there_is_caught: KeepsItsWatchToItself =>
            "watch::hints_of_a_release": "capabilities";
    }
}
