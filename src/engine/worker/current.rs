//! What a worker works for: its item, and the queue and shard through which the item came.
#![allow(unsafe_code, reason = "a worker knows what it works for by address")]

use std::cell::Cell;

use crate::policy::flush::Ticket;
use crate::policy::item::ShardId;

use crate::engine::item::entry::{Entry, Header, ItemType};
use crate::engine::item::work::WorkItem;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::Queue;

/// What a worker works for. All threads may compare the addresses. Only the worker's own thread may follow them:
/// until the entry is completed, the entry keeps its queue alive, and during a run also its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) queue: *const Queue,
    pub(crate) shard: *const Shard,
    /// The result of [`Shard::lane`].
    pub(crate) limiter: *const Limiter,
    /// Whether it is on a bh context, which it holds alone.
    pub(crate) in_context: bool,
    /// The limiter, if it had one slot when the item began; null otherwise.
    pub(crate) only_slot: *const Limiter,
    pub(crate) item: *const Header,
    /// The item, if it is a reusable one and inside its function; null otherwise.
    pub(crate) work: *const WorkItem,
}

impl Current {
    /// Returns whether the item holds the limiter's only slot, or the bh context. This stays so while the queue is
    /// frozen.
    pub(crate) fn holds_only_slot(&self) -> bool {
        // SAFETY: this thread clears its worker's `current` before the item's entry is completed. Until then the
        // entry is in flight in the limiter.
        let only = unsafe { self.only_slot.as_ref() };
        self.in_context || only.is_some_and(|limiter| limiter.cell.load().max() <= 1)
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

    /// Returns whether the item holds the only slot of this shard's limiter.
    pub(crate) fn is_only_slot_of(&self, shard: ShardId) -> bool {
        // SAFETY: the entry of the item that runs on this thread keeps the queue alive. This thread clears its
        // worker's `current` before the entry is completed.
        self.holds_only_slot() && unsafe { &*self.queue }.has_shard(shard, self.limiter)
    }
}

thread_local! {
    /// The item that this worker executes, kept in debug builds.
    static EXECUTING: Cell<Executing> = const {
        Cell::new(Executing { item_type: None, limiter: std::ptr::null(), ticket: None })
    };
}

#[derive(Clone, Copy)]
pub(crate) struct Executing {
    /// `None` before the first one.
    pub(crate) item_type: Option<&'static ItemType>,
    /// The limiter in which the item holds a slot. In a bh context, this is not its lane.
    pub(crate) limiter: *const Limiter,
    pub(crate) ticket: Option<Ticket>,
}

impl Executing {
    pub(crate) fn item_type(&self) -> &'static str {
        self.item_type.map_or("", ItemType::name)
    }
}

/// Notes that the calling worker begins to work for an entry.
#[inline]
pub(crate) fn begins(entry: &Entry, item_type: &'static ItemType) {
    if cfg!(debug_assertions) {
        EXECUTING.set(Executing {
            item_type: Some(item_type),
            limiter: entry.shard().limiter(),
            ticket: entry.ticket(),
        });
    }
}

/// Returns what the calling worker executes. Empty in a release build.
pub(crate) fn executing() -> Executing {
    EXECUTING.get()
}
