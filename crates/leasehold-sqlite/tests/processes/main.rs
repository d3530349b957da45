//! What takes more than one process, or a disk of its own, to be seen.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

mod child;
mod crowd;
mod disk;
mod waking;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
