//! The timing of a queue's items: which items are timed ([`RateCell`]), and the histogram of their times
//! ([`Recorder`]).
//!
//! **The rate.** The queue's user switches timing on or off, and workers adapt the rate to the run times of items. A
//! worker replaces the rate only if the rate still has the value that the worker has read. Otherwise, this could
//! happen:
//!
//! * worker: reads the rate "each item";
//! * user: switches timing off;
//! * worker: stores the rate "one of eight". So items are timed, although the user has switched timing off.
//!
//! **The histogram.** It has many writers and no lock. A writer first updates the sum and the maximum, and then counts
//! the item, with release. A reader first loads the counts, with acquire. So if a reader sees an item in the counts,
//! the sum that the reader loads includes the item's time, and the maximum is not smaller than that time. The sum and
//! the maximum may also include items that the counts do not contain yet. The orderings forbid this:
//!
//! * worker: adds 5 ms to the sum, then counts the item;
//! * reader: loads the counts, which contain the item, then the sum, which lacks the 5 ms.

use crate::policy::histogram::{Histogram, bucket_of};
use crate::policy::sampling::Rate;
use crate::sys::sync::{AtomicU64, Ordering};

/// The rate at which a queue's items are timed. See the module.
#[derive(Debug)]
pub(crate) struct RateCell(AtomicU64);

/// The histogram of the times of a queue's items. See the module.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: Box<[AtomicU64]>,
    /// The sum of the recorded times, in nanoseconds.
    total: AtomicU64,
    /// The longest recorded time, in nanoseconds.
    max: AtomicU64,
}

impl RateCell {
    pub(crate) fn new(on: bool) -> Self {
        Self(AtomicU64::new(Self::switched(on).into_bits()))
    }

    /// Switches timing on or off, on behalf of the queue's user.
    ///
    /// Like every change of the rate, this is a read-modify-write and not a store. loom keeps read-modify-writes of a
    /// word in one order, but does not know the place of a plain store in this order.
    pub(crate) fn switch(&self, on: bool) {
        self.0.swap(Self::switched(on).into_bits(), Ordering::Relaxed);
    }

    const fn switched(on: bool) -> Rate {
        if on { Rate::ALWAYS } else { Rate::Never }
    }

    #[inline]
    pub(crate) fn load(&self) -> Rate {
        Rate::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Sets the rate to `rate`, which a worker has chosen to suit the run times of items. If timing was switched off,
    /// the call changes nothing.
    pub(crate) fn adapt(&self, rate: Rate) {
        let known = self.load();
        if known != rate && known != Rate::Never {
            let [known, rate] = [known, rate].map(Rate::into_bits);
            let _changed = self.0.compare_exchange(known, rate, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Recorder {
    /// Makes a histogram with the given number of buckets. The first bucket is for the shortest times.
    pub(crate) fn new(buckets: usize) -> Self {
        Self {
            counts: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            total: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    /// Records a timed item that took `nanos` nanoseconds, as if `weight` items had taken this time.
    pub(crate) fn record(&self, nanos: u64, weight: u64) {
        self.total.fetch_add(nanos.saturating_mul(weight), Ordering::Relaxed);
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
        self.counts[bucket_of(nanos)].fetch_add(weight, Ordering::Release);
    }

    pub(crate) fn load(&self) -> Histogram {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let (total, max) = (self.total.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        Histogram::new(counts.into_iter(), total, max)
    }
}
