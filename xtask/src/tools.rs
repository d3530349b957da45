//! What the checks need on the machine, installed where it is missing.

use std::env;
use std::fs;

use crate::run::{Failed, cargo, command, output, root, run};

/// A program that tests start, and the Debian package it is in.
const PROGRAMS: [(&str, &str); 5] = [
    ("bash", "bash"),
    ("nohup", "coreutils"),
    ("python3", "python3"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
];

/// Checks written in Rust, in the versions that this repository is known to pass.
const CARGO_TOOLS: [(&str, &str); 2] = [("cargo-audit", "0.22.2"), ("cargo-deny", "0.20.2")];

/// Installs the Debian packages that the tests need.
pub(crate) fn debian_packages() -> Result<(), Failed> {
    let mut missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| !on_path(program))
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let root = output(&mut command("id", &["-u"])).is_some_and(|id| id.trim() == "0");
    let prefix: &[&str] = if root { &[] } else { &["sudo"] };
    let apt = |arguments: &[&str]| {
        let words = [prefix, &["apt-get"], arguments].concat();
        run(&mut command(words[0], &words[1..]))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], &*missing].concat())
}

/// Installs the Azure Storage emulator in the versions that its lock file names, unless just those are there.
pub(crate) fn azurite() -> Result<(), Failed> {
    let folder = root().join("xtask/azurite");
    let lock = fs::read(folder.join("package-lock.json"))
        .map_err(|error| format!("the emulator's lock file cannot be read: {error}"))?;
    // Written last, so that an installation that was cut short is none.
    let installed = folder.join("node_modules/installed-lock.json");
    if fs::read(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run(&mut command(
        "npm",
        &[
            "--prefix",
            "xtask/azurite",
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ],
    ))?;
    fs::write(&installed, lock)
        .map_err(|error| format!("{} cannot be written: {error}", installed.display()))
}

/// Installs the checks written in Rust, unless they are there in the right version.
pub(crate) fn cargo_tools() -> Result<(), Failed> {
    for (tool, version) in CARGO_TOOLS {
        let found = output(&mut command(tool, &["--version"]));
        let found = found
            .as_deref()
            .and_then(|text| text.split_whitespace().last());
        if found != Some(version) {
            run(&mut cargo(&[
                "install",
                "--locked",
                "--force",
                "--version",
                version,
                tool,
            ]))?;
        }
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
