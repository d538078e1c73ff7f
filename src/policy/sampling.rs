//! Decides which items are timed.
//!
//! Timing an item requires three readings of the clock, which take longer than a short item. So only some of the short
//! items are timed, and each timed item stands for several items. The number of items for which a timed item stands is
//! its *weight*. The timed items are drawn at random, so that no pattern of items is missed or favoured. The weight of
//! an item is fixed before the item's run time is known, so sums are right on average for any mix of items.
//!
//! The *rate* (the fraction of items that are timed) follows from the mean run time of items, because timing must cost
//! little in comparison with this mean. The rate does not follow from the last item alone, because a single long item
//! at the end of a burst says nothing about the next burst.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// If items run for at least this long on average, all items are timed. Timing all items costs a few per cent of their
/// run time.
const LONG: Duration = Duration::from_micros(4);
/// The approximate number of past items that determine the mean.
const MEMORY: u64 = 256;
/// The binary logarithm of the greatest weight.
const RAREST: u32 = 5;

/// The fraction of items that are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    Never,
    /// One of `1 << n` items is timed on average. `n` is at most [`RAREST`].
    OneOf(u32),
}

impl Rate {
    /// The rate at which every item is timed.
    pub(crate) const ALWAYS: Self = Self::OneOf(0);

    /// Returns the rate for items with this mean run time.
    pub(crate) fn of(mean: Duration) -> Self {
        let times = LONG.as_nanos() / mean.as_nanos().max(1);
        Self::OneOf((times + 1).next_power_of_two().trailing_zeros().saturating_sub(1).min(RAREST))
    }

    /// Returns whether an item is timed if this random number was drawn for it.
    #[inline]
    pub(crate) const fn draws(self, random: u32) -> bool {
        match self {
            Self::Never => false,
            Self::OneOf(power) => random & ((1 << power) - 1) == 0,
        }
    }

    #[inline]
    pub(crate) const fn into_bits(self) -> u64 {
        match self {
            Self::Never => 0,
            Self::OneOf(power) => power as u64 + 1,
        }
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Never,
            bits => Self::OneOf(bits as u32 - 1),
        }
    }
}

/// The assumed mean run time, in nanoseconds, before any item has been timed.
pub(crate) const FIRST_MEAN: u64 = LONG.as_nanos() as u64;

/// Returns the mean run time after one more timed item, which stands for `weight` items.
pub(crate) fn mean_after(mean: u64, run: Duration, weight: u64) -> u64 {
    // A run counts as an hour at most, so that the sum does not overflow.
    let run = run.min(Duration::from_secs(3600)).as_nanos() as u64;
    let weight = weight.min(MEMORY);
    (mean * (MEMORY - weight) + run * weight) / MEMORY
}

/// The time at which a timed item was queued, and the number of items for which it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) queued: Time,
    /// The binary logarithm of the weight.
    power: u32,
}

impl Stamp {
    /// Makes a stamp. Returns `None` if items are not timed at all.
    pub(crate) fn new(queued: Time, rate: Rate) -> Option<Self> {
        match rate {
            Rate::Never => None,
            Rate::OneOf(power) => Some(Self { queued, power }),
        }
    }

    pub(crate) const fn weight(self) -> u64 {
        1 << self.power
    }

    /// Returns the stamp as a word, which is never 0. The three lowest bits of the word hold the weight.
    pub(crate) const fn into_bits(self) -> u64 {
        self.queued.as_nanos() << 3 | (self.power as u64 + 1)
    }

