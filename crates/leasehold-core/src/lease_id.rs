use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::Invalid;

/// A UUID that the *client* proposes, so that a repeated request is recognised as the same one.
///
/// It is the proof of holding: whoever knows it can renew and release. `Debug` and `Display` therefore
/// show its first eight digits only; [`LeaseId::expose`] gives the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// A version 4 UUID made of these random bytes.
    pub fn from_random_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The 16 bytes of the UUID.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id those 16 bytes stand for.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The whole id, lower case with hyphens: a secret, for a store and for the holder's own child only.
    pub fn expose(&self) -> String {
        self.0.hyphenated().to_string()
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({self})")
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-…", self.0.as_fields().0)
    }
}

impl FromStr for LeaseId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // The text is a secret, also when it is misspelt: it does not go into the message.
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| Invalid::new("the lease id is not a UUID; it has 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_digits_are_ever_printed() {
        let id = LeaseId::from_random_bytes([0xab; 16]);
        assert_eq!(format!("{id:?} {id}"), "LeaseId(abababab-…) abababab-…");
        assert_eq!(id.expose().parse::<LeaseId>().unwrap(), id);
    }

    #[test]
    fn a_misspelt_id_is_refused_without_being_repeated() {
        let message = "secret-secret".parse::<LeaseId>().unwrap_err().to_string();
        assert!(!message.contains("secret"), "{message}");
    }
}
