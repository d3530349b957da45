//! The requests, one function each: what is asked, and what the answer says. No rule of ours is in here.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use azure_core::Bytes;
use azure_core::http::headers::{ETAG, Headers};
use azure_core::http::{
    ClientMethodOptions, ClientOptions, Context, Etag, NoFormat, RequestContent, RetryOptions,
    Transport as ClientTransport, Url,
};
use azure_storage_blob::models::{
    BlobClientAcquireLeaseOptions, BlobClientBreakLeaseOptions, BlobClientBreakLeaseResultHeaders,
    BlobClientChangeLeaseOptions, BlobClientDeleteOptions, BlobClientGetPropertiesOptions,
    BlobClientGetPropertiesResultHeaders, BlobClientReleaseLeaseOptions,
    BlobClientRenewLeaseOptions, BlobClientSetMetadataOptions, BlobClientUploadOptions,
    BlobContainerClientListBlobsOptions, LeaseDuration, LeaseState as ServiceLeaseState,
    ListBlobsIncludeItem,
};
use azure_storage_blob::{BlobClient, BlobContainerClient, BlobContainerClientOptions};
use futures::StreamExt;
use leasehold_core::{LeaseId, LeaseState, StoreError};

use crate::account::Account;
use crate::failure::Failure;
use crate::metadata::BlobMetadata;
use crate::seen::Seen;
use crate::transport::{ANSWERED_LEASE_ID, Proposed, Transport, UnderLease};

/// How often a request is sent whose connection gives no answer: a server may be closing each of a few idle
/// connections at the very moment when it is used.
const TRIES: usize = 4;

/// A blob container, and how to speak to it.
pub(crate) struct Container {
    client: BlobContainerClient,
    name: String,
}

/// A part of a listing.
pub(crate) struct Page {
    /// Names, and what was seen of each.
    pub(crate) blobs: Vec<(String, Result<Seen, Failure>)>,
    /// Where the next part begins.
    pub(crate) next: Option<String>,
}

