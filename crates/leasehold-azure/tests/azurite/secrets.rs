use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_azure::{Account, BlobStore};
use leasehold_core::{ErrorKind, Holder, LeaseStore, Precondition, StoreError, Term};
use leasehold_testkit::servers::Azurite;
use tracing_subscriber::fmt::MakeWriter;

use crate::relay::{Cut, Relay};
use crate::support::{ALL, CONTAINER, FAR_FUTURE, account_sas, acquire, id, key, note, open};

/// Everything that is logged, by whatever crate.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// All that an error can be made to say.
fn all_of(error: &StoreError) -> String {
    let mut said = vec![format!("{error} {error:?}")];
    let mut next = error.source();
    while let Some(source) = next {
        said.push(format!("{source} {source:?}"));
        next = source.source();
    }
    said.join(" ")
}

fn with_sas(endpoint: &str, sas: &str) -> BlobStore {
    let text = format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}");
    let account = Account::from_connection_string(&text).expect("a good connection string");
    BlobStore::builder(&account, CONTAINER)
        .build()
        .expect("the store opens")
}

async fn refusal(store: &BlobStore) -> StoreError {
    let holder = Holder::new("me").expect("a good name");
    let asked = store
        .acquire(&key("a"), id(0xab), Term::DEFAULT, &holder)
        .await;
    asked.expect_err("it is refused")
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn no_key_signature_or_lease_id_is_in_any_error_or_log() {
    let log = Log::default();
    // For all threads: what other tests make the client crate log on theirs decides otherwise whether it is
    // logged on ours. None of theirs may hold a secret, either.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");

    let azurite = Azurite::start();
    let relay = Relay::before(&azurite).await;
    let sas = account_sas(ALL, FAR_FUTURE);
    let mut said = Vec::new();
    for store in [with_sas(relay.endpoint(), &sas), open(relay.endpoint())] {
        acquire(&store, &key("a"), id(0xab)).await;
        store.renew(&key("a"), id(0xab)).await.unwrap();
        store
            .write(&key("a"), &note("a"), &Precondition::Any, Some(id(0xab)))
            .await
            .unwrap();
        store.change(&key("a"), id(0xab), id(0xcd)).await.unwrap();
        store.release(&key("a"), id(0xcd)).await.unwrap();
        relay.plan(vec![Some(Cut::Request); 20]);
        said.push(all_of(&refusal(&store).await));
        relay.plan(Vec::new());
        said.push(format!("{store:?}"));
    }
    drop(azurite);
    // Nobody listens there any more.
    drop(relay);
    for endpoint in [
        "http://127.0.0.1:1/devstoreaccount1",
        "http://no-such-host.invalid/a",
    ] {
        said.push(all_of(&refusal(&with_sas(endpoint, &sas)).await));
    }
    let (said, logged) = (said.join(" "), log.text());
    assert!(
        logged.contains("comp=lease"),
        "the client crate's log is there: {logged}"
    );
    let signature = sas.rsplit_once("sig=").map(|(_, signature)| signature);
    let decoded = signature
        .unwrap_or_default()
        .replace("%2F", "/")
        .replace("%2B", "+")
        .replace("%3D", "=");
    for secret in [
        signature.unwrap_or_default(),
        &decoded,
        Azurite::KEY,
        &id(0xab).expose(),
        &id(0xcd).expose(),
    ] {
        assert!(secret.len() > 20);
        assert!(!said.contains(secret), "{said}");
        let line = logged.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}

#[tokio::test]
#[ignore = "needs Azurite: cargo xtask test"]
async fn what_the_service_refuses_says_why_and_what_to_do() {
    let azurite = Azurite::start();
    // Makes the container, which a signature without the right to create could not.
    acquire(&open(azurite.endpoint()), &key("other"), id(1)).await;
    let other_key = format!(
        "AccountName={};AccountKey=b3RoZXI=;BlobEndpoint={}",
        Azurite::ACCOUNT,
        azurite.endpoint()
    );
    let account = Account::from_connection_string(&other_key).unwrap();
    let wrong_key = BlobStore::builder(&account, CONTAINER).build().unwrap();
    let expired = with_sas(
        azurite.endpoint(),
        &account_sas(ALL, "2020-01-01T00:00:00Z"),
    );
    let read_only = with_sas(azurite.endpoint(), &account_sas("r", FAR_FUTURE));
    for store in [wrong_key, expired, read_only] {
        let error = refusal(&store).await;
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("acquiring the lease on a") && text.contains("403"),
            "{text}"
        );
        assert!(text.contains(azurite.endpoint()), "{text}");
    }
    let unreachable = refusal(&open("http://127.0.0.1:1/devstoreaccount1")).await;
    assert_eq!(unreachable.kind(), ErrorKind::Unavailable, "{unreachable}");
    assert_eq!(unreachable.effect(), leasehold_core::Effect::NotApplied);
    assert!(
        unreachable.to_string().contains("cannot be reached"),
        "{unreachable}"
    );
}
