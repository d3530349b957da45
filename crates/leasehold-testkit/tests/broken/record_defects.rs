//! What can be wrong with records: tokens, keys, metadata, versions, lists, hints.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use leasehold_core::outcome::{Acquire, Delete, HeldBy, Release, Renew, Write};
use leasehold_core::{
    FencingToken, Hints, Holder, Key, LeaseId, LeaseState, LeaseStore, MemoryStore, Metadata,
    Precondition, Record, StoreError, Term,
};

use super::store::Defect;

/// Tokens that start at 1 again, from wherever a key was last.
#[derive(Debug, Default)]
struct Restarts(Mutex<HashMap<Key, u64>>);

impl Restarts {
    async fn mark(&self, good: &MemoryStore, key: &Key) -> Result<(), StoreError> {
        if let Some(token) = good.read(key).await?.and_then(|record| record.token) {
            self.0
                .lock()
                .expect("held")
                .insert(key.clone(), token.get());
        }
        Ok(())
    }

    fn apply(&self, answer: Acquire) -> Acquire {
        let Acquire::Granted(mut record) = answer else {
            return answer;
        };
        let from = self.0.lock().expect("held").get(&record.key).copied();
        record.token = record
            .token
            .map(|token| FencingToken::new(token.get() - from.unwrap_or(0)));
        Acquire::Granted(record)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RestartsTokensAfterRelease(Restarts);

#[async_trait]
impl Defect for RestartsTokensAfterRelease {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Ok(self.0.apply(good.acquire(key, id, term, holder).await?))
    }

    async fn release(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
    ) -> Result<Release, StoreError> {
        self.0.mark(good, key).await?;
        good.release(key, id).await
    }
}

#[derive(Debug, Default)]
pub(crate) struct RestartsTokensAfterDeletion(Restarts);

#[async_trait]
impl Defect for RestartsTokensAfterDeletion {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Ok(self.0.apply(good.acquire(key, id, term, holder).await?))
    }

    async fn delete(
        &self,
        good: &MemoryStore,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        self.0.mark(good, key).await?;
        good.delete(key, precondition, lease).await
    }
}

#[derive(Debug)]
pub(crate) struct WipesMetadataWhenAcquired;

#[async_trait]
impl Defect for WipesMetadataWhenAcquired {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let answer = good.acquire(key, id, term, holder).await?;
        if matches!(answer, Acquire::Granted(_)) {
            good.write(key, &Metadata::new(), &Precondition::Any, Some(id))
                .await?;
        }
        Ok(answer)
    }
}

/// Remembers who holds, to write in that name for everybody.
#[derive(Debug, Default)]
pub(crate) struct LetsAnybodyWriteWithoutALease(Mutex<HashMap<Key, LeaseId>>);

#[async_trait]
impl Defect for LetsAnybodyWriteWithoutALease {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        let answer = good.acquire(key, id, term, holder).await?;
        if matches!(answer, Acquire::Granted(_)) {
            self.0.lock().expect("held").insert(key.clone(), id);
        }
        Ok(answer)
    }

    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let answer = good.write(key, metadata, precondition, lease).await?;
        let id = self.0.lock().expect("held").get(key).copied();
        match answer {
            Write::Leased(HeldBy {
                state: LeaseState::Leased,
                ..
            }) => good.write(key, metadata, precondition, id).await,
            answer => Ok(answer),
        }
    }
}

#[derive(Debug)]
pub(crate) struct LooksAtThePreconditionFirst;

#[async_trait]
impl Defect for LooksAtThePreconditionFirst {
    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let found = good.read(key).await?.map(|record| record.version);
        if *precondition == Precondition::IfAbsent && found.is_some() {
            return Ok(Write::Conflict(found));
        }
        good.write(key, metadata, precondition, lease).await
    }
}

#[derive(Debug)]
pub(crate) struct ForgetsToCompareTheVersion;

#[async_trait]
impl Defect for ForgetsToCompareTheVersion {
    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        tokio::task::yield_now().await;
        let precondition = match precondition {
            Precondition::IfVersion(_) => &Precondition::IfExists,
            other => other,
        };
        good.write(key, metadata, precondition, lease).await
    }
}

#[derive(Debug)]
pub(crate) struct KeepsTheVersionOfTheSameContent;

