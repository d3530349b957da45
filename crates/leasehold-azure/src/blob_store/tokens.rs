//! Tokens that go on across deletion.

use std::sync::atomic::Ordering;

use super::put::Put;
use super::{BlobStore, ROUNDS, Trouble};
use crate::failure::Failure;
use crate::metadata::BlobMetadata;

impl BlobStore {
    /// The greatest token that any deleted record had. A blob that exists and has no token goes on from here.
    ///
    /// It has to be asked after that blob was made: every deletion before its making has been noted by then,
    /// since a deletion is noted before it is done.
    pub(super) async fn greatest_deleted_token(&self) -> Result<u64, Failure> {
        let seen = self.look(&self.prefix.token_floor(), None).await?;
        let token = seen.and_then(|seen| seen.metadata.token).unwrap_or(0);
        self.deleted_token.fetch_max(token, Ordering::Relaxed);
        Ok(token)
    }

    /// Notes the token of a record that is about to be deleted. Noted in vain, it does no harm.
    pub(super) async fn note_deleted_token(&self, token: u64) -> Result<(), Trouble> {
        let blob = self.prefix.token_floor();
        for _ in 0..ROUNDS {
            if self.deleted_token.load(Ordering::Relaxed) >= token {
                return Ok(());
            }
            let (etag, metadata) = match self.look(&blob, None).await? {
                Some(seen) => (Some(seen.etag), seen.metadata),
                None => (None, BlobMetadata::default()),
            };
            let noted = metadata.token.unwrap_or(0);
            self.deleted_token.fetch_max(noted, Ordering::Relaxed);
            if noted >= token {
                return Ok(());
            }
            let metadata = BlobMetadata {
                token: Some(token),
                ..metadata
            };
            let put = match etag {
                Some(etag) => self.replace(&blob, &etag, metadata, None).await?,
                None => self.create(&blob, metadata).await?,
            };
            match put {
                Put::Done(_) => {
                    self.deleted_token.fetch_max(token, Ordering::Relaxed);
                    return Ok(());
                }
                Put::Changed { .. } => {}
                Put::Refused(failure) => return Err(failure.into()),
            }
        }
        Err(Trouble::Unsettled)
    }
}
