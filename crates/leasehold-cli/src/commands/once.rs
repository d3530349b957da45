use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::do_once::{Attempt, Completion, DoOnceError, FailurePolicy};
use leasehold::{DoOnce, Key};
use tokio::sync::oneshot;

use super::{RELEASE_LIMIT, client, environment, job, listen, open};
use crate::args::Once;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::log::say;
use crate::signals::Signals;
use crate::supervise::{Job, Outcome, supervise};
use crate::wait_notice::WaitNotice;

/// Why the work of this caller is not done, for the record as well.
#[derive(Debug)]
enum WorkFailed {
    Command(Outcome),
    Watchdog(io::Error),
}

pub(super) async fn perform(url: Option<&str>, args: Once) -> Result<Exit, Failure> {
    let key = Key::new(&args.key)?;
    let job = job(args.command, &args.lease)?;
    let mut signals = listen()?;
    let signals_for_work = listen()?;
    let leases = client(open(url).await?, &args.lease)?;
    let not_done = Exit::code(args.wait.conflict_exit_code);

    let mut once = DoOnce::new(&leases, key.clone()).failure_policy(match args.attempts {
        _ if args.give_up => FailurePolicy::GiveUp,
        Some(attempts) => FailurePolicy::Attempts(attempts),
        None => FailurePolicy::RetryByNextCaller,
    });
    if let Some(limit) = args.wait.wait {
        once = once.wait_at_most(limit);
    }
    let notice = WaitNotice::new(&key);
    let working = Arc::new(AtomicBool::new(false));
    let (stuck, is_stuck) = oneshot::channel();
    let work = {
        let (notice, working) = (notice.clone(), Arc::clone(&working));
        move |attempt| {
            working.store(true, Ordering::Relaxed);
            notice.hide();
            work(job, signals_for_work, attempt, stuck)
        }
    };

    let doing = notice.show_during(&**leases.store(), once.run(work));
    let done = tokio::select! {
        done = doing => done,
        // Those that come while the command runs are passed on to it, by who supervises it.
        signal = signals.next_while(|| !working.load(Ordering::Relaxed)) => {
            leases.shutdown(RELEASE_LIMIT).await;
            return Ok(Exit::signal(signal.as_raw()));
        }
        // Without another await: what is dropped with the runtime is not released, and that is wanted.
        Ok(outcome) = is_stuck => return Err(Failure::new(outcome.exit(), outcome.to_string())),
    };
    leases.shutdown(RELEASE_LIMIT).await;
    match done {
        Ok(completion) => {
            tell(&key, &completion);
            Ok(Exit::DONE)
        }
        Err(error) => Err(failure(&error, not_done)),
    }
}

/// Runs the command. Returns only when it is gone: the lease is released then.
async fn work(
    mut job: Job,
    signals: Signals,
    attempt: Attempt,
    stuck: oneshot::Sender<Outcome>,
) -> Result<Option<String>, WorkFailed> {
    let lease = attempt.lease();
    job.environment = environment(lease);
    tracing::info!(key = %lease.key(), attempt = attempt.number(), "acquired; running the command");
    let lost = async {
        lease.lost().await;
    };
    match supervise(&job, signals, lease.deadlines(), lost).await {
        Ok(Outcome::Ended(ended)) if ended.is_success() => Ok(None),
        Ok(Outcome::Stuck) => {
            let _ = stuck.send(Outcome::Stuck);
            std::future::pending().await
        }
        Ok(outcome) => Err(WorkFailed::Command(outcome)),
        Err(error) => Err(WorkFailed::Watchdog(error)),
    }
}

fn tell(key: &Key, completion: &Completion) {
    let attempt = completion.attempt;
    if completion.performed_here {
        tracing::info!(%key, attempt, "done here");
        return;
    }
    let holder = completion.holder.as_deref().unwrap_or("somebody");
    let finished = completion.finished.as_deref().unwrap_or("an unknown time");
    if WaitNotice::is_for_people() {
        say(format_args!(
            "{key} was done by {holder} at {finished} (attempt {attempt})"
        ));
    } else {
        tracing::info!(%key, attempt, holder, finished, "done by another caller");
    }
}

fn failure(error: &DoOnceError<WorkFailed>, not_done: Exit) -> Failure {
    let message = error.to_string();
    match error {
        DoOnceError::Failed { error, .. } => Failure::new(error.exit(), message),
        DoOnceError::GivenUp { .. } | DoOnceError::TimedOut(_) => Failure::new(not_done, message),
        DoOnceError::Interrupted(_) | DoOnceError::WillNotStop(_) => {
            Failure::new(Exit::LEASE_LOST, message)
        }
        DoOnceError::Acquire(error) => Failure::of_acquiring(error),
        DoOnceError::Store(error) => Failure::of_store(error),
        _ => Failure::new(Exit::INTERNAL, message),
    }
}

impl WorkFailed {
    fn exit(&self) -> Exit {
        match self {
            Self::Command(outcome) => outcome.exit(),
            Self::Watchdog(_) => Exit::INTERNAL,
        }
    }
}

impl fmt::Display for WorkFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(outcome) => outcome.fmt(f),
            Self::Watchdog(error) => write!(f, "starting the watchdog: {error}"),
        }
    }
}
