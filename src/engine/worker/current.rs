//! A worker's current item, and the queue and shard (the queue's part for one CPU) through which the item came.
#![allow(unsafe_code, reason = "a worker knows its item and shard by their addresses")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::policy::flush::Ticket;
use crate::policy::item::ShardId;

use crate::engine::item::entry::{Entry, Header, ItemType};
use crate::engine::item::work::WorkItem;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::Queue;

use super::worker_thread::WorkerThread;

/// The addresses of a worker's item and of the shard through which the item came. All threads may compare the
/// addresses. In general, only the worker's own thread may follow the addresses. But while the item is in the register
/// of `waits`, a thread that holds the register's lock may follow the addresses, too. Until an entry is completed, the
/// entry keeps its queue alive. During a run, the entry also keeps its item alive. So only code that has found `work`
/// set follows the item's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) shard: NonNull<Shard>,
    /// The address of the item. After a call of [`WorkerThread::outlives`], this is the address of the worker instead.
    pub(crate) item: *const Header,
    /// The item, if it is reusable and its function is running. The field is [`ONE_SHOT`] while the function of a
    /// one-shot is running, and null otherwise.
    pub(crate) work: *const WorkItem,
}

/// Stands for the item in [`Current::work`] while the function of a one-shot is running. This pointer is never
/// dereferenced.
pub(crate) const ONE_SHOT: *const WorkItem = std::ptr::without_provenance(1);

impl Current {
    /// Returns whether the item runs in a bh context, in which only one item runs at a time.
    pub(crate) fn in_context(&self) -> bool {
        self.shard().is_in_context()
    }

    /// Returns the item's lane: see [`Shard::lane`].
    pub(crate) fn lane(&self) -> *const Limiter {
        self.shard().lane()
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.shard().queue()
    }

    /// Returns the shard through which the item came.
    pub(crate) fn shard(&self) -> &Shard {
        // SAFETY: the worker clears `current`, and takes its item out of the register, before it completes the entry.
        // Until then, the entry keeps its queue alive, and the queue keeps the shard alive.
        unsafe { self.shard.as_ref() }
    }

    /// Returns the shard on which the running item is pending for another run. An item that waits only for its timer is
    /// pending on no shard.
    pub(crate) fn pending_on(&self) -> Option<ShardId> {
        // SAFETY: `call` sets `work` while the item runs, and clears `work` when the function has ended. The run keeps
        // the item alive. While `work` is set, only the item's own function calls this method, on this thread.
        let state = unsafe { self.reusable().as_ref() }?.cell.load();
        state.is_pending_on_list().then(|| state.home())
    }

    /// Returns whether the item is reusable and its function is running.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.reusable().is_null()
    }

    /// Returns whether the item is a one-shot and its function is running.
    pub(crate) fn is_running_one_shot(&self) -> bool {
        std::ptr::eq(self.work, ONE_SHOT)
    }

    /// Returns the item, if it is reusable and its function is running. The function itself calls this, on the worker's
    /// thread.
    pub(crate) fn running_work(&self) -> Option<&WorkItem> {
        // SAFETY: as in `pending_on`.
        unsafe { self.reusable().as_ref() }
    }

    /// Returns the item, if it is reusable and its function is running. Returns null otherwise.
    fn reusable(&self) -> *const WorkItem {
        if self.is_running_one_shot() { std::ptr::null() } else { self.work }
    }

    /// Calls `look` with the entry for the running item's next run, if that entry already has its slot.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        // SAFETY: as in `pending_on`. Another thread calls this method only while it may follow the addresses (see
        // `Current`) and the item's function runs.
        unsafe { self.reusable().as_ref() }?.cell.with_kept(look)
    }

    /// Returns the lane of the shard with this number. Returns `None` unless the shard belongs to the item's queue, or
    /// to the queue that has given the running item a slot for its next run.
    pub(crate) fn lane_of(&self, home: ShardId) -> Option<*const Limiter> {
        let kept = || self.with_kept(|entry| entry.shard().queue().lane_of(home)).flatten();
        self.queue().lane_of(home).or_else(kept)
    }
}

impl WorkerThread {
    /// Notes that the run of this item is over, and that the worker is about to call the waker of a task. The waker may
    /// wait for another run of the item, or for a new item at the same address. So until the worker completes the
    /// entry, the worker's own address stands for the item. No item and no other worker has this address.
    #[cold]
    pub(crate) fn outlives(&self, item: NonNull<Header>) {
        let current = self.current.get().filter(|current| std::ptr::eq(current.item, item.as_ptr()));
        if let Some(current) = current {
            self.current.set(Some(Current { item: std::ptr::from_ref(self).cast(), ..current }));
        }
    }
}

thread_local! {
    /// The item that the worker on this thread executes. Only debug builds store this item.
    static EXECUTING: Cell<Executing> = const {
        Cell::new(Executing { item_type: None, limiter: std::ptr::null(), ticket: None })
    };
}

#[derive(Clone, Copy)]
pub(crate) struct Executing {
    /// The type of the item. `None` before the worker's first item.
    pub(crate) item_type: Option<&'static ItemType>,
    /// The limiter in which the item holds a slot. In a bh context, this limiter is not the item's lane.
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

/// Returns the item that the calling worker executes. The result is empty in a release build.
pub(crate) fn executing() -> Executing {
    EXECUTING.get()
}

/// Remembers the item that the calling worker executes. When the returned value is dropped, this item is the worker's
/// item again.
pub(super) fn set_aside() -> impl Sized {
    struct Aside(Executing);
    impl Drop for Aside {
        fn drop(&mut self) {
            EXECUTING.set(self.0);
        }
    }
    Aside(executing())
}
