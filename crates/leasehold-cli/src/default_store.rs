use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;

/// The URL of the store that is used when none was given. Its directory is made where there is none.
pub(crate) fn url() -> Result<String, Failure> {
    let state = state_directory(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    let directory = state.join("leasehold");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| {
            let message = format!(
                "making the directory {} for the store: {error}",
                directory.display()
            );
            Failure::new(Exit::STORE, message)
        })?;
    let file = directory.join("leases.db");
    match file.to_str() {
        Some(path) => Ok(format!("sqlite:{path}")),
        None => Err(Failure::new(
            Exit::USAGE,
            format!(
                "the path {} is not UTF-8; name a store with --store",
                file.display()
            ),
        )),
    }
}

/// As the XDG base directory specification has it: a relative path there counts as none.
fn state_directory(xdg: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute =
        |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(xdg)
        .or_else(|| absolute(home).map(|home| home.join(Path::new(".local/state"))))
        .ok_or_else(|| {
            let message = "no store was named, and neither XDG_STATE_HOME nor HOME says where the default \
                           one is; name one with --store URL or LEASEHOLD_STORE";
            Failure::new(Exit::USAGE, message)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_xdgs_else_under_home() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            state_directory(xdg.map(OsString::from), home.map(OsString::from))
                .map_err(|failure| failure.to_string())
        };
        assert_eq!(of(Some("/s"), Some("/h")), Ok("/s".into()));
        assert_eq!(of(None, Some("/h")), Ok("/h/.local/state".into()));
        assert_eq!(
            of(Some("relative"), Some("/h")),
            Ok("/h/.local/state".into())
        );
        assert!(of(None, None).unwrap_err().contains("--store"));
        assert!(of(Some(""), Some("")).unwrap_err().contains("HOME"));
    }
}
