//! The issuer's path: place → admit → enqueue → kick. No lock and no system call while the pool is busy.

use crate::policy::admission::Half;
use crate::protocol::item::Queued;

use super::entry::Entry;
use super::one_shot::{self, RawHandle};
use super::placement::Place;
use super::queue::Queue;
use super::refusal::QueueError;
use super::shard::Shard;
use super::work_item::WorkHandle;
use super::worker;

impl Queue {
    /// Queues a closure that runs once. A refusal hands it back.
    #[inline]
    pub(crate) fn spawn<F, T>(&self, place: Place, function: F) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if !self.becomes_pending() {
            return Err((QueueError::Full, function));
        }
        let shard = self.shard(self.executor.placement.slot_for(place));
        if shard.gate().cell.is_full() {
            self.left_pending();
            return Err((QueueError::Full, function));
        }
        let (item, handle) = one_shot::make(function, std::ptr::from_ref(shard.gate()));
        let (half, has_slot) = shard.gate().cell.admit();
        enqueue(shard, Entry::new(item, shard, half), has_slot);
        Ok(handle)
    }

    /// Queues a reusable item. False if it was pending already.
    ///
    /// It is counted in the gate before it becomes pending: who finds it pending, and flushes, waits for it.
    #[inline]
    pub(crate) fn queue(&self, place: Place, work: &WorkHandle) -> Result<bool, QueueError> {
        let shard = self.shard(self.executor.placement.slot_for(place));
        if !work.cell.load().is_idle() {
            if let Some(queued) = work.cell.queue_without_entry(shard.id()) {
                return Ok(queued == Queued::Revived);
            }
        }
        if shard.gate().cell.is_full() || !self.becomes_pending() {
            // Somebody may have queued it meanwhile: then it needs no room.
            let queued = work.cell.queue_without_entry(shard.id()).ok_or(QueueError::Full)?;
            return Ok(queued == Queued::Revived);
        }
        let (half, has_slot) = shard.gate().cell.admit();
        match work.cell.queue(shard.id()) {
            Queued::Push => {
                enqueue(shard, Entry::new(work.item(), shard, half), has_slot);
                Ok(true)
            }
            queued @ (Queued::Revived | Queued::Coalesced) => {
                self.take_back(shard, half, has_slot);
                Ok(queued == Queued::Revived)
            }
        }
    }

    /// Somebody else queued the item between the look and the count: gives the count back.
    #[cold]
    fn take_back(&self, shard: &Shard, half: Half, has_slot: bool) {
        self.left_pending();
        let gate = shard.gate();
        if !has_slot {
            gate.cell.withdraw(half, || self.flush.report());
        } else if let Some(next) = gate.give_back(half, &self.flush) {
            worker::submit(next);
        }
    }
}

/// The caller holds a handle of the shard's queue, which keeps shard and pool in place.
#[inline]
fn enqueue(shard: &Shard, entry: Entry, has_slot: bool) {
    if has_slot {
        shard.pool.submit(entry);
    } else if let Some(first) = shard.gate().wait(entry) {
        worker::submit(first);
    }
}
