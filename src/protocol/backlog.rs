//! The number of pending items of all queues of an executor. The cell also says whether issuers wait for room for a
//! further item.
//!
//! An issuer that finds its queue without room joins the queue's line (see [`places`](super::places)). If the executor
//! has a bound on its pending items, an item of *another* queue may make room, too. So the issuer announces that it
//! waits, and then looks for room once more. A thread first makes room, and then checks whether an issuer waits. If an
//! issuer waits, the thread hands room to the issuers in the lines of the queues. Each of the two threads issues a
//! fence between its write and its read. The fences forbid these steps:
//!
//! * issuer: announces that it waits; reads the count, which leaves no room;
//! * other thread: lowers the count; reads that no issuer waits. So the issuer waits although there is room.
//!
//! The cell orders no accesses to other data, so all accesses to it are relaxed.

use crate::sys::sync::{AtomicU64, Ordering, fence_after_update};

/// See the module.
#[derive(Debug)]
pub(crate) struct BacklogCell {
    pending: AtomicU64, // A
    waiting: AtomicU64, // A
}

impl BacklogCell {
    pub(crate) fn new() -> Self {
        Self { pending: AtomicU64::new(0), waiting: AtomicU64::new(0) }
    }

    /// Returns the number of pending items. The number is only a hint.
    #[inline]
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Counts items that have become pending. Returns the number of pending items, which includes the new ones.
    #[inline]
    pub(crate) fn came(&self, items: u64) -> u64 {
        self.pending.fetch_add(items, Ordering::Relaxed) + items
    }

    /// Lowers the count by the number of items that are not pending any more. Returns whether issuers wait for room.
    #[inline]
    #[must_use]
    pub(crate) fn left(&self, items: u64) -> bool {
        self.pending.fetch_sub(items, Ordering::Relaxed);
        fence_after_update();
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Announces that an issuer waits for room. Afterwards the issuer looks for room once more.
    #[cold]
    pub(crate) fn waits(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence_after_update();
    }

    /// Notes that the issuer no longer waits.
    #[cold]
    pub(crate) fn waits_no_more(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
