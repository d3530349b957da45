use std::process::Command;

use crate::support::{Place, Ran};

/// Runs a shell script in which `$leasehold` is the program, with 300 kB of disk of its own as `$PWD`, which
/// only the script can see.
fn on_a_small_disk(script: &str) -> String {
    let place = Place::new();
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc"])
        .arg(format!(
            "mount -t tmpfs -o size=300k tmpfs . && cd \"$PWD\"
             full() {{ dd if=/dev/zero of=ballast bs=1k 2> /dev/null || true; }}
             code() {{ set +e; \"$@\"; echo \"code $?\"; set -e; }}
             {script}"
        ))
        .env("leasehold", env!("CARGO_BIN_EXE_leasehold"))
        .env("LEASEHOLD_STORE", "sqlite:leases.db")
        .current_dir(place.path(""));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

#[test]
#[ignore = "mounts a disk of its own: cargo xtask test"]
fn a_full_disk_gives_69_says_so_and_damages_nothing() {
    let said = on_a_small_disk(
        "$leasehold run before -- true
         full
         for key in a b c d e f g h; do
             code $leasehold run -w 1 $key -- true 2>&1
         done
         rm ballast
         code $leasehold run before -- sh -c 'echo token $LEASEHOLD_FENCING_TOKEN'",
    );
    let (on_full, after) = said.split_at(said.find("token").unwrap());
    let mut codes: Vec<_> = on_full
        .lines()
        .filter(|line| line.starts_with("code"))
        .collect();
    assert_eq!(codes.len(), 8, "{said}");
    // One may find the room that another, which failed, gave back.
    codes.retain(|code| *code != "code 0");
    assert!(
        codes.len() >= 4 && codes.iter().all(|code| *code == "code 69"),
        "{said}"
    );
    assert!(
        on_full.contains("disk is full") || on_full.contains("disk may be full"),
        "{said}"
    );
    assert_eq!(after, "token 2\ncode 0\n");
}

#[test]
#[ignore = "mounts a disk of its own: cargo xtask test"]
fn a_disk_that_is_full_from_the_start_gives_69_and_works_once_there_is_room() {
    let said = on_a_small_disk(
        "full
         code $leasehold run k -- touch ran 2>&1
         rm ballast
         code $leasehold run k -- echo done",
    );
    assert!(said.contains("the disk is full"), "{said}");
    assert!(said.ends_with("code 69\ndone\ncode 0\n"), "{said}");
}

#[test]
#[ignore = "mounts a disk of its own: cargo xtask test"]
fn a_disk_that_cannot_be_written_gives_69_and_says_so() {
    let said = on_a_small_disk(
        "$leasehold run k -- true
         mount -o remount,ro .
         code $leasehold run k -- true 2>&1
         code $leasehold --store sqlite:new.db run k -- true 2>&1",
    );
    assert_eq!(said.matches("code 69").count(), 2, "{said}");
    assert_eq!(said.matches("not writable").count(), 2, "{said}");
}
