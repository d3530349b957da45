use std::fmt;
use std::time::Duration;

/// How long a grant lasts unless it is renewed.
///
/// Which terms a store accepts is in its [`Capabilities`](crate::Capabilities): Azure takes 15 to 60 s or
/// infinite, the embedded store 1 s and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Ends by itself after this long.
    Finite(Duration),
    /// Ends only by release or break. A crash of its holder blocks everyone until somebody breaks it.
    Infinite,
}

impl Term {
    /// 60 s, the default everywhere.
    pub const DEFAULT: Self = Self::Finite(Duration::from_secs(60));

    /// The length, or `None` when infinite.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Finite(length) => Some(length),
            Self::Infinite => None,
        }
    }
}

impl From<Duration> for Term {
    fn from(length: Duration) -> Self {
        Self::Finite(length)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finite(length) => write!(f, "{}", humantime::format_duration(*length)),
            Self::Infinite => f.write_str("infinite"),
        }
    }
}
