//! Keys as blob names, and back.
//!
//! A plain key is its own blob name, so that other people's clients find the blob they expect. The rest is
//! escaped to ASCII, because what the service, the emulator, a URL library and an XML answer each make of a
//! slash at the end, a dot before a slash or an unpaired accent differs.

use azure_core::base64;
use leasehold_core::{Invalid, Key};

/// The longest escaped name that is used as it is. With the longest prefix it stays under the service's 1,024
/// characters.
const LONGEST: usize = 820;
/// How much of a longer one stays readable, for a listing to find it by its prefix.
const HEAD: usize = 128;
/// More slashes than this are escaped: the service takes 254 segments.
const SLASHES: usize = 100;

/// Where a store's blobs lie in their container.
#[derive(Clone, Debug)]
pub(crate) struct Prefix(String);

impl Prefix {
    /// The longest prefix, in characters.
    const MAX: usize = 200;

    /// Checks a prefix; slashes at its ends do not count.
    pub(crate) fn new(prefix: &str) -> Result<Self, Invalid> {
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return Ok(Self(String::new()));
        }
        let good = |segment: &str| {
            !segment.is_empty()
                && !segment.ends_with('.')
                && segment
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if prefix.len() > Self::MAX || !prefix.split('/').all(good) {
            return Err(Invalid::new(format!(
                "the prefix {prefix:?} is not allowed; it has up to {} characters of A-Z, a-z, 0-9, -, _ and . \
                 in parts between slashes, none of which is empty or ends with a dot",
                Self::MAX
            )));
        }
        Ok(Self(format!("{prefix}/")))
    }

    /// The blob that keeps this key's record.
    pub(crate) fn name_of(&self, key: &Key) -> String {
        format!("{}{}", self.0, escape(key.as_str()))
    }

    /// The key whose record this blob keeps; `None` for a blob that is not one of ours.
    pub(crate) fn key_of(&self, name: &str) -> Option<Key> {
        let escaped = name.strip_prefix(&self.0)?;
        let key = Key::new(unescape(escaped)?).ok()?;
        // Only one of the spellings is ours, or two blobs would be one key.
        (escape(key.as_str()) == escaped).then_some(key)
    }

    /// What every blob whose key starts with this begins with. Others may, too.
    pub(crate) fn of_keys(&self, keys: &str) -> String {
        let (mut head, _) = head(keys);
        // The last character of a whole key is escaped where that of a prefix is not.
        if head.ends_with(['.', '/']) {
            head.pop();
        }
        format!("{}{head}", self.0)
    }

    /// The blob that remembers the tokens of deleted records: no key's name, as an escape is hexadecimal.
    pub(crate) fn token_floor(&self) -> String {
        format!("{}~leasehold-tokens", self.0)
    }
}

/// Injective, and never longer than [`LONGEST`]. What a key begins with decides what its name begins with.
fn escape(key: &str) -> String {
    let mut whole = String::with_capacity(key.len());
    let mut slashes = 0;
    for c in key.chars() {
        push(&mut whole, c, &mut slashes);
    }
    // The service drops or refuses a dot or slash at the end.
    if let Some(last @ ('.' | '/')) = whole.chars().next_back() {
        whole.pop();
        push_escaped(&mut whole, last);
    }
    if whole.len() <= LONGEST {
        return whole;
    }
    let (head, rest) = head(key);
    format!("{head}~~{}", base64::encode_url_safe(rest))
}

/// The first characters, escaped, and what is left of the text.
fn head(text: &str) -> (String, &str) {
    let mut head = String::new();
    let mut slashes = 0;
    for (at, c) in text.char_indices() {
        let before = head.len();
        push(&mut head, c, &mut slashes);
        if head.len() > HEAD {
            head.truncate(before);
            return (head, &text[at..]);
        }
    }
    (head, "")
}

