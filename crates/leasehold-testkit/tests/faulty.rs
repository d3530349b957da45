//! The faulty store does to each call what was planned, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use leasehold_core::clock::{Clock, TestClock};
use leasehold_core::outcome::{Acquire, Release, Renew};
use leasehold_core::{
    Effect, ErrorKind, Holder, Key, LeaseId, LeaseState, LeaseStore, MemoryStore, StoreError, Term,
};
use leasehold_testkit::conformance::{Suite, run_all};
use leasehold_testkit::faulty::{Fault, FaultyStore, Operation};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

struct Setup {
    clock: Arc<TestClock>,
    inner: Arc<dyn LeaseStore>,
    store: FaultyStore,
    key: Key,
    id: LeaseId,
    holder: Holder,
}

impl Setup {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let inner: Arc<dyn LeaseStore> =
            Arc::new(MemoryStore::with_clock(Arc::<TestClock>::clone(&clock)));
        Self {
            clock,
            store: FaultyStore::new(Arc::clone(&inner)),
            inner,
            key: Key::new("k").expect("a good key"),
            id: LeaseId::from_random_bytes([1; 16]),
            holder: Holder::new("h").expect("a good holder"),
        }
    }

    async fn acquire(&self) -> Result<Acquire, StoreError> {
        let (key, holder) = (&self.key, &self.holder);
        self.store
            .acquire(key, self.id, Term::DEFAULT, holder)
            .await
    }

    async fn state_inside(&self) -> Option<LeaseState> {
        let record = self
            .inner
            .read(&self.key)
            .await
            .expect("memory cannot fail");
        record.map(|record| record.state)
    }
}

fn about(error: &StoreError) -> (ErrorKind, Effect) {
    (error.kind(), error.effect())
}

