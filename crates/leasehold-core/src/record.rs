use std::fmt;
use std::time::Duration;

use crate::{FencingToken, Holder, Key, Metadata, Term};

/// What a store keeps at a key, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key it is kept at.
    pub key: Key,
    /// The state of the lease, judged by the store's clock at that moment.
    pub state: LeaseState,
    /// Who holds the lease; while it is expired or broken, who held it last. `None` when it was released.
    pub holder: Option<Holder>,
    /// The token of the latest grant. `None` when there was none yet, or the store does no fencing.
    pub token: Option<FencingToken>,
    /// The term of the current grant; `None` when it is not leased, or the store does not tell.
    pub term: Option<Term>,
    /// What remains of the term, or of the break period; `None` when infinite, not leased, or not told.
    pub remaining: Option<Duration>,
    /// The string map.
    pub metadata: Metadata,
    /// Changes whenever the metadata is written. Lease operations may or may not change it.
    pub version: Version,
}

/// The five states of a lease, as Azure names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// Nobody holds it: never leased, or released.
    Available,
    /// Somebody holds it.
    Leased,
    /// Somebody broke it, and the break period still runs: nobody can acquire it yet.
    Breaking,
    /// It was broken, and the break period is over: free.
    Broken,
    /// Its term ended without a release: free.
    Expired,
}

impl LeaseState {
    /// Whether nobody else can acquire it now.
    pub fn is_held(self) -> bool {
        match self {
            Self::Leased | Self::Breaking => true,
            Self::Available | Self::Broken | Self::Expired => false,
        }
    }

    /// The state's name, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An opaque mark of one content of a record (an `ETag`). Two versions are equal or they are not; they have no
/// order, and none comes back after a record was deleted and made again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Wraps a store's own mark.
    pub fn new(mark: impl Into<String>) -> Self {
        Self(mark.into())
    }

    /// The store's own mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
