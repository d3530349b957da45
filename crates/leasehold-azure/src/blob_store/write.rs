//! Writing and deleting: the lease is looked at first, then the precondition, and what was looked at must
//! still be so when it is done.

use leasehold_core::outcome::{Delete, NotHeld, Write};
use leasehold_core::{Key, LeaseId, Metadata, Precondition, Version as RecordVersion};

use super::put::Put;
use super::{BlobStore, Found, ROUNDS, Trouble, Version};
use crate::failure::{IS_ABSENT, IS_NOT_UNDER_THE_LEASE};
use crate::metadata::BlobMetadata;

/// How often a deletion is sent whose connection gives no answer.
const TRIES: usize = 4;

impl BlobStore {
    pub(super) async fn write_within(
        &self,
        key: &Key,
        values: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, Trouble> {
        let blob = self.prefix.name_of(key);
        let is_conditional = matches!(
            precondition,
            Precondition::IfAbsent | Precondition::IfVersion(_)
        );
        // Where the precondition holds for the version seen last, the service says whether that is still the
        // one, and whether the lease is as it has to be.
        let mut known = self.remembered(&blob).filter(|known| match precondition {
            Precondition::Any | Precondition::IfExists => true,
            Precondition::IfVersion(wanted) => wanted.as_str() == known.etag,
            Precondition::IfAbsent => false,
        });
        for _ in 0..ROUNDS {
            let found = match known.take() {
                Some(version) => Some(version),
                None => match self.find(&blob, lease).await? {
                    Found::NotHeld(not_held) => return Ok(Write::NotHeld(not_held)),
                    Found::Absent if lease.is_some() => {
                        return Ok(Write::NotHeld(NotHeld::ABSENT));
                    }
                    Found::Absent => None,
                    Found::There(seen) if lease.is_none() && seen.state.is_held() => {
                        return Ok(Write::Leased(seen.held_by(self.fencing)));
                    }
                    Found::There(seen) => Some(Version {
                        etag: seen.etag,
                        metadata: seen.metadata,
                    }),
                },
            };
            let etag = found.as_ref().map(|found| found.etag.as_str());
            if !holds(precondition, etag) {
                return Ok(Write::Conflict(etag.map(RecordVersion::new)));
            }
            let put = match found {
                None => {
                    let metadata = BlobMetadata {
                        values: values.clone(),
                        ..BlobMetadata::default()
                    };
                    self.create(&blob, metadata).await?
                }
                Some(found) => {
                    let metadata = BlobMetadata {
                        values: values.clone(),
                        ..found.metadata
                    };
                    self.replace(&blob, &found.etag, metadata, lease).await?
                }
            };
            match put {
                Put::Done(etag) => return Ok(Write::Written(RecordVersion::new(etag))),
                // Written by us, perhaps, and again by another: neither yes nor no would be true.
                Put::Changed { in_doubt: true } if is_conditional => {
                    return Err(Trouble::Unsettled);
                }
                Put::Changed { .. } => {}
                // Somebody took the lease, or lost it, or deleted the blob: the next look says.
                Put::Refused(failure)
                    if !failure.in_doubt
                        && (failure.is(IS_NOT_UNDER_THE_LEASE) || failure.is(IS_ABSENT)) => {}
                Put::Refused(failure) => return Err(failure.into()),
            }
        }
        Err(Trouble::Unsettled)
    }

    pub(super) async fn delete_within(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, Trouble> {
        let blob = self.prefix.name_of(key);
        let mut tries = 0;
        for _ in 0..ROUNDS {
            let seen = match self.find(&blob, lease).await? {
                // Nobody else deletes what is leased by us, so an earlier try has.
                Found::Absent if lease.is_some() && tries > 0 => return Ok(Delete::Deleted),
                Found::Absent => return Ok(Delete::Absent),
                Found::NotHeld(not_held) => return Ok(Delete::NotHeld(not_held)),
                Found::There(seen) => seen,
            };
            if lease.is_none() && seen.state.is_held() {
                return Ok(Delete::Leased(seen.held_by(self.fencing)));
            }
            if !holds(precondition, Some(&seen.etag)) {
                return Ok(Delete::Conflict(Some(RecordVersion::new(seen.etag))));
            }
            // First, or a crash in between would have the next grant start at 1. It is the token of just the
            // version that is deleted.
            if let Some(token) = seen.metadata.token {
                self.note_deleted_token(token).await?;
            }
            self.forget(&blob);
            match self.container.delete(&blob, &seen.etag, lease).await {
                Ok(()) => return Ok(Delete::Deleted),
                Err(failure) if failure.is_dropped() && tries + 1 < TRIES => tries += 1,
                // Changed since: the next look says how.
                Err(failure)
                    if failure.is(&["ConditionNotMet"])
                        || failure.is(IS_NOT_UNDER_THE_LEASE)
                        || failure.is(IS_ABSENT) => {}
                Err(failure) => return Err(failure.after_doubt(tries > 0).into()),
            }
        }
        Err(Trouble::Unsettled)
    }
}

fn holds(precondition: &Precondition, etag: Option<&str>) -> bool {
    match precondition {
        Precondition::Any => true,
        Precondition::IfAbsent => etag.is_none(),
        Precondition::IfExists => etag.is_some(),
        Precondition::IfVersion(wanted) => etag == Some(wanted.as_str()),
    }
}
