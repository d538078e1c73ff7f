//! A histogram of durations. The longer the durations in a bucket are, the wider the bucket is.
//!
//! There are sixteen buckets for each power of two, so the middle of a bucket differs from each duration in the bucket
//! by at most a thirtieth. Below 32 ns, every nanosecond has its own bucket. The last bucket also contains all
//! durations above 18 minutes.

#![forbid(unsafe_code)]

use std::iter::Sum;
use std::ops::{AddAssign, Range};
use std::time::Duration;

/// The binary logarithm of the number of buckets for each power of two.
const GROUP: u32 = 4;
/// The binary logarithm of the end of the last bucket's range, in nanoseconds. 2^40 ns are 18 minutes. Longer durations
/// also go into the last bucket.
const LONGEST: u32 = 40;
/// The number of buckets.
pub(crate) const BUCKETS: usize = ((LONGEST - GROUP + 1) as usize) << GROUP;

/// Returns the bucket of a duration in nanoseconds.
#[inline]
pub(crate) const fn bucket_of(nanos: u64) -> usize {
    if nanos < 1 << GROUP {
        return nanos as usize;
    }
    if nanos >= 1 << LONGEST {
        return BUCKETS - 1;
    }
    let shift = nanos.ilog2() - GROUP;
    ((shift as usize) << GROUP) + (nanos >> shift) as usize
}

/// Returns the range of the durations in a bucket, in nanoseconds.
const fn range_of(bucket: usize) -> Range<u64> {
    if bucket < 1 << GROUP {
        return bucket as u64..bucket as u64 + 1;
    }
    let shift = (bucket >> GROUP) as u32 - 1;
    let first = (bucket as u64 - ((shift as u64) << GROUP)) << shift;
    first..first + (1 << shift)
}

/// Measured durations, counted in buckets. If items are short, only a sample of them is measured (see
/// [`WorkQueue::latency`](crate::WorkQueue::latency)).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::builder("thumbnails").histograms(true).build()?;
/// queue.spawn(|| cmwq::blocking(|| std::thread::sleep(Duration::from_millis(2))))?.join()?;
/// queue.flush()?;
/// let run = queue.latency().expect("they are on").run;
/// assert_eq!(run.count(), 1);
/// assert!(run.quantile(0.99) >= Duration::from_millis(2));
/// assert!(run.quantile(0.5) <= run.max());
/// assert!(!run.is_empty() && run.mean() == run.total());
/// for (times, items) in run.buckets() {
///     println!("{items} items took {times:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "wire::Wire", into = "wire::Wire")
)]
pub struct Histogram {
    /// The buckets that are not empty, in order, each with its count.
    buckets: Vec<(u16, u64)>,
    /// The sum of all durations, in nanoseconds.
    total: u64,
    /// The longest duration, in nanoseconds.
    max: u64,
}

/// The times for which the items of a queue waited and ran.
///
/// [`WorkQueue::latency`](crate::WorkQueue::latency) returns this value.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Latency {
    /// The time from the submission until a worker began the item.
    pub queue_to_start: Histogram,
    /// The time from the beginning of the item's run until the item returned.
    pub run: Histogram,
}

impl Histogram {
    /// Makes a histogram from the count of each bucket, the sum of all durations, and the longest duration.
    pub(crate) fn new(counts: impl Iterator<Item = u64>, total: u64, max: u64) -> Self {
        let buckets = counts.enumerate().filter(|(_, count)| *count > 0);
        Self { buckets: buckets.map(|(bucket, count)| (bucket as u16, count)).collect(), total, max }
    }

    /// Returns the number of items. A timed item counts several times if it stands for items that the sample left out.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns whether no item has been timed so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the duration that the given fraction of the items did not exceed, with an error of at most 3.2 %.
    /// Returns zero if no item was timed.
    ///
    /// `part` is the fraction, from 0 to 1. A value below 0 counts as 0, and a value above 1 counts as 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let count = self.count();
        // If `part` is not a number, the rank is 1.
        let rank = ((part * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        let nanos = match found {
            None => 0,
            Some((bucket, _)) if usize::from(*bucket) == BUCKETS - 1 => self.max,
            Some((bucket, _)) => {
                let range = range_of(usize::from(*bucket));
                (range.start + (range.end - range.start) / 2).min(self.max)
            }
        };
        Duration::from_nanos(nanos)
    }

    /// Returns the longest duration that was measured. This value is exact, but items outside the sample may have taken
    /// longer.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the mean duration, or zero if no item was timed.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.total.checked_div(self.count()).unwrap_or(0))
    }

    /// Returns the sum of all durations.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total)
    }

    /// Returns each bucket that is not empty, as a range of durations and a number of items. The bucket with the
    /// shortest durations comes first. Items that took longer than 18 minutes are in the last bucket of all. If there
    /// are such items, the end of that bucket's range is no upper bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> + '_ {
        self.buckets.iter().map(|(bucket, count)| {
            let range = range_of(usize::from(*bucket));
            (Duration::from_nanos(range.start)..Duration::from_nanos(range.end), *count)
        })
    }
}

