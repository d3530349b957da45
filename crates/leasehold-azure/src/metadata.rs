//! What we keep in a blob's metadata, beside what others keep there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use azure_core::base64;
use leasehold_core::{FencingToken, Holder, Metadata, Term};

// No name of a user's value starts with an underscore, so these collide with none.
const TOKEN: &str = "_leasehold_token";
const HOLDER: &str = "_leasehold_holder";
const TERM: &str = "_leasehold_term";
const WRITE: &str = "_leasehold_write";

/// Starts a value that would not survive as it is.
const ENCODED: char = '~';

/// The token in a blob's metadata is not one that we wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// A blob's metadata, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlobMetadata {
    /// Of the latest grant.
    pub(crate) token: Option<u64>,
    /// Of the latest grant.
    pub(crate) holder: Option<Holder>,
    /// Of the latest grant, in whole seconds.
    pub(crate) term: Option<u64>,
    /// Which write this came of: tells our own, when its answer was lost, from somebody else's.
    pub(crate) write: Option<String>,
    /// The user's.
    pub(crate) values: Metadata,
    /// What somebody else put there and [`Metadata`] cannot hold. Written back as it was.
    pub(crate) foreign: BTreeMap<String, String>,
}

impl BlobMetadata {
    /// Takes apart what the service sent.
    ///
    /// # Errors
    /// When the token is no number: a guess would give out a token a second time.
    pub(crate) fn read(headers: HashMap<String, String>) -> Result<Self, Corrupt> {
        let mut read = Self::default();
        // In order, so that where not all of them fit it is always the same ones.
        for (name, text) in headers.into_iter().collect::<BTreeMap<_, _>>() {
            // As they arrive in headers; in a listing they keep the case they were written in.
            let name = name.to_ascii_lowercase();
            let value = decode(&text);
            let ours = match name.as_str() {
                TOKEN => {
                    read.token = Some(value.parse().map_err(|_| Corrupt)?);
                    true
                }
                HOLDER => {
                    read.holder = Holder::new(value.as_str()).ok();
                    read.holder.is_some()
                }
                TERM => {
                    read.term = value.parse().ok();
                    read.term.is_some()
                }
                WRITE => {
                    read.write = Some(value.clone());
                    true
                }
                _ => read.values.set(name.as_str(), value.as_str()).is_ok(),
            };
            if !ours {
                read.foreign.insert(name, text);
            }
        }
        Ok(read)
    }

    /// As it is sent.
    pub(crate) fn headers(&self) -> HashMap<String, String> {
        let mut headers: HashMap<_, _> = self
            .foreign
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in &self.values {
            headers.insert(name.to_owned(), encode(value));
        }
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                headers.insert(name.to_owned(), value);
            }
        };
        set(TOKEN, self.token.map(|token| token.to_string()));
        set(
            HOLDER,
            self.holder.as_ref().map(|holder| encode(holder.as_str())),
        );
        set(TERM, self.term.map(|term| term.to_string()));
        set(WRITE, self.write.clone());
        headers
    }

    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.token.map(FencingToken::new)
    }

    pub(crate) fn finite_term(&self) -> Option<Term> {
        self.term
            .map(|seconds| Term::Finite(Duration::from_secs(seconds)))
    }
}

/// To what passes through a header and an XML answer unchanged: printable ASCII, not empty, without blanks at
/// its ends. Everything else as base64, which makes the largest metadata fit into the service's 8 KiB.
fn encode(value: &str) -> String {
    let plain = !value.is_empty()
        && !value.starts_with([ENCODED, ' '])
        && !value.ends_with(' ')
        && value.chars().all(|c| matches!(c, ' '..='~'));
    if plain {
        value.to_owned()
    } else {
        format!("{ENCODED}{}", base64::encode_url_safe(value))
    }
}

/// What somebody else wrote is taken as it stands, unless it looks like ours.
fn decode(text: &str) -> String {
    let decoded = text
        .strip_prefix(ENCODED)
        .and_then(|encoded| base64::decode_url_safe(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(values: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = values
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        owned.collect()
    }

    #[test]
    fn plain_values_stay_readable_and_all_come_back() {
        let mut values = Metadata::new();
        values.set("progress", "done").unwrap();
        for (number, value) in ["", " ", "a ", "\n", "\0", "~", "~YQ", "锁", "é e\u{301}"]
            .iter()
            .enumerate()
        {
            values.set(format!("v{number}"), *value).unwrap();
        }
        let metadata = BlobMetadata {
            token: Some(u64::MAX),
            holder: Some(Holder::new("host 锁:1").unwrap()),
            term: Some(60),
            write: Some("abc".into()),
            values,
            ..BlobMetadata::default()
        };
        let headers = metadata.headers();
        assert_eq!(headers["progress"], "done");
        for value in headers.values() {
            assert!(value.chars().all(|c| c.is_ascii_graphic()), "{value:?}");
        }
        assert_eq!(BlobMetadata::read(headers), Ok(metadata));
    }

    #[test]
    fn the_largest_metadata_fits_beside_ours_into_8_kib() {
        for filler in ["x", "\n", "锁"] {
            let mut values = Metadata::new();
            let left = Metadata::MAX_BYTES - 1;
            values.set("a", filler.repeat(left / filler.len())).unwrap();
            let metadata = BlobMetadata {
                token: Some(u64::MAX),
                holder: Some(Holder::new("锁".repeat(85)).unwrap()),
                term: Some(60),
                write: Some("f".repeat(16)),
                values,
                ..BlobMetadata::default()
            };
            let headers = metadata.headers();
            let size: usize = headers
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            assert!(size <= 8 * 1024, "{size}");
        }
    }

    #[test]
    fn what_others_wrote_is_read_as_it_stands_and_written_back() {
        let long = "x".repeat(5000);
        let theirs = sent(&[
            ("owner", "~not base64!"),
            ("_private", "kept"),
            ("zzz", &long),
        ]);
        let read = BlobMetadata::read(theirs.clone()).unwrap();
        assert_eq!(read.values.get("owner"), Some("~not base64!"));
        assert_eq!(read.values.len(), 1);
        let mut written = read.headers();
        assert_eq!(decode(&written.remove("owner").unwrap()), "~not base64!");
        for name in ["_private", "zzz"] {
            assert_eq!(written.remove(name).as_ref(), Some(&theirs[name]));
        }
        assert!(written.is_empty());
    }

    #[test]
    fn a_token_that_is_no_number_is_not_taken_for_none() {
        for bad in ["", "x", "-1", "1.0", "18446744073709551616"] {
            assert_eq!(BlobMetadata::read(sent(&[(TOKEN, bad)])), Err(Corrupt));
        }
    }
}
