//! What can be wrong with the five lease operations.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::outcome::{Acquire, Break, Change, Release, Renew};
use leasehold_core::{
    Capabilities, Effect, ErrorKind, Holder, Key, LeaseId, LeaseState, LeaseStore, MemoryStore,
    StoreError, Term,
};

use super::store::Defect;

async fn take_by_force(
    good: &MemoryStore,
    key: &Key,
    id: LeaseId,
    term: Term,
    holder: &Holder,
) -> Result<Acquire, StoreError> {
    good.break_lease(key, Some(Duration::ZERO)).await?;
    good.acquire(key, id, term, holder).await
}

#[derive(Debug)]
pub(crate) struct None;

#[async_trait]
impl Defect for None {}

#[derive(Debug)]
pub(crate) struct TurnsAwayItsOwnHolder;

#[async_trait]
impl Defect for TurnsAwayItsOwnHolder {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let stranger = LeaseId::from_random_bytes([9; 16]);
        let held = good.read(key).await?.is_some_and(|r| r.state.is_held());
        let id = if held { stranger } else { id };
        good.acquire(key, id, term, holder).await
    }
}

#[derive(Debug)]
pub(crate) struct LooksAndThenTakes;

#[async_trait]
impl Defect for LooksAndThenTakes {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let held = good.read(key).await?.is_some_and(|r| r.state.is_held());
        tokio::task::yield_now().await;
        if held {
            good.acquire(key, id, term, holder).await
        } else {
            take_by_force(good, key, id, term, holder).await
        }
    }
}

/// Only one time in forty, so that only a race finds it for sure.
#[derive(Debug, Default)]
pub(crate) struct SometimesGrantsWhatIsHeld(AtomicUsize);

#[async_trait]
impl Defect for SometimesGrantsWhatIsHeld {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let answer = good.acquire(key, id, term, holder).await?;
        if matches!(answer, Acquire::Held(_)) && self.0.fetch_add(1, Ordering::Relaxed) % 40 == 39 {
            return take_by_force(good, key, id, term, holder).await;
        }
        Ok(answer)
    }
}

#[derive(Debug)]
pub(crate) struct GrantsToTheBrokenHolder;

#[async_trait]
impl Defect for GrantsToTheBrokenHolder {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        match good.acquire(key, id, term, holder).await? {
            Acquire::Held(by)
                if by.state == LeaseState::Breaking && by.holder.as_ref() == Some(holder) =>
            {
                take_by_force(good, key, id, term, holder).await
            }
            answer => Ok(answer),
        }
    }
}

#[derive(Debug)]
pub(crate) struct NamesTheWrongHolder;

#[async_trait]
impl Defect for NamesTheWrongHolder {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Ok(match good.acquire(key, id, term, holder).await? {
            Acquire::Held(mut by) => {
                by.holder = Some(holder.clone());
                Acquire::Held(by)
            }
            granted @ Acquire::Granted(_) => granted,
        })
    }
}

#[derive(Debug)]
pub(crate) struct ClampsTheTerm;

#[async_trait]
impl Defect for ClampsTheTerm {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let range = MemoryStore::TERMS;
        let term = match term {
            Term::Finite(length) => length.clamp(range.min, range.max).into(),
            Term::Infinite => term,
        };
        good.acquire(key, id, term, holder).await
    }
}

/// Three quarters of the term.
#[derive(Debug)]
pub(crate) struct EndsTermsEarly;

#[async_trait]
impl Defect for EndsTermsEarly {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        self.capabilities(good).terms.check(term)?;
        let term = match term {
            Term::Finite(length) => (length * 3 / 4).into(),
            Term::Infinite => term,
        };
        good.acquire(key, id, term, holder).await
    }

    fn capabilities(&self, good: &MemoryStore) -> Capabilities {
        let mut capabilities = good.capabilities();
        capabilities.terms.min = Duration::from_secs(2);
        capabilities
    }
}

#[derive(Debug)]
pub(crate) struct NeverEndsATerm;

#[async_trait]
impl Defect for NeverEndsATerm {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        MemoryStore::TERMS.check(term)?;
        good.acquire(key, id, Term::Infinite, holder).await
    }
}

