use std::collections::BTreeMap;
use std::env;
use std::fmt;

use azure_core::base64;
use azure_core::credentials::Secret;
use azure_core::http::Url;
use leasehold_core::Invalid;

/// The emulator's account and key, the same everywhere and no secret.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

const PUBLIC_SUFFIX: &str = "core.windows.net";

/// A storage account, and what proves that we may use it. Its `Debug` shows the endpoint alone.
#[derive(Clone)]
pub struct Account {
    pub(crate) endpoint: Url,
    pub(crate) credential: Credential,
}

/// What proves that we may use an account.
#[derive(Clone)]
pub(crate) enum Credential {
    /// The account's name and key: every request is signed.
    SharedKey { account: String, key: Secret },
    /// A shared access signature: names and values for every URL's query.
    Sas(Vec<(String, Secret)>),
}

impl Account {
    /// The variable with a connection string.
    pub const CONNECTION_STRING_VARIABLE: &'static str = "AZURE_STORAGE_CONNECTION_STRING";
    /// The variable with an account's name, beside one of the next two.
    pub const ACCOUNT_VARIABLE: &'static str = "AZURE_STORAGE_ACCOUNT";
    /// The variable with the account's key.
    pub const KEY_VARIABLE: &'static str = "AZURE_STORAGE_KEY";
    /// The variable with a shared access signature.
    pub const SAS_VARIABLE: &'static str = "AZURE_STORAGE_SAS_TOKEN";

    /// An account by its name and key, in the public cloud.
    ///
    /// # Errors
    /// When the name is not one, or the key is not base64.
    pub fn with_key(account: &str, key: impl Into<String>) -> Result<Self, Invalid> {
        Ok(Self {
            endpoint: public_endpoint(account)?,
            credential: Credential::shared_key(account, key.into())?,
        })
    }

    /// An account by its name and a shared access signature, in the public cloud. It takes read, write, create,
    /// delete and list on objects (`srt=o`, and `c` to list and to create the container).
    ///
    /// # Errors
    /// When the name is not one, or the signature has no `sig`.
    pub fn with_sas(account: &str, sas: &str) -> Result<Self, Invalid> {
        Ok(Self {
            endpoint: public_endpoint(account)?,
            credential: Credential::sas(sas)?,
        })
    }

