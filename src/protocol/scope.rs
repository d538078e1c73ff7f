//! Counts the items of a scope that are not over. The thread that waits for these items sleeps on the cell's address.
//!
//! The body of the scope counts as one item. So the count is not zero while the body can still spawn items. If items
//! remain when the body leaves the count, the body's thread (the *waiter*) waits. The item that brings the count to
//! zero wakes the waiter.
//!
//! The cell lies on the waiter's stack. The cell is gone as soon as the waiter has seen the count at zero. So an item
//! does not access the cell after the item has left the count, and the wake-up uses the cell's address only as a key.
//!
//! Every call of `leave` releases and acquires, and the waiter's load acquires:
//!
//! * item: uses borrowed values, then calls `leave`;
//! * waiter: sees the count at zero, then frees the values that the items had borrowed.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// See the module.
#[derive(Debug)]
pub(crate) struct ScopeCell(AtomicU64);

impl ScopeCell {
    /// Makes the cell of a scope whose body is about to begin.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Counts a new item. The caller is the body or an item that is not over, so the count is not zero.
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the key on which the waiter sleeps. [`wake`](Self::wake) may use the key even after the cell is gone.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Takes the body, or an item that is over, out of the count. Returns whether the call has brought the count to
    /// zero. After an item has left the count, the cell may be gone.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Wakes the thread that sleeps on this key.
    pub(crate) fn wake(key: usize) {
        wait::wake_all(key);
    }

    /// Returns whether all items and the body are over. The load acquires, as the module says.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Sleeps until the last item has left the count. The body has already left the count.
    pub(crate) fn wait(&self) {
        while !self.is_over() {
            wait::sleep(self.key(), || !self.is_over(), Until::FOREVER);
        }
    }
}
