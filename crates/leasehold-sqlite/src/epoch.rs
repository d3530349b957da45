//! The name of the time in which instants can be compared.

use std::sync::OnceLock;

use rand::TryRng;
use rand::rngs::SysRng;

/// One for the process, whose stores share a clock.
static PROCESS: OnceLock<Result<String, String>> = OnceLock::new();

/// This boot of this machine in this time namespace, or this process where that cannot be told.
///
/// # Errors
/// When the system gives no random bytes, and has no boot id either.
pub(crate) fn current() -> Result<String, String> {
    if let Some(boot) = boot::current() {
        return Ok(boot);
    }
    PROCESS
        .get_or_init(|| {
            let mut bytes = [0; 16];
            SysRng
                .try_fill_bytes(&mut bytes)
                .map_err(|error| format!("the system gives no random bytes: {error}"))?;
            Ok(format!("process:{:032x}", u128::from_ne_bytes(bytes)))
        })
        .clone()
}

#[cfg(target_os = "linux")]
mod boot {
    use std::{fs, io};

    pub(super) fn current() -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot = boot.trim();
        if boot.is_empty() {
            return None;
        }
        match fs::read_link("/proc/self/ns/time") {
            Ok(namespace) => Some(format!("{boot}/{}", namespace.display())),
            // A kernel before 5.6: there are no time namespaces.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(boot.to_owned()),
            Err(_) => None,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod boot {
    pub(super) fn current() -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_epoch_stays_the_same_within_a_process() {
        assert_eq!(super::current(), super::current());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_epoch_names_the_boot_and_the_time_namespace() {
        let epoch = super::current().unwrap();
        let (boot, namespace) = epoch.split_once('/').unwrap();
        assert_eq!(boot.len(), 36, "{epoch}");
        assert!(namespace.starts_with("time:["), "{epoch}");
    }
}
