use std::sync::Arc;

use leasehold_core::{Invalid, LeaseStore, MemoryStore, StoreError};

/// The URLs that this version knows, and whether this build has the store.
const SCHEMES: &[(&str, &str, bool)] = &[
    ("sqlite", "sqlite:PATH", cfg!(feature = "sqlite")),
    (
        "azure",
        "azure://CONTAINER[/PREFIX]",
        cfg!(feature = "azure"),
    ),
    ("memory", "memory:", true),
];

/// Why [`open`] gave no store.
///
/// The messages never repeat the URL: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is not one that this build can open; the message says which are. Nothing was tried.
    #[error(transparent)]
    Url(#[from] Invalid),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens the store that a URL names.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `sqlite:PATH` | an SQLite file, made where there is none; `sqlite:///PATH` is the same | `sqlite` |
/// | `azure://CONTAINER[/PREFIX]` | blobs in a container of Azure Blob Storage, both made on first use | `azure` |
/// | `memory:` | this process's memory, a new one each time | |
///
/// The path is taken as it stands, without escapes; a relative one is looked up from the working directory.
///
/// The account of an `azure:` store comes from the environment: a connection string in
/// `AZURE_STORAGE_CONNECTION_STRING` (also `UseDevelopmentStorage=true`), or a name in `AZURE_STORAGE_ACCOUNT`
/// with a key in `AZURE_STORAGE_KEY` or a shared access signature in `AZURE_STORAGE_SAS_TOKEN`. Nothing is sent
/// before the first operation.
///
/// # Errors
/// When the URL names no store that this build has, or when the store cannot be opened.
///
/// # Cancel safety
/// A file may have been made. Nothing is held.
pub async fn open(url: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        let message = format!("the store has no scheme; it is one of {}", allowed());
        return Err(Invalid::new(message).into());
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::new())),
        "memory" => Err(Invalid::new("nothing may follow memory: in the store's URL").into()),
        "sqlite" => open_sqlite(rest).await,
        "azure" => open_azure(rest),
        // What precedes the first colon of something that is no URL may be a user's name, or worse.
        _ if !looks_like_a_scheme(scheme) => {
            let message = format!("the store has no scheme; it is one of {}", allowed());
            Err(Invalid::new(message).into())
        }
        _ => {
            let message = format!(
                "the store's scheme {scheme:?} is not known; it is one of {}",
                allowed()
            );
            Err(Invalid::new(message).into())
        }
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(rest: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return Err(Invalid::new("sqlite: needs a path in the store's URL: sqlite:PATH").into());
    }
    let store = leasehold_sqlite::SqliteStore::open(path).await?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "the same signature in every build")]
async fn open_sqlite(_: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    Err(not_compiled_in("sqlite"))
}

#[cfg(feature = "azure")]
fn open_azure(rest: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    let path = rest.strip_prefix("//").unwrap_or_default();
    let (container, prefix) = path.split_once('/').unwrap_or((path, ""));
    if container.is_empty() {
        return Err(Invalid::new(
            "azure: needs a container in the store's URL: azure://CONTAINER[/PREFIX]",
        )
        .into());
    }
    let account = leasehold_azure::Account::from_environment()?;
    let store = leasehold_azure::BlobStore::builder(&account, container)
        .prefix(prefix)
        .build()?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "azure"))]
fn open_azure(_: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    Err(not_compiled_in("azure"))
}

#[cfg(not(all(feature = "sqlite", feature = "azure")))]
fn not_compiled_in(store: &str) -> OpenError {
    let message = format!(
        "the {store} store is not compiled into this build; it has {}",
        allowed()
    );
    Invalid::new(message).into()
}

fn allowed() -> String {
    let built_in = SCHEMES.iter().filter(|(_, _, built_in)| *built_in);
    let forms: Vec<_> = built_in.map(|(_, form, _)| *form).collect();
    let mut text = forms.join(", ");
    for (scheme, _, built_in) in SCHEMES {
        if !built_in {
            text.push_str(" (");
            text.push_str(scheme);
            text.push_str(": is not compiled into this build)");
        }
    }
    text
}

fn looks_like_a_scheme(text: &str) -> bool {
    (1..=16).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        match open(url).await {
            Err(OpenError::Url(refused)) => refused.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_unknown_scheme_is_named_and_so_are_the_allowed_ones() {
        let message = refusal("ftp://user:hunter2@host/x").await;
        assert!(message.contains("\"ftp\""), "{message}");
        assert!(message.contains("memory:"), "{message}");
        assert!(message.contains("sqlite"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[tokio::test]
    async fn what_is_no_url_is_never_repeated() {
        for url in [
            "AccountKey=hunter2",
            "hunter2;x=y:z",
            "",
            ":",
            "./hunter2.db",
        ] {
            let message = refusal(url).await;
            assert!(message.contains("no scheme"), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[tokio::test]
    async fn memory_opens_and_takes_nothing_more() {
        assert!(open("memory:").await.is_ok());
        assert!(refusal("memory:x").await.contains("nothing may follow"));
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn sqlite_opens_by_either_spelling_of_the_same_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leases.db");
        for url in [
            format!("sqlite:{}", path.display()),
            format!("sqlite://{}", path.display()),
        ] {
            open(&url).await.unwrap();
        }
        assert!(path.exists());
        assert!(refusal("sqlite:").await.contains("needs a path"));
    }

    #[cfg(feature = "azure")]
    #[tokio::test]
    async fn azure_needs_a_container() {
        for url in ["azure:", "azure:x", "azure://", "azure:///x"] {
            assert!(refusal(url).await.contains("needs a container"), "{url}");
        }
    }

    #[cfg(not(feature = "azure"))]
    #[tokio::test]
    async fn azure_without_its_feature_says_so() {
        let message = refusal("azure://container").await;
        assert!(
            message.contains("azure store is not compiled into this build"),
            "{message}"
        );
    }

    #[cfg(not(feature = "sqlite"))]
    #[tokio::test]
    async fn a_store_that_is_not_compiled_in_says_so() {
        assert!(
            refusal("sqlite:x.db")
                .await
                .contains("not compiled into this build")
        );
    }
}
