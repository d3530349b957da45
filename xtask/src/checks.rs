//! The checks, in the order in which they tell most for the least time.

use crate::run::{Failed, cargo, command, root, run};
use crate::tools;

/// Every runnable example: cargo examples by name, scripts by path.
const EXAMPLES: [&str; 2] = ["guard", "do_once"];
const SCRIPTS: [&str; 1] = ["examples/once.sh"];

/// Where a copy of the advisory database may lie beside the repository.
const ADVISORIES: &str = "../shared/advisory-db";

/// Installs what is missing and runs every test; fails if anything is missing all the same.
pub(crate) fn test() -> Result<(), Failed> {
    tools::debian_packages()?;
    tools::azurite()?;
    run(&mut cargo(&[
        "test",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
        "--",
        // What plain `cargo test` shows as ignored: it needs a server, or a privilege.
        "--include-ignored",
    ]))
}

pub(crate) fn ci() -> Result<(), Failed> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let everything = ["--workspace", "--all-targets", "--all-features"];
    run(&mut cargo(
        &[&["clippy"], &everything[..], &["--", "--deny", "warnings"]].concat(),
    ))?;
    run(
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"])
            .env("RUSTDOCFLAGS", "--deny warnings"),
    )?;
    test()?;
    examples()?;
    advisories_and_licences()
}

fn examples() -> Result<(), Failed> {
    for example in EXAMPLES {
        run(&mut cargo(&[
            "run",
            "--quiet",
            "--package",
            "leasehold",
            "--example",
            example,
        ]))?;
    }
    for script in SCRIPTS {
        run(&mut command("sh", &[script]))?;
    }
    Ok(())
}

fn advisories_and_licences() -> Result<(), Failed> {
    tools::cargo_tools()?;
    let mut audit = cargo(&["audit", "--deny", "warnings"]);
    if root().join(ADVISORIES).is_dir() {
        audit.args(["--db", ADVISORIES, "--no-fetch", "--stale"]);
    }
    run(&mut audit)?;
    run(&mut cargo(&[
        "deny", "check", "bans", "licenses", "sources",
    ]))
}
