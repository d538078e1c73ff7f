//! How many items a flush still waits for.
//!
//! The flusher flips all gates, and then adds what they had in flight together; items of the old half report
//! meanwhile, also before they were added, which only makes the count negative. So it is zero again when, and only
//! when, all are added and have reported; whoever brings it there, the flusher or the last item, ends the flush.

use crate::sys::sync::{AtomicI64, Ordering};

/// Counts one flush at a time.
#[derive(Debug)]
pub(crate) struct FlushCount(AtomicI64);

impl FlushCount {
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Every gate is flipped, and this many items were in flight in all. True if all of them have reported.
    ///
    /// Acquire: the flusher sees what the items did. They release by reporting.
    #[must_use]
    pub(crate) fn flipped(&self, in_flight: u64) -> bool {
        let in_flight = in_flight as i64;
        self.0.fetch_add(in_flight, Ordering::AcqRel) + in_flight == 0
    }

    /// An item of the old half is done. True if it was the last one.
    #[must_use]
    pub(crate) fn report(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
