//! Which items are timed.
//!
//! To time an item takes the clock three times, which is more than a short item takes. So of short ones only some are
//! timed, each of which stands for as many as its *weight*. Which ones is drawn, so that no pattern of items is missed or
//! favoured; and the weight is known before the item is, so that sums are right on average, whatever comes.
//!
//! How many, follows from how long items run in the *mean*, which is what the cost is compared with. A single long item at
//! the end of a burst says nothing of the next burst.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// Items that run for so long are all timed: that costs a few per cent of them.
const LONG: Duration = Duration::from_micros(4);
/// The mean goes back over about so many items.
const MEMORY: u64 = 256;
/// The greatest weight, as a power of two.
const RAREST: u32 = 5;

/// How often items are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    Never,
    /// One of so many, on average; a power of two. At most [`RAREST`].
    OneOf(u32),
}

impl Rate {
    /// Each one.
    pub(crate) const ALWAYS: Self = Self::OneOf(0);

    /// Of items that run for so long in the mean.
    pub(crate) fn of(mean: Duration) -> Self {
        let times = LONG.as_nanos() / mean.as_nanos().max(1);
        Self::OneOf((times + 1).next_power_of_two().trailing_zeros().saturating_sub(1).min(RAREST))
    }

    /// Is an item timed for which this was drawn?
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

/// How long items run in the mean, in nanoseconds, before any was timed.
pub(crate) const FIRST_MEAN: u64 = LONG.as_nanos() as u64;

/// The same after one more that stands for so many.
pub(crate) fn mean_after(mean: u64, run: Duration, weight: u64) -> u64 {
    // An hour, so that nothing overflows.
    let run = run.min(Duration::from_secs(3600)).as_nanos() as u64;
    let weight = weight.min(MEMORY);
    (mean * (MEMORY - weight) + run * weight) / MEMORY
}

/// When an item was queued that is timed, and for how many it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) queued: Time,
    /// As a power of two.
    power: u32,
}

impl Stamp {
    /// `None` if items are not timed at all.
    pub(crate) fn new(queued: Time, rate: Rate) -> Option<Self> {
        match rate {
            Rate::Never => None,
            Rate::OneOf(power) => Some(Self { queued, power }),
        }
    }

    pub(crate) const fn weight(self) -> u64 {
        1 << self.power
    }

    /// Never 0. The three lowest bits say the weight.
    pub(crate) const fn into_bits(self) -> u64 {
        self.queued.as_nanos() << 3 | (self.power as u64 + 1)
    }

    /// `None` of 0: it is not timed.
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

    /// spec: O1.10 (sampled for short items)
    #[test]
    fn the_shorter_items_are_the_fewer_are_timed() {
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
            let Rate::OneOf(power) = Rate::of(run) else { panic!("always some") };
            assert_eq!(1 << power, one_of, "{run:?}");
        }
    }

    /// Bursts are queued at the rate that the last timed item of the one before has left.
    #[test]
    fn a_long_item_at_the_end_of_a_burst_does_not_make_the_next_one_dear() {
        let nanos = Duration::from_nanos;
        let mut mean = FIRST_MEAN;
        for _ in 0..4 {
            (0..500).for_each(|_| mean = mean_after(mean, nanos(60), 1));
            mean = mean_after(mean, nanos(10_000), 1);
        }
        assert_eq!(Rate::of(nanos(mean)), Rate::OneOf(RAREST), "a mean of {mean} ns");
        (0..3).for_each(|_| mean = mean_after(mean, Duration::from_millis(1), 32));
        assert_eq!(Rate::of(nanos(mean)), Rate::ALWAYS, "where many are long, all are timed");
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

    /// A queue of items of which so many of a hundred are long, in runs or well mixed. Returns what sampling makes of it.
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

        /// spec: O1.10: what is sampled stands for all, whatever the mix is.
        #[test]
        fn sampling_favours_nobody(long in 5_u32..95, run_length in 1_u32..20, seed in 1_u64..) {
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
