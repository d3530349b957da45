use std::time::Duration;

use leasehold::{AcquireError, AutoRenewLease, Key, Leases, TryAcquire};
use tokio::time::timeout;

use super::{RELEASE_LIMIT, client, environment, job, listen, open};
use crate::args::Run;
use crate::exit::Exit;
use crate::failure::{Failure, in_one_line};
use crate::log::say;
use crate::signals::Signals;
use crate::supervise::{Job, Outcome, supervise};
use crate::wait_notice::WaitNotice;

pub(super) async fn perform(url: Option<&str>, args: Run) -> Result<Exit, Failure> {
    let key = Key::new(&args.key)?;
    let job = job(args.command, &args.lease)?;
    let mut signals = listen()?;
    let leases = client(open(url).await?, &args.lease)?;
    let limit = if args.nonblock {
        Some(Duration::ZERO)
    } else {
        args.wait.wait
    };

    let acquired = tokio::select! {
        acquired = acquire(&leases, &key, limit) => acquired,
        signal = signals.next() => {
            leases.shutdown(RELEASE_LIMIT).await;
            return Ok(Exit::signal(signal.as_raw()));
        }
    };
    match acquired? {
        TryAcquire::Acquired(lease) => run(lease, job, signals).await,
        TryAcquire::Held(held_by) => {
            tracing::info!(%key, ?held_by, "not acquired in the time allowed");
            leases.shutdown(RELEASE_LIMIT).await;
            Ok(Exit::code(args.wait.conflict_exit_code))
        }
    }
}

async fn acquire(
    leases: &Leases,
    key: &Key,
    limit: Option<Duration>,
) -> Result<TryAcquire, AcquireError> {
    let notice = WaitNotice::new(key);
    let waiting = async {
        match limit {
            Some(Duration::ZERO) => leases.try_acquire(key).await,
            Some(limit) => leases.acquire_timeout(key, limit).await,
            None => leases.acquire(key).await.map(TryAcquire::Acquired),
        }
    };
    notice.show_during(&**leases.store(), waiting).await
}

async fn run(lease: AutoRenewLease, mut job: Job, signals: Signals) -> Result<Exit, Failure> {
    job.environment = environment(&lease.handle());
    tracing::info!(key = %lease.key(), holder = %lease.holder(), token = ?lease.fencing_token(), "acquired");
    let lost = async {
        lease.lost().await;
    };
    let outcome = supervise(&job, signals, lease.deadlines(), lost).await;
    let why = lease.check().err();
    match outcome {
        // The one must not be released, and of the other nothing is known to be held.
        Ok(Outcome::Stuck | Outcome::Lost) => lease.abandon(),
        _ => release(lease).await,
    }
    let outcome = outcome.map_err(|error| Failure::internal("starting the watchdog", &error))?;
    match (&outcome, why) {
        (Outcome::Lost, Some(lost)) => say(format_args!("{lost}; the command was stopped")),
        _ => outcome.tell(),
    }
    Ok(outcome.exit())
}

/// A store that does not answer keeps nobody waiting for long whose command is done.
async fn release(lease: AutoRenewLease) {
    let key = lease.key().clone();
    match timeout(RELEASE_LIMIT, lease.release()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => say(format_args!("{}", in_one_line(&error))),
        Err(_) => say(format_args!(
            "releasing {key}: no answer in time; it is left to expire"
        )),
    }
}
