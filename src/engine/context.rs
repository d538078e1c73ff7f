//! What the calling thread works for, asked from inside of an item.
#![allow(unsafe_code, reason = "what a worker works for is known to it by address")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::policy::item::ShardId;

use super::entry::{Entry, Header};
use super::queue::{Queue, QueueHandle};
use super::shard::{Gate, Shard};
use super::work_item::{WorkHandle, WorkItem};
use super::worker;

/// Whom a worker works for. Addresses to compare with, and to follow on the worker's own thread only: until the entry
/// is completed, it keeps its queue in place, and a run its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) queue: *const Queue,
    pub(super) shard: *const Shard,
    /// By [`Shard::lane`].
    pub(crate) gate: *const Gate,
    /// It is on a bh context, which it holds alone.
    pub(super) in_context: bool,
    /// The gate, if it had one slot when the item began; null otherwise.
    pub(super) only_slot: *const Gate,
    pub(crate) item: *const Header,
    /// The item, if it is a reusable one and inside its function; null otherwise.
    pub(super) work: *const WorkItem,
}

impl Current {
    /// Does it hold the gate's only slot, or the bh context? Of a queue that is frozen, too.
    pub(crate) fn holds_only_slot(&self) -> bool {
        // SAFETY: the item's entry is in flight in the gate until this is taken back, on this thread.
        let only = unsafe { self.only_slot.as_ref() };
        self.in_context || only.is_some_and(|gate| gate.cell.load().max() <= 1)
    }

    /// The part of the queue through which it came.
    pub(super) fn shard(&self) -> &Shard {
        // SAFETY: until the entry is completed, it keeps its queue and so the shard in place; this is taken back before
        // that, on this thread.
        unsafe { &*self.shard }
    }

    /// The shard on which the running item is pending once more: it runs there when it has returned. A timer is on none.
    pub(crate) fn pending_on(&self) -> Option<ShardId> {
        // SAFETY: set by `call` while the item runs, which keeps it in place, and taken back when it ends; nobody
        // but the item's own function asks meanwhile, on this thread.
        let state = unsafe { self.work.as_ref() }?.cell.load();
        state.is_pending_on_list().then(|| state.home())
    }

    /// Is it a reusable item, and inside its function?
    pub(crate) fn is_reusable(&self) -> bool {
        !self.work.is_null()
    }

    /// Looks at the entry of the running item's next run, if it was given its slot already.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        // SAFETY: as in `pending_on`; or asked by another thread while this one waits inside of the item.
        unsafe { self.work.as_ref() }?.cell.with_kept(look)
    }

    /// Does the item hold the only slot of this shard's gate?
    pub(crate) fn is_only_slot_of(&self, shard: ShardId) -> bool {
        // SAFETY: set while the entry of the item that runs on this thread keeps its queue in place, and taken back
        // when that is completed.
        self.holds_only_slot() && unsafe { &*self.queue }.has_shard(shard, self.gate)
    }
}

/// A handle of the reusable item inside whose function the caller is.
pub(crate) fn current_work() -> Option<WorkHandle> {
    let current = current().filter(Current::is_reusable)?;
    let item = NonNull::new(current.item.cast_mut())?;
    // SAFETY: it is reusable, and the caller inside of it.
    Some(unsafe { WorkHandle::of_running(item) })
}

/// A handle of the queue for whose item the caller works, if there still is one.
pub(crate) fn current_queue() -> Option<Arc<QueueHandle>> {
    with_queue(Queue::handle)?
}

/// The name of that queue, whether it has a handle or not.
pub(crate) fn current_queue_name() -> Option<String> {
    with_queue(|queue| queue.name().to_owned())
}

/// Does the caller work for an item?
pub(crate) fn has_item() -> bool {
    current().is_some()
}

/// The item for which the caller works says what it does.
pub(crate) fn describe(text: String) {
    worker::with_current(|worker| {
        if let Some(worker) = worker {
            worker.describe(text);
        }
    });
}

pub(crate) fn current() -> Option<Current> {
    worker::with_current(|worker| worker?.current())
}

fn with_queue<R>(look: impl FnOnce(&Queue) -> R) -> Option<R> {
    let queue = current()?.queue;
    // SAFETY: a worker knows what it works for until it completes the entry, which keeps the queue in place. It does so
    // on this thread, after the caller.
    Some(look(unsafe { queue.as_ref() }?))
}
