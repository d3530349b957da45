use std::panic;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::{AutoRenewLease, LeaseHandle, LeaseStatus, LossCause, Lost};
use crate::clock::sleep_until;

/// Why work did not run to its end under its lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<T> {
    /// The lease was lost. The work has stopped.
    #[error("{lost}")]
    Lost {
        /// Why.
        lost: Lost,
        /// What the work ended with, if it ended by itself within the grace.
        output: Option<T>,
    },
    /// The lease was lost, and the work neither ended nor could be aborted before the term was over: it
    /// blocks its thread, and **may still run**. The lease is not released while it does.
    #[error("{lost}, and the work under it does not stop")]
    WillNotStop {
        /// Why.
        lost: Lost,
    },
}

impl AutoRenewLease {
    /// Runs `work` as a task under the lease, then releases it.
    ///
    /// When the lease is lost, the [handle](LeaseHandle) given to the work is cancelled; after the client's
    /// grace the work is dropped at its next await point. **The lease is released only after the work is
    /// gone**, also when this future is dropped (which drops the work) and when the work panics (the panic
    /// goes on to the caller).
    ///
    /// Where the store cannot be told, releasing is tried for up to a term before the output is given. Work
    /// that blocks its thread cannot be dropped, and on a runtime of one thread it keeps the lease from being
    /// renewed; give it a thread of its own.
    ///
    /// # Errors
    /// When the lease was lost before the work ended.
    ///
    /// # Panics
    /// When the work does, and outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropped early, the work is aborted, and the lease is released when it is gone.
    pub async fn run<F, Fut, T>(self, work: F) -> Result<T, RunError<T>>
    where
        F: FnOnce(LeaseHandle) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let handle = self.handle();
        let span = handle.hold.span.clone();
        let task = tokio::spawn(under_lease(work, self).instrument(span));
        let mut task = AbortOnDropHandle::new(task);
        tokio::select! {
            biased;
            ended = &mut task => match ended {
                Ok(result) => result,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panicked) => panic::resume_unwind(panicked),
                    // Nobody aborts it but its runtime, at its end.
                    Err(_) => Err(RunError::Lost {
                        lost: handle.hold.lost(LossCause::RenewalStopped),
                        output: None,
                    }),
                },
            },
            lost = overstayed(&handle) => Err(RunError::WillNotStop { lost }),
        }
    }
}

/// The work comes first: what is aborted before it begins drops its arguments in this order.
async fn under_lease<F, Fut, T>(work: F, lease: AutoRenewLease) -> Result<T, RunError<T>>
where
    F: FnOnce(LeaseHandle) -> Fut,
    Fut: Future<Output = T>,
{
    // Made after the lease, so that it is dropped before, however this ends.
    let mut work = Box::pin(work(lease.handle()));
    let result = tokio::select! {
        biased;
        output = &mut work => match lease.check() {
            Ok(()) => Ok(output),
            Err(lost) => Err(RunError::Lost { lost, output: Some(output) }),
        },
        lost = lease.lost() => {
            let clock = &*lease.handle.shared.clock;
            // From the deadline where that was noticed late: the margin has room for no more. By the clock,
            // because the term goes on while the machine is suspended, and timers do not.
            let end = clock.now().min(lease.deadline()) + lease.handle.hold.timing.grace;
            let output = tokio::select! {
                biased;
                output = &mut work => Some(output),
                () = sleep_until(clock, end) => None,
            };
            Err(RunError::Lost { lost, output })
        }
    };
    drop(work);
    match &result {
        // The reaper says what it could not release; the outcome of the work is what the caller came for.
        Ok(_) => drop(lease.release().await),
        // Nothing is known to be held: no reason to wait for the store.
        Err(_) => drop(lease),
    }
    result
}

/// Resolves when the lease was lost and even its term is over, which the work should have been long before.
async fn overstayed(handle: &LeaseHandle) -> Lost {
    // Time for the work to be dropped and for its result to get here. By the timers: when the machine wakes
    // from a sleep past the term, the task that drops the work has to find out as well.
    const SLACK: Duration = Duration::from_millis(500);
    let lost = handle.lost().await;
    if *handle.status().borrow() == LeaseStatus::Released {
        // The work has ended, and only the store's answer to the release is still to come.
        return std::future::pending().await;
    }
    let clock = &*handle.shared.clock;
    let end = clock.now().max(handle.deadline()) + handle.hold.timing.margin;
    sleep_until(clock, end).await;
    sleep(SLACK).await;
    lost
}
