use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use leasehold_core::outcome::{Acquire, Break, Change, Delete, Release, Renew, Write};
use leasehold_core::{
    Capabilities, Hints, Holder, Key, LeaseId, LeaseStore, MemoryStore, Metadata, Precondition,
    Record, StoreError, Term,
};

/// One thing that a store does wrong: whatever is overridden here. The rest is as good as [`MemoryStore`].
#[async_trait]
pub(crate) trait Defect: Debug + Send + Sync + 'static {
    async fn acquire(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        good.acquire(key, id, term, holder).await
    }

    async fn renew(&self, good: &MemoryStore, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        good.renew(key, id).await
    }

    async fn change(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
        new_id: LeaseId,
    ) -> Result<Change, StoreError> {
        good.change(key, id, new_id).await
    }

    async fn release(
        &self,
        good: &MemoryStore,
        key: &Key,
        id: LeaseId,
    ) -> Result<Release, StoreError> {
        good.release(key, id).await
    }

    async fn break_lease(
        &self,
        good: &MemoryStore,
        key: &Key,
        after: Option<Duration>,
    ) -> Result<Break, StoreError> {
        good.break_lease(key, after).await
    }

    async fn read(&self, good: &MemoryStore, key: &Key) -> Result<Option<Record>, StoreError> {
        good.read(key).await
    }

    async fn write(
        &self,
        good: &MemoryStore,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        good.write(key, metadata, precondition, lease).await
    }

    async fn delete(
        &self,
        good: &MemoryStore,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        good.delete(key, precondition, lease).await
    }

    fn list<'a>(
        &'a self,
        good: &'a MemoryStore,
        prefix: &'a str,
    ) -> BoxStream<'a, Result<Record, StoreError>> {
        good.list(prefix)
    }

    fn capabilities(&self, good: &MemoryStore) -> Capabilities {
        good.capabilities()
    }

    async fn renew_many(
        &self,
        good: &MemoryStore,
        leases: &[(Key, LeaseId)],
    ) -> Vec<Result<Renew, StoreError>> {
        good.renew_many(leases).await
    }

    async fn watch(&self, good: &MemoryStore, key: &Key) -> Result<Option<Hints>, StoreError> {
        good.watch(key).await
    }
}

#[derive(Debug)]
pub(crate) struct Broken<D> {
    pub(crate) good: MemoryStore,
    pub(crate) defect: D,
}

#[async_trait]
impl<D: Defect> LeaseStore for Broken<D> {
    async fn acquire(
        &self,
        key: &Key,
        id: LeaseId,
        term: Term,
        holder: &Holder,
    ) -> Result<Acquire, StoreError> {
        self.defect.acquire(&self.good, key, id, term, holder).await
    }

    async fn renew(&self, key: &Key, id: LeaseId) -> Result<Renew, StoreError> {
        self.defect.renew(&self.good, key, id).await
    }

    async fn change(&self, key: &Key, id: LeaseId, new_id: LeaseId) -> Result<Change, StoreError> {
        self.defect.change(&self.good, key, id, new_id).await
    }

    async fn release(&self, key: &Key, id: LeaseId) -> Result<Release, StoreError> {
        self.defect.release(&self.good, key, id).await
    }

    async fn break_lease(&self, key: &Key, after: Option<Duration>) -> Result<Break, StoreError> {
        self.defect.break_lease(&self.good, key, after).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.defect.read(&self.good, key).await
    }

    async fn write(
        &self,
        key: &Key,
        metadata: &Metadata,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Write, StoreError> {
        self.defect
            .write(&self.good, key, metadata, precondition, lease)
            .await
    }

    async fn delete(
        &self,
        key: &Key,
        precondition: &Precondition,
        lease: Option<LeaseId>,
    ) -> Result<Delete, StoreError> {
        self.defect
            .delete(&self.good, key, precondition, lease)
            .await
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<Record, StoreError>> {
        self.defect.list(&self.good, prefix)
    }

    fn capabilities(&self) -> Capabilities {
        self.defect.capabilities(&self.good)
    }

    async fn renew_many(&self, leases: &[(Key, LeaseId)]) -> Vec<Result<Renew, StoreError>> {
        self.defect.renew_many(&self.good, leases).await
    }

    async fn watch(&self, key: &Key) -> Result<Option<Hints>, StoreError> {
        self.defect.watch(&self.good, key).await
    }
}
