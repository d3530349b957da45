//! The watchdog itself is killed, or stopped.

use rustix::process::{Signal, kill_process};

use crate::support::{Place, end_of, wait_until};

#[test]
fn a_command_whose_watchdog_is_killed_is_ended_and_the_lease_is_released() {
    let place = Place::new();
    let script =
        "trap '' TERM; (while :; do sleep 0.05; done) & echo $! > pid2; echo $$ > pid; wait";
    let holder = place.start(["run", "k", "--kill-after", "1s", "--", "sh", "-c", script]);
    let pids = [place.pid("pid"), place.pid("pid2")];
    kill_process(holder.watchdog(), Signal::KILL).unwrap();
    holder.wait().assert_refused(70, &["watchdog", "stopped"]);
    for pid in pids {
        end_of(pid);
    }
    let next = place.run(["run", "-n", "k", "--", "true"]);
    assert_eq!(next.code, Some(0));
}

#[test]
fn a_lease_lost_while_the_watchdog_is_stopped_ends_the_command_all_the_same() {
    let place = Place::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let holder = place.start(["run", "k", "--term", "6s", "--", "sh", "-c", script]);
    let pid = place.pid("pid");
    kill_process(holder.watchdog(), Signal::STOP).unwrap();
    place.run(["break", "k", "--after", "0"]);
    end_of(pid);
    holder
        .wait()
        .assert_refused(75, &["on k is lost", "broken"]);
}

#[test]
fn a_watchdog_outlives_what_is_sent_to_its_session() {
    let place = Place::new();
    let script = "echo $$ > pid; while ! test -e done; do sleep 0.01; done; exit 7";
    let holder = place.start(["run", "k", "--", "sh", "-c", script]);
    place.pid("pid");
    let watchdog = holder.watchdog();
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
    ] {
        kill_process(watchdog, signal).unwrap();
    }
    std::fs::write(place.path("done"), "").unwrap();
    // Without the watchdog it would be 70, with a stopped one nothing.
    assert_eq!(holder.wait().code, Some(7));
    end_of(watchdog);
}

#[test]
fn the_commands_signals_are_as_they_would_be_without_us() {
    let place = Place::new();
    // Without a shell, which might mend them.
    let grep = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"];
    let ran = place.run(["run", "k", "--"].into_iter().chain(grep));
    let plain = std::process::Command::new(grep[0])
        .args(&grep[1..])
        .output()
        .unwrap();
    assert_eq!(ran.stdout, String::from_utf8(plain.stdout).unwrap());
}

#[test]
fn a_holder_leaves_no_process_behind() {
    let place = Place::new();
    let holder = place.start([
        "run",
        "k",
        "--",
        "sh",
        "-c",
        "echo $PPID > watchdog; touch go; sleep 0.2",
    ]);
    let watchdog = place.pid("watchdog");
    assert_eq!(holder.watchdog(), watchdog);
    wait_until("it runs", || place.path("go").exists());
    assert_eq!(holder.wait().code, Some(0));
    end_of(watchdog);
}
