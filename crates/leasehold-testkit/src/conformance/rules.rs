use super::Rule;

/// Makes the table of rules, and the macro that expands to a test for each.
macro_rules! rules {
    ($($group:ident { $($rule:ident,)* })*) => {
        pub(super) const RULES: &[Rule] = &[$($(Rule {
            name: concat!(stringify!($group), "::", stringify!($rule)),
            run: |case| Box::pin(super::$group::$rule(case)),
        },)*)*];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! __conformance_tests {
            () => {$(
                mod $group {$(
                    #[test]
                    fn $rule() {
                        $crate::conformance::run_rule(
                            concat!(stringify!($group), "::", stringify!($rule)),
                            super::make_suite,
                        );
                    }
                )*}
            )*};
        }
    };
}

rules! {
    acquire {
        is_granted_with_a_greater_token_when_nobody_holds_it,
        is_granted_to_the_id_that_held_it_last_like_to_any_other,
        is_granted_again_to_the_id_that_holds_it,
        repeated_by_its_holder_restarts_the_clock,
        repeated_by_its_holder_takes_the_new_term,
        answers_held_while_another_holds_it,
        answers_held_while_breaking_also_to_the_id_that_held_it,
        is_granted_when_the_break_ends_and_not_before,
        returns_the_record_as_of_the_grant,
    }
    renew {
        is_refused_when_nobody_holds_it,
        restarts_the_clock,
        keeps_token_holder_and_metadata,
        is_refused_to_another_id,
        is_refused_while_breaking,
        of_an_expired_lease_gives_the_same_grant_or_none,
        of_an_expired_lease_is_refused_once_another_holds_it,
        of_an_expired_lease_is_refused_once_another_held_it,
        of_an_expired_lease_is_refused_once_somebody_wrote,
    }
    change {
        is_refused_when_nobody_holds_it,
        hands_the_lease_to_the_new_id_with_the_same_token,
        repeated_says_yes_again,
        does_not_lengthen_the_term,
        is_refused_to_another_id,
        is_refused_while_breaking,
    }
    release {
        answers_not_held_when_nobody_holds_it,
        frees_the_lease_at_once,
        repeated_answers_not_held_which_is_not_an_error,
        repeated_does_not_end_the_next_ones_lease,
        by_another_answers_not_held_and_changes_nothing,
        while_breaking_frees_the_lease_at_once,
        leaves_the_record_and_no_holder,
    }
    break_lease {
        answers_not_held_when_nobody_holds_it,
        lasts_as_long_as_asked_when_more_remains,
        lasts_what_remains_when_more_is_asked_or_nothing_said,
        with_a_period_of_zero_ends_the_lease_at_once,
        ends_in_broken,
        of_what_is_breaking_only_shortens,
        of_an_infinite_lease_ends_it_at_once_or_after_the_period,
    }
    write {
        without_a_lease_is_done_when_nobody_holds_it,
        under_a_lease_that_is_not_held_is_refused,
        under_its_lease_is_done_and_keeps_the_lease,
        without_the_lease_is_refused_while_another_holds_it,
        while_breaking_needs_the_lease,
        makes_a_new_version_each_time_also_of_the_same_content,
        if_absent_is_done_only_where_there_is_no_record,
        if_exists_is_done_only_where_there_is_a_record,
        if_version_is_done_only_on_that_version,
        if_version_holds_under_a_lease_too,
        looks_at_the_lease_before_the_precondition,
        replaces_the_whole_metadata,
    }
    delete {
        without_a_lease_is_done_when_nobody_holds_it,
        under_a_lease_that_is_not_held_is_refused,
        under_its_lease_ends_the_lease_too,
        without_the_lease_is_refused_while_another_holds_it,
        if_absent_is_invalid_input,
        if_version_is_done_only_on_that_version,
        looks_at_the_lease_before_the_precondition,
        leaves_no_version_that_comes_back,
    }
    list {
        has_every_record_whatever_its_state,
        has_no_deleted_record,
        of_nothing_is_empty,
        takes_the_prefix_literally,
        of_a_whole_key_has_it_and_those_it_begins,
        of_the_empty_prefix_has_everything,
        has_hundreds_of_records_each_once,
    }
    tokens {
        grow_across_release,
        grow_across_expiry,
        grow_across_break,
        grow_across_deletion,
        grow_across_change,
        stay_with_the_record_when_it_is_released_or_written,
    }
    terms {
        out_of_range_are_invalid_input_and_leave_no_trace,
        out_of_range_leave_a_lease_as_it_is,
        at_both_ends_of_the_range_are_taken,
        that_end_free_the_lease_then_and_not_before,
        that_end_leave_the_record_expired,
        that_are_infinite_do_not_end,
    }
    keys {
        however_awkward_are_independent,
        however_awkward_are_listed_as_they_were_given,
    }
    metadata {
        comes_back_as_it_was_written,
        is_kept_by_every_lease_operation,
        survives_expiry_and_the_next_holder,
        of_a_new_record_is_empty,
    }
    watch {
        hints_of_a_release,
        hints_of_a_break,
        hints_of_a_deletion,
        hints_of_a_write,
        hints_while_somebody_already_waits,
        hints_on_a_key_that_has_no_record_yet,
        hints_to_everybody_who_watches,
        hints_again_and_again,
    }
    batch {
        of_nothing_answers_nothing,
        answers_each_in_order,
        restarts_each_clock,
        may_have_hundreds,
    }
    race {
        of_one_id_with_itself_grants_every_time,
        of_many_ids_grants_just_one,
        of_conditional_writes_lets_just_one_win,
        of_updates_loses_none,
        of_everybody_for_everything_keeps_holds_apart,
    }
}
