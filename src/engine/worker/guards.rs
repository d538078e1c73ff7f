//! What an item does to its worker: by guards that it enters and leaves, and by what it says of itself.

use super::super::{bh, waits};
use super::WorkerThread;

impl WorkerThread {
    /// The present item says what it does.
    pub(in super::super) fn describe(&self, text: String) {
        let said = self.current.get().map(|_| (self.sequence(), text));
        drop(self.shared.describe(said));
    }

    /// A blocking guard is entered. Returns the sequence of the item that it belongs to.
    #[inline]
    pub(crate) fn enter_guard(&self) -> u64 {
        let depth = self.guards.get();
        self.guards.set(depth + 1);
        if depth == 0 && self.shared.cell.block() {
            self.pool.running.leave();
            if self.pool.look_before_blocking() {
                self.woke_another();
            }
        } else if cfg!(debug_assertions) && depth == 0 && self.pool.spec.is_bh() {
            bh::report_guard(waits::item_type());
        }
        self.sequence()
    }

    /// Somebody was woken because the present item blocks.
    #[cold]
    fn woke_another(&self) {
        if let Some(current) = self.current.get() {
            current.shard().events.concurrency_wakeups.raise();
        }
    }

    /// A guard of the item `sequence` is left. One that has outlived its item does nothing.
    #[inline]
    pub(crate) fn leave_guard(&self, sequence: u64) {
        let depth = self.guards.get();
        if depth == 0 || sequence != self.sequence() {
            return;
        }
        self.guards.set(depth - 1);
        if depth == 1 {
            self.unblock(self.weak_guards.get() > 0);
        }
    }

    /// A guard that says that the item may block is entered. The pool is not looked at: if it has work that nobody comes
    /// for, the manager watches it.
    #[inline]
    pub(crate) fn enter_may_block_guard(&self) -> u64 {
        let depth = self.weak_guards.get();
        self.weak_guards.set(depth + 1);
        if depth == 0 && self.guards.get() == 0 {
            self.shared.cell.enter_may_block();
        }
        self.sequence()
    }

    /// As [`leave_guard`](Self::leave_guard).
    #[inline]
    pub(crate) fn leave_may_block_guard(&self, sequence: u64) {
        let depth = self.weak_guards.get();
        if depth == 0 || sequence != self.sequence() {
            return;
        }
        self.weak_guards.set(depth - 1);
        // Inside of a blocking guard, that one's end settles it.
        if depth == 1 && self.guards.get() == 0 {
            self.leave_may_block();
        }
    }

    /// `outer`: inside of a guard that says that the item may block.
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