impl Container {
    pub(crate) fn new(
        account: &Account,
        name: &str,
        service_version: String,
    ) -> Result<Self, StoreError> {
        let mut url = account.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push(name);
        }
        let options = BlobContainerClientOptions {
            client_options: ClientOptions {
                // The callers know how long their lease lasts; this loop does not.
                retry: RetryOptions::none(),
                transport: Some(ClientTransport::with_policy(Arc::new(Transport::new(
                    account,
                )?))),
                ..ClientOptions::default()
            },
            version: service_version,
        };
        let client = BlobContainerClient::new(url, None, Some(options))
            .map_err(|error| Failure::from(error).error("opening an Azure Blob container"))?;
        Ok(Self {
            client,
            name: name.to_owned(),
        })
    }

    /// For messages: the container and its account, and no secret.
    pub(crate) fn url(&self) -> &Url {
        self.client.url()
    }

    fn blob(&self, blob: &str) -> BlobClient {
        self.client.blob_client(blob)
    }

    /// Makes the container, unless it is there.
    pub(crate) async fn create_container(&self) -> Result<(), Failure> {
        match repeated(|| self.client.create(None)).await {
            Err(failure) if !failure.is(&["ContainerAlreadyExists"]) => Err(failure),
            _ => Ok(()),
        }
    }

    // The lease operations, each safe to repeat: the service knows the id again.

    /// Answers the blob's `ETag`, which no lease operation changes.
    pub(crate) async fn acquire(
        &self,
        blob: &str,
        id: LeaseId,
        seconds: i32,
    ) -> Result<String, Failure> {
        let blob = self.blob(blob);
        let answer = repeated(|| {
            let options = BlobClientAcquireLeaseOptions {
                method_options: proposing(None, id),
                ..BlobClientAcquireLeaseOptions::default()
            };
            blob.acquire_lease(seconds, Some(options))
        })
        .await?;
        etag(answer.headers())
    }

    /// Whether it was this id's lease that was renewed: the emulator also renews an expired one of another's,
    /// and says whose it is.
    pub(crate) async fn renew(&self, blob: &str, id: LeaseId) -> Result<bool, Failure> {
        let blob = self.blob(blob);
        let answer = repeated(|| {
            let options = BlobClientRenewLeaseOptions {
                method_options: under(Some(id)),
                ..BlobClientRenewLeaseOptions::default()
            };
            // What travels beside the request is what is sent; see the transport.
            blob.renew_lease(String::new(), Some(options))
        })
        .await?;
        Ok(is_answered(answer.headers(), id))
    }

    /// Whether the lease is the new id's.
    pub(crate) async fn change(
        &self,
        blob: &str,
        id: LeaseId,
        new_id: LeaseId,
    ) -> Result<bool, Failure> {
        let blob = self.blob(blob);
        let answer = repeated(|| {
            let options = BlobClientChangeLeaseOptions {
                method_options: proposing(Some(id), new_id),
                ..BlobClientChangeLeaseOptions::default()
            };
            blob.change_lease(String::new(), String::new(), Some(options))
        })
        .await?;
        Ok(is_answered(answer.headers(), new_id))
    }

    pub(crate) async fn release(&self, blob: &str, id: LeaseId) -> Result<(), Failure> {
        let blob = self.blob(blob);
        repeated(|| {
            let options = BlobClientReleaseLeaseOptions {
                method_options: under(Some(id)),
                ..BlobClientReleaseLeaseOptions::default()
            };
            blob.release_lease(String::new(), Some(options))
        })
        .await?;
        Ok(())
    }

    /// Answers how many seconds the lease lasts yet.
    pub(crate) async fn break_lease(
        &self,
        blob: &str,
        period: Option<i32>,
    ) -> Result<u64, Failure> {
        let blob = self.blob(blob);
        let answer = repeated(|| {
            let options = BlobClientBreakLeaseOptions {
                break_period: period,
                ..BlobClientBreakLeaseOptions::default()
            };
            blob.break_lease(Some(options))
        })
        .await?;
        let seconds = answer
            .lease_time()?
            .and_then(|left| u64::try_from(left).ok());
        seconds.ok_or_else(|| Failure::strange("a break without what remains"))
    }

    /// What a blob shows; with a lease id only if that holds the lease.
    pub(crate) async fn look(&self, blob: &str, lease: Option<LeaseId>) -> Result<Seen, Failure> {
        let blob = self.blob(blob);
        let answer = repeated(|| {
            let options = BlobClientGetPropertiesOptions {
                method_options: under(lease),
                ..BlobClientGetPropertiesOptions::default()
            };
            blob.get_properties(Some(options))
        })
        .await?;
        seen(
            etag(answer.headers())?,
            answer.lease_state()?.as_ref(),
            answer.duration()?.as_ref(),
            answer.metadata()?,
        )
    }

    /// A part of the listing of all blobs whose names begin with `prefix`.
    pub(crate) async fn list(&self, prefix: &str, from: Option<String>) -> Result<Page, Failure> {
        let page = repeated(|| async {
            let mut options = BlobContainerClientListBlobsOptions {
                include: Some(vec![ListBlobsIncludeItem::Metadata]),
                marker: from.clone(),
                ..BlobContainerClientListBlobsOptions::default()
            };
            if !prefix.is_empty() {
                options.prefix = Some(prefix.to_owned());
            }
            let mut pages = self.client.list_blobs(Some(options))?.into_pages();
            match pages.next().await {
                Some(page) => page?.into_model().map(Some),
                None => Ok(None),
            }
        })
        .await?;
        let Some(page) = page else {
            return Ok(Page {
                blobs: Vec::new(),
                next: None,
            });
        };
        let blobs = page.blob_items.into_iter().filter_map(|blob| {
            let name = blob.name?;
            let properties = blob.properties.unwrap_or_default();
            let metadata = blob.metadata.and_then(|metadata| metadata.values);
            let seen = match properties.etag {
                Some(etag) => seen(
                    bare_etag(etag.as_ref()),
                    properties.lease_state.as_ref(),
                    properties.lease_duration.as_ref(),
                    metadata.unwrap_or_default(),
                ),
                None => Err(Failure::strange("no ETag in a listing")),
            };
            Some((name, seen))
        });
        Ok(Page {
            blobs: blobs.collect(),
            next: page.next_marker.filter(|next| !next.is_empty()),
        })
    }

    // Each of these is sent once: whether a repeat is the same request again is for the caller to know.

    /// Makes an empty blob, where there is none.
    pub(crate) async fn create(
        &self,
        blob: &str,
        metadata: HashMap<String, String>,
    ) -> Result<String, Failure> {
        let options = BlobClientUploadOptions {
            metadata: Some(metadata),
            ..BlobClientUploadOptions::default()
        };
        let empty: RequestContent<Bytes, NoFormat> = Bytes::new().into();
        let answer = self
            .blob(blob)
            .upload(empty, Some(options.if_not_exists()))
            .await?;
        etag(answer.raw_response.headers())
    }

    /// Replaces the metadata of just this version.
    pub(crate) async fn set_metadata(
        &self,
        blob: &str,
        if_match: &str,
        metadata: &HashMap<String, String>,
        lease: Option<LeaseId>,
    ) -> Result<String, Failure> {
        let options = BlobClientSetMetadataOptions {
            if_match: Some(quoted_etag(if_match)),
            method_options: under(lease),
            ..BlobClientSetMetadataOptions::default()
        };
        let answer = self
            .blob(blob)
            .set_metadata(metadata, Some(options))
            .await?;
        etag(answer.headers())
    }

    /// Deletes just this version.
    pub(crate) async fn delete(
        &self,
        blob: &str,
        if_match: &str,
        lease: Option<LeaseId>,
    ) -> Result<(), Failure> {
        let options = BlobClientDeleteOptions {
            if_match: Some(quoted_etag(if_match)),
            method_options: under(lease),
            ..BlobClientDeleteOptions::default()
        };
        self.blob(blob).delete(Some(options)).await?;
        Ok(())
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Sends again at once what a connection gave no answer to.
async fn repeated<T, Sent>(send: impl Fn() -> Sent) -> Result<T, Failure>
where
    Sent: Future<Output = azure_core::Result<T>>,
{
    let mut in_doubt = false;
    for _ in 1..TRIES {
        match send().await.map_err(Failure::from) {
            Err(failure) if failure.is_dropped() => in_doubt = true,
            Err(failure) => return Err(failure.after_doubt(in_doubt)),
            Ok(answer) => return Ok(answer),
        }
    }
    let last = send().await.map_err(Failure::from);
    last.map_err(|failure| failure.after_doubt(in_doubt))
}

fn under(lease: Option<LeaseId>) -> ClientMethodOptions<'static> {
    let mut context = Context::new();
    if let Some(id) = lease {
        context.insert(UnderLease(id));
    }
    ClientMethodOptions { context }
}

