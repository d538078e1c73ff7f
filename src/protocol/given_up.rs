//! Counts the items that are left in a queue when its executor is shut down before the queue has finished its work.
//!
//! The thread that shuts the executor down gives up the waiting items, which then never run. If another thread brings
//! an item to a pool that the shutdown has already emptied, that other thread gives up the item. Each thread counts an
//! item as given up *before* the item leaves its limiter, and the shutdown reads the limiters *before* the count. So
//! the shutdown reports every item. If the shutdown read the count first, it could miss an item:
//!
//! * shutdown: reads the count, which is zero;
//! * issuer: raises the count for its item, and then takes the item out of its limiter;
//! * shutdown: reads the limiter, which is empty.
//!
//! The step that takes an item out of its limiter is a release, and each reading of the limiter is an acquire. So if
//! the shutdown no longer finds the item in the limiter, it sees a count that includes the item. If a thread gives up
//! an item between the two readings, the shutdown reports the item twice: as in flight and as given up.

use crate::sys::sync::{AtomicU64, Ordering};

use super::limiter::LimiterCell;

/// The number of items of a queue that were given up.
#[derive(Debug)]
pub(crate) struct GivenUpCount(AtomicU64);

/// The numbers of items that are left in a queue after a shutdown.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remaining {
    pub(crate) given_up: u64,
    /// The number of items that still run, or that a thread is about to give up.
    pub(crate) in_flight: u64,
}

impl GivenUpCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts an item that is given up. The caller then takes the item out of its limiter. The removal from the limiter
    /// is a release, which publishes the raised count.
    #[cold]
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of items that are left. `limiters` are all limiters of the queue.
    #[cold]
    pub(crate) fn beside<'a>(&self, limiters: impl Iterator<Item = &'a LimiterCell>) -> Remaining {
        let in_flight = limiters.map(LimiterCell::len).sum();
        Remaining { given_up: self.0.load(Ordering::Relaxed), in_flight }
    }
}
