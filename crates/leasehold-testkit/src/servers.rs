//! Real servers for tests, each its own and gone with it.
//!
//! They need what `cargo xtask test` installs. Without, starting one panics and says so: a test that needs a
//! server and finds none has failed.

mod azurite;
mod output;

pub use azurite::Azurite;
