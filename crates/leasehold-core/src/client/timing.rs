use std::time::Duration;

use crate::clock::Instant;
use crate::{Invalid, Term};

/// The shortest default margin: what it takes to notice and to stop, whatever the term.
const LEAST_MARGIN: Duration = Duration::from_millis(500);
/// The longest that one request is waited for.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

/// When a lease is renewed, given up and let go, counted from just before a request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) term: Duration,
    pub(crate) margin: Duration,
    pub(crate) grace: Duration,
}

impl Timing {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// When what was asked for leaves no time to renew.
    pub(crate) fn new(
        term: Duration,
        margin: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<Self, Invalid> {
        let margin = margin.unwrap_or_else(|| {
            LEAST_MARGIN
                .max(term / 20)
                .saturating_add(grace.unwrap_or_default())
        });
        let grace = grace.unwrap_or(margin / 2);
        let show = |length: Duration| Term::Finite(length).to_string();
        if margin > term * 3 / 4 {
            return Err(Invalid::new(format!(
                "a margin of {} leaves too little of a term of {} to renew in; \
                 margin and grace may take at most three quarters, {}",
                show(margin),
                show(term),
                show(term * 3 / 4)
            )));
        }
        if grace > margin {
            return Err(Invalid::new(format!(
                "a grace of {} does not fit into a margin of {}: the work would outlive the term",
                show(grace),
                show(margin)
            )));
        }
        Ok(Self {
            term,
            margin,
            grace,
        })
    }

    /// From sending a request to its deadline.
    fn window(&self) -> Duration {
        self.term.saturating_sub(self.margin)
    }

    /// The instant from which a holder must act as if the lease were gone.
    pub(crate) fn deadline(&self, sent_at: Instant) -> Instant {
        sent_at + self.window()
    }

    /// When the first attempt to renew is due: two thirds of the term, or sooner where the margin is so
    /// large that this would leave no room to repeat.
    pub(crate) fn renewal(&self, sent_at: Instant) -> Instant {
        sent_at + (self.term * 2 / 3).min(self.window() * 3 / 4)
    }

    /// How long one request may take when this much time is left: there is always time for another.
    pub(crate) fn attempt_limit(left: Duration) -> Duration {
        (left / 3).clamp(SHORTEST_ATTEMPT, LONGEST_ATTEMPT)
    }

    /// How long one request may take when nothing is held yet.
    pub(crate) fn first_attempt_limit(&self) -> Duration {
        Self::attempt_limit(self.window())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_default_lease_renews_after_40_of_60_seconds_and_is_given_up_after_57() {
        let timing = Timing::new(s(60), None, None).unwrap();
        let sent_at = Instant::from_origin(s(1000));
        assert_eq!(timing.renewal(sent_at), sent_at + s(40));
        assert_eq!(timing.deadline(sent_at), sent_at + s(57));
    }

    #[test]
    fn every_accepted_combination_leaves_time_to_renew_and_to_repeat() {
        for term in 1..=120 {
            for grace in 0..=60 {
                let Ok(timing) = Timing::new(s(term), None, Some(s(grace))) else {
                    continue;
                };
                let zero = Instant::from_origin(Duration::ZERO);
                let room = timing
                    .deadline(zero)
                    .saturating_duration_since(timing.renewal(zero));
                assert!(room >= s(term) / 16, "{timing:?}");
                assert!(timing.grace <= timing.margin, "{timing:?}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        let refused = |margin, grace| Timing::new(s(60), margin, grace).unwrap_err().to_string();
        assert!(refused(Some(s(46)), None).contains("at most three quarters, 45s"));
        assert!(refused(None, Some(s(60))).contains("a margin of 1m 3s"));
        assert!(refused(Some(s(5)), Some(s(6))).contains("does not fit"));
    }
}
