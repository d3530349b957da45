use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, NotHeld, Release, Renew, Write};
use leasehold_core::{
    Capabilities, Effect, ErrorKind, Holder, Invalid, Key, LeaseId, LeaseState, LeaseStore,
    Metadata, Precondition, Record, StoreError, Term, TermRange, TimeKeeper,
};
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

use crate::account::Account;
use crate::builder::BlobStoreBuilder;
use crate::container::Container;
use crate::failure::{Failure, IS_ABSENT, IS_NOT_THE_HOLDER, IS_NOT_UNDER_THE_LEASE};
use crate::metadata::BlobMetadata;
use crate::name::Prefix;
use crate::seen::Seen;

mod acquire;
mod put;
mod tokens;
mod write;

/// How often an operation starts over because others changed the blob under it. All of them together stay
/// within the call's limit.
const ROUNDS: usize = 100;
/// The service breaks no later than this.
const LONGEST_BREAK: Duration = Duration::from_secs(60);
/// How many versions are remembered. When there are more, all are forgotten, which costs a look at each.
const REMEMBERED: usize = 1024;
/// How many of a batch's renewals are on their way at once.
const RENEWALS_AT_ONCE: usize = 32;

/// A store in a container of Azure Blob Storage; see the [crate](crate).
pub struct BlobStore {
    container: Container,
    prefix: Prefix,
    fencing: bool,
    limit: Duration,
    /// The last version that was seen of each blob, and its metadata. A version never comes back with another.
    versions: Mutex<HashMap<String, Version>>,
    /// The greatest token that the blob of deleted tokens was seen to have. It only ever grows.
    deleted_token: AtomicU64,
    generator: Mutex<StdRng>,
}

/// An `ETag`, and the metadata that goes with it.
#[derive(Clone, Debug)]
struct Version {
    etag: String,
    metadata: BlobMetadata,
}

/// What is at a key, to whoever asks under a lease or without.
enum Found {
    Absent,
    /// A lease id was given, and it does not hold the lease.
    NotHeld(NotHeld),
    There(Seen),
}

impl BlobStore {
    /// 15 to 60 s, or infinite: what the service takes.
    pub const TERMS: TermRange = TermRange {
        min: Duration::from_secs(15),
        max: Duration::from_secs(60),
        infinite: true,
    };

    /// A store in this container, which is made on first use where it is absent.
    pub fn builder(account: &Account, container: impl Into<String>) -> BlobStoreBuilder {
        BlobStoreBuilder::new(account, container)
    }

    pub(crate) fn new(
        container: Container,
        prefix: Prefix,
        fencing: bool,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        // No two processes may mark their writes alike, so nothing will do in its place.
        let generator = StdRng::try_from_rng(&mut SysRng).map_err(|error| {
            StoreError::new(
                ErrorKind::Internal,
                Effect::NotApplied,
                "opening an Azure Blob container: the operating system gives no random numbers",
            )
            .with_source(error)
        })?;
        Ok(Self {
            container,
            prefix,
            fencing,
            limit,
            versions: Mutex::default(),
            deleted_token: AtomicU64::new(0),
            generator: Mutex::new(generator),
        })
    }

