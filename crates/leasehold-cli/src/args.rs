mod help;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::duration::parse as duration;

/// Leases as locks, on the storage you already have.
///
/// A lease is a lock with a time-out: held by one process of all that share a store, renewed while it works,
/// and free again soon after it crashed.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, after_help = help::PROGRAM)]
pub(crate) struct Cli {
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "LEASEHOLD_STORE",
        hide_env_values = true,
        help = "Where the leases are kept: sqlite:PATH, azure://CONTAINER[/PREFIX] or memory:",
        long_help = help::STORE
    )]
    pub(crate) store: Option<String>,

    /// Print JSON, one object a line (show, list, break)
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Say on stderr what is going on; -vv says more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, long_help = help::VERBOSE)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a key
    #[command(after_help = help::RUN)]
    Run(Run),
    /// Run a command once for all callers; everybody else waits until it is done
    #[command(after_help = help::ONCE)]
    Once(Once),
    /// Show what the store keeps at a key
    #[command(after_help = help::SHOW)]
    Show {
        /// The key: 1 to 512 bytes of UTF-8 without control characters
        key: String,
    },
    /// List what the store keeps, a line a key
    #[command(after_help = help::LIST)]
    List {
        /// Only keys that start with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },
    /// End somebody's lease
    #[command(after_help = help::BREAK)]
    Break {
        /// The key: 1 to 512 bytes of UTF-8 without control characters
        key: String,
        /// End it after this long, if its term is not over before; 0 is at once [default: when its term is over]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        after: Option<Duration>,
    },
    /// Print a script that completes this program's arguments
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell it is for
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The key to hold: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) key: String,
    /// Do not wait: if somebody else holds the key, exit at once (code 1, or -E)
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    #[command(flatten)]
    pub(crate) wait: Waiting,
    #[command(flatten)]
    pub(crate) lease: LeaseOptions,
    #[command(flatten)]
    pub(crate) command: CommandLine,
}

#[derive(Args, Debug)]
pub(crate) struct Once {
    /// What is to be done once: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) wait: Waiting,
    /// Give up for all callers when this many attempts have failed [default: no limit]
    #[arg(long, value_name = "N", conflicts_with = "give_up")]
    pub(crate) attempts: Option<NonZeroU32>,
    /// Give up for all callers when the first attempt has failed
    #[arg(long)]
    pub(crate) give_up: bool,
    #[command(flatten)]
    pub(crate) lease: LeaseOptions,
    #[command(flatten)]
    pub(crate) command: CommandLine,
}

#[derive(Args, Debug)]
pub(crate) struct Waiting {
    /// Wait for others for at most this long, then exit (code 1, or -E) [default: for ever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// The exit code when it was waited in vain
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1)]
    pub(crate) conflict_exit_code: u8,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Lease")]
pub(crate) struct LeaseOptions {
    /// How long others stay locked out after a crash; renewed at two thirds. 1s to a year on
    /// sqlite:, 15s to 60s on azure:
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) term: Duration,
    /// If the lease is lost, CMD gets TERM, and this much later KILL; both before the term ends
    /// [default: a twelfth of the term]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// Who holds the lease, for people; up to 256 bytes [default: host:pid:random]
    #[arg(long, value_name = "NAME")]
    pub(crate) holder: Option<String>,
}

impl LeaseOptions {
    pub(crate) fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(self.term / 12)
    }
}

#[derive(Args, Debug)]
pub(crate) struct CommandLine {
    /// The command and its arguments, without a shell
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub(crate) words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
