//! A histogram is serialised with what its buckets hold, and not by their numbers, which nobody else knows.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{Histogram, bucket_of, range_of};

/// The form. All times are in nanoseconds.
#[derive(Serialize, Deserialize)]
pub(super) struct Form {
    total_ns: u64,
    max_ns: u64,
    /// From, up to, and how many; those that are empty are left out.
    buckets: Vec<(u64, u64, u64)>,
}

impl From<Histogram> for Form {
    fn from(histogram: Histogram) -> Self {
        let bucket = |&(bucket, count): &(u16, u64)| {
            let range = range_of(usize::from(bucket));
            (range.start, range.end, count)
        };
        Self {
            total_ns: histogram.total,
            max_ns: histogram.max,
            buckets: histogram.buckets.iter().map(bucket).collect(),
        }
    }
}

impl From<Form> for Histogram {
    /// Other buckets than ours, of another release, are taken for those in which they begin.
    fn from(form: Form) -> Self {
        let mut buckets: Vec<(u16, u64)> = Vec::new();
        for (from, _, count) in form.buckets {
            let bucket = bucket_of(from) as u16;
            match buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                Ok(at) => buckets[at].1 = buckets[at].1.saturating_add(count),
                Err(at) => buckets.insert(at, (bucket, count)),
            }
        }
        Self { buckets, total: form.total_ns, max: form.max_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: O2 (both serialise)
    #[test]
    fn a_histogram_has_its_form_and_comes_back_as_it_was() {
        let histogram = Histogram { buckets: vec![(5, 2), (40, 1)], total: 60, max: 49 };
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(text, r#"{"total_ns":60,"max_ns":49,"buckets":[[5,6,2],[48,50,1]]}"#);
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        let other = r#"{"total_ns":1,"max_ns":9,"buckets":[[48,64,3],[49,50,18446744073709551615],[0,1,1]]}"#;
        let other: Histogram = serde_json::from_str(other).unwrap();
        assert_eq!(other.buckets, [(0, 1), (40, u64::MAX)], "in order, and no overflow");
    }
}
