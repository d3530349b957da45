//! Conditional writes that may be sent again: each is marked, so that it is recognised when its answer was lost.

use leasehold_core::LeaseId;

use super::BlobStore;
use crate::failure::{Failure, IS_THERE};
use crate::metadata::BlobMetadata;

/// How often a write is sent whose connection gives no answer.
const TRIES: usize = 4;

/// What became of a conditional write.
pub(super) enum Put {
    /// Written; this is the new `ETag`.
    Done(String),
    /// The blob is not, or no longer, as it was thought to be.
    Changed {
        /// Whether that may be our own doing, with somebody else's on top.
        in_doubt: bool,
    },
    /// Not written, for another reason.
    Refused(Failure),
}

impl BlobStore {
    /// Replaces the metadata of just this version.
    pub(super) async fn replace(
        &self,
        blob: &str,
        etag: &str,
        mut metadata: BlobMetadata,
        lease: Option<LeaseId>,
    ) -> Result<Put, Failure> {
        metadata.write = Some(self.new_mark());
        let headers = metadata.headers();
        let mut in_doubt = false;
        for left in (0..TRIES).rev() {
            match self
                .container
                .set_metadata(blob, etag, &headers, lease)
                .await
            {
                Ok(etag) => return Ok(self.done(blob, etag, &metadata)),
                Err(failure) if failure.is_dropped() && left > 0 => in_doubt = true,
                Err(failure) if failure.is(&["ConditionNotMet"]) => {
                    return self.changed(blob, &metadata, in_doubt).await;
                }
                Err(failure) => return Ok(Put::Refused(failure.after_doubt(in_doubt))),
            }
        }
        Ok(Put::Changed { in_doubt })
    }

    /// Makes a blob, and the container where that is absent too.
    pub(super) async fn create(
        &self,
        blob: &str,
        mut metadata: BlobMetadata,
    ) -> Result<Put, Failure> {
        metadata.write = Some(self.new_mark());
        let mut in_doubt = false;
        for left in (0..TRIES).rev() {
            match self.container.create(blob, metadata.headers()).await {
                Ok(etag) => return Ok(self.done(blob, etag, &metadata)),
                Err(failure) if failure.is_dropped() && left > 0 => in_doubt = true,
                Err(failure) if failure.is(IS_THERE) => {
                    return self.changed(blob, &metadata, in_doubt).await;
                }
                Err(failure) if failure.is(&["ContainerNotFound"]) => {
                    self.container
                        .create_container()
                        .await
                        .map_err(|failure| failure.after_doubt(in_doubt))?;
                }
                Err(failure) => return Ok(Put::Refused(failure.after_doubt(in_doubt))),
            }
        }
        Ok(Put::Changed { in_doubt })
    }

    fn done(&self, blob: &str, etag: String, metadata: &BlobMetadata) -> Put {
        self.remember(blob, &etag, metadata);
        Put::Done(etag)
    }

    /// Somebody wrote: we ourselves, if the blob bears the mark.
    async fn changed(
        &self,
        blob: &str,
        metadata: &BlobMetadata,
        in_doubt: bool,
    ) -> Result<Put, Failure> {
        if in_doubt {
            let seen = self.look(blob, None).await;
            let seen = seen.map_err(|failure| failure.after_doubt(true))?;
            if let Some(seen) = seen
                && seen.metadata.write == metadata.write
            {
                return Ok(Put::Done(seen.etag));
            }
        }
        self.forget(blob);
        Ok(Put::Changed { in_doubt })
    }
}
