//! Histograms of the wait times and run times of a shard's items. The histograms are off by default.
//!
//! An issuer leaves a stamp in the header of an item that is to be timed. The worker that runs the item takes the
//! stamp, and records the times. [`policy::sampling`](crate::policy::sampling) decides which items are timed. The times
//! are read from the clock of `Instant`. A cheaper clock (the processor's counter, through a crate) would save a fifth
//! of the cost of sampled timing.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use crate::policy::histogram::{BUCKETS, Latency};
use crate::policy::sampling::{FIRST_MEAN, Rate, Stamp, mean_after};
use crate::policy::time::Time;
use crate::protocol::timing::{RateCell, Recorder};
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Ordering};

use crate::engine::COUNTED;

/// Whether the items of a shard are timed, and the histograms of their times.
#[derive(Debug)]
pub(crate) struct Timing {
    rate: RateCell,
    /// The mean run time of items, in nanoseconds. This number is a hint, because if two threads write it at the same
    /// time, one of the two updates is lost.
    mean: AtomicU64,
    /// The histograms, which are made when the first timed item begins.
    found: OnceLock<Box<Found>>,
}

#[derive(Debug)]
struct Found {
    queue_to_start: Recorder,
    run: Recorder,
}

/// A timed item that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    at: Time,
    stamp: Stamp,
}

thread_local! {
    /// The last number that this thread has drawn, or 0 before the first draw.
    static RANDOM: Cell<u32> = const { Cell::new(0) };
}

/// Returns the next pseudo-random number (Marsaglia's xorshift).
#[inline]
fn draw() -> u32 {
    let mut random = RANDOM.get();
    if random == 0 {
        random = seed();
    }
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    RANDOM.set(random);
    random
}

/// Returns a different seed for each thread.
#[cold]
fn seed() -> u32 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    (THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 | 1
}

impl Timing {
    pub(crate) fn new(on: bool) -> Self {
        Self { rate: RateCell::new(on), mean: AtomicU64::new(FIRST_MEAN), found: OnceLock::new() }
    }

    pub(crate) fn set(&self, on: bool) {
        self.rate.switch(on);
    }

    /// Returns the stamp for an item that is being queued, or 0 if the item is not timed.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        match self.rate.load() {
            rate @ Rate::OneOf(_) if COUNTED && rate.draws(draw()) => Self::stamp_now(rate),
            _ => 0,
        }
    }

    #[cold]
    fn stamp_now(rate: Rate) -> u64 {
        Stamp::new(clock::now(), rate).map_or(0, Stamp::into_bits)
    }

    /// Records how long an item with this stamp has waited. If items are not timed any more, records nothing and
    /// returns `None`.
    #[cold]
    pub(crate) fn begins(&self, stamp: u64) -> Option<Begun> {
        let stamp = Stamp::from_bits(stamp).filter(|_| self.rate.load() != Rate::Never)?;
        let at = clock::now();
        self.found().queue_to_start.record(nanos(stamp.queued, at), stamp.weight());
        Some(Begun { at, stamp })
    }

    /// Records how long the item has run.
    #[cold]
    pub(crate) fn ends(&self, begun: &Begun) {
        let now = clock::now();
        self.found().run.record(nanos(begun.at, now), begun.stamp.weight());
        let mean = mean_after(self.mean.load(Ordering::Relaxed), now.since(begun.at), begun.stamp.weight());
        self.mean.store(mean, Ordering::Relaxed);
        self.rate.adapt(Rate::of(Duration::from_nanos(mean)));
    }

    fn found(&self) -> &Found {
        self.found.get_or_init(Found::new)
    }

    /// Returns a copy of the histograms.
    pub(crate) fn latency(&self) -> Latency {
        self.found.get().map(|found| found.load()).unwrap_or_default()
    }
}

impl Found {
    fn new() -> Box<Self> {
        Box::new(Self { queue_to_start: Recorder::new(BUCKETS), run: Recorder::new(BUCKETS) })
    }

    fn load(&self) -> Latency {
        Latency { queue_to_start: self.queue_to_start.load(), run: self.run.load() }
    }
}

fn nanos(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: O1.8 (while timing is off, an item gets no stamp and no histogram is made; timing is switched at run time)
    #[test]
    fn no_item_is_stamped_and_no_histogram_made_while_timing_is_off() {
        let timing = Timing::new(false);
        assert_eq!(timing.stamp(), 0);
        timing.set(true);
        let stamp = timing.stamp();
        assert_ne!(stamp, 0, "at first, each item is timed");
        timing.set(false);
        assert!(timing.begins(stamp).is_none(), "timing was switched off after the stamp");
        assert!(timing.found.get().is_none());
        assert_eq!(timing.latency(), Latency::default());
    }

    /// spec: O1.10 (of short items, only a sample is timed, and each timed item counts for several items)
    #[test]
    fn short_items_are_timed_more_rarely_and_count_for_more() {
        // Runs 100 000 short items. Returns how many of them were timed.
        let run = |timing: &Timing| {
            (0..100_000).fold(0, |timed, _| match timing.stamp() {
                0 => timed,
                stamp => {
                    let begun = timing.begins(stamp).unwrap();
                    timing.ends(&begun);
                    timed + 1
                }
            })
        };
        let mut timing = Timing::new(true);
        // On a busy machine, even a short item may take long.
        let is_sampled = || {
            timing = Timing::new(true);
            run(&timing) < 50_000
        };
        if !testkit::holds_within(testkit::SOON, is_sampled) {
            assert!(testkit::emulator().is_some(), "most items are timed");
            return testkit::skip("emulated", "reading the clock takes longer than a short item");
        }
        let latency = timing.latency();
        for histogram in [&latency.queue_to_start, &latency.run] {
            assert!((80_000..120_000).contains(&histogram.count()), "{}", histogram.count());
            assert!(histogram.quantile(0.5) <= histogram.quantile(0.999));
        }
        timing.set(false);
        assert_eq!(timing.stamp(), 0);
    }

    #[test]
    fn threads_draw_different_numbers() {
        let mine: Vec<u32> = (0..8).map(|_| draw()).collect();
        let others: Vec<u32> =
            std::thread::scope(|scope| scope.spawn(|| (0..8).map(|_| draw()).collect()).join().unwrap());
        assert_ne!(mine, others);
    }
}
