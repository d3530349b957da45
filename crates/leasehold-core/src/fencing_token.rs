use std::fmt;

/// A number that is strictly greater for every new grant on a key, for as long as the store's data lives:
/// across release, expiry, break and deletion.
///
/// A resource that remembers the greatest token it saw can refuse a holder that was overtaken while it was
/// paused. No lease can do that by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Wraps a number.
    pub fn new(token: u64) -> Self {
        Self(token)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
