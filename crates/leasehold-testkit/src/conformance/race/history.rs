use leasehold_core::clock::Instant;
use leasehold_core::{FencingToken, Key, LeaseId};

/// What the racers saw, on one clock.
#[derive(Default)]
pub(super) struct History {
    pub(super) holds: Vec<Hold>,
    pub(super) breaks: Vec<Interference>,
}

/// One grant.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) track: usize,
    pub(super) id: LeaseId,
    pub(super) token: Option<FencingToken>,
    /// Just before it was asked for.
    pub(super) sent: Instant,
    /// Just after the grant was there: from here on it is held for certain.
    pub(super) answered: Instant,
    /// Until here it is held for certain, if nobody broke it: just before the release was sent, or the term's
    /// end.
    pub(super) until: Instant,
    /// Before this the term cannot have ended.
    pub(super) term_ends: Instant,
    /// When the store said that it is not held.
    pub(super) lost: Option<Instant>,
}

/// A break, of whatever lease was there then.
#[derive(Clone, Debug)]
pub(super) struct Interference {
    pub(super) track: usize,
    pub(super) sent: Instant,
    pub(super) answered: Instant,
}

impl History {
    pub(super) fn append(&mut self, mut other: Self) {
        self.holds.append(&mut other.holds);
        self.breaks.append(&mut other.breaks);
    }

    /// Judges one key. Returns the greatest token it gave.
    pub(super) fn check(&self, track: usize, key: &Key, fencing: bool) -> Option<FencingToken> {
        let holds: Vec<_> = self
            .holds
            .iter()
            .filter(|hold| hold.track == track)
            .collect();
        let breaks: Vec<_> = self
            .breaks
            .iter()
            .filter(|broken| broken.track == track)
            .collect();
        assert!(
            holds.len() > 2,
            "{key}: {} grants are no race; more racers are needed",
            holds.len()
        );
        check_losses(key, &holds, &breaks);
        check_apart(key, &holds, &breaks);
        if fencing {
            check_tokens(key, &holds);
        }
        holds.iter().map(|hold| hold.token).max().flatten()
    }
}

/// Nobody loses a lease but to a break or to time.
fn check_losses(key: &Key, holds: &[&Hold], breaks: &[&Interference]) {
    for hold in holds {
        let Some(lost) = hold.lost else { continue };
        let broken = breaks
            .iter()
            .any(|broken| broken.answered >= hold.sent && broken.sent <= lost);
        assert!(
            broken || lost >= hold.term_ends,
            "{key}: lost without a break, before its term ended: {hold:?}"
        );
    }
}

/// What is held for certain by one is not held by another.
fn check_apart(key: &Key, holds: &[&Hold], breaks: &[&Interference]) {
    let mut certain: Vec<_> = holds
        .iter()
        .filter_map(|hold| {
            // A break that was under way at or after the grant may have ended it as soon as it was sent.
            let until = breaks
                .iter()
                .filter(|broken| broken.answered >= hold.sent)
                .map(|broken| broken.sent)
                .fold(hold.until, Instant::min);
            (hold.answered < until).then_some((hold.answered, until, hold))
        })
        .collect();
    certain.sort_by_key(|(from, ..)| *from);
    for pair in certain.windows(2) {
        let [(_, until, first), (from, _, second)] = pair else {
            continue;
        };
        assert!(
            until <= from,
            "{key}: two held it at once:\n  {first:?}\n  {second:?}"
        );
    }
}

/// A grant that was answered before another was asked for has the smaller token.
fn check_tokens(key: &Key, holds: &[&Hold]) {
    let mut by_token = holds.to_vec();
    by_token.sort_by_key(|hold| (hold.token, hold.sent));
    for pair in by_token.windows(2) {
        let [first, second] = pair else { continue };
        assert!(
            first.token != second.token || first.id == second.id,
            "{key}: one token for two holders:\n  {first:?}\n  {second:?}"
        );
    }
    for (index, smaller) in by_token.iter().enumerate() {
        assert!(
            smaller.token.is_some(),
            "{key}: a grant without a token: {smaller:?}"
        );
        for greater in &by_token[index + 1..] {
            assert!(
                greater.answered >= smaller.sent || greater.token == smaller.token,
                "{key}: the token went back:\n  {greater:?}\n  {smaller:?}"
            );
        }
    }
}
