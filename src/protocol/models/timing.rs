//! Models of [`RateCell`](crate::protocol::timing::RateCell) and [`Recorder`](crate::protocol::timing::Recorder):
//! timing is switched off while a worker adapts the rate, and a reader loads a histogram while workers write to it.
//!
//! The documentation of the cells explains what could go wrong. If a worker counted an item before it raised the sum
//! and the maximum, the following could happen:
//!
//! * worker: counts the item;
//! * reader: loads the counts, the sum and the maximum;
//! * worker: raises the sum and the maximum. Then the reader sees an item that is longer than the maximum, and a sum
//!   that is too small for the number of items.
//!
//! Red under: `rate-in-two-steps`, `recorder-counts-first`, `recorder-counts-without-release`,
//! `recorder-loads-without-acquire`.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::{check, check_all};
use crate::policy::histogram::Histogram;
use crate::policy::sampling::Rate;
use crate::protocol::timing::{RateCell, Recorder};

/// spec: O1.8 (timing is switched at run time)
#[test]
fn timing_that_is_switched_off_stays_off() {
    check_all(|| {
        let rate = Arc::new(RateCell::new(true));
        let workers = [1, 3].map(|power| {
            let rate = rate.clone();
            thread::spawn(move || rate.adapt(Rate::OneOf(power)))
        });
        rate.switch(false);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(rate.load(), Rate::Never);
        rate.adapt(Rate::ALWAYS);
        assert_eq!(rate.load(), Rate::Never);
    });
}

/// Checks that the sum includes the counted items, and that no counted item is longer than the maximum. In this model,
/// each bucket stands for one duration.
fn assert_consistent(histogram: &Histogram) {
    let counted: u64 = histogram.buckets().map(|(time, count)| time.start.as_nanos() as u64 * count).sum();
    assert!(histogram.total() >= Duration::from_nanos(counted), "{histogram:?}");
    assert!(histogram.buckets().all(|(time, _)| time.start <= histogram.max()), "{histogram:?}");
}

/// spec: O1.8 (histograms)
#[test]
fn a_counted_item_is_in_the_sum_and_not_above_the_maximum() {
    check(3, || {
        let recorder = Arc::new(Recorder::new(3));
        let workers = [(1, 4), (2, 1)].map(|(nanos, weight)| {
            let recorder = recorder.clone();
            thread::spawn(move || recorder.record(nanos, weight))
        });
        assert_consistent(&recorder.load());
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let last = recorder.load();
        assert_consistent(&last);
        assert_eq!(
            (last.count(), last.total(), last.max()),
            (5, Duration::from_nanos(6), Duration::from_nanos(2))
        );
    });
}
