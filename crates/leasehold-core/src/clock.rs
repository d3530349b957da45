//! The one door through which time comes in.

use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The longest that [`sleep_until`] trusts a timer without looking at its clock again.
///
/// Timers do not count suspended time; the clock does. After a resume, a sleeper whose time has come wakes at
/// most this much later.
const LONGEST_SLICE: Duration = Duration::from_millis(250);

/// An instant on one [`Clock`], as the time since that clock's own origin.
///
/// On Linux the [`SystemClock`]'s origin is the boot of the machine, so instants of two processes in the same
/// time namespace can be compared; elsewhere only those of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The instant this long after the clock's origin.
    pub fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's origin this is.
    pub fn since_origin(self) -> Duration {
        self.0
    }

    /// How long from `earlier` to this; zero when `earlier` is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length))
    }
}

/// A clock: every reading of time in this library goes through one.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Now. Never goes back, and counts the time during which the machine was suspended.
    fn now(&self) -> Instant;

    /// What the wall clock says, to be shown to people. Nothing is decided by it.
    fn wall(&self) -> SystemTime;
}

/// Waits until the clock reaches `target`, also over a suspend and on a clock that runs faster or slower than
/// the timers.
///
/// # Cancel safety
/// Holds nothing; drop it at any time.
pub async fn sleep_until(clock: &dyn Clock, target: Instant) {
    loop {
        let left = target.saturating_duration_since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_SLICE)).await;
    }
}

/// As [`sleep_until`]; for ever without a target.
pub(crate) async fn sleep_until_some(clock: &dyn Clock, target: Option<Instant>) {
    match target {
        Some(target) => sleep_until(clock, target).await,
        None => std::future::pending().await,
    }
}

/// The machine's own clock: `CLOCK_BOOTTIME` on Linux, which counts suspended time and which nobody can set;
/// the best there is elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        boot_time::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

#[cfg(target_os = "linux")]
mod boot_time {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::Instant;

    pub(super) fn now() -> Instant {
        let read = clock_gettime(ClockId::Boottime);
        // Both parts of this clock are never negative, and the second is below 10^9.
        let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(read.tv_nsec).unwrap_or(0);
        Instant(Duration::new(seconds, nanos))
    }
}

#[cfg(not(target_os = "linux"))]
mod boot_time {
    use std::sync::OnceLock;

    use super::Instant;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub(super) fn now() -> Instant {
        let now = std::time::Instant::now();
        Instant(now.duration_since(*ORIGIN.get_or_init(|| now)))
    }
}

/// A clock for tests: follows tokio's time, so it stands still and jumps ahead with a paused runtime, and can
/// be suspended by hand.
#[derive(Debug)]
pub struct TestClock {
    origin: tokio::time::Instant,
    state: Mutex<TestState>,
}

#[derive(Debug)]
struct TestState {
    suspended: Duration,
    wall: SystemTime,
}

impl TestClock {
    /// A clock whose origin is an hour ago. Must be called inside the runtime whose time it follows.
    #[expect(
        clippy::disallowed_methods,
        reason = "tokio's time is what this clock follows"
    )]
    pub fn new() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
            state: Mutex::new(TestState {
                suspended: Duration::from_secs(3600),
                wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            }),
        }
    }

    /// As if the machine had slept this long: the clock jumps ahead, and no timer notices.
    pub fn suspend(&self, length: Duration) {
        self.state().suspended += length;
    }

    /// Sets the wall clock, which nothing may be decided by.
    pub fn set_wall(&self, wall: SystemTime) {
        self.state().wall = wall;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "tokio's time is what this clock follows"
    )]
    fn now(&self) -> Instant {
        let ran = tokio::time::Instant::now().saturating_duration_since(self.origin);
        Instant(ran + self.state().suspended)
    }

    fn wall(&self) -> SystemTime {
        self.state().wall
    }
}