impl AddAssign<&Self> for Histogram {
    /// The sum of all counts saturates, because a histogram that was received may contain any counts.
    fn add_assign(&mut self, other: &Self) {
        let mut left = u64::MAX - self.count();
        for (bucket, count) in &other.buckets {
            let count = (*count).min(left);
            left -= count;
            if count == 0 {
                break;
            }
            match self.buckets.binary_search_by_key(bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) => self.buckets.insert(at, (*bucket, count)),
            }
        }
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
    }
}

impl AddAssign<&Self> for Latency {
    fn add_assign(&mut self, other: &Self) {
        self.queue_to_start += &other.queue_to_start;
        self.run += &other.run;
    }
}

impl Sum for Latency {
    fn sum<I: Iterator<Item = Self>>(latencies: I) -> Self {
        latencies.fold(Self::default(), |mut sum, latency| {
            sum += &latency;
            sum
        })
    }
}

#[cfg(feature = "serde")]
mod wire;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(nanos: &[u64]) -> Histogram {
        let mut counts = vec![0; BUCKETS];
        nanos.iter().for_each(|nanos| counts[bucket_of(*nanos)] += 1);
        let max = nanos.iter().copied().max().unwrap_or(0);
        Histogram::new(counts.into_iter(), nanos.iter().sum(), max)
    }

    /// spec: O1.9: the buckets are adjacent. From 16 ns on, a bucket is at most a sixteenth as wide as its shortest
    /// duration.
    #[test]
    fn buckets_are_adjacent_and_grow_with_their_durations() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let range = range_of(bucket);
            assert_eq!(range.start, next, "bucket {bucket}");
            assert_eq!((bucket_of(range.start), bucket_of(range.end - 1)), (bucket, bucket));
            assert!((range.end - range.start) * 16 <= range.start.max(16), "bucket {bucket}: {range:?}");
            next = range.end;
        }
        assert_eq!(next, 1 << LONGEST);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// spec: O1.9 (p50, p99, p99.9, max)
    #[test]
    fn quantiles_of_few() {
        let nanos = Duration::from_nanos;
        let none = Histogram::default();
        assert!(none.is_empty());
        assert_eq!((none.quantile(0.5), none.max(), none.mean()), (nanos(0), nanos(0), nanos(0)));
        let few = of(&[1, 2, 3, 10]);
        for (part, expected) in
            [(0.0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.99, 10), (1.0, 10), (7.0, 10), (-1.0, 1)]
        {
            assert_eq!(few.quantile(part), nanos(expected), "{part}");
        }
        assert_eq!(few.quantile(f64::NAN), nanos(1));
        assert_eq!((few.count(), few.max(), few.mean(), few.total()), (4, nanos(10), nanos(4), nanos(16)));
        let found: Vec<_> = few.buckets().collect();
        assert_eq!(found[3], (nanos(10)..nanos(11), 1));
        let long = of(&[1 << 50]);
        assert_eq!(long.quantile(0.5), nanos(1 << 50), "the last bucket has no middle");
    }

    /// spec: O1.9: a sum of histograms saturates, because a histogram that was received may have any counts.
    #[test]
    fn a_sum_of_histograms_saturates() {
        let many = |bucket| Histogram { buckets: vec![(bucket, u64::MAX - 1)], total: u64::MAX, max: 1 };
        let mut sum = many(1);
        sum += &many(1);
        assert_eq!(sum.count(), u64::MAX);
        let mut sum = many(1);
        sum += &many(2);
        assert_eq!((sum.count(), sum.total()), (u64::MAX, Duration::from_nanos(u64::MAX)));
    }

    proptest! {
        /// spec: O1.9 (p50, p99, p99.9, max): the quantiles agree with a sorted list.
        #[test]
        fn quantiles_are_a_few_per_cent_off_at_most(
            mut nanos in prop::collection::vec((0_u32..40, any::<u64>()), 1..300),
            part in 0.0..=1.0,
        ) {
            // The generated durations have all magnitudes with equal probability.
            let mut nanos: Vec<u64> = nanos.drain(..).map(|(bits, any)| any & ((1 << bits) - 1)).collect();
            let histogram = of(&nanos);
            nanos.sort_unstable();
            for part in [part, 0.5, 0.99, 0.999, 1.0] {
                let rank = ((part * nanos.len() as f64).ceil() as usize).max(1);
                let (exact, found) = (nanos[rank - 1], histogram.quantile(part).as_nanos() as u64);
                prop_assert!(found.abs_diff(exact) * 31 <= exact, "{part}: {found} is not {exact}");
            }
            prop_assert_eq!(histogram.max().as_nanos() as u64, nanos[nanos.len() - 1]);
            prop_assert_eq!(histogram.count(), nanos.len() as u64);
        }

        #[test]
        fn a_sum_equals_one_histogram_of_all_durations(
            one in prop::collection::vec(0_u64..1 << 41, 0..50),
            other in prop::collection::vec(0_u64..1 << 41, 0..50),
        ) {
            let mut sum = of(&one);
            sum += &of(&other);
            prop_assert_eq!(sum, of(&[one, other].concat()));
        }
    }
}
