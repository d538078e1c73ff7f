//! What keeps a queue in place: its handles together, each gate that was closed with something in flight in it, pins, the
//! count of a flush, and an item with a ticket while it leaves.
//!
//! A hold is taken by who has one already, or by who finds the queue in its register, under whose lock the queue leaves
//! before it is freed: such a one may come too late, and then gets none. Giving one up releases and acquires: who gave
//! up the last one sees all that was done with the queue.

use crate::sys::sync::{AtomicU64, Ordering};

/// How often a queue is held.
#[derive(Debug)]
pub(crate) struct HoldCount(AtomicU64);

impl HoldCount {
    /// Held once.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// So many holds more, for who has one.
    pub(crate) fn add(&self, holds: usize) {
        self.0.fetch_add(holds as u64, Ordering::Relaxed);
    }

    /// One more hold, for who has none. False if there is none any more: the queue is being freed.
    pub(crate) fn try_hold(&self) -> bool {
        let count = |holds: u64| (holds > 0).then_some(holds + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// A hold is given up. True if it was the last one: free the queue. It may be gone otherwise.
    #[must_use]
    pub(crate) fn let_go(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a hold was given up that nobody had");
        before == 1
    }
}
