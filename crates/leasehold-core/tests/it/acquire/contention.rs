//! Two processes that contend for one key while everything goes wrong.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{AutoRenewLease, ErrorKind, FencingToken, LeaseHandle, Leases, TryAcquire};
use leasehold_testkit::faulty::{Fault, FaultyStore, Operation};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use tokio::time::timeout;

use crate::support::{World, key, ms, s, sleep};

const SEEDS: u64 = 200;
const TERM: Duration = s(2);
const LENGTH: Duration = s(60);

/// What both did, in the order it happened.
#[derive(Default)]
struct History {
    guards: Vec<LeaseHandle>,
    last_token: Option<FencingToken>,
}

impl History {
    fn grant(&mut self, lease: &AutoRenewLease) {
        assert!(lease.fencing_token() > self.last_token, "token went back");
        self.last_token = lease.fencing_token();
        self.guards.push(lease.handle());
        assert!(self.look() <= 1, "granted while another was relied on");
    }

    /// How many guards are relied on now. Those that are over stay over, so they need no second look.
    fn look(&mut self) -> usize {
        let mut over = Vec::new();
        self.guards.retain(|guard| {
            let held = guard.check().is_ok();
            if !held {
                over.push(guard.clone());
            }
            held
        });
        for guard in over {
            assert!(guard.cancellation_token().is_cancelled());
        }
        self.guards.len()
    }
}

fn random_fault(rng: &mut StdRng) -> Fault {
    let length = ms(rng.random_range(1..3000));
    match rng.random_range(0..8) {
        0 => Fault::DelayBefore(length),
        1 => Fault::DelayAfter(length),
        2 => Fault::Hang,
        3 => Fault::ApplyAndHang,
        4 => Fault::Fail(ErrorKind::Unavailable),
        5 => Fault::LoseRequest,
        6 => Fault::LoseAnswer,
        _ => Fault::ApplyLate(length),
    }
}

async fn break_things(store: Arc<FaultyStore>, mut rng: StdRng) {
    const OPERATIONS: [Operation; 4] = [
        Operation::Acquire,
        Operation::Renew,
        Operation::Release,
        Operation::Watch,
    ];
    loop {
        sleep(ms(rng.random_range(0..2000))).await;
        let fault = random_fault(&mut rng);
        if rng.random_bool(0.3) {
            store.start_outage(fault);
            sleep(ms(rng.random_range(0..4000))).await;
            store.end_outage();
        } else {
            let operation = OPERATIONS[rng.random_range(0..OPERATIONS.len())];
            store.plan(operation, fault).times(rng.random_range(1..4));
        }
    }
}

/// Acquires again and again, and ends it in every way there is.
async fn contend(leases: Leases, history: Arc<Mutex<History>>, mut rng: StdRng) {
    loop {
        let limit = ms(rng.random_range(0..6000));
        let answer = if rng.random_bool(0.2) {
            // Given up half way.
            match timeout(limit, leases.acquire(&key("k"))).await {
                Ok(answer) => answer.map(TryAcquire::Acquired),
                Err(_) => continue,
            }
        } else {
            leases.acquire_timeout(&key("k"), limit).await
        };
        let Ok(TryAcquire::Acquired(lease)) = answer else {
            sleep(ms(rng.random_range(1..200))).await;
            continue;
        };
        history.lock().unwrap().grant(&lease);
        let hold = ms(rng.random_range(0..5000));
        let _ = timeout(hold, lease.lost()).await;
        match rng.random_range(0..4) {
            0 => drop(lease),
            1 => lease.abandon(),
            2 => drop(timeout(ms(10), lease.release()).await),
            _ => drop(lease.release().await),
        }
    }
}

async fn simulate(seed: u64) -> u64 {
    let world = World::new();
    let mut rng = StdRng::seed_from_u64(seed);
    let history = Arc::new(Mutex::new(History::default()));
    let mut tasks = tokio::task::JoinSet::new();
    let mut clients = Vec::new();
    for name in ["a", "b"] {
        let store = Arc::new(FaultyStore::new(Arc::<leasehold_core::MemoryStore>::clone(
            &world.memory,
        )));
        let builder = world.builder_on(Arc::<FaultyStore>::clone(&store), name);
        let leases = builder.term(TERM).seed(rng.random()).build().unwrap();
        tasks.spawn(break_things(store, StdRng::from_seed(rng.random())));
        // Two tasks of each, to have the local queue in it.
        for _ in 0..2 {
            let rng = StdRng::from_seed(rng.random());
            tasks.spawn(contend(leases.clone(), Arc::clone(&history), rng));
        }
        clients.push(leases);
    }
    while world.elapsed() < LENGTH {
        sleep(ms(rng.random_range(1..100))).await;
        if rng.random_bool(0.005) {
            world.clock.suspend(ms(rng.random_range(1..3000)));
        }
        let held = history.lock().unwrap().look();
        assert!(held <= 1, "{held} guards are relied on at once");
        if let Some(Err(failed)) = tasks.try_join_next() {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
    let history = history.lock().unwrap();
    history.last_token.map_or(0, FencingToken::get)
}

#[tokio::test(start_paused = true)]
async fn two_processes_never_rely_on_the_lease_at_once_whatever_fails() {
    let mut grants = 0;
    for seed in 0..SEEDS {
        let simulated = tokio::spawn(simulate(seed)).await;
        grants += simulated.unwrap_or_else(|failed| panic!("seed {seed}: {failed}"));
    }
    // Else nothing was shown.
    assert!(grants > SEEDS * 10, "only {grants} grants");
}
