//! Leases on **Azure Blob Storage**: the service's own blob leases, judged by its own clock, with a fencing
//! token beside each.
//!
//! Built on Microsoft's `azure_storage_blob` 1.x, the successor of the unofficial `azure_storage_blobs`, which
//! is frozen and has advisories that cannot be mended.
//!
//! ```no_run
//! use leasehold_azure::{Account, BlobStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
//! let store = BlobStore::builder(&account, "locks").prefix("team-a").build()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is kept where
//! One blob a key, under the prefix, empty unless somebody else filled it; it and the container are made on
//! first use. A plain key is its own blob name (`deploy-42/setup`), so that any other client of the service can
//! hold, wait for and break the same lease. The user's values are the blob's metadata, as they stand where they
//! are printable ASCII (`progress` reads `done`), else as `~` and base64url; beside them `_leasehold_token`,
//! `_leasehold_holder`, `_leasehold_term` and `_leasehold_write`. Content, and metadata that is not ours, is
//! kept; a name set with capitals by another client comes back in lower case after we wrote.
//!
//! Deleting a record deletes its blob, content too, and notes its token in a blob `~leasehold-tokens` under the
//! prefix; tokens of keys made later go on from there. A blob that another client deletes takes its tokens along.
//!
//! # What it costs
//! Requests, with connections that work. "Seen" is the version that this store saw last:
//!
//! | operation | requests |
//! |---|---|
//! | acquire, version seen | 2; 1 without fencing |
//! | acquire, version not seen | 3; 2 without fencing |
//! | acquire of a new key | 5, and 1 for a new container; 3 without fencing |
//! | acquire, refused | 2 |
//! | renew, change, release | 1; renew and change 2 when refused |
//! | break | 2 |
//! | read | 1 |
//! | write, version seen | 1; [`IfAbsent`](leasehold_core::Precondition::IfAbsent) 2 |
//! | write, version not seen | 2 |
//! | delete | 2, and at most 2 more where its token is the greatest deleted yet |
//! | list | 1 for each 5,000 blobs |
//!
//! # What it promises, and what not
//! - Terms of 15 to 60 s, or infinite. A fraction of a second is rounded up, also of a break's period.
//! - Every call ends within [`limit`](BlobStoreBuilder::limit). Only what a broken connection left without an
//!   answer is sent again, at once and at most three times, and only where that cannot be done twice.
//! - No key, signature or whole lease id in errors, logs or `Debug`, nor in the logs of the client crate.
//! - Holder, token and term in a record are those of the latest grant *through this library*: while somebody
//!   else's client holds the lease, or between the two steps of an acquisition, they are its predecessor's.
//! - The lease that expired or was broken is [`Released`](leasehold_core::outcome::Release::Released) by the id
//!   that held it last, as long as nobody else had it: the service does not tell the difference.

mod account;
mod blob_store;
mod builder;
mod container;
mod failure;
mod metadata;
mod name;
mod seen;
mod transport;

pub use account::Account;
pub use blob_store::BlobStore;
pub use builder::BlobStoreBuilder;
