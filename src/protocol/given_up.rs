//! Counts what is left of a queue whose executor was shut down before the queue had finished.
//!
//! The thread that shuts down gives up the items that wait. The thread that brings an item later gives up that item.
//! A thread counts an item as given up *before* the item leaves its limiter, and the shutdown reads the limiters
//! *before* that count. So it reports every item. The other order would miss one:
//!
//! * shutdown: reads the count: none is given up;
//! * issuer: gives its item up: raises the count, then the item leaves its limiter;
//! * shutdown: reads the limiter: it is empty.
//!
//! The item's leaving releases, and the reading of the limiter acquires. So a shutdown that finds the limiter without
//! the item sees the count with it. An item that leaves between the two readings is reported twice.

use crate::sys::sync::{AtomicU64, Ordering};

use super::limiter::LimiterCell;

/// The number of items of a queue that were given up.
#[derive(Debug)]
pub(crate) struct GivenUpCount(AtomicU64);

/// What is left of a queue after a shutdown.
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

    /// Counts an item that is given up. The caller then takes it out of its limiter, and this releases the count.
    #[cold]
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what is left in these limiters, which are all limiters of the queue.
    #[cold]
    pub(crate) fn beside<'a>(&self, limiters: impl Iterator<Item = &'a LimiterCell>) -> Remaining {
        let in_flight = limiters.map(LimiterCell::len).sum();
        Remaining { given_up: self.0.load(Ordering::Relaxed), in_flight }
    }
}
