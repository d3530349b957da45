use std::time::Duration;

use leasehold_core::{Invalid, StoreError};

use crate::account::Account;
use crate::blob_store::BlobStore;
use crate::container::Container;
use crate::name::Prefix;

/// The oldest that has everything we use; the emulator refuses what the client crate would send.
const SERVICE_VERSION: &str = "2025-11-05";
const LIMIT: Duration = Duration::from_secs(10);

/// Says where a [`BlobStore`] keeps its blobs, and how.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until `build`"]
pub struct BlobStoreBuilder {
    account: Account,
    container: String,
    prefix: String,
    fencing: bool,
    limit: Duration,
    service_version: String,
}

impl BlobStoreBuilder {
    pub(crate) fn new(account: &Account, container: impl Into<String>) -> Self {
        Self {
            account: account.clone(),
            container: container.into(),
            prefix: String::new(),
            fencing: true,
            limit: LIMIT,
            service_version: SERVICE_VERSION.into(),
        }
    }

    /// What every blob's name begins with, before a slash: up to 200 characters of A-Z, a-z, 0-9, -, _ and .,
    /// in parts between slashes. None unless set.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether each grant gets a token, which costs a write. Unless set, it does. Without, nobody else learns
    /// holder and term either, and tokens of the same keys that clients with fencing got are not topped.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// How long any call may take, 10 s unless set.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The version of the service's protocol, `2025-11-05` unless set.
    pub fn service_version(mut self, version: impl Into<String>) -> Self {
        self.service_version = version.into();
        self
    }

    /// Opens the store. Nothing is sent yet.
    ///
    /// # Errors
    /// When container, prefix, limit or version is not allowed, or when the machine's certificates cannot be
    /// read.
    pub fn build(self) -> Result<BlobStore, StoreError> {
        check_container(&self.container)?;
        let prefix = Prefix::new(&self.prefix)?;
        if self.limit.is_zero() {
            return Err(Invalid::new("a limit of zero leaves no time for any call").into());
        }
        let version = &self.service_version;
        if version.is_empty() || !version.chars().all(|c| c.is_ascii_digit() || c == '-') {
            return Err(Invalid::new("the service version is not a date like 2025-11-05").into());
        }
        let container = Container::new(&self.account, &self.container, self.service_version)?;
        BlobStore::new(container, prefix, self.fencing, self.limit)
    }
}

fn check_container(name: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (3..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if good {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "the container name {name:?} is not allowed; it has 3 to 63 characters of a-z, 0-9 and single hyphens, \
         none at its ends"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(container: &str) -> BlobStoreBuilder {
        let account = Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
        BlobStoreBuilder::new(&account, container)
    }

    #[test]
    fn what_the_service_would_refuse_is_refused_with_what_is_allowed() {
        for bad in [
            "",
            "ab",
            "Upper",
            "a_b",
            "-ab",
            "ab-",
            "a--b",
            "a/b",
            &"a".repeat(64),
        ] {
            let message = builder(bad).build().unwrap_err().to_string();
            assert!(message.contains("3 to 63 characters"), "{message}");
        }
        for (bad, word) in [
            (builder("abc").prefix("a b"), "prefix"),
            (builder("abc").limit(Duration::ZERO), "limit"),
            (builder("abc").service_version("x"), "2025-11-05"),
        ] {
            let message = bad.build().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn debug_of_store_and_builder_shows_where_and_no_secret() {
        let builder = builder("abc").prefix("p");
        for shown in [
            format!("{builder:?}"),
            format!("{:?}", builder.build().unwrap()),
        ] {
            assert!(
                shown.contains("127.0.0.1:10000/devstoreaccount1"),
                "{shown}"
            );
            assert!(shown.contains("abc") && !shown.contains("Eby8"), "{shown}");
        }
    }
}
