//! What is left of a queue whose executor was shut down before it had finished?
//!
//! Items that wait are given up, by the thread that shuts down or by the one that brings them late. Each is counted *before*
//! it leaves its gate, and the gates are looked at *before* the count. So every item is told of: one that is not found in its
//! gate any more was found gone (release there, acquire here), and then its count is seen. One that leaves between the two
//! looks is told of twice.

use crate::sys::sync::{AtomicU64, Ordering};

use super::gate::GateCell;

/// The items of a queue that were given up.
#[derive(Debug)]
pub(crate) struct GivenUpCount(AtomicU64);

/// What a shutdown leaves of a queue.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remaining {
    pub(crate) given_up: u64,
    /// Items that still run, or are about to be given up.
    pub(crate) in_flight: u64,
}

impl GivenUpCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// An item is given up, which leaves its gate afterwards: that publishes it.
    #[cold]
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// What is left in these gates, which are all of the queue's.
    #[cold]
    pub(crate) fn beside<'a>(&self, gates: impl Iterator<Item = &'a GateCell>) -> Remaining {
        let in_flight = gates.map(GateCell::len).sum();
        Remaining { given_up: self.0.load(Ordering::Relaxed), in_flight }
    }
}
