//! What each operation does to its row. The rules are those of [`Lease`]; here is what is loaded and kept.
//!
//! A request that is refused writes nothing, and so costs no wait for the disk.

use std::time::Duration;

use leasehold_core::lease::{Lease, may_write};
use leasehold_core::outcome::{Acquire, Break, Change, Delete, NotHeld, Release, Renew, Write};
use leasehold_core::{Holder, Key, LeaseId, Precondition, Term};

use crate::error::Trouble;
use crate::row::{Row, version};
use crate::transaction::Transaction;

pub(crate) fn acquire(
    tx: &mut Transaction<'_>,
    key: &Key,
    id: LeaseId,
    term: Term,
    holder: &Holder,
) -> Result<Acquire, Trouble> {
    let found = tx.load(key)?;
    let is_new = found.is_none();
    let mut row = match found {
        Some(row) => row,
        None => new_row(tx)?,
    };
    let token = row.lease.token;
    if let Err(held_by) = row.lease.acquire(tx.now, id, term, holder) {
        return Ok(Acquire::Held(held_by));
    }
    // On this epoch's clock from now on.
    row.foreign = None;
    let record = row.record(key, tx.now)?;
    if is_new {
        tx.insert(key, &row, NO_METADATA)?;
    } else {
        tx.save_lease(key, &row.lease)?;
    }
    tx.hint |= row.lease.token != token;
    Ok(Acquire::Granted(record))
}

pub(crate) fn renew(tx: &mut Transaction<'_>, key: &Key, id: LeaseId) -> Result<Renew, Trouble> {
    let Some(mut row) = tx.load(key)? else {
        return Ok(Renew::NotHeld(NotHeld::ABSENT));
    };
    if let Err(not_held) = row.lease.renew(tx.now, id) {
        return Ok(Renew::NotHeld(not_held));
    }
    tx.save_lease(key, &row.lease)?;
    Ok(Renew::Renewed)
}

pub(crate) fn change(
    tx: &mut Transaction<'_>,
    key: &Key,
    id: LeaseId,
    new_id: LeaseId,
) -> Result<Change, Trouble> {
    let Some(mut row) = tx.load(key)? else {
        return Ok(Change::NotHeld(NotHeld::ABSENT));
    };
    let before = row.lease.clone();
    if let Err(not_held) = row.lease.change(tx.now, id, new_id) {
        return Ok(Change::NotHeld(not_held));
    }
    save_if_changed(tx, key, &before, &row.lease)?;
    Ok(Change::Changed)
}

pub(crate) fn release(
    tx: &mut Transaction<'_>,
    key: &Key,
    id: LeaseId,
) -> Result<Release, Trouble> {
    let Some(mut row) = tx.load(key)? else {
        return Ok(Release::NotHeld);
    };
    if !row.lease.release(tx.now, id) {
        return Ok(Release::NotHeld);
    }
    tx.save_lease(key, &row.lease)?;
    tx.hint = true;
    Ok(Release::Released)
}

pub(crate) fn break_lease(
    tx: &mut Transaction<'_>,
    key: &Key,
    after: Option<Duration>,
) -> Result<Break, Trouble> {
    let Some(mut row) = tx.load(key)? else {
        return Ok(Break::NotHeld);
    };
    let before = row.lease.clone();
    let outcome = row.lease.break_lease(tx.now, after);
    save_if_changed(tx, key, &before, &row.lease)?;
    Ok(outcome)
}

pub(crate) fn write(
    tx: &mut Transaction<'_>,
    key: &Key,
    metadata: &str,
    precondition: &Precondition,
    lease: Option<LeaseId>,
) -> Result<Write, Trouble> {
    let found = tx.load(key)?;
    let existing = found.as_ref().map(|row| (&row.lease, version(row.version)));
    if let Err(refused) = may_write(tx.now, existing, precondition, lease) {
        return Ok(refused.into());
    }
    let written = if found.is_some() {
        let written = tx.next_version()?;
        tx.save_metadata(key, metadata, written)?;
        written
    } else {
        let row = new_row(tx)?;
        tx.insert(key, &row, metadata)?;
        row.version
    };
    tx.hint = true;
    Ok(Write::Written(version(written)))
}

pub(crate) fn delete(
    tx: &mut Transaction<'_>,
    key: &Key,
    precondition: &Precondition,
    lease: Option<LeaseId>,
) -> Result<Delete, Trouble> {
    let Some(row) = tx.load(key)? else {
        return Ok(Delete::Absent);
    };
    let existing = Some((&row.lease, version(row.version)));
    if let Err(refused) = may_write(tx.now, existing, precondition, lease) {
        return Ok(refused.into());
    }
    tx.delete(key, &row.lease)?;
    tx.hint = true;
    Ok(Delete::Deleted)
}

const NO_METADATA: &str = "{}";

fn new_row(tx: &mut Transaction<'_>) -> Result<Row, Trouble> {
    let token = tx.deleted_token()?;
    Ok(Row::new(token, tx.next_version()?))
}

fn save_if_changed(
    tx: &mut Transaction<'_>,
    key: &Key,
    before: &Lease,
    after: &Lease,
) -> Result<(), Trouble> {
    if before != after {
        tx.save_lease(key, after)?;
        tx.hint = true;
    }
    Ok(())
}
