//! A guard around a piece of work, and what becomes of somebody else who wants the same.
//!
//! Two clients on one store stand for two processes on one machine.

use std::time::Duration;

use leasehold::{Key, Leases, TryAcquire};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("leases.db").display());
    let (ours, theirs) = (
        Leases::new(leasehold::open(&url).await?)?,
        Leases::new(leasehold::open(&url).await?)?,
    );
    let key = Key::new("reports/nightly")?;

    let lease = ours.acquire(&key).await?;
    let token = lease.fencing_token();
    println!("{} holds {key}, token {token:?}", lease.holder());

    match theirs
        .acquire_timeout(&key, Duration::from_millis(100))
        .await?
    {
        TryAcquire::Acquired(_) => return Err("both of us got it".into()),
        TryAcquire::Held(by) => println!("the other waited in vain; it is held by {by:?}"),
    }

    // The work is told when the lease is lost, and is gone before the lease is released.
    let lines = lease
        .run(|lease| async move {
            let mut lines = 0;
            while lines < 3 && lease.check().is_ok() {
                lines += 1;
            }
            lines
        })
        .await?;
    println!("{lines} lines written, released");

    let lease = theirs.acquire(&key).await?;
    println!("now the other has it, token {:?}", lease.fencing_token());
    assert!(lease.fencing_token() > token);
    lease.release().await?;
    Ok(())
}
