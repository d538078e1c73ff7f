use std::time::Instant;

use super::{empty, forever, items, percentiles};
use crate::bed::Bed;
use crate::load::of_32_bytes;
use crate::rival::Rival;

const ITEMS: usize = 10_000;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let mut seconds = Vec::with_capacity(ITEMS);
    bed.watch(|| {
        for seed in 0..items::<R>(bed, ITEMS) as u64 {
            let captured = [seed; 4];
            let begin = Instant::now();
            let value = rival.join(of_32_bytes(move || captured.iter().sum()));
            seconds.push(begin.elapsed().as_secs_f64());
            assert_eq!(value, 4 * seed, "the item's value came back");
        }
    });
    percentiles(seconds, &[50, 99])
}
