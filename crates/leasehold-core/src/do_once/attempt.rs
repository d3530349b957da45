use std::sync::Arc;

use tokio::sync::Mutex;

use super::progress::{Progress, checkpoints};
use crate::{LeaseError, LeaseHandle, StoreError};

/// One attempt at something to be done once, given to the work that makes it.
#[derive(Clone, Debug)]
pub struct Attempt {
    handle: LeaseHandle,
    number: u32,
    /// One checkpoint at a time: each adds to the list as the last one left it.
    writing: Arc<Mutex<()>>,
}

impl Attempt {
    pub(super) fn new(handle: LeaseHandle, number: u32) -> Self {
        Self {
            handle,
            number,
            writing: Arc::default(),
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
    /// A checkpoint has 1 to 64 bytes without white space.
    ///
    /// # Errors
    /// When the name is not allowed or the record is full, when the lease is lost (stop then), or the store
    /// refuses.
    ///
    /// # Cancel safety
    /// Dropped early, the checkpoint may or may not have been recorded.
    pub async fn checkpoint(&self, checkpoint: &str) -> Result<(), LeaseError> {
        let _one_at_a_time = self.writing.lock().await;
        let reached =
            Progress::reached(&self.handle.record(), checkpoint).map_err(StoreError::from)?;
        self.handle.write(&reached).await.map(drop)
    }
}
