use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use azure_core::http::Url;
use leasehold_azure::{Account, BlobStore, BlobStoreBuilder};
use leasehold_core::outcome::Acquire;
use leasehold_core::{Holder, Key, LeaseId, LeaseStore, Metadata, Record, Term};
use leasehold_testkit::servers::Azurite;

pub(crate) const CONTAINER: &str = "leases";

/// A store at this endpoint of the emulator.
pub(crate) fn builder(endpoint: &str) -> BlobStoreBuilder {
    let account = Account::from_connection_string(&Azurite::connection_string_of(endpoint));
    BlobStore::builder(&account.expect("a good connection string"), CONTAINER)
}

pub(crate) fn open(endpoint: &str) -> BlobStore {
    builder(endpoint).build().expect("the store opens")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("a good key")
}

pub(crate) fn id(byte: u8) -> LeaseId {
    LeaseId::from_random_bytes([byte; 16])
}

pub(crate) fn note(text: &str) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("note", text).expect("a short value");
    metadata
}

/// Acquires for a minute, and has to get it.
pub(crate) async fn acquire(store: &BlobStore, key: &Key, id: LeaseId) -> Record {
    let holder = Holder::new(format!("holder of {id}")).expect("a good name");
    match store.acquire(key, id, Term::DEFAULT, &holder).await {
        Ok(Acquire::Granted(record)) => record,
        other => panic!("acquire of {key}: {other:?}"),
    }
}

/// A shared access signature for the whole account, made as the service's documentation says.
pub(crate) fn account_sas(permissions: &str, expiry: &str) -> String {
    let (version, services, types) = ("2020-12-06", "b", "sco");
    let text = format!(
        "{}\n{permissions}\n{services}\n{types}\n\n{expiry}\n\n\n{version}\n\n",
        Azurite::ACCOUNT
    );
    let signature = hmac_sha256(&text, &Secret::new(Azurite::KEY)).expect("the emulator's key");
    let mut url = Url::parse("http://any").expect("a URL");
    url.query_pairs_mut()
        .append_pair("sv", version)
        .append_pair("ss", services)
        .append_pair("srt", types)
        .append_pair("sp", permissions)
        .append_pair("se", expiry)
        .append_pair("sig", &signature);
    url.query().unwrap_or_default().to_owned()
}

pub(crate) const ALL: &str = "rwdlac";
pub(crate) const FAR_FUTURE: &str = "2099-01-01T00:00:00Z";

/// Somebody else's client: plain HTTP.
pub(crate) struct Raw {
    client: reqwest::Client,
    endpoint: String,
}

impl Raw {
    pub(crate) fn new(azurite: &Azurite) -> Self {
        // The client is built without TLS of its own; nothing here is encrypted.
        let tls = rustls::ClientConfig::builder_with_provider(
            rustls::crypto::ring::default_provider().into(),
        )
        .with_safe_default_protocol_versions()
        .expect("a TLS configuration")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
        Self {
            client: client.build().expect("a client"),
            endpoint: azurite.endpoint().to_owned(),
        }
    }

    /// Sends, and gives back status, error code and headers.
    pub(crate) async fn send(
        &self,
        method: &str,
        blob: &str,
        query: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> (u16, reqwest::header::HeaderMap, String) {
        let sas = account_sas(ALL, FAR_FUTURE);
        let url = format!("{}/{CONTAINER}/{blob}?{query}&{sas}", self.endpoint);
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.header("x-ms-version", "2025-11-05").send().await;
        let answer = answer.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.text().await.expect("the answer's body");
        (status, headers, body)
    }
}
