//! Set-up and checks of this repository: `cargo xtask test` and `cargo xtask ci`.

mod checks;
mod run;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test   install what the tests need, and run every test, those that need a server or a privilege too
  ci     format, clippy, documentation, test, examples, advisories and licences";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match (arguments.next().as_deref(), arguments.next()) {
        (Some("test"), None) => checks::test(),
        (Some("ci"), None) => checks::ci(),
        (Some("help" | "-h" | "--help"), None) => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("xtask: {failed}");
            ExitCode::FAILURE
        }
    }
}
