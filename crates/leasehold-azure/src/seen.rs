use leasehold_core::outcome::{HeldBy, NotHeld};
use leasehold_core::{Key, LeaseState, Record, Term, Version};

use crate::metadata::BlobMetadata;

/// A blob as the service showed it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Without quotes, as in a listing.
    pub(crate) etag: String,
    pub(crate) state: LeaseState,
    pub(crate) infinite: bool,
    pub(crate) metadata: BlobMetadata,
}

impl Seen {
    /// The record that this blob keeps. Without fencing nobody writes token, holder and term, and what others
    /// wrote there is old.
    pub(crate) fn record(&self, key: &Key, fencing: bool) -> Record {
        let shown = |state: LeaseState| fencing && state != LeaseState::Available;
        Record {
            key: key.clone(),
            state: self.state,
            holder: self.metadata.holder.clone().filter(|_| shown(self.state)),
            token: self.metadata.fencing_token().filter(|_| fencing),
            term: match self.state {
                LeaseState::Leased if self.infinite => Some(Term::Infinite),
                LeaseState::Leased => self.metadata.finite_term().filter(|_| fencing),
                _ => None,
            },
            // The service tells nobody.
            remaining: None,
            metadata: self.metadata.values.clone(),
            version: Version::new(self.etag.as_str()),
        }
    }

    /// Who stands in the way.
    pub(crate) fn held_by(&self, fencing: bool) -> HeldBy {
        HeldBy {
            state: self.state,
            holder: self.metadata.holder.clone().filter(|_| fencing),
            token: self.metadata.fencing_token().filter(|_| fencing),
            remaining: None,
        }
    }

    /// What is found in place of a lease.
    pub(crate) fn not_held(&self, fencing: bool) -> NotHeld {
        let held = self.state.is_held();
        NotHeld {
            state: Some(self.state),
            holder: self.metadata.holder.clone().filter(|_| fencing && held),
        }
    }
}
