use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, Ran};

fn with_store(place: &Place, store: &str, args: &[&str]) -> Ran {
    let mut command = place.leasehold(args);
    Ran::of(command.env("LEASEHOLD_STORE", store).output().unwrap())
}

#[test]
fn wrong_usage_gives_2() {
    let place = Place::new();
    for args in [
        &["no-such-command"][..],
        &["run", "k"],
        &["run", "k", "true"],
        &["run", "k", "--"],
        &["run", "-n", "-w", "1", "k", "--", "true"],
        &["run", "-w", "soon", "k", "--", "true"],
        &["run", "-E", "256", "k", "--", "true"],
        &["once", "--attempts", "0", "k", "--", "true"],
        &["break", "k", "--after=-1"],
        &["completions", "no-such-shell"],
        &["__watchdog"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert_ne!(ran.stderr, "", "{args:?}");
    }
}

#[test]
fn a_bad_key_is_refused_everywhere_with_what_is_allowed() {
    let place = Place::new();
    let long = "k".repeat(513);
    for key in ["", "a\nb", &long] {
        for args in [
            &["run", key, "--", "touch", "ran"][..],
            &["once", key, "--", "touch", "ran"],
            &["show", key],
            &["break", key],
        ] {
            place.run(args).assert_refused(2, &["key"]);
        }
    }
    place
        .run(["show", &long])
        .assert_refused(2, &["513 bytes", "1 to 512"]);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_term_out_of_range_or_without_time_to_renew_is_refused_with_what_is_allowed() {
    let place = Place::new();
    let refused = |options: &[&str], words: &[&str]| {
        for command in ["run", "once"] {
            let mut args = vec![command, "k"];
            args.extend(options);
            args.extend(["--", "touch", "ran"]);
            place.run(&args).assert_refused(2, words);
        }
    };
    refused(&["--term", "0"], &["term of 0s", "1s to"]);
    refused(&["--term", "0.5"], &["term of 500ms", "1s to"]);
    refused(&["--term", "100y"], &["term of 100years"]);
    refused(
        &["--term", "10s", "--kill-after", "10s"],
        &["10s", "at most"],
    );
    refused(&["--term", "1s"], &["at most"]);
    refused(&["--holder", ""], &["holder", "1 to 256"]);
    assert!(!place.path("ran").exists());
}

#[test]
fn an_unknown_scheme_is_refused_with_the_known_ones_and_without_the_password() {
    let place = Place::new();
    let ran = with_store(&place, "ftp://ann:hunter2@host/x", &["list"]);
    ran.assert_refused(2, &["\"ftp\"", "sqlite:PATH", "memory:"]);
    assert!(!ran.stderr.contains("hunter2"));
    let ran = with_store(&place, "leases.db", &["list"]);
    ran.assert_refused(2, &["no scheme", "sqlite:PATH"]);
    let ran = place.run(["--store", "sqlite:", "list"]);
    ran.assert_refused(2, &["needs a path"]);
}

#[test]
fn help_does_not_show_what_the_environment_holds() {
    let place = Place::new();
    let ran = with_store(&place, "ftp://ann:hunter2@host/x", &["--help"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("LEASEHOLD_STORE"));
    assert!(!ran.stdout.contains("hunter2"));
}

#[test]
fn a_file_that_is_no_store_gives_69_and_is_not_touched() {
    let place = Place::new();
    let file = place.path("leases.db");
    let content = "this is no database, and somebody may need it\n".repeat(100);
    fs::write(&file, &content).unwrap();
    for args in [
        &["list"][..],
        &["show", "k"],
        &["run", "k", "--", "touch", "ran"],
    ] {
        place.run(args).assert_refused(69, &["leases.db"]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), content);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_directory_that_is_not_there_gives_69() {
    let place = Place::new();
    let store = format!("sqlite:{}", place.path("no/such/leases.db").display());
    with_store(&place, &store, &["list"]).assert_refused(69, &["no/such"]);
}

#[test]
fn without_a_store_the_default_is_in_the_state_directory_for_the_owner_alone() {
    let place = Place::new();
    let listed = place
        .leasehold(["list"])
        .env("LEASEHOLD_STORE", "")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", place.path("home"))
        .output()
        .unwrap();
    assert_eq!(Ran::of(listed).code, Some(0));
    let state = place.path("home/.local/state/leasehold");
    assert!(state.join("leases.db").exists());
    assert_eq!(
        fs::metadata(&state).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn without_a_store_and_a_home_the_program_says_what_to_give() {
    let place = Place::new();
    let listed = place
        .leasehold(["list"])
        .env_remove("LEASEHOLD_STORE")
        .env_remove("XDG_STATE_HOME")
        .env_remove("HOME")
        .output()
        .unwrap();
    Ran::of(listed).assert_refused(2, &["HOME", "--store"]);
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let place = Place::new();
    let mut command = place.leasehold(["list"]);
    let output = command
        .env("LEASEHOLD_LOG", "leasehold=loud")
        .output()
        .unwrap();
    Ran::of(output).assert_refused(2, &["LEASEHOLD_LOG"]);
}