#[tokio::test(start_paused = true)]
async fn without_a_plan_it_is_the_store_inside() {
    let setup = Setup::new();
    let suite = Suite::new(Arc::new(setup.store)).clock(setup.clock);
    run_all(&suite).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_no_trace_and_passes_after_the_times_planned() {
    let setup = Setup::new();
    let fault = Fault::Fail(ErrorKind::Unauthorized);
    setup.store.plan(Operation::Acquire, fault).times(2);
    for _ in 0..2 {
        let error = setup.acquire().await.unwrap_err();
        assert_eq!(
            about(&error),
            (ErrorKind::Unauthorized, Effect::NotApplied),
            "{error}"
        );
        assert_eq!(setup.state_inside().await, None);
    }
    assert!(matches!(setup.acquire().await, Ok(Acquire::Granted(_))));
    assert_eq!(setup.store.calls(Operation::Acquire), 3);
    assert_eq!(setup.store.calls(Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_was_applied_and_a_lost_request_was_not() {
    let unknown = (ErrorKind::Unavailable, Effect::Unknown);
    for (fault, left) in [
        (Fault::LoseRequest, None),
        (Fault::LoseAnswer, Some(LeaseState::Leased)),
    ] {
        let setup = Setup::new();
        setup.store.plan(Operation::Acquire, fault).times(1);
        let error = setup.acquire().await.unwrap_err();
        assert_eq!(about(&error), unknown);
        assert!(error.is_retryable());
        assert_eq!(setup.state_inside().await, left, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_request_is_applied_after_its_caller_was_told_that_nothing_is_known() {
    let setup = Setup::new();
    let fault = Fault::ApplyLate(10 * SECOND);
    setup.store.plan(Operation::Acquire, fault).times(1);
    let before = setup.clock.now();
    let error = setup.acquire().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(setup.clock.now(), before);
    tokio::time::sleep(9 * SECOND).await;
    assert_eq!(setup.state_inside().await, None);
    setup.store.settle().await;
    assert_eq!(setup.clock.now(), before + 10 * SECOND);
    assert_eq!(setup.state_inside().await, Some(LeaseState::Leased));
}

#[tokio::test(start_paused = true)]
async fn a_late_request_ends_with_its_store() {
    let setup = Setup::new();
    let fault = Fault::ApplyLate(SECOND);
    setup.store.plan(Operation::Acquire, fault);
    setup.acquire().await.unwrap_err();
    let Setup {
        inner, store, key, ..
    } = setup;
    drop(store);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(inner.read(&key).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_delay_before_leaves_no_trace_when_given_up_and_a_delay_after_does() {
    for (fault, left) in [
        (Fault::DelayBefore(10 * SECOND), None),
        (Fault::Hang, None),
        (Fault::DelayAfter(10 * SECOND), Some(LeaseState::Leased)),
        (Fault::ApplyAndHang, Some(LeaseState::Leased)),
    ] {
        let setup = Setup::new();
        setup.store.plan(Operation::Acquire, fault).times(1);
        assert!(timeout(9 * SECOND, setup.acquire()).await.is_err());
        assert_eq!(setup.state_inside().await, left, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn delays_last_as_long_as_planned_and_hangs_for_ever() {
    for (fault, answered) in [
        (Fault::DelayBefore(10 * SECOND), true),
        (Fault::DelayAfter(10 * SECOND), true),
        (Fault::Hang, false),
        (Fault::ApplyAndHang, false),
    ] {
        let setup = Setup::new();
        setup.store.plan(Operation::Acquire, fault).times(1);
        let before = setup.clock.now();
        let answer = timeout(365 * 24 * 3600 * SECOND, setup.acquire()).await;
        assert_eq!(answer.is_ok(), answered, "{fault:?}");
        if answered {
            assert_eq!(setup.clock.now(), before + 10 * SECOND);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn plans_are_used_up_in_order_and_may_let_calls_pass_first() {
    let setup = Setup::new();
    let store = &setup.store;
    store
        .plan(Operation::Renew, Fault::LoseAnswer)
        .after(1)
        .times(1);
    store.plan(Operation::Renew, Fault::Fail(ErrorKind::Internal));
    setup.acquire().await.unwrap();
    assert_eq!(
        store.renew(&setup.key, setup.id).await.unwrap(),
        Renew::Renewed
    );
    for kind in [
        ErrorKind::Unavailable,
        ErrorKind::Internal,
        ErrorKind::Internal,
    ] {
        let error = store.renew(&setup.key, setup.id).await.unwrap_err();
        assert_eq!(error.kind(), kind);
    }
    store.clear_plans();
    assert_eq!(
        store.renew(&setup.key, setup.id).await.unwrap(),
        Renew::Renewed
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_hits_every_operation_and_ends() {
    let setup = Setup::new();
    let Setup { store, key, id, .. } = &setup;
    setup.acquire().await.unwrap();
    store.start_outage(Fault::Fail(ErrorKind::Unavailable));
    assert!(setup.acquire().await.is_err());
    assert!(store.renew(key, *id).await.is_err());
    assert!(store.change(key, *id, *id).await.is_err());
    assert!(store.release(key, *id).await.is_err());
    assert!(store.break_lease(key, None).await.is_err());
    assert!(store.read(key).await.is_err());
    assert!(store.watch(key).await.is_err());
    let listed: Vec<_> = store.list("").collect().await;
    assert!(matches!(&listed[..], [Err(_)]), "{listed:?}");
    let batch = [(key.clone(), *id), (key.clone(), *id)];
    let renewed = store.renew_many(&batch).await;
    assert!(matches!(&renewed[..], [Err(_), Err(_)]), "{renewed:?}");
    store.end_outage();
    assert_eq!(store.release(key, *id).await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_test_can_wait_for_a_call() {
    let setup = Setup::new();
    setup.store.plan(Operation::Acquire, Fault::Hang);
    let limit = timeout(SECOND, setup.store.wait_for_calls(Operation::Acquire, 1)).await;
    assert!(limit.is_err(), "nobody has called yet");
    tokio::select! {
        _ = setup.acquire() => unreachable!("it hangs"),
        () = setup.store.wait_for_calls(Operation::Acquire, 1) => {}
    }
}
