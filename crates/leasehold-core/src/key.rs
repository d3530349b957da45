use std::fmt;
use std::str::FromStr;

use crate::Invalid;

/// The name of the thing leased: 1 to 512 bytes of UTF-8 without control characters.
///
/// Keys are compared byte by byte; nothing is folded or normalised. Every store maps them injectively
/// into its own namespace: two keys never collide, and listing gives back the original.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks and wraps a name.
    ///
    /// # Errors
    /// When the name is empty, longer than [`Key::MAX_BYTES`] or holds a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if name.is_empty() {
            return Err(Invalid::new(format!(
                "the key is empty; a key has 1 to {} bytes",
                Self::MAX_BYTES
            )));
        }
        if name.len() > Self::MAX_BYTES {
            return Err(Invalid::new(format!(
                "the key has {} bytes; a key has 1 to {} bytes",
                name.len(),
                Self::MAX_BYTES
            )));
        }
        if let Some(c) = name.chars().find(|c| c.is_control()) {
            return Err(Invalid::new(format!(
                "the key holds the control character U+{:04X}; any other UTF-8 is allowed",
                u32::from(c)
            )));
        }
        Ok(Self(name))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.0)
    }
}

impl FromStr for Key {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Key {
    type Error = Invalid;

    fn try_from(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl TryFrom<String> for Key {
    type Error = Invalid;

    fn try_from(name: String) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_anything_printable_up_to_512_bytes() {
        for good in ["a", "../x//y..", " ", "Ünïcode/锁", &"k".repeat(512)] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_refused_key_says_what_is_allowed() {
        for (bad, word) in [
            ("", "empty"),
            ("a\nb", "U+000A"),
            ("nul\0", "U+0000"),
            (&*"k".repeat(513), "513 bytes"),
            (&*"锁".repeat(171), "513 bytes"),
        ] {
            let message = Key::new(bad).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
