use rustix::process::Signal;

use crate::support::{Place, Running, is_alive, wait_until};

/// A command that writes down each signal it gets, and ends with `done`.
const LISTENER: &str =
    "trap 'echo INT >> got' INT; trap 'echo TERM >> got' TERM; trap 'echo HUP >> got' HUP
    echo $$ > pid; while ! test -e done; do sleep 0.01; done; exit 7";

#[test]
fn int_term_and_hup_are_passed_on_and_the_lease_is_held_until_the_command_is_gone() {
    let place = Place::new();
    let running = place.start(["run", "k", "--", "sh", "-c", LISTENER]);
    place.pid("pid");
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
    ] {
        running.signal(signal);
        wait_until(name, || place.text("got").ends_with(&format!("{name}\n")));
    }
    assert_eq!(place.state("k"), "leased");
    std::fs::write(place.path("done"), "").unwrap();
    assert_eq!(running.wait().code, Some(7));
    assert_eq!(place.text("got"), "INT\nTERM\nHUP\n");
    assert_eq!(place.state("k"), "available");
}

#[test]
fn a_command_that_dies_of_the_signal_passed_on_gives_128_and_n() {
    let place = Place::new();
    for command in ["run", "once"] {
        let script = format!("echo $$ > {command}-pid; exec sleep 300");
        let running = place.start([command, "k", "--", "sh", "-c", &script]);
        let pid = place.pid(&format!("{command}-pid"));
        running.signal(Signal::INT);
        assert_eq!(running.wait().code, Some(130), "{command}");
        assert!(!is_alive(pid));
        assert_eq!(place.state("k"), "available");
    }
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let place = Place::new();
    let holding = place.start(["run", "k", "--", "sh", "-c", LISTENER]);
    place.pid("pid");
    let mut nohup = std::process::Command::new("nohup");
    let program = place.leasehold(["-v", "run", "k", "--", "sh", "-c", "echo ran > ran"]);
    nohup.arg(program.get_program()).args(program.get_args());
    nohup.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    nohup
        .stdout(std::process::Stdio::null())
        .current_dir(place.path(""));
    nohup.stderr(std::fs::File::create(place.path("log")).unwrap());
    let mut waiter = Running::start(nohup);
    wait_until("it waits", || place.text("log").contains("waiting for"));
    waiter.signal(Signal::HUP);
    std::fs::write(place.path("done"), "").unwrap();
    assert_eq!(holding.wait().code, Some(7));
    wait_until("it ends", || waiter.has_ended());
    assert_eq!(place.text("ran"), "ran\n");
}
