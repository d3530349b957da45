//! Acquisitions that are dropped half way leave nothing at the store and hold up nobody.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{AcquireError, ErrorKind, FencingToken, Leases, TryAcquire};
use leasehold_testkit::faulty::{Fault, Operation};
use tokio::time::timeout;

use crate::support::{World, acquired, key, ms, s, sleep};

type Answer = Result<TryAcquire, AcquireError>;
type Asking = Pin<Box<dyn Future<Output = Answer>>>;

/// A future that is given up after it was polled this often.
struct GivenUp {
    inner: Asking,
    polls_left: u32,
}

impl Future for GivenUp {
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        if self.polls_left == 0 {
            // Given up at the await point that this poll gets to.
            context.waker().wake_by_ref();
        }
        self.inner.as_mut().poll(context).map(Some)
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Acquire,
    TryAcquire,
    AcquireTimeout,
}

impl Way {
    async fn ask(self, leases: &Leases) -> Answer {
        let key = key("k");
        match self {
            Self::Acquire => leases.acquire(&key).await.map(TryAcquire::Acquired),
            Self::TryAcquire => leases.try_acquire(&key).await,
            Self::AcquireTimeout => leases.acquire_timeout(&key, s(20)).await,
        }
    }
}

/// Who has the key when it is asked for.
#[derive(Clone, Copy, Debug)]
enum Before {
    Free,
    /// Somebody else, for another 700 ms.
    Held,
    /// Another task of this process, for another 700 ms.
    HeldHere,
}

#[derive(Clone, Copy, Debug)]
struct Situation {
    way: Way,
    before: Before,
    fault: Option<Fault>,
    /// How many calls pass before the fault.
    after: u64,
}

fn situations() -> Vec<Situation> {
    let faults = [
        None,
        Some(Fault::DelayBefore(ms(70))),
        Some(Fault::DelayAfter(ms(70))),
        Some(Fault::Fail(ErrorKind::Unavailable)),
        Some(Fault::LoseRequest),
        Some(Fault::LoseAnswer),
        Some(Fault::ApplyLate(ms(40))),
        Some(Fault::ApplyLate(ms(400))),
        Some(Fault::Hang),
        Some(Fault::ApplyAndHang),
    ];
    let mut all = Vec::new();
    for way in [Way::Acquire, Way::TryAcquire, Way::AcquireTimeout] {
        for before in [Before::Free, Before::Held, Before::HeldHere] {
            for fault in faults {
                for after in [0, 1] {
                    all.push(Situation {
                        way,
                        before,
                        fault,
                        after,
                    });
                }
            }
        }
    }
    all
}

impl Situation {
    /// Asks, with what `cut` does to the asking. Whether it was cut.
    async fn play(self, cut: impl AsyncFnOnce(Asking) -> Option<Answer>) -> bool {
        let world = World::new();
        let leases = world.client();
        let holder = match self.before {
            Before::Free => None,
            Before::Held => Some(world.rival()),
            Before::HeldHere => Some(leases.clone()),
        };
        if let Some(holder) = holder {
            let lease = holder.acquire(&key("k")).await.unwrap();
            tokio::spawn(async move {
                sleep(ms(700)).await;
                lease.release().await.unwrap();
            });
        }
        if let Some(fault) = self.fault {
            let plan = world.store.plan(Operation::Acquire, fault);
            plan.times(2).after(self.after);
        }
        let (way, asking) = (self.way, leases.clone());
        let asking = Box::pin(async move { way.ask(&asking).await });
        let answer = cut(asking).await;
        let was_cut = answer.is_none();
        drop(answer);

        // The next of this process gets it, though not before the holder has let go.
        world.store.clear_plans();
        let began = world.elapsed();
        let next = timeout(s(30), leases.acquire(&key("k"))).await;
        let next = next.unwrap_or_else(|_| panic!("{self:?}: nobody gets in any more"));
        let took = world.since(began);
        assert!(took < s(8), "{self:?}: the next one waited for {took:?}");
        drop(next.unwrap());

        let left = leases.shutdown(s(30)).await;
        assert!(left.is_empty(), "{self:?}: {left:?} is left");
        world.store.settle().await;
        let state = world.state(&key("k")).await;
        assert!(!state.is_held(), "{self:?}: {state}");
        was_cut
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_dropped_at_any_await_point_leaves_nothing() {
    let mut cuts = 0;
    for situation in situations() {
        for polls in 0.. {
            let was_cut = situation
                .play(async |asking| {
                    let (inner, polls_left) = (asking, polls);
                    GivenUp { inner, polls_left }.await
                })
                .await;
            if !was_cut {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > 500, "only {cuts} await points");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_dropped_at_any_time_leaves_nothing() {
    for situation in situations() {
        for limit in (0..200).step_by(15).chain([699, 700, 701, 760, 9_000]) {
            let limit: Duration = ms(limit);
            situation
                .play(async |asking| timeout(limit, asking).await.ok())
                .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_the_store_shows_nothing_of_what_was_given_up() {
    for fault in [
        Fault::DelayBefore(ms(70)),
        Fault::DelayAfter(ms(70)),
        Fault::LoseAnswer,
        Fault::ApplyAndHang,
        Fault::ApplyLate(ms(500)),
    ] {
        for limit in (0..150).step_by(10) {
            let world = World::new();
            let leases = world.client();
            world.store.plan(Operation::Acquire, fault);
            // The release may go wrong as well.
            world
                .store
                .plan(Operation::Release, Fault::LoseAnswer)
                .times(1);
            let dropped = timeout(ms(limit), leases.acquire(&key("k"))).await;
            drop(dropped);
            let left = leases.shutdown(s(30)).await;
            assert!(left.is_empty(), "{fault:?} {limit}: {left:?} is left");
            let state = world.state(&key("k")).await;
            assert!(!state.is_held(), "{fault:?} {limit}: {state}");
            drop(acquired(
                world.rival().try_acquire(&key("k")).await.unwrap(),
            ));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_released_after_giving_up_outlives_no_term() {
    let world = World::new();
    let leases = world.client();
    world.store.plan(Operation::Acquire, Fault::ApplyAndHang);
    assert!(timeout(s(1), leases.acquire(&key("k"))).await.is_err());
    world
        .store
        .start_outage(Fault::Fail(ErrorKind::Unavailable));
    let rival = world.rival().acquire(&key("k")).await.unwrap();
    assert!(world.elapsed() <= s(61), "{:?}", world.elapsed());
    sleep(s(10)).await;
    rival.check().unwrap();
    let calls = world.store.calls(Operation::Release);
    sleep(s(300)).await;
    assert_eq!(world.store.calls(Operation::Release), calls);
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_found_though_a_later_one_was_refused_before_giving_up() {
    let world = World::new();
    let leases = world.client();
    let first = world.rival().acquire(&key("k")).await.unwrap();
    world
        .store
        .plan(Operation::Acquire, Fault::ApplyLate(ms(700)))
        .times(1);
    assert!(timeout(ms(400), leases.acquire(&key("k"))).await.is_err());
    assert!(world.store.calls(Operation::Acquire) > 1);
    sleep(ms(100)).await;
    first.release().await.unwrap();
    assert!(leases.shutdown(s(10)).await.is_empty());
    // It was granted meanwhile, to nobody who knows of it.
    let token = world.record(&key("k")).await.unwrap().token;
    assert_eq!(token, Some(FencingToken::new(2)));
    assert!(!world.state(&key("k")).await.is_held());
}
