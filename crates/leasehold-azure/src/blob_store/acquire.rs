//! Acquiring: the service grants the lease, and under it the token is written.
//!
//! Why tokens strictly grow. A token is written only under the lease, only over the version it was read from,
//! and only as one more than what was read; and a grant is answered only when its token is known to be written.
//! So between two answered grants the second has read the first's token, or a greater one, whatever else
//! happened:
//!
//! - The holder dies, or the call is dropped, between the two steps: nobody was given a token. The lease ends
//!   with its term; the next holder goes on from the token that is there.
//! - The answer to the first step is lost: the repeat with the same id is granted again.
//! - The answer to the second is lost: the blob bears the mark of that write, or the next try is refused because
//!   the version is another, and one more is written over that. Once the caller was told an error, it repeats
//!   with the same id, which does both steps again, or lets go of it.
//! - A request that was given up arrives late: the lease or the version has changed, and it is refused. A late
//!   first step may be granted to nobody until its term ends; the caller was told that it may be.
//! - The lease ends between the steps (expired, broken by somebody): the second is refused. Start over.
//! - The blob is deleted between the steps, or was made anew: a blob without a token goes on from the greatest
//!   that was deleted, asked after that blob was made (`tokens.rs`).

use leasehold_core::outcome::{Acquire, HeldBy};
use leasehold_core::{Holder, Key, LeaseId, LeaseState, Record, Term};

use super::put::Put;
use super::{BlobStore, ROUNDS, Trouble, Version, whole_seconds};
use crate::failure::{Failure, IS_ABSENT, IS_NOT_UNDER_THE_LEASE, IS_TAKEN};
use crate::metadata::BlobMetadata;
use crate::seen::Seen;

impl BlobStore {
    pub(super) async fn acquire_within(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, Trouble> {
        let blob = self.prefix.name_of(key);
        let seconds = term.duration().map_or(-1, whole_seconds);
        for _ in 0..ROUNDS {
            match self.container.acquire(&blob, id, seconds).await {
                Ok(etag) => {
                    let granted = self.granted(key, &blob, etag, id, term, holder).await?;
                    if let Some(record) = granted {
                        return Ok(Acquire::Granted(record));
                    }
                }
                // An earlier request may still be granted when the other has let go.
                Err(failure) if failure.is(IS_TAKEN) && failure.in_doubt => {
                    return Err(Trouble::Unsettled);
                }
                Err(failure) if failure.is(IS_TAKEN) => {
                    return Ok(Acquire::Held(self.holder_of(&blob, &failure).await?));
                }
                Err(failure) if failure.is(&["BlobNotFound", "ContainerNotFound"]) => {
                    // Where others were faster, theirs is as good.
                    if let Put::Refused(failure) =
                        self.create(&blob, BlobMetadata::default()).await?
                    {
                        return Err(failure.into());
                    }
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Trouble::Unsettled)
    }

    /// Who holds a lease that was refused just now. If nobody does any more, somebody did then.
    async fn holder_of(&self, blob: &str, refused: &Failure) -> Result<HeldBy, Failure> {
        let seen = self.look(blob, None).await?;
        let held_by = seen
            .filter(|seen| seen.state.is_held())
            .map(|seen| seen.held_by(self.fencing));
        Ok(held_by.unwrap_or_else(|| HeldBy {
            state: if refused.is(&["LeaseIsBreakingAndCannotBeAcquired"]) {
                LeaseState::Breaking
            } else {
                LeaseState::Leased
            },
            holder: None,
            token: None,
            remaining: None,
        }))
    }

    /// The lease is ours: the record, or `None` when it was lost meanwhile.
    async fn granted(
        &self,
        key: &Key,
        blob: &str,
        etag: String,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Option<Record>, Trouble> {
        let known = self.remembered(blob).filter(|known| known.etag == etag);
        let second_step = async {
            if self.fencing {
                self.write_token(blob, known, id, term, holder).await
            } else if known.is_some() {
                Ok(known)
            } else {
                Ok(self.version(blob).await?)
            }
        };
        match second_step.await {
            Ok(version) => Ok(version.map(|version| {
                let seen = Seen {
                    etag: version.etag,
                    state: LeaseState::Leased,
                    infinite: term == Term::Infinite,
                    metadata: version.metadata,
                };
                let record = seen.record(key, self.fencing);
                Record {
                    holder: Some(holder.clone()),
                    term: Some(term),
                    ..record
                }
            })),
            Err(Trouble::Failed(failure)) => {
                // Granted, and not to be had: nobody shall wait for a lease that nobody has. What may succeed
                // the next time is the caller's to repeat, or to let go of.
                if !failure.is_passing() {
                    let _ = self.container.release(blob, id).await;
                }
                Err(failure.after_doubt(true).into())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Writes the next token, holder and term over the version that is there; `None` when the lease was lost.
    async fn write_token(
        &self,
        blob: &str,
        mut known: Option<Version>,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Option<Version>, Trouble> {
        for _ in 0..ROUNDS {
            let version = match known.take() {
                Some(version) => version,
                None => match self.version(blob).await? {
                    Some(version) => version,
                    None => return Ok(None),
                },
            };
            let last = match version.metadata.token {
                Some(token) => token,
                None => self.greatest_deleted_token().await?,
            };
            let next = last
                .checked_add(1)
                .ok_or_else(|| Failure::corrupt("its fencing token is the greatest there is"))?;
            let metadata = BlobMetadata {
                token: Some(next),
                holder: Some(holder.clone()),
                term: term
                    .duration()
                    .and_then(|length| u64::try_from(whole_seconds(length)).ok()),
                ..version.metadata
            };
            match self
                .replace(blob, &version.etag, metadata.clone(), Some(id))
                .await?
            {
                Put::Done(etag) => return Ok(Some(Version { etag, metadata })),
                // By the same id in another task, or by a try of ours.
                Put::Changed { .. } => {}
                Put::Refused(failure)
                    if failure.is(IS_NOT_UNDER_THE_LEASE) || failure.is(IS_ABSENT) =>
                {
                    return Ok(None);
                }
                Put::Refused(failure) => return Err(failure.into()),
            }
        }
        Err(Trouble::Unsettled)
    }

    async fn version(&self, blob: &str) -> Result<Option<Version>, Failure> {
        let seen = self.look(blob, None).await?;
        Ok(seen.map(|seen| Version {
            etag: seen.etag,
            metadata: seen.metadata,
        }))
    }
}
