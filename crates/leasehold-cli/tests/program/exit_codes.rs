use std::os::unix::fs::PermissionsExt;

use crate::support::Place;

#[test]
fn the_commands_own_exit_code_is_the_programs() {
    let place = Place::new();
    for code in [0, 1, 3, 255] {
        let ran = place.run(["run", "k", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(ran.stderr, "");
        assert_eq!(place.state("k"), "available");
    }
}

#[test]
fn a_command_killed_by_signal_n_gives_128_and_n() {
    let place = Place::new();
    // 35 is a real-time signal, which has no name.
    for signal in [1, 9, 15, 35] {
        let ran = place.run(["run", "k", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(ran.code, Some(128 + signal), "{ran:?}");
        assert_eq!(place.state("k"), "available");
    }
}

#[test]
fn a_command_that_is_not_there_gives_127_and_the_lease_is_released() {
    let place = Place::new();
    for program in ["no-such-program", "./no-such-program"] {
        let ran = place.run(["run", "k", "--", program]);
        ran.assert_refused(127, &[program, "not found"]);
        assert_eq!(place.state("k"), "available");
    }
}

#[test]
fn a_command_that_cannot_be_executed_gives_126_and_the_lease_is_released() {
    let place = Place::new();
    let plain = place.path("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let ran = place.run(["run", "k", "--", "./plain"]);
    ran.assert_refused(126, &["./plain", "Permission denied"]);
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o755)).unwrap();
    let ran = place.run(["run", "k", "--", "./plain"]);
    ran.assert_refused(126, &["./plain", "format"]);
    place
        .run(["run", "k", "--", "/"])
        .assert_refused(126, &["/"]);
    assert_eq!(place.state("k"), "available");
}

#[test]
fn the_commands_output_and_input_are_the_programs() {
    let place = Place::new();
    let ran = place.run(["run", "k", "--", "sh", "-c", "echo out; echo err >&2; cat"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("out\n", "err\n")
    );
}

#[test]
fn a_command_inherits_nothing_but_its_three_streams() {
    let place = Place::new();
    let names = "for fd in /proc/self/fd/*; do readlink $fd; done | grep -E 'pipe|anon|leases'";
    let ran = place.run(["run", "k", "--", "sh", "-c", names]);
    let mut plain = std::process::Command::new("sh");
    plain.args(["-c", names]).stdin(std::process::Stdio::null());
    let plain = plain.output().unwrap();
    let count = |names: &str| names.lines().count();
    assert_eq!(
        count(&ran.stdout),
        count(&String::from_utf8(plain.stdout).unwrap()),
        "{ran:?}"
    );
}

#[test]
fn a_command_finds_its_lease_in_its_environment() {
    let place = Place::new();
    let script =
        "echo $LEASEHOLD_KEY,$LEASEHOLD_HOLDER,$LEASEHOLD_FENCING_TOKEN; echo $LEASEHOLD_LEASE_ID";
    for token in 1..=2 {
        let ran = place.run(["run", "k", "--holder", "ann", "--", "sh", "-c", script]);
        let (first, id) = ran.stdout.split_once('\n').unwrap();
        assert_eq!(first, format!("k,ann,{token}"));
        assert_eq!(id.trim().len(), 36, "{id}");
    }
}

#[test]
fn what_a_command_leaves_in_the_background_is_left_alone() {
    let place = Place::new();
    let script = "sleep 300 >/dev/null 2>&1 & echo $! > left";
    let ran = place.run(["run", "k", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0));
    let left = place.pid("left");
    assert!(crate::support::is_alive(left));
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}
