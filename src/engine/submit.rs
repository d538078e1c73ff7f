//! The issuer's path: place → admit → enqueue → kick. No lock and no system call while the pool is busy.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::policy::admission::Admit;
use crate::protocol::item::Queued;

use super::entry::{Entry, Header};
use super::one_shot::{self, RawHandle};
use super::queue::Queue;
use super::shard::Shard;
use super::work_item::WorkItem;
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
        let admit = shard.gate().cell.admit();
        if admit == Admit::Full {
            self.left_pending();
            return Err((Full, function));
        }
        let (item, handle) = one_shot::make(function, std::ptr::from_ref(shard.gate()));
        self.enqueue(shard, item, admit);
        Ok(handle)
    }

    /// Queues a reusable item. False if it was pending already.
    #[inline]
    pub(crate) fn queue(&self, work: &Arc<WorkItem>) -> Result<bool, Full> {
        let shard = self.shard(self.executor.placement.slot());
        if !self.becomes_pending() {
            // What is pending, or has left an entry here, needs no room.
            return match work.cell.queue_without_entry(shard.id) {
                Some(Queued::Coalesced) => Ok(false),
                Some(_) => Ok(true),
                None => Err(Full),
            };
        }
        match work.cell.queue(shard.id) {
            Queued::Push => {}
            queued @ (Queued::Revived | Queued::Coalesced) => {
                self.left_pending();
                return Ok(queued == Queued::Revived);
            }
        }
        let admit = shard.gate().cell.admit();
        if admit == Admit::Full {
            self.left_pending();
            work.cell.refuse();
            return Err(Full);
        }
        self.enqueue(shard, work.to_entry(), admit);
        Ok(true)
    }

    #[inline]
    fn enqueue(&self, shard: &Shard, item: NonNull<Header>, admit: Admit) {
        // The pool is in place during the kick: the caller holds a handle of the queue, which holds the shard.
        match admit {
            Admit::Start(half) => shard.pool.submit(Entry::new(item, shard, half)),
            Admit::Wait(half) => {
                if let Some(first) = shard.gate().wait(Entry::new(item, shard, half)) {
                    worker::submit(first);
                }
            }
            Admit::Full => unreachable!("an item that was refused is not enqueued"),
        }
    }
}
