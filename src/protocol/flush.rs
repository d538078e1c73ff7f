//! How many items a flush still waits for.
//!
//! The flusher flips one gate after the other and adds what each had in flight; items of the old half report
//! meanwhile, possibly before they were added. A bias keeps the count away from zero until every gate is flipped;
//! whoever brings it to zero then, the flusher or the last item, ends the flush.

use crate::sys::sync::{AtomicI64, Ordering};

const BIAS: i64 = 1 << 62;

/// Counts one flush at a time.
#[derive(Debug)]
pub(crate) struct FlushCount(AtomicI64);

impl FlushCount {
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Before the first gate is flipped.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(BIAS, Ordering::Relaxed);
    }

    /// Every gate is flipped, and this many items were in flight in all. True if all of them have reported.
    ///
    /// Acquire: the flusher sees what the items did. They release by reporting.
    #[must_use]
    pub(crate) fn flipped(&self, in_flight: u64) -> bool {
        let change = in_flight as i64 - BIAS;
        self.0.fetch_add(change, Ordering::AcqRel) + change == 0
    }

    /// An item of the old half is done. True if it was the last one.
    #[must_use]
    pub(crate) fn report(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
