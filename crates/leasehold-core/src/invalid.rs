/// A value that was refused before anything was sent: the message says what was wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl Invalid {
    /// An error with this message. Say what was given, and what is allowed.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
