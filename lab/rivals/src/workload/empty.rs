use super::{forever, items, of_each};
use crate::bed::{Bed, issue};
use crate::load::{Latch, no_op};
use crate::rival::Rival;

const ITEMS: usize = 100_000;

pub(super) fn run<R: Rival>(bed: &Bed, producers: usize) -> Vec<f64> {
    let rival = forever::<R>(None);
    warm_up(rival, items::<R>(bed, ITEMS / 10));
    let each = items::<R>(bed, ITEMS) / producers;
    let latch = Latch::new(0);
    let produce = |_| (0..each).for_each(|seed| rival.spawn(no_op(seed as u64, latch)));
    let seconds = issue(bed, producers, || latch.reset(each * producers), produce, || latch.wait());
    of_each(bed, each * producers, &seconds)
}

/// Runs items before the measurement, so that threads and memory exist.
pub(super) fn warm_up<R: Rival>(rival: &R, count: usize) {
    warm_up_by(count, |seed, latch| rival.spawn(no_op(seed, latch)));
}

/// Runs items before the measurement that `spawn` queues in its own way. `spawn` gets the number of each item, and the
/// latch that the item counts down.
pub(super) fn warm_up_by(count: usize, spawn: impl Fn(u64, &'static Latch)) {
    let latch = Latch::new(count);
    (0..count as u64).for_each(|seed| spawn(seed, latch));
    latch.wait();
}
