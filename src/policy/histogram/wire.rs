//! The serialised form of a histogram. The serialised form states the range of each bucket, so it does not depend on
//! how this version of the crate divides durations into buckets.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Histogram, bucket_of, range_of};

/// The serialised form, in which all durations are in nanoseconds.
#[derive(Serialize, Deserialize)]
pub(super) struct Wire {
    total_ns: u64,
    max_ns: u64,
    /// Each bucket that is not empty, in order: the first duration of its range, the end of its range (exclusive), and
    /// its count.
    buckets: Vec<(u64, u64, u64)>,
}

impl From<Histogram> for Wire {
    fn from(histogram: Histogram) -> Self {
        let bucket = |(bucket, count): &(u16, u64)| {
            let range = range_of(usize::from(*bucket));
            (range.start, range.end, *count)
        };
        Self {
            total_ns: histogram.total,
            max_ns: histogram.max,
            buckets: histogram.buckets.iter().map(bucket).collect(),
        }
    }
}

impl From<Wire> for Histogram {
    /// The sender's version of the crate may divide durations into other buckets. So each received count is added to
    /// the bucket that contains the first duration of the received range. The sum of all counts saturates.
    fn from(wire: Wire) -> Self {
        let (mut buckets, mut left) = (BTreeMap::<u16, u64>::new(), u64::MAX);
        for (from, _, count) in wire.buckets.into_iter().filter(|(.., count)| *count > 0) {
            let count = count.min(left);
            left -= count;
            *buckets.entry(bucket_of(from) as u16).or_default() += count;
        }
        Self { buckets: buckets.into_iter().collect(), total: wire.total_ns, max: wire.max_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: O2: a histogram that is serialised and read again is the same as before.
    #[test]
    fn a_histogram_comes_back_as_it_was() {
        let counts = |bucket| [0, 1, 0, 7][bucket % 4];
        let histogram = Histogram::new((0..super::super::BUCKETS).map(counts), 123, 456);
        let text = serde_json::to_string(&histogram).unwrap();
        let begin = r#"{"total_ns":123,"max_ns":456,"buckets":[[1,2,1],[3,4,7],[5,6,1],"#;
        assert!(text.starts_with(begin), "{text}");
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }

    /// It does no harm if the order, the ranges or the counts of received buckets make no sense.
    #[test]
    fn odd_buckets_are_put_in_order() {
        let text = r#"{"total_ns":0,"max_ns":9,"buckets":[[18446744073709551615,0,3],[5,6,1],[5,9,18446744073709551615],[2,3,0]]}"#;
        let histogram: Histogram = serde_json::from_str(text).unwrap();
        let starts: Vec<_> =
            histogram.buckets().map(|(range, count)| (range.start.as_nanos() as u64, count)).collect();
        assert_eq!(starts[0], (5, u64::MAX - 3));
        assert_eq!((starts.len(), histogram.count()), (2, u64::MAX));
    }
}
