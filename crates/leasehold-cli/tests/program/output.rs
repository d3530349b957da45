use serde_json::json;

use crate::support::{Place, wait_until};

#[test]
fn an_unknown_key_is_available_and_people_are_told_that_there_is_no_record() {
    let place = Place::new();
    assert_eq!(
        place.show("k"),
        json!({"key": "k", "state": "available", "holder": null, "fencing_token": null,
               "term_seconds": null, "version": null, "metadata": {}})
    );
    let shown = place.run(["show", "k"]);
    assert_eq!(shown.code, Some(0));
    assert!(shown.stdout.contains("no record"), "{shown:?}");
}

#[test]
fn a_held_key_is_shown_and_listed_with_its_holder() {
    let place = Place::new();
    let holding = place.start(["run", "a/k", "--holder", "ann", "--", "sleep", "300"]);
    wait_until("the key is held", || place.state("a/k") == "leased");
    place.run(["run", "b/k", "--", "true"]);

    let shown = place.show("a/k");
    assert_eq!(shown["holder"], "ann");
    assert_eq!(shown["fencing_token"], 1);
    assert_eq!(shown["term_seconds"], 60);

    let listed = place.run(["list"]).stdout;
    let rows: Vec<Vec<_>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["KEY", "STATE", "HOLDER", "TOKEN", "REMAINING"]);
    assert_eq!(rows[1][..4], ["a/k", "leased", "ann", "1"]);
    assert_eq!(rows[2], ["b/k", "available", "-", "1", "-"]);
    assert_eq!(rows.len(), 3);

    let listed = place.run(["--json", "list", "a/"]).stdout;
    assert_eq!(listed.lines().count(), 1);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&listed).unwrap(),
        place.show("a/k")
    );
    drop(holding);
}

#[test]
fn a_broken_lease_ends_the_command_with_75_and_frees_the_key() {
    let place = Place::new();
    let run = ["run", "k", "--term", "4s", "--", "sleep", "300"];
    let holding = place.start(run);
    wait_until("the key is held", || place.state("k") == "leased");
    let broken = place.run(["break", "k", "--after", "0"]);
    assert_eq!(
        (broken.code, broken.stdout.as_str()),
        (Some(0), "k is broken: free now\n")
    );
    assert_eq!(place.state("k"), "broken");
    holding
        .wait()
        .assert_refused(75, &["on k is lost", "broken", "stopped"]);
}

#[test]
fn breaking_what_nobody_holds_says_so() {
    let place = Place::new();
    for _ in 0..2 {
        let broken = place.run(["break", "k"]);
        assert_eq!(broken.code, Some(0));
        assert!(broken.stdout.contains("not held"), "{broken:?}");
        place.run(["run", "k", "--", "true"]);
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let place = Place::new();
    let script = format!(
        "{} completions bash | head -n 1",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let mut shell = std::process::Command::new("bash");
    let output = shell
        .args(["-o", "pipefail", "-c", &script])
        .current_dir(place.path(""))
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"");
}

#[test]
fn completions_know_the_commands_and_not_the_watchdog() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(["completions", shell]).stdout;
        assert!(
            script.contains("once") && script.contains("kill-after"),
            "{shell}"
        );
        assert!(!script.contains("watchdog"), "{shell}");
    }
}
