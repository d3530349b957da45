//! The lease is lost, or its holder is: the command ends before the term does.

use std::time::Duration;

use leasehold::clock::Instant;
use rustix::process::Signal;

use crate::support::{Place, Running, end_of, wait_until};

const TERM: Duration = Duration::from_secs(4);

/// Before the first renewal is due, so that the term ends when this says, or later.
fn end_of_term(holder: &Running) -> Instant {
    holder.since + TERM
}

fn start(place: &Place, command: &str, script: &str) -> Running {
    place.start([command, "k", "--term", "4s", "--", "sh", "-c", script])
}

/// Somebody else, who says with which token, and whether the first one's processes still run.
fn start_successor(place: &Place) -> Running {
    let script = "for pid in $(cat pid*); do kill -0 $pid 2>/dev/null && echo alive; done
        echo $LEASEHOLD_FENCING_TOKEN";
    place.start(["run", "k", "--", "sh", "-c", script])
}

fn assert_took_over(successor: Running) {
    let ran = successor.wait();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "2\n"), "{ran:?}");
}

#[test]
fn a_holder_that_is_killed_takes_its_command_and_the_commands_children_with_it() {
    let place = Place::new();
    let script = "sleep 300 & echo $! > pid2; echo $$ > pid; sleep 300";
    let mut holder = start(&place, "run", script);
    let pids = [place.pid("pid"), place.pid("pid2")];
    let (term_ends, successor) = (end_of_term(&holder), start_successor(&place));
    holder.kill();
    for pid in pids {
        assert!(end_of(pid) < term_ends);
    }
    assert_took_over(successor);
}

#[test]
fn a_holder_that_is_killed_takes_its_command_with_it_at_once_however_long_the_term() {
    let place = Place::new();
    let script = "echo $$ > pid; exec sleep 300";
    let mut holder = place.start(["run", "k", "--term", "1h", "--", "sh", "-c", script]);
    let pid = place.pid("pid");
    holder.kill();
    end_of(pid);
    assert_eq!(place.state("k"), "leased", "its term is not over");
}

#[test]
fn a_holder_that_is_stopped_past_its_term_loses_its_command_in_time_and_exits_75() {
    let place = Place::new();
    let holder = start(&place, "run", "echo $$ > pid; exec sleep 300");
    let pid = place.pid("pid");
    holder.signal(Signal::STOP);
    let successor = start_successor(&place);
    assert!(end_of(pid) < end_of_term(&holder));
    assert_took_over(successor);
    holder.signal(Signal::CONT);
    holder
        .wait()
        .assert_refused(75, &["on k is lost", "stopped"]);
}

#[test]
fn one_that_does_it_once_and_is_stopped_past_its_term_exits_75_too() {
    let place = Place::new();
    let holder = start(&place, "once", "echo $$ > pid; exec sleep 300");
    let pid = place.pid("pid");
    holder.signal(Signal::STOP);
    let next = place.start(["once", "k", "--", "sh", "-c", "echo done >> out"]);
    assert!(end_of(pid) < end_of_term(&holder));
    assert_eq!(next.wait().code, Some(0));
    holder.signal(Signal::CONT);
    holder
        .wait()
        .assert_refused(75, &["on k is lost", "stopped"]);
    assert_eq!(place.text("out"), "done\n");
    assert_eq!(place.show("k")["metadata"]["attempt"], "2");
}

#[test]
fn a_command_and_children_that_ignore_term_are_killed_before_the_term_ends() {
    let place = Place::new();
    let script = "trap '' TERM; (echo $$ > parent; while :; do sleep 0.05; done) & echo $! > pid2
        echo $$ > pid; while :; do sleep 0.05; done";
    let holder = start(&place, "run", script);
    let pids = [place.pid("pid"), place.pid("pid2")];
    holder.signal(Signal::STOP);
    let successor = start_successor(&place);
    for pid in pids {
        assert!(end_of(pid) < end_of_term(&holder));
    }
    assert_took_over(successor);
    holder.signal(Signal::CONT);
    assert_eq!(holder.wait().code, Some(75));
}

#[test]
fn children_that_ignore_term_are_killed_though_their_parent_obeyed_it() {
    let place = Place::new();
    let script = "(trap '' TERM; echo ready > ready; while :; do sleep 0.05; done) & echo $! > pid2
        echo $$ > pid; wait";
    let mut holder = start(&place, "run", script);
    let pids = [place.pid("pid"), place.pid("pid2")];
    place.line("ready");
    let (term_ends, successor) = (end_of_term(&holder), start_successor(&place));
    holder.kill();
    for pid in pids {
        assert!(end_of(pid) < term_ends);
    }
    assert_took_over(successor);
}

#[test]
fn a_command_that_is_stopped_is_ended_as_well() {
    let place = Place::new();
    let script = "trap 'echo got >> term; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let mut holder = start(&place, "run", script);
    let pid = place.pid("pid");
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    let term_ends = end_of_term(&holder);
    holder.kill();
    assert!(end_of(pid) < term_ends);
    assert_eq!(
        place.text("term"),
        "got\n",
        "it was killed without a chance"
    );
}

#[test]
fn a_holder_whose_store_is_gone_ends_its_command_in_time_and_exits_75() {
    let place = Place::new();
    let holder = start(&place, "run", "echo $$ > pid; exec sleep 300");
    let pid = place.pid("pid");
    // Somebody keeps the file to himself: no renewal gets through.
    let lock = "import sqlite3, time
c = sqlite3.connect('leases.db', isolation_level=None); c.execute('BEGIN EXCLUSIVE')
open('locked', 'w').write('locked\\n'); time.sleep(300)";
    let mut locker = std::process::Command::new("python3");
    let locker = Running::start_in(&place, locker.args(["-c", lock]));
    place.line("locked");
    assert!(end_of(pid) < end_of_term(&holder));
    holder
        .wait()
        .assert_refused(75, &["on k is lost", "stopped"]);
    drop(locker);
}

#[test]
fn a_command_that_ends_by_itself_while_its_holder_is_stopped_keeps_its_exit_code() {
    let place = Place::new();
    let holder = start(
        &place,
        "run",
        "echo $$ > pid; while ! test -e go; do sleep 0.01; done; exit 3",
    );
    let pid = place.pid("pid");
    holder.signal(Signal::STOP);
    std::fs::write(place.path("go"), "").unwrap();
    end_of(pid);
    wait_until("its term is over", || place.state("k") == "expired");
    holder.signal(Signal::CONT);
    assert_eq!(holder.wait().code, Some(3));
}
