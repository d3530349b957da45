//! The last step of every request: what no log may show is put on here, after the client crate has logged.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use azure_core::http::headers::{HeaderName, Headers};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{AsyncRawResponse, Context, HttpClient, Method, Request, Url};
use azure_core::time::{OffsetDateTime, to_rfc7231};
use azure_core::{Error, error::ErrorKind};
use leasehold_core::clock::{Clock, SystemClock};
use leasehold_core::{Effect, ErrorKind as StoreErrorKind, LeaseId, StoreError};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::account::{Account, Credential};

/// The service and the emulator close idle connections, the emulator after 5 s, and a request on one that is
/// being closed is lost.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// In an answer: the most values that metadata can have, each its own header, and room for the service's.
const MOST_HEADERS: usize = 4096;

const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const PROPOSED_LEASE_ID: HeaderName = HeaderName::from_static("x-ms-proposed-lease-id");
const DATE: HeaderName = HeaderName::from_static("x-ms-date");
const AUTHORIZATION: HeaderName = HeaderName::from_static("authorization");

/// Where the lease id of an answer is found: the client crate would log it under its own name.
pub(crate) const ANSWERED_LEASE_ID: HeaderName =
    HeaderName::from_static("x-leasehold-answered-lease-id");

/// The lease id of a request, which travels beside it until here: the client crate logs that header in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderLease(pub(crate) LeaseId);

/// The lease id that a request asks for; travels likewise, for the same reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proposed(pub(crate) LeaseId);

/// Puts on lease id and credentials, and sends.
pub(crate) struct Transport {
    client: Arc<dyn HttpClient>,
    credential: Credential,
}

impl Transport {
    pub(crate) fn new(account: &Account) -> Result<Self, StoreError> {
        let tls = tls(account.endpoint.scheme() == "https")?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT_LIMIT)
            .pool_idle_timeout(IDLE_LIMIT)
            .http1_max_headers(MOST_HEADERS)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| set_up(&error.to_string()))?;
        Ok(Self {
            client: Arc::new(client),
            credential: account.credential.clone(),
        })
    }
}

/// Without the system's certificates where there is nothing to verify.
fn tls(verify: bool) -> Result<ClientConfig, StoreError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| set_up(&error.to_string()))?;
    let builder = if verify {
        builder
            .with_platform_verifier()
            .map_err(|error| set_up(&error.to_string()))?
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

fn set_up(why: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        Effect::NotApplied,
        format!("setting up connections to Azure Blob Storage: {why}"),
    )
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

#[async_trait]
impl Policy for Transport {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        _next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        // A copy: the client crate logs its own once more when this failed.
        let mut request = request.clone();
        if let Some(UnderLease(id)) = ctx.value::<UnderLease>() {
            request.insert_header(LEASE_ID, id.expose());
        }
        if let Some(Proposed(id)) = ctx.value::<Proposed>() {
            request.insert_header(PROPOSED_LEASE_ID, id.expose());
        }
        match &self.credential {
            Credential::SharedKey { account, key } => sign(&mut request, account, key)?,
            Credential::Sas(pairs) => {
                let mut query = request.url_mut().query_pairs_mut();
                for (name, value) in pairs {
                    query.append_pair(name, value.secret());
                }
            }
        }
        let answer = self
            .client
            .execute_request(&request)
            .await
            .map_err(|error| bare(&error))?;
        // All of it, here: a failure to read it has the URL in it, too.
        let answer = answer
            .try_into_raw_response()
            .await
            .map_err(|error| bare(&error))?;
        let (status, mut headers, body) = answer.deconstruct();
        if let Some(id) = headers.remove(LEASE_ID) {
            headers.insert(ANSWERED_LEASE_ID, id);
        }
        Ok(AsyncRawResponse::from_bytes(status, headers, body))
    }
}