    /// Reads a stamp from a word. Returns `None` for the word 0, which means that the item is not timed.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match bits & 0b111 {
            0 => None,
            power => Some(Self { queued: Time::from_nanos(bits >> 3), power: power as u32 - 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::histogram::{BUCKETS, Histogram, bucket_of};
    use proptest::prelude::*;

    /// spec: O1.10: the shorter items are, the fewer of them are timed, but at least one in 32.
    #[test]
    fn fewer_items_are_timed_the_shorter_they_are() {
        let nanos = Duration::from_nanos;
        for (run, one_of) in [
            (nanos(0), 32),
            (nanos(60), 32),
            (nanos(126), 16),
            (nanos(600), 4),
            (nanos(1_400), 2),
            (nanos(2_100), 1),
            (nanos(4_000), 1),
            (Duration::from_secs(3600), 1),
        ] {
            let Rate::OneOf(power) = Rate::of(run) else { panic!("some items are always timed") };
            assert_eq!(1 << power, one_of, "{run:?}");
        }
    }

    /// A burst begins at the rate that was set after the last timed item of the previous burst.
    #[test]
    fn a_long_item_at_the_end_of_a_burst_leaves_the_rate_low() {
        let nanos = Duration::from_nanos;
        let mut mean = FIRST_MEAN;
        for _ in 0..4 {
            (0..500).for_each(|_| mean = mean_after(mean, nanos(60), 1));
            mean = mean_after(mean, nanos(10_000), 1);
        }
        assert_eq!(Rate::of(nanos(mean)), Rate::OneOf(RAREST), "a mean of {mean} ns");
        (0..3).for_each(|_| mean = mean_after(mean, Duration::from_millis(1), 32));
        assert_eq!(Rate::of(nanos(mean)), Rate::ALWAYS, "all items are timed if many are long");
        assert!(mean_after(u64::MAX >> 9, Duration::MAX, 1 << RAREST) > 0);
    }

    #[test]
    fn rates_and_stamps_fit_in_a_word() {
        for rate in [Rate::Never].into_iter().chain((0..=RAREST).map(Rate::OneOf)) {
            assert_eq!(Rate::from_bits(rate.into_bits()), rate);
            let now = Time::from_nanos(1 << 60);
            let stamp = Stamp::new(now, rate);
            assert_eq!(stamp.map_or(0, Stamp::into_bits) & 0b111, rate.into_bits());
            assert_eq!(stamp.and_then(|stamp| Stamp::from_bits(stamp.into_bits())), stamp);
        }
        assert_eq!(Stamp::from_bits(0), None);
        assert!(Rate::ALWAYS.draws(7) && !Rate::Never.draws(0));
    }

    /// Times a queue of items, of which `long_of_100` per cent are long, and returns the histogram. All items in a
    /// group of `run_length` successive items are equally long.
    fn timed(long_of_100: u32, run_length: u32, items: u32, mut random: u64) -> Histogram {
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as u32
        };
        let (mut rate, mut mean, mut counts) = (Rate::ALWAYS, FIRST_MEAN, vec![0; BUCKETS]);
        let mut nanos = 0;
        for item in 0..items {
            if item % run_length == 0 {
                nanos = if draw() % 100 < long_of_100 { 1_000_000 } else { 100 };
            }
            if let Some(stamp) = Stamp::new(Time::default(), rate).filter(|_| rate.draws(draw())) {
                counts[bucket_of(nanos)] += stamp.weight();
                mean = mean_after(mean, Duration::from_nanos(nanos), stamp.weight());
                rate = Rate::of(Duration::from_nanos(mean));
            }
        }
        Histogram::new(counts.into_iter(), 0, 1_000_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// spec: O1.10: the sample represents all items in every mix of short and long items.
        #[test]
        fn sampling_favours_no_items(long in 5_u32..95, run_length in 1_u32..20, seed in 1_u64..) {
            let items = 200_000;
            let found = timed(long, run_length, items, seed);
            let share = |histogram: &Histogram| {
                let long: u64 = histogram.buckets().skip(1).map(|(_, count)| count).sum();
                long as f64 / histogram.count() as f64
            };
            let all = f64::from(items);
            prop_assert!((found.count() as f64 - all).abs() < 0.1 * all, "{} of {items}", found.count());
            let expected = f64::from(long) / 100.0;
            prop_assert!((share(&found) - expected).abs() < 0.06, "{} of {expected}", share(&found));
        }
    }
}
