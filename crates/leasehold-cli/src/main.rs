//! The `leasehold` program: leases as locks, for scripts and for people.

mod args;
mod commands;
mod default_store;
mod duration;
mod exit;
mod failure;
mod group;
mod log;
mod output;
mod signals;
mod supervise;
mod terminal;
mod wait_notice;
mod watchdog;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;

fn main() -> ExitCode {
    // Not a clap command: nobody but `leasehold` itself calls it, and no help or completion should offer it.
    if let Some(order) = watchdog::Order::from_args(std::env::args_os()) {
        return watchdog::main(order);
    }
    let cli = Cli::parse();
    match perform(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            log::say(format_args!("{failure}"));
            failure.exit().into()
        }
    }
}

fn perform(cli: Cli) -> Result<Exit, Failure> {
    log::start(cli.verbose)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal("starting the runtime", &error))?;
    let result = runtime.block_on(commands::perform(cli));
    // What still hangs in a store's call must not keep a program that is done from ending.
    runtime.shutdown_background();
    result
}