#[async_trait]
impl Defect for KeepsTheVersionOfTheSameContent {
    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        if let Some(record) = good.read(key).await?
            && record.metadata == *metadata
            && *precondition == Precondition::Any
            && !record.state.is_held()
        {
            return Ok(Write::Written(record.version));
        }
        good.write(key, metadata, precondition, lease).await
    }
}

#[derive(Debug)]
pub(crate) struct TrimsValues;

#[async_trait]
impl Defect for TrimsValues {
    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        let mut trimmed = Metadata::new();
        for (name, value) in metadata {
            trimmed.set(name, value.trim())?;
        }
        good.write(key, &trimmed, precondition, lease).await
    }
}

#[derive(Debug)]
pub(crate) struct DeletesIfAbsent;

#[async_trait]
impl Defect for DeletesIfAbsent {
    async fn delete(
        &self,
        good: &MemoryStore,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        let precondition = match precondition {
            Precondition::IfAbsent => &Precondition::Any,
            other => other,
        };
        good.delete(key, precondition, lease).await
    }
}

/// As an SQL `LIKE` does.
#[derive(Debug)]
pub(crate) struct ListsByWildcard;

#[async_trait]
impl Defect for ListsByWildcard {
    fn list<'a>(
        &'a self,
        good: &'a MemoryStore,
        prefix: &'a str,
    ) -> BoxStream<'a, Result<Record, StoreError>> {
        let like = move |key: &Key| {
            let mut left = key.as_str().chars();
            prefix.chars().all(|wanted| {
                left.next()
                    .is_some_and(|found| wanted == '_' || found == wanted)
            })
        };
        let matches = move |listed: &Result<Record, _>| {
            std::future::ready(listed.as_ref().is_ok_and(|record| like(&record.key)))
        };
        good.list("").filter(matches).boxed()
    }
}

/// Keys on a file system that does not care.
#[derive(Debug)]
pub(crate) struct FoldsTheCaseOfKeys;

fn folded(key: &Key) -> Key {
    Key::new(key.as_str().to_ascii_lowercase()).expect("no longer than it was")
}

#[async_trait]
impl Defect for FoldsTheCaseOfKeys {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        Ok(match good.acquire(&folded(key), id, term, holder).await? {
            Acquire::Granted(record) => Acquire::Granted(Record {
                key: key.clone(),
                ..record
            }),
            held @ Acquire::Held(_) => held,
        })
    }

    async fn renew(&self, good: &MemoryStore, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        good.renew(&folded(key), id).await
    }

    async fn release(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
    ) -> Result<Release, StoreError> {
        good.release(&folded(key), id).await
    }

    async fn read(&self, good: &MemoryStore, key: &Key) -> Result<Option<Record>, StoreError> {
        let record = good.read(&folded(key)).await?;
        Ok(record.map(|record| Record {
            key: key.clone(),
            ..record
        }))
    }
}

#[derive(Debug)]
pub(crate) struct AnswersABatchBackwards;

#[async_trait]
impl Defect for AnswersABatchBackwards {
    async fn renew_many(
        &self,
        good: &MemoryStore,
        leases: &[(Key, LeaseId)],
    ) -> Vec<Result<Renew, StoreError>> {
        let mut answers = good.renew_many(leases).await;
        answers.reverse();
        answers
    }
}

#[derive(Debug)]
pub(crate) struct GivesNoHints;

#[async_trait]
impl Defect for GivesNoHints {
    async fn watch(&self, _: &MemoryStore, _: &Key) -> Result<Option<Hints>, StoreError> {
        Ok(Some(stream::pending().boxed()))
    }
}

/// Subscribes when the first hint is waited for: what happens before the look is missed.
#[derive(Debug)]
pub(crate) struct SubscribesLate;

#[async_trait]
impl Defect for SubscribesLate {
    async fn watch(&self, good: &MemoryStore, key: &Key) -> Result<Option<Hints>, StoreError> {
        let Some(mut hints) = good.watch(key).await? else {
            return Ok(None);
        };
        let missed = stream::once(async move {
            while hints.next().now_or_never().is_some() {}
            hints
        });
        Ok(Some(missed.flatten().boxed()))
    }
}

#[derive(Debug)]
pub(crate) struct KeepsItsWatchToItself;

#[async_trait]
impl Defect for KeepsItsWatchToItself {
    async fn watch(&self, _: &MemoryStore, _: &Key) -> Result<Option<Hints>, StoreError> {
        Ok(None)
    }
}
