//! Durations, counted by size.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::time::Duration;

/// How long the items of a queue have waited, and run.
///
/// Short items are sampled: each that is counted stands for several.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Latency {
    /// From queueing to the beginning of the run.
    pub queue_to_start: Histogram,
    /// From the beginning of the run to its end.
    pub run: Histogram,
}

/// Durations, counted by size.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Histogram {
    /// From, to and how many, of those that hold any; in nanoseconds, ascending.
    buckets: Vec<(u64, u64, u64)>,
}

impl Histogram {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, _, count)| count).sum()
    }

    /// The classes of durations that hold any, shortest first, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> + '_ {
        let range = |from, to| Duration::from_nanos(from)..Duration::from_nanos(to);
        self.buckets.iter().map(move |&(from, to, count)| (range(from, to), count))
    }

    /// As long as this or shorter are so many of them, from 0 to 1. Zero if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut so_far = 0;
        let found = self.buckets.iter().find(|(_, _, count)| {
            so_far += count;
            so_far >= wanted.max(1)
        });
        Duration::from_nanos(found.map_or(0, |(_, to, _)| *to))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.buckets.last().map_or(0, |(_, to, _)| *to))
    }
}
