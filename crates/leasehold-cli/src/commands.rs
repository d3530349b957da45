mod break_lease;
mod completions;
mod list;
mod once;
mod run;
mod show;

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Holder, LeaseHandle, LeaseStore, Leases};

use crate::args::{Cli, Command, CommandLine, LeaseOptions};
use crate::default_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::supervise::{Job, SETTLE};

/// How long the program waits for what it lets go of to be released. After that it is left to expire.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

pub(crate) async fn perform(cli: Cli) -> Result<Exit, Failure> {
    let url = cli.store.as_deref();
    match cli.command {
        Command::Run(run) => run::perform(url, run).await,
        Command::Once(once) => once::perform(url, once).await,
        Command::Show { key } => show::perform(url, key, cli.json).await,
        Command::List { prefix } => list::perform(url, &prefix, cli.json).await,
        Command::Break { key, after } => break_lease::perform(url, key, after, cli.json).await,
        Command::Completions { shell } => completions::perform(shell),
    }
}

async fn open(url: Option<&str>) -> Result<Arc<dyn LeaseStore>, Failure> {
    let store = match url {
        // An empty variable in the environment is meant as none.
        None | Some("") => leasehold::open(&default_store::url()?).await?,
        Some(url) => leasehold::open(url).await?,
    };
    Ok(store)
}

/// A client whose deadlines leave time to end a command: TERM at the deadline, KILL `kill_after` later, and
/// all of it gone before the term is over.
fn client(store: Arc<dyn LeaseStore>, options: &LeaseOptions) -> Result<Leases, Failure> {
    let mut builder = Leases::builder(store)
        .term(options.term)
        .grace(options.kill_after().saturating_add(SETTLE));
    if let Some(holder) = &options.holder {
        builder = builder.holder(Holder::new(holder)?);
    }
    Ok(builder.build()?)
}

fn job(command: CommandLine, options: &LeaseOptions) -> Result<Job, Failure> {
    let mut words = command.words.into_iter();
    let program = words
        .next()
        .ok_or_else(|| Failure::new(Exit::USAGE, "no command was given"))?;
    Ok(Job {
        program,
        arguments: words.collect(),
        kill_after: options.kill_after(),
        environment: Vec::new(),
    })
}

/// What the command finds in its environment.
fn environment(lease: &LeaseHandle) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("LEASEHOLD_KEY", lease.key().to_string()),
        ("LEASEHOLD_HOLDER", lease.holder().to_string()),
        ("LEASEHOLD_LEASE_ID", lease.lease_id().expose()),
    ];
    if let Some(token) = lease.fencing_token() {
        environment.push(("LEASEHOLD_FENCING_TOKEN", token.to_string()));
    }
    environment
}

fn listen() -> Result<Signals, Failure> {
    Signals::to_end().map_err(|error| Failure::internal("listening to signals", &error))
}