/// The same, with the id that is asked for.
fn proposing(lease: Option<LeaseId>, id: LeaseId) -> ClientMethodOptions<'static> {
    let mut options = under(lease);
    options.context.insert(Proposed(id));
    options
}

fn seen(
    etag: String,
    state: Option<&ServiceLeaseState>,
    duration: Option<&LeaseDuration>,
    metadata: HashMap<String, String>,
) -> Result<Seen, Failure> {
    let state = match state {
        Some(ServiceLeaseState::Available) => LeaseState::Available,
        Some(ServiceLeaseState::Leased) => LeaseState::Leased,
        Some(ServiceLeaseState::Breaking) => LeaseState::Breaking,
        Some(ServiceLeaseState::Broken) => LeaseState::Broken,
        Some(ServiceLeaseState::Expired) => LeaseState::Expired,
        None => return Err(Failure::strange("a blob without a lease state")),
    };
    Ok(Seen {
        etag,
        state,
        infinite: matches!(duration, Some(LeaseDuration::Infinite)),
        metadata: BlobMetadata::read(metadata)
            .map_err(|_| Failure::corrupt("the token in the blob's metadata is not a number"))?,
    })
}

fn is_answered(headers: &Headers, id: LeaseId) -> bool {
    headers
        .get_optional_str(&ANSWERED_LEASE_ID)
        .and_then(|answered| answered.parse().ok())
        == Some(id)
}

fn etag(headers: &Headers) -> Result<String, Failure> {
    headers
        .get_optional_str(&ETAG)
        .map(bare_etag)
        .ok_or_else(|| Failure::strange("no ETag"))
}

/// Headers quote it, listings do not.
fn bare_etag(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

fn quoted_etag(etag: &str) -> Etag {
    format!("\"{etag}\"").into()
}
