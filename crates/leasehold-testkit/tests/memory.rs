//! The reference store keeps its own contract, on the machine's clock and on one that is tokio's.

use std::sync::Arc;

use leasehold_core::MemoryStore;
use leasehold_core::clock::TestClock;
use leasehold_testkit::conformance::{Suite, check_all, rule_names, run_all};

leasehold_testkit::conformance!(memory, async { Arc::new(MemoryStore::new()) });

#[tokio::test(start_paused = true)]
async fn the_whole_suite_holds_on_paused_time() {
    let clock = Arc::new(TestClock::new());
    let store = MemoryStore::with_clock(Arc::<TestClock>::clone(&clock));
    run_all(&Suite::new(Arc::new(store)).clock(clock)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite_holds_at_once_with_several_clients() {
    let store = Arc::new(MemoryStore::new());
    let suite = Suite::from(Arc::clone(&store)).client(store);
    assert_eq!(check_all(&suite).await, []);
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = rule_names().collect();
    assert_eq!(names.len(), rule_names().count());
}
