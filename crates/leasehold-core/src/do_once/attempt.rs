use std::sync::Arc;

use tokio::sync::Mutex;

use super::progress::{Progress, checkpoints};
use crate::{Invalid, LeaseError, LeaseHandle, StoreError};

/// One attempt at something to be done once, given to the work that makes it.
#[derive(Clone, Debug)]
pub struct Attempt {
    handle: LeaseHandle,
    number: u32,
    /// One checkpoint at a time: each adds to the list as the last one left it.
    phase: Arc<Mutex<Phase>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Ended,
}

impl Attempt {
    pub(super) fn new(handle: LeaseHandle, number: u32) -> Self {
        Self {
            handle,
            number,
            phase: Arc::new(Mutex::new(Phase::Working)),
        }
    }

    /// The number of this attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The lease it is made under: its deadline, its fencing token, and whether it is lost.
    pub fn lease(&self) -> &LeaseHandle {
        &self.handle
    }

    /// Whether this attempt or an earlier one got as far as this checkpoint.
    pub fn reached(&self, checkpoint: &str) -> bool {
        checkpoints(&self.handle.record().metadata).any(|name| name == checkpoint)
    }

    /// Records that the work got this far, for a successor to go on from if this attempt crashes.
    ///
    /// A checkpoint has 1 to 64 bytes without white space. One that was reached already costs no request.
    ///
    /// # Errors
    /// When the name is not allowed or the record is full, when the lease is lost (stop then), when the work
    /// has ended, or the store refuses.
    ///
    /// # Cancel safety
    /// Dropped early, the checkpoint may or may not have been recorded.
    pub async fn checkpoint(&self, checkpoint: &str) -> Result<(), LeaseError> {
        let phase = self.phase.lock().await;
        if *phase == Phase::Ended {
            return Err(StoreError::from(Invalid::new(format!(
                "the checkpoint {checkpoint:?} is too late: the attempt has ended"
            )))
            .into());
        }
        let record = self.handle.record();
        let reached = Progress::reached(&record, checkpoint).map_err(StoreError::from)?;
        if reached == record.metadata {
            return Ok(self.handle.check()?);
        }
        self.handle.write(&reached).await.map(drop)
    }

    /// No checkpoint after this: one written by a task that the work left behind would undo what is written
    /// when the attempt has ended.
    pub(super) async fn close(&self) {
        *self.phase.lock().await = Phase::Ended;
    }
}