/// Only what kind of failure it was, and its innermost cause: those between print the URL.
fn bare(error: &Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = None;
    let mut next = error.source();
    while let Some(inner) = next {
        cause = (!inner.is::<reqwest::Error>()).then_some(inner);
        next = inner.source();
    }
    let cause = cause
        .map(ToString::to_string)
        .filter(|text| !text.contains("://"));
    let cause = cause.unwrap_or_else(|| "the request could not be sent".into());
    let kind = match error.kind() {
        ErrorKind::Connection => ErrorKind::Connection,
        ErrorKind::Io => ErrorKind::Io,
        _ => ErrorKind::Other,
    };
    Error::with_message(kind, cause)
}

/// Dates and signs a request with the account's key, as "Authorize with Shared Key" in the service's
/// documentation says.
fn sign(request: &mut Request, account: &str, key: &Secret) -> azure_core::Result<()> {
    let now = OffsetDateTime::from(SystemClock.wall());
    request.insert_header(DATE, to_rfc7231(&now));
    let text = text_to_sign(request.method(), request.url(), request.headers(), account);
    let signature = hmac_sha256(&text, key)?;
    request.insert_header(AUTHORIZATION, format!("SharedKey {account}:{signature}"));
    Ok(())
}

fn text_to_sign(method: Method, url: &Url, headers: &Headers, account: &str) -> String {
    let mut text = method.as_str().to_owned();
    for name in [
        "content-encoding",
        "content-language",
        "content-length",
        "content-md5",
        "content-type",
        "date",
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
    ] {
        let value = headers
            .get_optional_str(&HeaderName::from_static(name))
            .unwrap_or("");
        text.push('\n');
        // No length at all is what is signed for an empty body.
        if !(name == "content-length" && value == "0") {
            text.push_str(value);
        }
    }
    let mut own: Vec<_> = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-ms-"))
        .map(|(name, value)| (name.as_str(), value.as_str().trim()))
        .collect();
    own.sort_unstable_by_key(|(name, _)| rank(name));
    let mut line = |parts: &[&str]| {
        text.push('\n');
        text.extend(parts.iter().copied());
    };
    for (name, value) in own {
        line(&[name, ":", value]);
    }
    line(&["/", account, url.path()]);
    let mut query: Vec<_> = url
        .query_pairs()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()))
        .collect();
    query.sort_unstable();
    for (name, value) in &query {
        line(&[name, ":", value]);
    }
    text
}

/// Where a header stands among those that are signed. Not in the order of bytes: the service puts `a_` before
/// `a0` and both before `aa`.
fn rank(name: &str) -> Vec<u8> {
    let rank = |byte| match byte {
        b'_' => 0,
        b'-' => 1,
        other => other,
    };
    name.bytes().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_what_the_documentation_shows() {
        // The example for listing containers, in "Authorize with Shared Key".
        let url = Url::parse(
            "https://myaccount.blob.core.windows.net/?comp=list&Timeout=20&include=metadata",
        );
        let mut headers = Headers::new();
        headers.insert("x-ms-version", "2015-02-21");
        headers.insert("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
        headers.insert("content-length", "0");
        headers.insert("accept", "application/xml");
        assert_eq!(
            text_to_sign(Method::Get, &url.unwrap(), &headers, "myaccount"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
             x-ms-version:2015-02-21\n\
             /myaccount/\ncomp:list\ninclude:metadata\ntimeout:20"
        );
    }

    #[test]
    fn headers_are_signed_in_the_order_of_the_service() {
        let url = Url::parse("https://acc.blob.core.windows.net/c/b?comp=metadata");
        let mut headers = Headers::new();
        for name in ["aa", "a_b", "a0", "a_", "a"] {
            headers.insert(format!("x-ms-meta-{name}"), name);
        }
        let text = text_to_sign(Method::Put, &url.unwrap(), &headers, "acc");
        let signed: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("x-ms-meta-")?.split_once(':'))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(signed, ["a", "a_", "a_b", "a0", "aa"]);
    }
}