/// Renews for whoever held it once, if nobody holds it now.
#[derive(Debug, Default)]
pub(crate) struct RenewsWhatWasOvertaken(Mutex<HashSet<(Key, LeaseId)>>);

#[async_trait]
impl Defect for RenewsWhatWasOvertaken {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        self.0.lock().expect("held").insert((key.clone(), id));
        good.acquire(key, id, term, holder).await
    }

    async fn renew(&self, good: &MemoryStore, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        let answer = good.renew(key, id).await?;
        let held_once = self.0.lock().expect("held").contains(&(key.clone(), id));
        if held_once && matches!(answer, Renew::NotHeld(_)) {
            let holder = Holder::new("revenant").expect("a good name");
            let again = good.acquire(key, id, Term::DEFAULT, &holder).await?;
            if matches!(again, Acquire::Granted(_)) {
                return Ok(Renew::Renewed);
            }
        }
        Ok(answer)
    }
}

#[derive(Debug)]
pub(crate) struct RenewsWithoutRestartingTheClock;

#[async_trait]
impl Defect for RenewsWithoutRestartingTheClock {
    async fn renew(&self, good: &MemoryStore, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        Ok(match good.change(key, id, id).await? {
            Change::Changed => Renew::Renewed,
            Change::NotHeld(not_held) => Renew::NotHeld(not_held),
        })
    }

    async fn renew_many(
        &self,
        good: &MemoryStore,
        leases: &[(Key, LeaseId)],
    ) -> Vec<Result<Renew, StoreError>> {
        let mut answers = Vec::new();
        for (key, id) in leases {
            answers.push(self.renew(good, key, *id).await);
        }
        answers
    }
}

#[derive(Debug)]
pub(crate) struct HangsWhereThereIsNoRecord;

#[async_trait]
impl Defect for HangsWhereThereIsNoRecord {
    async fn renew(&self, good: &MemoryStore, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        if good.read(key).await?.is_none() {
            std::future::pending::<()>().await;
        }
        good.renew(key, id).await
    }
}

#[derive(Debug)]
pub(crate) struct ChangesOnlyOnce;

#[async_trait]
impl Defect for ChangesOnlyOnce {
    async fn change(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        new_id: LeaseId,
    ) -> Result<Change, StoreError> {
        match good.renew(key, id).await? {
            Renew::Renewed => good.change(key, id, new_id).await,
            Renew::NotHeld(not_held) => Ok(Change::NotHeld(not_held)),
        }
    }
}

/// And does not say so in its capabilities, where there is no way to.
#[derive(Debug)]
pub(crate) struct CannotChange;

#[async_trait]
impl Defect for CannotChange {
    async fn change(
        &self,
        _: &MemoryStore,
        _: &Key,
        _: LeaseId,
        _: LeaseId,
    ) -> Result<Change, StoreError> {
        Err(StoreError::new(
            ErrorKind::Unsupported,
            Effect::NotApplied,
            "change",
        ))
    }
}

#[derive(Debug)]
pub(crate) struct FailsARepeatedRelease;

#[async_trait]
impl Defect for FailsARepeatedRelease {
    async fn release(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
    ) -> Result<Release, StoreError> {
        match good.release(key, id).await? {
            Release::Released => Ok(Release::Released),
            Release::NotHeld => Err(StoreError::new(
                ErrorKind::Internal,
                Effect::NotApplied,
                "conflict",
            )),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReleasesForAnybody;

#[async_trait]
impl Defect for ReleasesForAnybody {
    async fn release(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
    ) -> Result<Release, StoreError> {
        if good.release(key, id).await? == Release::NotHeld {
            good.break_lease(key, Some(Duration::ZERO)).await?;
        }
        Ok(Release::Released)
    }
}

#[derive(Debug)]
pub(crate) struct LengthensABreak;

#[async_trait]
impl Defect for LengthensABreak {
    async fn break_lease(
        &self,
        good: &MemoryStore,
        key: &Key,
        after: Option<Duration>,
    ) -> Result<Break, StoreError> {
        let before = good.read(key).await?.map(|record| record.state);
        let answer = good.break_lease(key, after).await?;
        Ok(match (before, after) {
            (Some(LeaseState::Breaking), Some(after)) if !after.is_zero() => Break::Breaking(after),
            _ => answer,
        })
    }
}
