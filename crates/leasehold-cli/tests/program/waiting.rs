use leasehold::clock::{Clock, SystemClock};
use rustix::process::Signal;

use crate::support::{Place, Running, wait_until};

fn holding(place: &Place) -> Running {
    let holding = place.start(["run", "k", "--holder", "ann", "--", "sleep", "300"]);
    wait_until("the key is held", || place.state("k") == "leased");
    holding
}

#[test]
fn a_key_held_elsewhere_is_not_waited_for_with_n() {
    let place = Place::new();
    let _holding = holding(&place);
    let ran = place.run(["run", "-n", "k", "--", "touch", "ran"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    let ran = place.run(["run", "-n", "-E", "42", "k", "--", "touch", "ran"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(42), ""));
    assert!(!place.path("ran").exists());
}

#[test]
fn a_key_held_elsewhere_is_waited_for_as_long_as_w_says() {
    let place = Place::new();
    let _holding = holding(&place);
    for (wait, seconds) in [("0", 0.0), ("0.7", 0.7), ("700ms", 0.7)] {
        let begun = SystemClock.now();
        let ran = place.run(["run", "-w", wait, "-E", "9", "k", "--", "touch", "ran"]);
        let waited = SystemClock
            .now()
            .saturating_duration_since(begun)
            .as_secs_f64();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(9), ""));
        assert!(
            (seconds..seconds + 5.0).contains(&waited),
            "{wait}: {waited} s"
        );
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_waiter_runs_when_the_holder_is_done() {
    let place = Place::new();
    let script = "touch begun; while ! test -e go; do sleep 0.01; done; echo first >> out";
    let first = place.start(["run", "k", "--", "sh", "-c", script]);
    wait_until("the first runs", || place.path("begun").exists());
    let second = place.start(["run", "k", "--", "sh", "-c", "echo second >> out"]);
    let third = place.start([
        "run",
        "-w",
        "50",
        "k",
        "--",
        "sh",
        "-c",
        "echo third >> out",
    ]);
    std::fs::write(place.path("go"), "").unwrap();
    for running in [first, second, third] {
        assert_eq!(running.wait().code, Some(0));
    }
    let out = place.text("out");
    assert!(out.starts_with("first\n"), "{out}");
    assert_eq!(out.lines().count(), 3);
}

#[test]
fn a_waiter_that_is_told_to_end_leaves_at_once_and_leaves_nothing_held() {
    let place = Place::new();
    let holding = holding(&place);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for command in ["run", "once"] {
            let mut args = vec!["-v", command, "k", "--", "touch", "ran"];
            args.insert(2, "--term=30s");
            let mut command = place.leasehold(args);
            let log = std::fs::File::create(place.path("log")).unwrap();
            command.stderr(log);
            let waiter = Running::start(command);
            wait_until("it waits", || place.text("log").contains("waiting for"));
            let begun = SystemClock.now();
            waiter.signal(signal);
            assert_eq!(waiter.wait().code, Some(code));
            let took = SystemClock.now().saturating_duration_since(begun);
            assert!(took.as_secs() < 3, "{took:?}");
        }
    }
    assert_eq!(place.show("k")["holder"], "ann");
    holding.signal(Signal::TERM);
    assert_eq!(holding.wait().code, Some(143));
    // Nobody's term has to be waited for.
    let ran = place.run([
        "run",
        "-n",
        "k",
        "--",
        "sh",
        "-c",
        "echo $LEASEHOLD_FENCING_TOKEN",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "2\n"));
    assert!(!place.path("ran").exists());
}
