//! Finds out whether a queue with several limiters is empty.
//!
//! A drain reads the limiters one after the other. That alone could miss an item:
//!
//! * drain: reads the first limiter: it is empty;
//! * item in the second limiter: puts another item into the first limiter, and completes;
//! * drain: reads the second limiter: it is empty. So the drain misses the item in the first limiter.
//!
//! Before that, the drain sets the intakes so that only the queue's own items may add items. [`ChainedCount`] counts
//! what they add, and the drain reads that count before and after the limiters. An item that adds another one raises
//! the count *after* the admission, and *before* it gives up its own slot:
//!
//! * If the first reading of the count includes an admission, the drain finds the added item in its limiter, unless
//!   that has completed. For this, `admit` releases the count and `load` acquires it.
//! * If the first reading does not include the admission, and the drain finds all limiters empty, then the item that
//!   added the other one has given up its slot. It had raised the count before. So the second reading of the count is
//!   higher.

use crate::sys::sync::{AtomicU64, Ordering};

use super::limiter::LimiterCell;

/// The number of items that items of a queue have added while the intake was not open to other issuers.
#[derive(Debug)]
pub(crate) struct ChainedCount(AtomicU64);

impl ChainedCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Admits an item by `admit` for the calling item, and counts it if it was admitted.
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

/// Returns whether there was a moment at which no item was in flight in these limiters. If so, the caller sees what all
/// items did. `chained` returns the sum of the counts of their queues.
pub(crate) fn were_empty<'a>(
    chained: impl Fn() -> u64,
    mut limiters: impl Iterator<Item = &'a LimiterCell>,
) -> bool {
    let before = chained();
    limiters.all(LimiterCell::is_empty) && chained() == before
}
