//! What the calling thread works for, as code inside an item can ask.
#![allow(unsafe_code, reason = "a worker knows what it works for by address")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::policy::item::ShardId;

use crate::engine::queue::shard::{Gate, Shard};
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::worker::worker_thread;

use super::entry::{Entry, Header};
use super::work_item::{WorkHandle, WorkItem};

/// What a worker works for. All threads may compare the addresses. Only the worker's own thread may follow them:
/// until the entry is completed, the entry keeps its queue alive, and during a run also its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) queue: *const Queue,
    pub(crate) shard: *const Shard,
    /// The result of [`Shard::lane`].
    pub(crate) gate: *const Gate,
    /// Whether it is on a bh context, which it holds alone.
    pub(crate) in_context: bool,
    /// The gate, if it had one slot when the item began; null otherwise.
    pub(crate) only_slot: *const Gate,
    pub(crate) item: *const Header,
    /// The item, if it is a reusable one and inside its function; null otherwise.
    pub(crate) work: *const WorkItem,
}

impl Current {
    /// Returns whether the item holds the gate's only slot, or the bh context. This stays so while the queue is
    /// frozen.
    pub(crate) fn holds_only_slot(&self) -> bool {
        // SAFETY: this thread clears its worker's `current` before the item's entry is completed. Until then the
        // entry is in flight in the gate.
        let only = unsafe { self.only_slot.as_ref() };
        self.in_context || only.is_some_and(|gate| gate.cell.load().max() <= 1)
    }

    /// Returns the shard through which the item came.
    pub(crate) fn shard(&self) -> &Shard {
        // SAFETY: until the entry is completed, it keeps its queue alive, and so the shard. This thread clears its
        // worker's `current` before that.
        unsafe { &*self.shard }
    }

    /// Returns the shard on which the running item is pending once more, to run again after it has returned. An armed
    /// timer is on no shard.
    pub(crate) fn pending_on(&self) -> Option<ShardId> {
        // SAFETY: `call` sets it while the item runs, which keeps the item alive, and clears it when the function has
        // ended. Meanwhile only the item's own function asks, on this thread.
        let state = unsafe { self.work.as_ref() }?.cell.load();
        state.is_pending_on_list().then(|| state.home())
    }

    /// Returns whether the item is a reusable one and inside its function.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.work.is_null()
    }

    /// Calls `look` with the entry of the running item's next run, if that has its slot already.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        // SAFETY: as in `pending_on`; or another thread asks while this one waits inside the item.
        unsafe { self.work.as_ref() }?.cell.with_kept(look)
    }

    /// Returns whether the item holds the only slot of this shard's gate.
    pub(crate) fn is_only_slot_of(&self, shard: ShardId) -> bool {
        // SAFETY: the entry of the item that runs on this thread keeps the queue alive. This thread clears its
        // worker's `current` before the entry is completed.
        self.holds_only_slot() && unsafe { &*self.queue }.has_shard(shard, self.gate)
    }
}

/// Returns a handle of the reusable item whose function the caller is in.
pub(crate) fn current_work() -> Option<WorkHandle> {
    let current = current().filter(Current::is_reusable)?;
    let item = NonNull::new(current.item.cast_mut())?;
    // SAFETY: the item is reusable, and the caller is inside its function.
    Some(unsafe { WorkHandle::of_running(item) })
}

/// Returns a handle of the queue for whose item the caller works, if the queue still has one.
pub(crate) fn current_queue() -> Option<Arc<QueueHandle>> {
    with_queue(Queue::handle)?
}

/// Returns the name of that queue, even if the queue has no handle.
pub(crate) fn current_queue_name() -> Option<String> {
    with_queue(|queue| queue.name().to_owned())
}

/// Returns whether the caller works for an item.
pub(crate) fn has_item() -> bool {
    current().is_some()
}

/// Stores a description of the item for which the caller works.
pub(crate) fn describe(text: String) {
    worker_thread::with_current(|worker| {
        if let Some(worker) = worker {
            worker.describe(text);
        }
    });
}

pub(crate) fn current() -> Option<Current> {
    worker_thread::with_current(|worker| worker?.current())
}

fn with_queue<R>(look: impl FnOnce(&Queue) -> R) -> Option<R> {
    let queue = current()?.queue;
    // SAFETY: the entry keeps the queue alive until it is completed. This thread clears its worker's `current` before
    // that, and after this call.
    Some(look(unsafe { queue.as_ref() }?))
}
