use crate::{Invalid, Version};

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

impl Precondition {
    /// Whether it holds of a record of this version; `None` is no record.
    pub fn holds(&self, found: Option<&Version>) -> bool {
        match self {
            Self::Any => true,
            Self::IfAbsent => found.is_none(),
            Self::IfExists => found.is_some(),
            Self::IfVersion(wanted) => found == Some(wanted),
        }
    }

    /// Whether a deletion can have it.
    ///
    /// # Errors
    /// When it cannot; the message says what is allowed.
    pub fn check_for_deletion(&self) -> Result<(), Invalid> {
        if *self == Self::IfAbsent {
            return Err(Invalid::new(
                "IfAbsent makes no sense for a deletion; it takes Any, IfExists or IfVersion",
            ));
        }
        Ok(())
    }
}
