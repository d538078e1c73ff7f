//! The count of holds, which keep a queue in place. There is one hold for all its handles together, one for each
//! closed limiter with an item in flight, one for each pin, one for the count of a flush, and one for an item with a
//! ticket while it leaves.
//!
//! A thread that has a hold can take another one. A thread without a hold finds the queue in its register. The queue
//! leaves the register, under the register's lock, before it is freed. So that thread may come too late, and then
//! gets no hold.
//!
//! Giving up a hold releases and acquires:
//!
//! * first holder: uses the queue, then gives its hold up;
//! * last holder: gives its hold up, then frees the queue, after the first holder's last use.

use crate::sys::sync::{AtomicU64, Ordering};

/// The number of holds of a queue.
#[derive(Debug)]
pub(crate) struct HoldCount(AtomicU64);

impl HoldCount {
    /// Makes a count of one hold.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Adds holds. The caller has one already.
    pub(crate) fn add(&self, holds: usize) {
        self.0.fetch_add(holds as u64, Ordering::Relaxed);
    }

    /// Takes a hold for a caller that has none. Returns false if no hold is left: the queue is being freed.
    pub(crate) fn try_hold(&self) -> bool {
        let count = |holds: u64| (holds > 0).then_some(holds + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// Gives up a hold. Returns true if it was the last one: the caller frees the queue. Otherwise the queue may be
    /// freed at any moment.
    #[must_use]
    pub(crate) fn let_go(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "more holds were given up than taken");
        before == 1
    }
}
