use crate::Version;

/// What must be true of a record for a write or a deletion to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: the last writer wins.
    Any,
    /// There is no record at the key. Not allowed for a deletion.
    IfAbsent,
    /// There is one, whatever its version.
    IfExists,
    /// There is one, of just this version.
    IfVersion(Version),
}
