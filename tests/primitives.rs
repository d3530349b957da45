//! Guard and do-once on every store that `leasehold::open` knows, in real time: what one client does while
//! another on the same store stops answering.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::{DoOnce, Key, LeaseStore, Leases, LossCause, Lost, TryAcquire};

const TERM: Duration = Duration::from_secs(1);

/// Opens a store twice, as two processes would.
async fn both(url: &str) -> [Leases; 2] {
    let first = leasehold::open(url).await.expect("the store opens");
    // Another process sees a file as this one does, and does not see this one's memory.
    let second: Arc<dyn LeaseStore> = match url {
        "memory:" => Arc::clone(&first),
        _ => leasehold::open(url).await.expect("the store opens again"),
    };
    [first, second].map(|store| {
        let leases = Leases::builder(store).term(TERM).build();
        leases.expect("a client with a short term")
    })
}

async fn a_lease_is_held_for_many_terms_and_handed_over_on_release(url: &str) {
    let [ours, theirs] = both(url).await;
    let key = Key::new("held").unwrap();
    let lease = ours.acquire(&key).await.unwrap();
    let waited = theirs.acquire_timeout(&key, 3 * TERM).await.unwrap();
    assert!(matches!(waited, TryAcquire::Held(by) if by.holder.as_ref() == Some(ours.holder())));
    lease.check().unwrap();

    let next = tokio::spawn({
        let (theirs, key) = (theirs.clone(), key.clone());
        async move { theirs.acquire(&key).await }
    });
    let token = lease.fencing_token();
    lease.release().await.unwrap();
    let lease = next.await.unwrap().unwrap();
    assert!(lease.fencing_token() > token);
    lease.release().await.unwrap();
}

async fn an_abandoned_lease_is_taken_over_after_its_term_and_not_before(url: &str) {
    let [ours, theirs] = both(url).await;
    let key = Key::new("abandoned").unwrap();
    let lease = ours.acquire(&key).await.unwrap();
    let (token, deadline) = (lease.fencing_token(), lease.deadline());
    lease.abandon();
    let lease = theirs.acquire(&key).await.unwrap();
    let now = SystemClock.now();
    assert!(now >= deadline, "taken over before we would have given up");
    assert!(now < deadline + 5 * TERM, "a term is over after a term");
    assert!(lease.fencing_token() > token);
}

async fn a_broken_lease_is_lost_and_says_why(url: &str) {
    let [ours, theirs] = both(url).await;
    let key = Key::new("broken").unwrap();
    let lease = ours.acquire(&key).await.unwrap();
    theirs
        .store()
        .break_lease(&key, Some(Duration::ZERO))
        .await
        .unwrap();
    let broken = Lost {
        key,
        cause: LossCause::Broken,
    };
    assert_eq!(lease.lost().await, broken);
    assert_eq!(lease.check(), Err(broken));
}

async fn what_is_done_once_is_done_once_by_all_clients(url: &str) {
    let clients = both(url).await;
    let key = Key::new("setup").unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..10 {
        let once = DoOnce::new(&clients[n % 2], key.clone());
        let runs = Arc::clone(&runs);
        callers.spawn(async move {
            once.run(move |attempt| async move {
                runs.fetch_add(1, Ordering::Relaxed);
                // Longer than a term: it is held by renewals.
                tokio::time::sleep(2 * TERM).await;
                attempt.checkpoint("halfway").await?;
                Ok::<_, leasehold::LeaseError>(Some("42".into()))
            })
            .await
        });
    }
    let mut performed = 0;
    for done in callers.join_all().await {
        let done = done.unwrap();
        assert_eq!((done.result.as_deref(), done.attempt), (Some("42"), 1));
        performed += u32::from(done.performed_here);
    }
    assert_eq!((performed, runs.load(Ordering::Relaxed)), (1, 1));
}

macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test("memory:").await;
            })+
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("leases.db");
                super::$test(&format!("sqlite:{}", file.display())).await;
            })+
        }
    };
}

on_every_store!(
    a_lease_is_held_for_many_terms_and_handed_over_on_release,
    an_abandoned_lease_is_taken_over_after_its_term_and_not_before,
    a_broken_lease_is_lost_and_says_why,
    what_is_done_once_is_done_once_by_all_clients,
);
