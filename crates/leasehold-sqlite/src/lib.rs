//! **The embedded store**: leases in one SQLite file, shared by all processes of one machine. No server, no
//! set-up.
//!
//! ```
//! use leasehold_core::outcome::Acquire;
//! use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Term};
//! use leasehold_sqlite::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("leases.db");
//! let store = SqliteStore::open(&path).await?;
//! let key = Key::new("nightly-report")?;
//! let (id, holder) = (LeaseId::from_random_bytes([7; 16]), Holder::new("example")?);
//! let granted = store.acquire(&key, id, Term::DEFAULT, &holder).await?;
//! assert!(matches!(granted, Acquire::Granted(_)));
//! store.release(&key, id).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//! - What was answered is on the disk: a power cut takes back neither a grant nor a fencing token
//!   (`synchronous = FULL`). The calls that wait at the same time share one commit.
//! - Terms are measured on the machine's boot clock, which counts suspended time and which nobody can set.
//!   A lease that was written under another boot, or in another time namespace, is judged by observation:
//!   it ends one whole term after this boot first asked for it, unless it is renewed meanwhile.
//! - On Linux, waiters in other processes are woken when a lease is let go of, without polling the file.
//! - A file that this library did not make, or that a later version made, is refused and left as it was.
//!
//! # What it does not
//! - Work on network file systems: neither SQLite's locks nor the boot clock reach another machine.
//! - Survive that the file is deleted, replaced or restored from a copy while somebody uses it. Calls are
//!   refused once that is noticed, but a copy knows nothing of the tokens given out after it was made.
//!
//! # Files
//! Beside `leases.db` SQLite keeps `leases.db-wal` and `leases.db-shm` while the store is open; they belong
//! together. The directory must be writable. Change times of `leases.db` mean nothing: setting them is how
//! waiters are woken.

mod connection;
mod epoch;
mod error;
mod operations;
mod path;
mod reader;
mod row;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod wake;
mod writer;

pub use store::SqliteStore;
