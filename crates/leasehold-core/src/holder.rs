use std::fmt;

use crate::Invalid;

/// Who holds a lease, for people: 1 to 256 bytes of UTF-8 without control characters.
///
/// It proves nothing and need not be unique; [`LeaseId`](crate::LeaseId) is what a store compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(String);

impl Holder {
    /// The longest holder name, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Checks and wraps a name.
    ///
    /// # Errors
    /// When the name is empty, longer than [`Holder::MAX_BYTES`] or holds a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(Invalid::new(format!(
                "the holder's name has {} bytes; it has 1 to {} bytes",
                name.len(),
                Self::MAX_BYTES
            )));
        }
        if let Some(c) = name.chars().find(|c| c.is_control()) {
            return Err(Invalid::new(format!(
                "the holder's name holds the control character U+{:04X}; any other UTF-8 is allowed",
                u32::from(c)
            )));
        }
        Ok(Self(name))
    }

    /// `host:pid:random`, which tells an operator where to look.
    pub fn of_this_process(random: u32) -> Self {
        // At most 56 characters of 4 bytes, which leaves room for the two numbers.
        let host: String = host_name()
            .chars()
            .filter(|c| !c.is_control())
            .take(56)
            .collect();
        Self(format!("{host}:{}:{random:08x}", std::process::id()))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holder_names_host_and_process() {
        let holder = Holder::of_this_process(7);
        let pid = format!(":{}:00000007", std::process::id());
        assert!(holder.as_str().ends_with(&pid), "{holder}");
        assert!(Holder::new(holder.as_str()).is_ok());
    }

    #[test]
    fn a_refused_holder_says_what_is_allowed() {
        for (bad, word) in [
            ("", "0 bytes"),
            ("a\tb", "U+0009"),
            (&*"h".repeat(257), "256"),
        ] {
            let message = Holder::new(bad).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
