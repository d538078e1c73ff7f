//! The ways in which an item affects its worker: the item enters and leaves guards, and describes itself.

use std::collections::BTreeSet;

use crate::sys::sync::Mutex;

use crate::engine::user_code::report;

use super::current;
use super::worker_thread::WorkerThread;

impl WorkerThread {
    /// Stores the present item's description of itself.
    pub(in super::super) fn describe(&self, text: String) {
        let said = self.current().map(|_| (self.sequence(), text));
        drop(self.shared.describe(said));
    }

    /// Enters a blocking guard. Returns the sequence number of the item that the guard belongs to.
    #[inline]
    pub(crate) fn enter_guard(&self) -> u64 {
        let depth = self.guards.get();
        self.guards.set(depth + 1);
        if depth == 0 {
            // Even a worker that the detector has taken out of the pool's count may have local entries.
            let mut given = self.take_out_local();
            if self.shared.cell.block() {
                // The check below wakes a worker for one of these entries, so `given` leaves that entry out.
                given = given.saturating_sub(1);
                self.pool.running.leave();
                if self.pool.look_before_blocking(self.keeps_place.get()) {
                    self.woke_another();
                }
            } else if self.is_lent() {
                self.with_outer(|outer| _ = outer.enter_guard());
            } else if cfg!(debug_assertions) && self.pool.spec.is_bh() {
                self.report_guard(current::executing().item_type());
            }
            if given > 0 {
                self.pool.pushed_many(given);
            }
        }
        self.sequence()
    }

    /// Logs that an item of a bh queue enters a blocking guard. Logs only once for each item type.
    #[cold]
    fn report_guard(&self, item_type: &'static str) {
        if REPORTED.lock().insert(item_type) {
            let current = self.current();
            let queue = current.as_ref().map_or("", |current| current.shard().queue().name());
            report!(
                error,
                "an item of the bh queue {queue:?} blocks, and keeps all bh items of its CPU waiting: \
                {item_type}; use another kind of queue for items that block"
            );
        }
    }

    /// Returns the sequence number of the present item.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        self.shared.cell.load().sequence()
    }

    /// Counts the wake-up of another worker, which was woken because the present item blocks.
    #[cold]
    fn woke_another(&self) {
        if let Some(current) = self.current() {
            current.shard().events.concurrency_wakeups.raise();
        }
    }

    /// Leaves a blocking guard of the item with this sequence number. Does nothing if that item is over. The present
    /// item may drop a guard of an outer item (an item further up the thread's stack).
    #[inline]
    pub(crate) fn leave_guard(&self, sequence: u64) {
        if sequence != self.sequence() {
            self.with_outer(|outer| outer.leave_guard(sequence));
            return;
        }
        let depth = self.guards.get();
        if depth == 0 {
            return;
        }
        self.guards.set(depth - 1);
        if depth == 1 {
            self.unblock(self.weak_guards.get() > 0);
            if self.is_lent() {
                self.with_outer(|outer| outer.leave_guard(outer.sequence()));
            }
        }
    }

    /// Enters a `may_block` guard. Returns the sequence number of the item that the guard belongs to. The worker does
    /// not check the pool for work here. If the pool has work that no worker takes, the manager watches the pool.
    #[inline]
    pub(crate) fn enter_may_block_guard(&self) -> u64 {
        let depth = self.weak_guards.get();
        self.weak_guards.set(depth + 1);
        if depth == 0 && self.guards.get() == 0 {
            self.shared.cell.enter_may_block();
        }
        if depth == 0 && self.is_lent() {
            self.with_outer(|outer| _ = outer.enter_may_block_guard());
        }
        self.sequence()
    }

    /// Leaves a `may_block` guard of the item with this sequence number. Does nothing if that item is over. The present
    /// item may drop a guard of an outer item (an item further up the thread's stack).
    #[inline]
    pub(crate) fn leave_may_block_guard(&self, sequence: u64) {
        if sequence != self.sequence() {
            self.with_outer(|outer| outer.leave_may_block_guard(sequence));
            return;
        }
        let depth = self.weak_guards.get();
        if depth == 0 {
            return;
        }
        self.weak_guards.set(depth - 1);
        // If the worker is inside a blocking guard, the worker counts as running again only when the blocking guard
        // ends.
        if depth == 1 && self.guards.get() == 0 {
            self.leave_may_block();
        }
        if depth == 1 && self.is_lent() {
            self.with_outer(|outer| outer.leave_may_block_guard(outer.sequence()));
        }
    }

    /// Calls `act` with the worker of the outer item, if the thread is lent. A guard of the inner item is also a guard
    /// of the outer item. The inner item may also end guards of the outer item. This function is not inlined. Otherwise
    /// its callers would call themselves directly, and the compiler could not inline the callers.
    #[cold]
    #[inline(never)]
    fn with_outer(&self, act: impl FnOnce(&Self)) {
        self.outer().inspect(|outer| act(outer));
    }

    /// Returns how many blocking guards and how many `may_block` guards are open.
    pub(super) fn open_guards(&self) -> (u32, u32) {
        (self.guards.get(), self.weak_guards.get())
    }

    /// Leaves the guards that were opened after [`open_guards`](Self::open_guards) has returned these numbers.
    pub(super) fn leave_guards_beyond(&self, (guards, weak_guards): (u32, u32)) {
        while self.guards.get() > guards {
            self.leave_guard(self.sequence());
        }
        while self.weak_guards.get() > weak_guards {
            self.leave_may_block_guard(self.sequence());
        }
    }

    /// Makes the worker count as running again after a blocking guard. `outer` says whether the blocking guard was
    /// inside a `may_block` guard.
    #[inline]
    pub(super) fn unblock(&self, outer: bool) {
        if self.shared.cell.unblock(outer, &self.pool.running) {
            self.has_come_back();
        }
    }

    #[inline]
    pub(super) fn leave_may_block(&self) {
        if self.shared.cell.leave_may_block(&self.pool.running) {
            self.has_come_back();
        }
    }
}

/// The item types for which `report_guard` has logged a line.
static REPORTED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
