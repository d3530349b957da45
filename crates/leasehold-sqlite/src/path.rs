//! The path of the database file, and what the file system says about it.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use leasehold_core::{Effect, ErrorKind, Invalid};

use crate::error::Failure;

/// An absolute path, so that neither a change of directory nor SQLite's special names (`:memory:`, `file:`)
/// make it mean something else.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Invalid> {
    std::path::absolute(path).map_err(|error| {
        Invalid::new(format!(
            "{} is no path of a database file: {error}",
            path.display()
        ))
    })
}

/// The path as a URI that makes SQLite look at the file alone: no lock is taken, nothing recovered, nothing
/// written.
///
/// The file is never opened in any other way than through SQLite. Closing a descriptor of one's own drops
/// all POSIX locks that the process has on the file, those of an open store included; another process could
/// then take itself for the only one and delete the write-ahead log.
pub(crate) fn read_only_uri(path: &Path) -> String {
    let mut uri = String::from(if cfg!(windows) { "file:///" } else { "file:" });
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                uri.push(char::from(*byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            // Writing to a string cannot fail.
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Which file a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(#[cfg(unix)] (u64, u64));

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path)?;
        Ok(Self((found.dev(), found.ino())))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self())
    }
}

/// The file that a store was opened on, which must stay where it is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    identity: Identity,
}

impl Place {
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let identity = Identity::of(&path)?;
        Ok(Self { path, identity })
    }

    /// # Errors
    /// When whoever opens this path now gets another file.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if Identity::of(&self.path).ok() == Some(self.identity) {
            return Ok(());
        }
        Err(Failure::new(
            ErrorKind::Corrupt,
            Effect::NotApplied,
            "the file was deleted or replaced while it was in use; nothing can be agreed on through it any more",
        ))
    }
}

/// Why a database at this path cannot be opened or written, in words; `None` when nothing stands out.
pub(crate) fn obstacle(path: &Path) -> Option<String> {
    let directory = path.parent()?;
    match fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(format!(
                "the directory {} does not exist",
                directory.display()
            ));
        }
        Err(error) => return Some(format!("the directory cannot be entered: {error}")),
        Ok(found) if !found.is_dir() => {
            return Some(format!("{} is not a directory", directory.display()));
        }
        Ok(_) => {}
    }
    if let Err(error) = writable(directory) {
        return Some(format!(
            "the directory {} is not writable: {error}",
            directory.display()
        ));
    }
    match writable(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Some(format!("the file is not writable: {error}"))
        }
        _ => None,
    }
}

#[cfg(unix)]
fn writable(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(path, Access::READ_OK | Access::WRITE_OK)?)
}

#[cfg(not(unix))]
fn writable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn no_character_of_a_path_means_anything_in_the_uri() {
        let uri = read_only_uri(Path::new("/a b/ü?mode=rw#x%41.db"));
        assert_eq!(
            uri,
            "file:/a%20b/%C3%BC%3Fmode%3Drw%23x%2541.db?immutable=1"
        );
    }
}