    /// Runs an operation in its time.
    async fn within_limit<T>(
        &self,
        doing: &str,
        operation: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, StoreError> {
        let doing = || format!("{doing} at {}", self.container.url());
        match tokio::time::timeout(self.limit, operation).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Trouble::Failed(failure))) => Err(failure.error(&doing())),
            Ok(Err(Trouble::Unsettled)) => Err(StoreError::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                format!(
                    "{}: others kept changing it, or an earlier request may still have its effect",
                    doing()
                ),
            )),
            Ok(Err(Trouble::Refused(invalid))) => Err(invalid.into()),
            Err(_) => Err(StoreError::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                format!("{}: no answer within {:?}", doing(), self.limit),
            )),
        }
    }

    /// What is at a blob, to one who holds its lease under this id, or to anybody.
    async fn find(&self, blob: &str, lease: Option<LeaseId>) -> Result<Found, Failure> {
        match self.look(blob, lease).await {
            Ok(Some(seen)) => Ok(Found::There(seen)),
            Ok(None) => Ok(Found::Absent),
            Err(failure) if failure.is(IS_NOT_UNDER_THE_LEASE) => {
                Ok(match self.look(blob, None).await? {
                    Some(seen) => Found::NotHeld(seen.not_held(self.fencing)),
                    None => Found::Absent,
                })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn look(&self, blob: &str, lease: Option<LeaseId>) -> Result<Option<Seen>, Failure> {
        match self.container.look(blob, lease).await {
            Ok(seen) => {
                self.remember(blob, &seen.etag, &seen.metadata);
                Ok(Some(seen))
            }
            Err(failure) if failure.is(IS_ABSENT) => {
                self.forget(blob);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// What stands in the way of an operation under a lease.
    async fn found_instead(&self, blob: &str) -> Result<NotHeld, Failure> {
        let seen = self.look(blob, None).await?;
        Ok(seen.map_or(NotHeld::ABSENT, |seen| seen.not_held(self.fencing)))
    }

    fn remembered(&self, blob: &str) -> Option<Version> {
        self.versions().get(blob).cloned()
    }

    fn remember(&self, blob: &str, etag: &str, metadata: &BlobMetadata) {
        let mut versions = self.versions();
        if versions.len() >= REMEMBERED && !versions.contains_key(blob) {
            versions.clear();
        }
        let (etag, metadata) = (etag.to_owned(), metadata.clone());
        versions.insert(blob.to_owned(), Version { etag, metadata });
    }

    fn forget(&self, blob: &str) {
        self.versions().remove(blob);
    }

    fn versions(&self) -> std::sync::MutexGuard<'_, HashMap<String, Version>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks one write, so that it is recognised when its answer is lost.
    fn new_mark(&self) -> String {
        let mut generator = self
            .generator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        format!("{:016x}", generator.next_u64())
    }

    async fn break_within(&self, blob: &str, after: Option<Duration>) -> Result<Break, Trouble> {
        // The service also "breaks" what has expired or is broken, and does not tell.
        let seen = match self.look(blob, None).await? {
            Some(seen) if seen.state.is_held() => seen,
            _ => return Ok(Break::NotHeld),
        };
        if seen.infinite && after.is_some_and(|after| after > LONGEST_BREAK) {
            return Err(Trouble::Refused(Invalid::new(format!(
                "a break of an infinite lease after {} is not allowed; this store takes up to {}",
                Term::from(after.unwrap_or_default()),
                Term::from(LONGEST_BREAK)
            ))));
        }
        let period = after.map(|after| whole_seconds(after.min(LONGEST_BREAK)));
        let left = match self.container.break_lease(blob, period).await {
            Ok(left) => left,
            Err(failure) if failure.is(IS_ABSENT) || failure.is(IS_NOT_THE_HOLDER) => {
                return Ok(Break::NotHeld);
            }
            Err(failure) => return Err(failure.into()),
        };
        if left == 0 {
            return Ok(Break::Broken);
        }
        Ok(Break::Breaking(Duration::from_secs(left)))
    }
}

/// Why an operation came to no outcome.
enum Trouble {
    Failed(Failure),
    /// Others kept changing the blob, or an earlier request of ours may have changed it.
    Unsettled,
    /// What was asked is not allowed.
    Refused(Invalid),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Rounded up: what was asked for at least.
fn whole_seconds(length: Duration) -> i32 {
    let up = u64::from(length.subsec_nanos() > 0);
    i32::try_from(length.as_secs() + up).unwrap_or(i32::MAX)
}

#[async_trait]
impl LeaseStore for BlobStore {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Self::TERMS.check(term)?;
        let acquire = self.acquire_within(key, id, term, holder);
        self.within_limit(&format!("acquiring the lease on {key}"), acquire)
            .await
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        let blob = self.prefix.name_of(key);
        let renew = async {
            match self.container.renew(&blob, id).await {
                Ok(true) => Ok(Renew::Renewed),
                // Only the emulator does this, and only to a lease that has expired.
                Ok(false) => Ok(Renew::NotHeld(NotHeld {
                    state: Some(LeaseState::Expired),
                    holder: None,
                })),
                Err(failure) if failure.is(IS_ABSENT) => Ok(Renew::NotHeld(NotHeld::ABSENT)),
                Err(failure) if failure.is(IS_NOT_THE_HOLDER) => {
                    Ok(Renew::NotHeld(self.found_instead(&blob).await?))
                }
                Err(failure) => Err(failure.into()),
            }
        };
        self.within_limit(&format!("renewing the lease on {key}"), renew)
            .await
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        let blob = self.prefix.name_of(key);
        let change = async {
            match self.container.change(&blob, id, new_id).await {
                Ok(true) => Ok(Change::Changed),
                Err(failure) if failure.is(IS_ABSENT) => Ok(Change::NotHeld(NotHeld::ABSENT)),
                Err(failure) if !failure.is(IS_NOT_THE_HOLDER) => Err(failure.into()),
                Ok(false) | Err(_) => Ok(Change::NotHeld(self.found_instead(&blob).await?)),
            }
        };
        self.within_limit(&format!("handing over the lease on {key}"), change)
            .await
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        let blob = self.prefix.name_of(key);
        let release = async {
            match self.container.release(&blob, id).await {
                Ok(()) => Ok(Release::Released),
                Err(failure) if failure.is(IS_ABSENT) || failure.is(IS_NOT_THE_HOLDER) => {
                    Ok(Release::NotHeld)
                }
                Err(failure) => Err(failure.into()),
            }
        };
        self.within_limit(&format!("releasing the lease on {key}"), release)
            .await
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        let blob = self.prefix.name_of(key);
        self.within_limit(
            &format!("breaking the lease on {key}"),
            self.break_within(&blob, after),
        )
        .await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let blob = self.prefix.name_of(key);
        let read = async {
            let seen = self.look(&blob, None).await?;
            Ok(seen.map(|seen| seen.record(key, self.fencing)))
        };
        self.within_limit(&format!("reading {key}"), read).await
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let write = self.write_within(key, metadata, precondition, lease);
        self.within_limit(&format!("writing {key}"), write).await
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        if *precondition == Precondition::IfAbsent {
            return Err(Invalid::new(
                "IfAbsent makes no sense for a deletion; it takes Any, IfExists or IfVersion",
            )
            .into());
        }
        let delete = self.delete_within(key, precondition, lease);
        self.within_limit(&format!("deleting {key}"), delete).await
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        let blobs = self.prefix.of_keys(prefix);
        let pages = stream::try_unfold(Some(None), move |next| {
            let blobs = blobs.clone();
            async move {
                let Some(from) = next else {
                    return Ok::<_, StoreError>(None);
                };
                let page = async {
                    match self.container.list(&blobs, from).await {
                        Ok(page) => Ok((page.blobs, page.next.map(Some))),
                        Err(failure) if failure.is(IS_ABSENT) => Ok((Vec::new(), None)),
                        Err(failure) => Err(failure.into()),
                    }
                };
                let (blobs, next) = self.within_limit("listing the leases", page).await?;
                let records = blobs.into_iter().filter_map(move |(name, seen)| {
                    let key = self.prefix.key_of(&name)?;
                    let asked = key.as_str().starts_with(prefix);
                    asked.then(|| {
                        let seen =
                            seen.map_err(|failure| failure.error(&format!("listing {key}")))?;
                        Ok(seen.record(&key, self.fencing))
                    })
                });
                Ok(Some((stream::iter(records.collect::<Vec<_>>()), next)))
            }
        });
        pages.try_flatten().boxed()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            terms: Self::TERMS,
            fencing: self.fencing,
            watch: false,
            batch_renewal: false,
            time: TimeKeeper::Store,
            linearizable_reads: true,
        }
    }

    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        stream::iter(leases.to_vec())
            .map(|(key, id)| async move { self.renew(&key, id).await })
            .buffered(RENEWALS_AT_ONCE)
            .collect()
            .await
    }
}

impl fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobStore")
            .field("container", &self.container.url().as_str())
            .field("prefix", &self.prefix)
            .field("fencing", &self.fencing)
            .finish_non_exhaustive()
    }
}
