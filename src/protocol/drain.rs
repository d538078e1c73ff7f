//! Finds out whether a queue with several limiters is empty.
//!
//! A drain reads the limiters one after the other. If it did only that, it could miss an item:
//!
//! * drain: reads the first limiter, which is empty;
//! * item in the second limiter: puts another item into the first limiter, and completes;
//! * drain: reads the second limiter, which is empty. So the drain misses the item in the first limiter.
//!
//! Therefore a drain first sets the intakes so that only the queue's own items can add items. A [`ChainedCount`] counts
//! the added items. The drain reads this count before it reads the limiters, and again after that. An item that adds
//! another item raises the count *after* the other item is admitted, and *before* it gives up its own slot:
//!
//! * If the first reading of the count includes the added item, the drain finds this item in its limiter, unless the
//!   item has completed by then. The reason is that `admit` raises the count with release, and `load` reads the count
//!   with acquire.
//! * Suppose that the first reading does not include the added item, but the drain finds all limiters empty. Then the
//!   drain has seen that the adding item gave up its slot. The adding item had raised the count before that. So the
//!   second reading is higher than the first.

use crate::sys::sync::{AtomicU64, Ordering};

use super::limiter::LimiterCell;

/// The number of items that a queue's own items have added while the intake was not open to other issuers.
#[derive(Debug)]
pub(crate) struct ChainedCount(AtomicU64);

impl ChainedCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Calls `admit`, which admits an item on behalf of the calling item. Counts the item if it was admitted.
    #[cold]
    pub(crate) fn admit<A, E>(&self, admit: impl FnOnce() -> Result<A, E>) -> Result<A, E> {
        let admitted = admit()?;
        self.0.fetch_add(1, Ordering::Release);
        Ok(admitted)
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Returns true only if there was a moment at which no item was in flight in any of these limiters. In that case, the
/// caller sees the effects of all items. `chained` returns the sum of the [`ChainedCount`]s of the limiters' queues.
pub(crate) fn were_empty<'a>(
    chained: impl Fn() -> u64,
    mut limiters: impl Iterator<Item = &'a LimiterCell>,
) -> bool {
    let before = chained();
    limiters.all(LimiterCell::is_empty) && chained() == before
}