/// Depends on what stands before, never on what follows.
fn push(name: &mut String, c: char, slashes: &mut usize) {
    let plain = match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => true,
        // None at the start, none after another, none after a dot: URLs and the service take those apart.
        '/' => !name.is_empty() && !name.ends_with(['/', '.']) && *slashes < SLASHES,
        _ => false,
    };
    if plain {
        *slashes += usize::from(c == '/');
        name.push(c);
    } else {
        push_escaped(name, c);
    }
}

fn push_escaped(name: &mut String, c: char) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        name.push('~');
        name.push(char::from(HEX[usize::from(byte >> 4)]));
        name.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('~') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        if let Some(encoded) = rest.strip_prefix('~') {
            bytes.extend(base64::decode_url_safe(encoded).ok()?);
            rest = "";
        } else {
            bytes.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
            rest = &rest[2..];
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> String {
        Prefix::new("").unwrap().name_of(&Key::new(key).unwrap())
    }

    #[test]
    fn a_plain_key_is_its_own_blob_name() {
        for plain in ["deploy-42/setup", "v1.2.3", "A_b", "a/.b", "x..y"] {
            assert_eq!(name(plain), plain);
        }
        let prefix = Prefix::new("/team/a/").unwrap();
        assert_eq!(prefix.name_of(&Key::new("k").unwrap()), "team/a/k");
    }

    #[test]
    fn what_a_url_or_the_service_would_take_apart_is_escaped() {
        for (key, expected) in [
            (".", "~2E"),
            ("..", ".~2E"),
            ("a.", "a~2E"),
            ("a/", "a~2F"),
            ("/a", "~2Fa"),
            ("a//b", "a/~2Fb"),
            ("a./b", "a.~2Fb"),
            ("a/../b", "a/..~2Fb"),
            ("a b~c", "a~20b~7Ec"),
            ("锁", "~E9~94~81"),
        ] {
            assert_eq!(name(key), expected);
        }
    }

    #[test]
    fn every_key_fits_comes_back_and_is_found_by_any_of_its_prefixes() {
        let prefix = Prefix::new(&"p".repeat(200)).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for filler in [
            "x", "/", "a/", ".", "./", "~", "~~", " ", "锁", "🔒", "a锁", "/锁.",
        ] {
            for length in [1, 2, 3, 42, 130, 270, 271, 272, 273, 400, 511, 512] {
                let mut text = filler.repeat(length);
                while text.len() > length {
                    text.pop();
                }
                let Ok(key) = Key::new(text) else { continue };
                let name = prefix.name_of(&key);
                assert!(name.is_ascii() && name.len() <= 1024, "{name}");
                assert!(name.split('/').count() <= 254, "{name}");
                assert!(!name.contains("//") && !name.contains("./"), "{name}");
                assert!(!name.ends_with(['.', '/']), "{name}");
                assert_eq!(prefix.key_of(&name).as_ref(), Some(&key));
                for (at, _) in key
                    .as_str()
                    .char_indices()
                    .chain([(key.as_str().len(), ' ')])
                {
                    let keys = prefix.of_keys(&key.as_str()[..at]);
                    assert!(name.starts_with(&keys), "{name} is not found by {keys}");
                }
                seen.insert((key.to_string(), name));
            }
        }
        let names: std::collections::BTreeSet<_> = seen.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), seen.len());
    }

    #[test]
    fn blobs_that_are_not_ours_are_nobodys_record() {
        let prefix = Prefix::new("ours").unwrap();
        for foreign in [
            "theirs/a",
            "ours",
            "ours/",
            "ours/a b",
            "ours/a/",
            "ours/~61",
            "ours/~2f",
            "ours/~",
            "ours/~~YQ",
            "ours/~FF",
            &prefix.token_floor(),
        ] {
            assert_eq!(prefix.key_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_refused_prefix_says_what_is_allowed() {
        for bad in ["a b", "a//b", "a./b", "..", "ü", &"p".repeat(201)] {
            let message = Prefix::new(bad).unwrap_err().to_string();
            assert!(message.contains("200 characters"), "{message}");
        }
    }
}
