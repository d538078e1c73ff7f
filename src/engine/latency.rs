//! How long items wait and run: histograms of a shard, off unless somebody wants them.
//!
//! Whoever queues an item that is to be timed leaves a stamp in its header; the worker that runs it takes it out, and
//! records what it measures. Which items, says [`policy::sampling`](crate::policy::sampling). The clock is that of
//! `Instant`: a cheaper one (the processor's counter, through a crate) would save a fifth of what sampling leaves.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use crate::policy::histogram::{BUCKETS, Histogram, Latency, bucket_of};
use crate::policy::sampling::{FIRST_MEAN, Rate, Stamp, mean_after};
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Ordering};

use super::tally::COUNTED;

/// Whether the items of a shard are timed, and what came out.
#[derive(Debug)]
pub(crate) struct Timing {
    /// A [`Rate`].
    rate: AtomicU64,
    /// How long items run in the mean: a hint, which two who write it at once may get a little wrong.
    mean: AtomicU64,
    /// Made when the first item was timed.
    found: OnceLock<Box<Found>>,
}

#[derive(Debug, Default)]
struct Found {
    queue_to_start: Recorder,
    run: Recorder,
}

/// A histogram that many threads write to.
#[derive(Debug)]
struct Recorder {
    counts: Box<[AtomicU64]>,
    total: AtomicU64,
    max: AtomicU64,
}

/// An item that is timed and has begun.
#[derive(Debug)]
pub(super) struct Begun {
    at: Time,
    stamp: Stamp,
}

thread_local! {
    /// What is drawn on this thread; 0 before the first time.
    static RANDOM: Cell<u32> = const { Cell::new(0) };
}

/// The next number that looks random (Marsaglia's xorshift).
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

/// Another one for each thread.
#[cold]
fn seed() -> u32 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    (THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 | 1
}

impl Timing {
    pub(crate) fn new(on: bool) -> Self {
        let timing =
            Self { rate: AtomicU64::new(0), mean: AtomicU64::new(FIRST_MEAN), found: OnceLock::new() };
        timing.set(on);
        timing
    }

    pub(super) fn set(&self, on: bool) {
        let rate = if on { Rate::ALWAYS } else { Rate::Never };
        self.rate.store(rate.into_bits(), Ordering::Relaxed);
    }

    #[inline]
    fn rate(&self) -> Rate {
        Rate::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// An item is being queued: its stamp, or 0.
    #[inline]
    pub(super) fn stamp(&self) -> u64 {
        match self.rate() {
            rate @ Rate::OneOf(_) if COUNTED && rate.draws(draw()) => Self::stamp_now(rate),
            _ => 0,
        }
    }

    #[cold]
    fn stamp_now(rate: Rate) -> u64 {
        Stamp::new(clock::now(), rate).map_or(0, Stamp::into_bits)
    }

    /// An item with this stamp begins.
    #[cold]
    pub(super) fn begins(&self, stamp: u64) -> Option<Begun> {
        let stamp = Stamp::from_bits(stamp).filter(|_| self.rate() != Rate::Never)?;
        let at = clock::now();
        self.found.get_or_init(Box::default).queue_to_start.record(stamp.queued, at, stamp.weight());
        Some(Begun { at, stamp })
    }

    /// It has ended.
    #[cold]
    pub(super) fn ends(&self, begun: &Begun) {
        let now = clock::now();
        self.found.get_or_init(Box::default).run.record(begun.at, now, begun.stamp.weight());
        let mean = mean_after(self.mean.load(Ordering::Relaxed), now.since(begun.at), begun.stamp.weight());
        self.mean.store(mean, Ordering::Relaxed);
        let (known, next) = (self.rate(), Rate::of(Duration::from_nanos(mean)));
        if known != next && known != Rate::Never {
            // It fails if they are switched off, or on, meanwhile.
            let [known, next] = [known, next].map(Rate::into_bits);
            let _changed = self.rate.compare_exchange(known, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// What was measured so far.
    pub(super) fn latency(&self) -> Latency {
        self.found.get().map(|found| found.load()).unwrap_or_default()
    }
}

impl Found {
    fn load(&self) -> Latency {
        Latency { queue_to_start: self.queue_to_start.load(), run: self.run.load() }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            total: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    fn record(&self, from: Time, to: Time, weight: u64) {
        let nanos = to.as_nanos().saturating_sub(from.as_nanos());
        self.total.fetch_add(nanos.saturating_mul(weight), Ordering::Relaxed);
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
        // Last: whoever finds it counted finds no smaller maximum.
        self.counts[bucket_of(nanos)].fetch_add(weight, Ordering::Release);
    }

    fn load(&self) -> Histogram {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let (total, max) = (self.total.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        Histogram::new(counts.into_iter(), total, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: O1.8 (off by default, switched at run time)
    #[test]
    fn nothing_is_stamped_or_made_while_they_are_off() {
        let timing = Timing::new(false);
        assert_eq!(timing.stamp(), 0);
        timing.set(true);
        let stamp = timing.stamp();
        assert_ne!(stamp, 0, "at first, each item");
        timing.set(false);
        assert!(timing.begins(stamp).is_none(), "it was stamped before");
        assert!(timing.found.get().is_none());
        assert_eq!(timing.latency(), Latency::default());
    }

    /// spec: O1.10 (sampled for short items)
    #[test]
    fn short_items_are_timed_more_rarely_and_count_for_more() {
        let timing = Timing::new(true);
        let mut timed = 0;
        for _ in 0..100_000 {
            let stamp = timing.stamp();
            if stamp != 0 {
                let begun = timing.begins(stamp).unwrap();
                timing.ends(&begun);
                timed += 1;
            }
        }
        let latency = timing.latency();
        assert!(timed < 50_000, "{timed} items");
        for histogram in [&latency.queue_to_start, &latency.run] {
            assert!((80_000..120_000).contains(&histogram.count()), "{}", histogram.count());
            assert!(histogram.quantile(0.5) <= histogram.quantile(0.999));
        }
        timing.set(false);
        assert_eq!(timing.stamp(), 0);
    }

    #[test]
    fn threads_draw_other_numbers() {
        let mine: Vec<u32> = (0..8).map(|_| draw()).collect();
        let others: Vec<u32> =
            std::thread::scope(|scope| scope.spawn(|| (0..8).map(|_| draw()).collect()).join().unwrap());
        assert_ne!(mine, others);
    }
}
