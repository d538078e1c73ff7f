//! The issuer's path: place → admit → enqueue → kick. No lock and no system call while the pool is busy.

use std::ptr::NonNull;

use crate::protocol::item::Queued;

use super::entry::{Entry, Header};
use super::one_shot::{self, RawHandle};
use super::queue::Queue;
use super::shard::Shard;
use super::work_item::WorkHandle;
use super::worker;

/// The queue takes no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Queue {
    /// Queues a closure that runs once. A refusal hands it back.
    #[inline]
    pub(crate) fn spawn<F, T>(&self, function: F) -> Result<RawHandle<T>, (Full, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if !self.becomes_pending() {
            return Err((Full, function));
        }
        let shard = self.shard(self.executor.placement.slot());
        if shard.gate().cell.is_full() {
            self.left_pending();
            return Err((Full, function));
        }
        let (item, handle) = one_shot::make(function, std::ptr::from_ref(shard.gate()));
        enqueue(shard, item);
        Ok(handle)
    }

    /// Queues a reusable item. False if it was pending already.
    #[inline]
    pub(crate) fn queue(&self, work: &WorkHandle) -> Result<bool, Full> {
        let shard = self.shard(self.executor.placement.slot());
        let room = !shard.gate().cell.is_full() && self.becomes_pending();
        if !room {
            // What is pending, or was cancelled with its entry here, needs no room.
            return match work.cell.queue_without_entry(shard.id()) {
                Some(Queued::Coalesced) => Ok(false),
                Some(_) => Ok(true),
                None => Err(Full),
            };
        }
        match work.cell.queue(shard.id()) {
            Queued::Push => {
                enqueue(shard, work.item());
                Ok(true)
            }
            queued @ (Queued::Revived | Queued::Coalesced) => {
                self.left_pending();
                Ok(queued == Queued::Revived)
            }
        }
    }
}

/// The caller holds a handle of the shard's queue, which keeps shard and pool in place.
#[inline]
fn enqueue(shard: &Shard, item: NonNull<Header>) {
    let gate = shard.gate();
    let (half, has_slot) = gate.cell.admit();
    let entry = Entry::new(item, shard, half);
    if has_slot {
        shard.pool.submit(entry);
    } else if let Some(first) = gate.wait(entry) {
        worker::submit(first);
    }
}
