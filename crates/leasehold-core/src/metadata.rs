use std::collections::BTreeMap;
use std::collections::btree_map;

use crate::Invalid;

/// The small string map kept in a record beside the lease.
///
/// Names have 1 to 64 characters of `a-z`, `0-9` and `_` and start with a letter: what every store can keep
/// unchanged (Azure sends them as HTTP header names). Values are any UTF-8. Names and values together have
/// at most [`Metadata::MAX_BYTES`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// The most that names and values may have together, in bytes.
    pub const MAX_BYTES: usize = 4096;
    /// The longest name, in bytes.
    pub const MAX_NAME_BYTES: usize = 64;

    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, replacing the one that was there.
    ///
    /// # Errors
    /// When the name is not allowed, or the whole would have more than [`Metadata::MAX_BYTES`] bytes. The
    /// map is unchanged then.
    pub fn set(
        &mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Invalid> {
        let (name, value) = (name.into(), value.into());
        check_name(&name)?;
        let replaced = self.0.get(&name).map_or(0, |old| name.len() + old.len());
        let total = self.bytes() - replaced + name.len() + value.len();
        if total > Self::MAX_BYTES {
            return Err(Invalid::new(format!(
                "the metadata would have {total} bytes with {name:?}; names and values have at most {} bytes together",
                Self::MAX_BYTES
            )));
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// The value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Names and values in the order of the names.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_with_a_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    if starts_with_a_letter && name.len() <= Metadata::MAX_NAME_BYTES && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "the metadata name {name:?} is not allowed; a name has 1 to {} characters of a-z, 0-9 and _ and starts with a letter",
        Metadata::MAX_NAME_BYTES
    )))
}

/// Iterator over names and values, made by [`Metadata::iter`].
#[derive(Debug)]
pub struct Iter<'a>(btree_map::Iter<'a, String, String>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .next()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<'a> IntoIterator for &'a Metadata {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_every_store_can_keep() {
        let mut metadata = Metadata::new();
        for good in ["a", "last_performed", "x9", &"n".repeat(64)] {
            metadata.set(good, "any\nvalue 锁").unwrap();
        }
        for bad in ["", "_a", "9a", "Upper", "with-hyphen", "ü", &"n".repeat(65)] {
            let message = metadata.set(bad, "").unwrap_err().to_string();
            assert!(message.contains("a-z, 0-9 and _"), "{message}");
        }
        assert_eq!(metadata.len(), 4);
    }

    #[test]
    fn the_whole_is_bounded_and_a_replaced_value_does_not_count_twice() {
        let mut metadata = Metadata::new();
        metadata
            .set("a", "x".repeat(Metadata::MAX_BYTES - 1))
            .unwrap();
        metadata
            .set("a", "y".repeat(Metadata::MAX_BYTES - 1))
            .unwrap();
        let before = metadata.clone();
        let message = metadata.set("b", "").unwrap_err().to_string();
        assert!(message.contains("4097 bytes"), "{message}");
        assert_eq!(metadata, before);
    }
}
