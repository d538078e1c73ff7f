//! How many items of a scope are not over, and the sleep of the thread that waits for them.
//!
//! The body of the scope counts as one, so nobody finds the count at zero while it may still spawn; and who brings the
//! count to zero after the body has left, and only he, has somebody to wake.
//!
//! The cell lies on the waiter's stack and is gone as soon as the waiter has seen the zero. So leaving is the last
//! access to it, and the wake-up uses its address as a key only. Every leave releases and acquires: whoever sees the
//! zero sees what all items did.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// See the module.
#[derive(Debug)]
pub(crate) struct ScopeCell(AtomicU64);

impl ScopeCell {
    /// A scope whose body is about to begin.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// An item comes. The caller counts itself, as the body or as an item.
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// What a waiter sleeps on: good for [`wake`](Self::wake) also when the cell is gone.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// An item is over, or the body. True if it was the last one; then the cell may be gone, unless it was the body.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Wakes who sleeps on this key.
    pub(crate) fn wake(key: usize) {
        wait::wake_all(key);
    }

    /// Is everybody over? Acquire, as the module says.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// The body has left: sleeps until the last item has.
    pub(crate) fn wait(&self) {
        while !self.is_over() {
            wait::sleep(self.key(), || !self.is_over(), Until::FOREVER);
        }
    }
}
