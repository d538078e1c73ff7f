//! What a queue's items are timed by: whether and how often ([`RateCell`]), and the histogram that came out ([`Recorder`]).
//!
//! **The rate** is set by the queue's user, and adapted by workers to how long items run. What could go wrong:
//!
//! * worker: reads "each item". User: switches timing off. Worker: stores "one of eight". The user's queue is timed for ever.
//!
//! So a worker replaces only the rate that it has read.
//!
//! **The histogram** has many writers and no lock. A writer counts an item last, with release; a reader loads the counts
//! first, with acquire. So a reader that finds an item counted also finds its time in the sum, and no smaller maximum. The
//! sum and the maximum may be ahead of the counts.

use crate::policy::histogram::{Histogram, bucket_of};
use crate::policy::sampling::Rate;
use crate::sys::sync::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct RateCell(AtomicU64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: Box<[AtomicU64]>,
    /// Nanoseconds.
    total: AtomicU64,
    /// Nanoseconds.
    max: AtomicU64,
}

impl RateCell {
    pub(crate) fn new(on: bool) -> Self {
        Self(AtomicU64::new(Self::switched(on).into_bits()))
    }

    /// By the queue's user. A read-modify-write, as each change is: loom knows the order of these, and not that of a store
    /// among them.
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

    /// By a worker: this rate fits how long items run. What the user has switched meanwhile stays.
    pub(crate) fn adapt(&self, rate: Rate) {
        let known = self.load();
        if known != rate && known != Rate::Never {
            let [known, rate] = [known, rate].map(Rate::into_bits);
            let _changed = self.0.compare_exchange(known, rate, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Recorder {
    /// Of so many buckets, from the shortest time on.
    pub(crate) fn new(buckets: usize) -> Self {
        Self {
            counts: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            total: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    /// An item took so many nanoseconds. It stands for `weight` items.
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