    /// The account that a connection string names, as the portal shows it; also `UseDevelopmentStorage=true`.
    ///
    /// # Errors
    /// When it has no account, or neither key nor signature. The message repeats nothing of it.
    pub fn from_connection_string(text: &str) -> Result<Self, Invalid> {
        let mut parts = BTreeMap::new();
        for part in text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some((name, value)) = part.split_once('=') else {
                return Err(Invalid::new(
                    "the connection string is not one: it has NAME=VALUE parts between semicolons",
                ));
            };
            parts.insert(name.trim().to_ascii_lowercase(), value.trim());
        }
        let part = |name: &str| parts.get(name).copied().filter(|value| !value.is_empty());
        if part("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::emulator(EMULATOR_ENDPOINT);
        }
        let account = part("accountname");
        let endpoint = match (part("blobendpoint"), account) {
            (Some(endpoint), _) => parse_endpoint(endpoint)?,
            (None, Some(account)) => {
                check_account(account)?;
                let scheme = part("defaultendpointsprotocol").unwrap_or("https");
                let suffix = part("endpointsuffix").unwrap_or(PUBLIC_SUFFIX);
                parse_endpoint(&format!("{scheme}://{account}.blob.{suffix}"))?
            }
            (None, None) => {
                return Err(Invalid::new(
                    "the connection string has neither AccountName nor BlobEndpoint",
                ));
            }
        };
        let credential = match (account, part("accountkey"), part("sharedaccesssignature")) {
            (Some(account), Some(key), _) => Credential::shared_key(account, key.to_owned())?,
            (_, None, Some(sas)) => Credential::sas(sas)?,
            _ => {
                return Err(Invalid::new(
                    "the connection string has neither AccountName with AccountKey nor SharedAccessSignature",
                ));
            }
        };
        Ok(Self {
            endpoint,
            credential,
        })
    }

    /// The account that the environment names: a connection string, or a name with a key or a signature, in
    /// the variables that Azure's own command line reads.
    ///
    /// # Errors
    /// When it names none; the message says which variables are read.
    pub fn from_environment() -> Result<Self, Invalid> {
        Self::from_variables(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Invalid> {
        if let Some(text) = variable(Self::CONNECTION_STRING_VARIABLE) {
            return Self::from_connection_string(&text);
        }
        let Some(account) = variable(Self::ACCOUNT_VARIABLE) else {
            return Err(Invalid::new(format!(
                "no Azure storage account: neither {} nor {} is set",
                Self::CONNECTION_STRING_VARIABLE,
                Self::ACCOUNT_VARIABLE
            )));
        };
        match (variable(Self::KEY_VARIABLE), variable(Self::SAS_VARIABLE)) {
            (Some(key), _) => Self::with_key(&account, key),
            (None, Some(sas)) => Self::with_sas(&account, &sas),
            (None, None) => Err(Invalid::new(format!(
                "nothing proves that we may use the Azure storage account {account:?}: neither {} nor {} is set",
                Self::KEY_VARIABLE,
                Self::SAS_VARIABLE
            ))),
        }
    }

    fn emulator(endpoint: &str) -> Result<Self, Invalid> {
        Ok(Self {
            endpoint: parse_endpoint(endpoint)?,
            credential: Credential::shared_key(EMULATOR_ACCOUNT, EMULATOR_KEY.to_owned())?,
        })
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("endpoint", &self.endpoint.as_str())
            .finish_non_exhaustive()
    }
}

impl Credential {
    fn shared_key(account: &str, key: String) -> Result<Self, Invalid> {
        if key.is_empty() || base64::decode(&key).is_err() {
            return Err(Invalid::new("the storage account's key is not base64"));
        }
        Ok(Self::SharedKey {
            account: account.to_owned(),
            key: Secret::new(key),
        })
    }

    fn sas(sas: &str) -> Result<Self, Invalid> {
        let mut query = Url::parse("https://sas.invalid").map_err(|_| not_a_sas())?;
        query.set_query(Some(sas.trim_start_matches('?')));
        let pairs: Vec<_> = query
            .query_pairs()
            .map(|(name, value)| (name.into_owned(), Secret::new(value.into_owned())))
            .collect();
        if !pairs.iter().any(|(name, _)| name == "sig") {
            return Err(not_a_sas());
        }
        Ok(Self::Sas(pairs))
    }
}

fn not_a_sas() -> Invalid {
    Invalid::new("the shared access signature is not one: it has no sig=")
}

fn public_endpoint(account: &str) -> Result<Url, Invalid> {
    check_account(account)?;
    parse_endpoint(&format!("https://{account}.blob.{PUBLIC_SUFFIX}"))
}

/// Also keeps what is not a name out of the host's name.
fn check_account(account: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (3..=64).contains(&account.len()) && account.chars().all(allowed) {
        return Ok(());
    }
    Err(Invalid::new(
        "the storage account's name is not one: it has 3 to 24 characters of a-z and 0-9",
    ))
}

fn parse_endpoint(endpoint: &str) -> Result<Url, Invalid> {
    let url = Url::parse(endpoint.trim_end_matches('/')).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https"))
        .filter(|url| url.has_host() && url.username().is_empty() && url.password().is_none())
        .filter(|url| url.query().is_none() && url.fragment().is_none())
        .ok_or_else(|| {
            Invalid::new(
                "the storage account's blob endpoint is not an http:// or https:// URL of a host",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "c2VjcmV0LWtleQ==";
    const SAS: &str = "?sv=2025-11-05&sp=rw&sig=secret%2Bsignature%3D";

    fn endpoint(text: &str) -> String {
        Account::from_connection_string(text)
            .unwrap()
            .endpoint
            .to_string()
    }

    #[test]
    fn a_connection_string_names_the_account_as_the_portal_writes_it() {
        let key = format!("AccountKey={KEY}");
        for (text, expected) in [
            (
                format!(
                    "DefaultEndpointsProtocol=https;AccountName=acc;{key};EndpointSuffix=core.windows.net"
                ),
                "https://acc.blob.core.windows.net/",
            ),
            (
                format!("AccountName=acc;{key}"),
                "https://acc.blob.core.windows.net/",
            ),
            (
                format!("accountname=acc; {key};EndpointSuffix=example.net;"),
                "https://acc.blob.example.net/",
            ),
            (
                format!("AccountName=acc;{key};BlobEndpoint=http://127.0.0.1:1/acc/"),
                "http://127.0.0.1:1/acc",
            ),
            (
                format!("BlobEndpoint=https://x.example;SharedAccessSignature={SAS}"),
                "https://x.example/",
            ),
            (
                "UseDevelopmentStorage=true".into(),
                "http://127.0.0.1:10000/devstoreaccount1",
            ),
        ] {
            assert_eq!(endpoint(&text), expected);
        }
    }

    #[test]
    fn what_is_refused_is_not_repeated() {
        for text in [
            "secret",
            "AccountKey=c2VjcmV0",
            "AccountName=acc;AccountKey=secret!",
            "AccountName=secret.evil/?;AccountKey=c2VjcmV0",
            "AccountName=acc;SharedAccessSignature=secret",
            "AccountName=acc;AccountKey=c2VjcmV0;BlobEndpoint=secret",
            "AccountName=acc;AccountKey=c2VjcmV0;BlobEndpoint=https://user:secret@host",
        ] {
            let message = Account::from_connection_string(text)
                .unwrap_err()
                .to_string();
            assert!(
                !message.contains("secret") && !message.contains("c2Vj"),
                "{message}"
            );
        }
    }

    #[test]
    fn the_environment_is_read_as_the_command_line_of_azure_reads_it() {
        let from = |set: &[(&str, &str)]| {
            Account::from_variables(|name| {
                let found = set.iter().find(|(variable, _)| *variable == name)?;
                Some(found.1.to_owned())
            })
        };
        let connection = (
            "AZURE_STORAGE_CONNECTION_STRING",
            "UseDevelopmentStorage=true",
        );
        let account = ("AZURE_STORAGE_ACCOUNT", "acc");
        let key = ("AZURE_STORAGE_KEY", KEY);
        let sas = ("AZURE_STORAGE_SAS_TOKEN", SAS);
        let first = from(&[connection, account, key]).unwrap();
        assert_eq!(first.endpoint.as_str(), EMULATOR_ENDPOINT);
        let keyed = from(&[account, key, sas]).unwrap();
        assert!(matches!(keyed.credential, Credential::SharedKey { .. }));
        let signed = from(&[account, sas]).unwrap();
        assert!(matches!(signed.credential, Credential::Sas(_)));
        for (set, word) in [
            (&[][..], "AZURE_STORAGE_CONNECTION_STRING"),
            (&[account], "AZURE_STORAGE_SAS_TOKEN"),
            (&[key], "AZURE_STORAGE_ACCOUNT"),
        ] {
            let message = from(set).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        for account in [
            Account::with_key("acc", KEY).unwrap(),
            Account::with_sas("acc", SAS).unwrap(),
        ] {
            let shown = format!("{account:?}");
            assert!(shown.contains("acc.blob.core.windows.net"), "{shown}");
            assert!(
                !shown.contains("secret") && !shown.contains("c2Vj"),
                "{shown}"
            );
        }
    }
}
