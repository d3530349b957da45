//! A deployment's initialization: every instance calls it, one does it, all go on when it is done.
//!
//! The instances are tasks here, each with a store and a client of its own as a process would have.
//! `examples/once.sh` does the same with processes and the `leasehold` program.

use std::time::Duration;

use leasehold::{DoOnce, Key, LeaseError, Leases};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("leases.db").display());

    let mut instances = JoinSet::new();
    for instance in 1..=4 {
        instances.spawn(start(instance, url.clone()));
    }
    let performed: usize = instances
        .join_all()
        .await
        .into_iter()
        .sum::<Result<_, _>>()?;
    assert_eq!(performed, 1, "done by exactly one of four");
    Ok(())
}

/// Gives 1 when this instance did the work, else 0.
async fn start(
    instance: u32,
    url: String,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let leases = Leases::new(leasehold::open(&url).await?)?;
    let done = DoOnce::new(&leases, Key::new("deployments/42/initialize")?)
        .run(|attempt| async move {
            // A successor of a crashed attempt skips what is recorded here.
            if !attempt.reached("tables") {
                tokio::time::sleep(Duration::from_millis(200)).await;
                attempt.checkpoint("tables").await?;
            }
            Ok::<_, LeaseError>(Some("3 tables".into()))
        })
        .await?;
    let who = if done.performed_here {
        "did it"
    } else {
        "found it done"
    };
    println!(
        "instance {instance} {who}: {:?} in attempt {}",
        done.result, done.attempt
    );
    leases.shutdown(Duration::from_secs(5)).await;
    Ok(usize::from(done.performed_here))
}
