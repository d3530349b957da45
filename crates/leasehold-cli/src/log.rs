use std::fmt;
use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::exit::Exit;
use crate::failure::Failure;

const VARIABLE: &str = "LEASEHOLD_LOG";

/// Sends what the program logs to stderr: what `LEASEHOLD_LOG` asks for, else what the number of `-v` does.
pub(crate) fn start(verbose: u8) -> Result<(), Failure> {
    let filter = match std::env::var(VARIABLE) {
        Ok(directives) if !directives.is_empty() => {
            EnvFilter::try_new(directives).map_err(|error| {
                let message = format!("{VARIABLE}: {error}; write for example leasehold=debug");
                Failure::new(Exit::USAGE, message)
            })?
        }
        _ => EnvFilter::new(match verbose {
            0 => "error",
            1 => "info",
            2 => "debug",
            _ => "trace",
        }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(verbose > 1)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

/// One line for people, on stderr. If nobody reads it, that must not end the program as `eprintln!` would.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "leasehold: {line}");
}
