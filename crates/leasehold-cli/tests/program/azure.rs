use std::time::Duration;

use leasehold_testkit::servers::Azurite;

use crate::once::{eight_at_once, killed_half_way};
use crate::support::Place;

#[test]
#[ignore = "needs Azurite: cargo xtask test"]
fn eight_callers_at_once_do_it_once_on_azure_too() {
    eight_at_once(&Place::on(&Azurite::start()));
}

#[test]
#[ignore = "needs Azurite: cargo xtask test"]
fn when_the_one_that_works_is_killed_half_way_another_finishes_it_on_azure_too() {
    killed_half_way(&Place::on(&Azurite::start()), Duration::from_secs(15));
}

#[test]
#[ignore = "needs Azurite: cargo xtask test"]
fn run_list_and_break_do_on_azure_what_they_do_elsewhere() {
    let azurite = Azurite::start();
    let place = Place::on(&azurite);
    let ran = place.run([
        "run",
        "a/b",
        "--",
        "sh",
        "-c",
        "echo $LEASEHOLD_FENCING_TOKEN",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    place
        .run(["run", "--term", "4s", "k", "--", "true"])
        .assert_refused(2, &["15s", "1m"]);

    let held = place.start(["run", "k", "--", "sh", "-c", "echo > held; sleep 300"]);
    place.line("held");
    let listed = place.run(["list"]);
    assert!(listed.stdout.contains("a/b"), "{listed:?}");
    assert_eq!(place.state("k"), "leased");
    assert_eq!(place.run(["run", "-n", "k", "--", "true"]).code, Some(1));
    // The holder finds out when it renews next, after 35 of 60 s; until then it may hold what is broken.
    assert_eq!(place.run(["break", "k", "--after", "0"]).code, Some(0));
    let ran = held.wait();
    assert_eq!(ran.code, Some(75), "{ran:?}");
    assert!(ran.stderr.contains("broken"), "{ran:?}");
}
