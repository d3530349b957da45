//! **Leases as locks, on the storage you already have**: who may do this now, agreed on by many processes.
//!
//! This crate is what users depend on. It re-exports all of `leasehold-core`, brings the stores that its
//! features name, and [opens](open()) one by URL:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::Key;
//!
//! let store = leasehold::open("memory:").await?;
//! let key = Key::new("deploy")?;
//! assert!(store.read(&key).await?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! No lease can stop a process that is paused: what must not be overtaken checks the [`FencingToken`].

mod open;

#[cfg(feature = "azure")]
pub use leasehold_azure::{Account as AzureAccount, BlobStore, BlobStoreBuilder};
pub use leasehold_core::*;
#[cfg(feature = "sqlite")]
pub use leasehold_sqlite::SqliteStore;

pub use open::{OpenError, open};

/// The README's example, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
