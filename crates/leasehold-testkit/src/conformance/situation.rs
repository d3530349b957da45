use std::time::Duration;

use leasehold_core::outcome::{HeldBy, NotHeld};
use leasehold_core::{FencingToken, Key, LeaseId, LeaseState, Precondition, Record};

use super::case::{Case, holder_of, note};

/// Every way in which nobody holds a lease: the first column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    Absent,
    Written,
    Released,
    Expired,
    Broken,
}

impl Free {
    pub(super) const ALL: [Self; 5] = [
        Self::Absent,
        Self::Written,
        Self::Released,
        Self::Expired,
        Self::Broken,
    ];

    /// The state that a record in this situation shows.
    pub(super) fn state(self) -> Option<LeaseState> {
        match self {
            Self::Absent => None,
            Self::Written | Self::Released => Some(LeaseState::Available),
            Self::Expired => Some(LeaseState::Expired),
            Self::Broken => Some(LeaseState::Broken),
        }
    }
}

/// A key in one of the free situations.
pub(super) struct WasHeld {
    pub(super) key: Key,
    /// Who held it last; an id that never held anything where nobody did.
    pub(super) id: LeaseId,
    /// The token of its last grant.
    pub(super) token: Option<FencingToken>,
}

/// A key that is leased.
pub(super) struct Leased {
    pub(super) key: Key,
    pub(super) id: LeaseId,
    pub(super) record: Record,
}

impl Case {
    /// Makes a key on which nobody holds the lease.
    pub(super) async fn free(&self, situation: Free) -> WasHeld {
        let (key, id) = (self.key(&format!("{situation:?}")), self.id());
        let token = match situation {
            Free::Absent => None,
            Free::Written => {
                self.write(&key, &note("as it was"), Precondition::Any, None)
                    .await
                    .written();
                None
            }
            Free::Released => {
                let record = self.acquire(&key, id, self.long()).await.granted();
                self.release(&key, id).await.released();
                record.token
            }
            Free::Expired => {
                let record = self.acquire(&key, id, self.shortest()).await.granted();
                self.until_free(&key, self.shortest()).await;
                record.token
            }
            Free::Broken => {
                let record = self.acquire(&key, id, self.long()).await.granted();
                self.break_lease(&key, Some(Duration::ZERO)).await.broken();
                record.token
            }
        };
        WasHeld { key, id, token }
    }

    /// Makes a key that is leased for long.
    pub(super) async fn leased(&self, name: &str) -> Leased {
        let (key, id) = (self.key(name), self.id());
        let record = self.acquire(&key, id, self.long()).await.granted();
        Leased { key, id, record }
    }

    /// Makes a key whose lease is being broken, for long enough that the rule is done before.
    pub(super) async fn breaking(&self, name: &str) -> Leased {
        let leased = self.leased(name).await;
        let after = self.long() / 2;
        self.break_lease(&leased.key, Some(after)).await.breaking();
        leased
    }

    /// What is told about who stands in the way has to be true; the store need not tell it.
    #[track_caller]
    pub(super) fn expect_held_by(&self, held_by: &HeldBy, state: LeaseState, leased: &Leased) {
        assert_eq!(held_by.state, state, "{held_by:?}");
        let holder = holder_of(leased.id);
        assert!(
            held_by.holder.is_none() || held_by.holder.as_ref() == Some(&holder),
            "the answer tells {held_by:?}; the holder is {holder}"
        );
        assert!(
            held_by.token.is_none() || held_by.token == leased.record.token,
            "the answer tells {held_by:?}; the token is {:?}",
            leased.record.token
        );
        assert!(
            held_by
                .remaining
                .is_none_or(|remaining| remaining <= self.long()),
            "the answer tells {held_by:?}; the term is {:?}",
            self.long()
        );
    }

    /// Tokens as the capabilities promise them: strictly greater, or none at all.
    #[track_caller]
    pub(super) fn expect_greater(&self, record: &Record, than: Option<FencingToken>) {
        if self.capabilities().fencing {
            assert!(
                record.token.is_some() && record.token > than,
                "the token of a new grant on {} is {:?}; the one before was {than:?}",
                record.key,
                record.token
            );
        } else {
            assert_eq!(
                record.token, None,
                "a token from a store that does no fencing"
            );
        }
    }

    /// The lease is held by this id: it renews, and a stranger is turned away.
    pub(super) async fn expect_holds(&self, key: &Key, id: LeaseId) {
        self.renew(key, id).await.renewed();
        self.acquire(key, self.id(), self.long()).await.held();
    }
}

/// What a refusal tells has to be true; the store need not tell it.
#[track_caller]
pub(super) fn expect_told(found: &NotHeld, state: Option<LeaseState>, by: Option<LeaseId>) {
    assert!(
        found.state.is_none() || found.state == state,
        "the refusal tells {found:?}; the state is {state:?}"
    );
    let holder = by.map(holder_of);
    assert!(
        found.holder.is_none() || found.holder == holder,
        "the refusal tells {found:?}; the holder is {holder:?}"
    );
}
