use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use rustix::process::Signal;

use crate::support::{Place, Running, end_of, wait_until};

#[test]
fn eight_callers_at_once_do_it_once_and_all_succeed() {
    eight_at_once(&Place::new());
}

/// On any store.
pub(super) fn eight_at_once(place: &Place) {
    let once = ["once", "init", "--", "sh", "-c", "echo done >> out"];
    let callers: Vec<_> = (0..8).map(|_| place.start(once)).collect();
    for caller in callers {
        let ran = caller.wait();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(place.text("out"), "done\n");
    let shown = place.show("init");
    assert_eq!(shown["metadata"]["progress"], "done");
    assert_eq!(shown["metadata"]["attempt"], "1");
    assert_eq!(shown["state"], "available");
}

#[test]
fn what_was_done_is_not_done_again() {
    let place = Place::new();
    for _ in 0..2 {
        let ran = place.run(["once", "init", "--", "sh", "-c", "echo done >> out"]);
        assert_eq!(ran.code, Some(0));
    }
    assert_eq!(place.text("out"), "done\n");
    let again = place.run(["-v", "once", "init", "--", "true"]);
    assert!(again.stderr.contains("done by another caller"), "{again:?}");
}

/// The first to work says who it is and then waits; any later one does the work.
const FIRST_WAITS: &str = "
    if mkdir first 2>/dev/null; then echo $PPID > watchdog; echo $$ > pid; sleep 300; fi
    echo done >> out";

#[test]
fn when_the_one_that_works_is_killed_half_way_another_finishes_it() {
    killed_half_way(&Place::new(), Duration::from_secs(4));
}

/// On any store that takes this term.
pub(super) fn killed_half_way(place: &Place, term: Duration) {
    let seconds = term.as_secs().to_string();
    let once = [
        "once",
        "init",
        "--term",
        &seconds,
        "--",
        "sh",
        "-c",
        FIRST_WAITS,
    ];
    let mut callers: Vec<Running> = (0..8).map(|_| place.start(once)).collect();
    let pid = place.pid("pid");
    let watchdog = place.pid("watchdog");
    let working = callers
        .iter()
        .position(|caller| crate::support::children(caller.pid) == [watchdog])
        .unwrap();
    let mut killed = callers.swap_remove(working);
    let term_ends = killed.since + term;
    killed.kill();
    let taken_over_by = SystemClock.now() + term + Duration::from_secs(5);
    assert!(end_of(pid) < term_ends);
    assert_eq!(place.text("out"), "", "the command outlived its lease");
    wait_until("another has done it", || place.text("out") == "done\n");
    assert!(SystemClock.now() < taken_over_by);
    for caller in callers {
        let ran = caller.wait();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(place.text("out"), "done\n");
    let shown = place.show("init");
    assert_eq!(shown["metadata"]["progress"], "done");
    assert_eq!(shown["metadata"]["attempt"], "2");
}

#[test]
fn when_the_command_fails_its_caller_gets_the_code_and_the_next_does_it() {
    let place = Place::new();
    let script = "if mkdir first 2>/dev/null; then exit 5; fi; echo done >> out";
    let callers: Vec<_> = (0..8)
        .map(|_| place.start(["once", "init", "--", "sh", "-c", script]))
        .collect();
    let mut codes: Vec<_> = callers
        .into_iter()
        .map(|caller| caller.wait().code.unwrap())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(place.text("out"), "done\n");
    assert_eq!(place.show("init")["metadata"]["attempt"], "2");
}

#[test]
fn a_failure_is_kept_in_the_record_and_told() {
    let place = Place::new();
    let ran = place.run(["once", "init", "--", "sh", "-c", "exit 5"]);
    ran.assert_refused(5, &["attempt 1", "init", "exit status 5"]);
    let metadata = &place.show("init")["metadata"];
    assert_eq!(metadata["progress"], "failed");
    assert_eq!(metadata["error"], "exit status 5");

    let ran = place.run(["once", "init", "--", "no-such-program"]);
    ran.assert_refused(127, &["attempt 2", "no-such-program: not found"]);
}

#[test]
fn after_as_many_failures_as_are_allowed_all_callers_are_refused() {
    let place = Place::new();
    let three = [
        "once",
        "--attempts",
        "2",
        "init",
        "--",
        "sh",
        "-c",
        "echo x >> tried; exit 5",
    ];
    let codes = [0; 4].map(|_| place.run(three).code.unwrap());
    assert_eq!(codes, [5, 5, 1, 1]);
    assert_eq!(place.text("tried"), "x\nx\n");

    let one = [
        "once",
        "--give-up",
        "-E",
        "42",
        "other",
        "--",
        "sh",
        "-c",
        "exit 6",
    ];
    assert_eq!(place.run(one).code, Some(6));
    place
        .run(one)
        .assert_refused(42, &["given up", "exit status 6"]);
}

#[test]
fn others_are_waited_for_as_long_as_w_says_and_ones_own_work_is_not_limited() {
    let place = Place::new();
    let script = "touch begun; while ! test -e go; do sleep 0.01; done; echo done >> out";
    let working = place.start(["once", "-w", "2", "init", "--", "sh", "-c", script]);
    wait_until("it works", || place.path("begun").exists());
    let waited = place.run(["once", "-w", "2.5", "-E", "9", "init", "--", "touch", "ran"]);
    waited.assert_refused(9, &["init", "not done within"]);
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(working.wait().code, Some(0));
    assert_eq!(place.text("out"), "done\n");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_signal_to_the_one_that_works_reaches_the_command() {
    let place = Place::new();
    let script = "trap 'echo got >> out; exit 3' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let working = place.start(["once", "init", "--", "sh", "-c", script]);
    place.pid("pid");
    working.signal(Signal::TERM);
    assert_eq!(working.wait().code, Some(3));
    assert_eq!(place.text("out"), "got\n");
    assert_eq!(place.show("init")["metadata"]["progress"], "failed");
}
