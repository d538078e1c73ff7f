use super::{empty, forever, items, of_each};
use crate::bed::Bed;
use crate::load::{Latch, no_op};
use crate::rival::Rival;

const ITEMS: usize = 100_000;
const BATCH: usize = 1000;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, items::<R>(bed, ITEMS / 10));
    let batches = items::<R>(bed, ITEMS).div_ceil(BATCH);
    let latch = Latch::new(0);
    let seconds = bed.repeat(|| {
        latch.reset(batches * BATCH);
        for _ in 0..batches {
            rival.batch((0..BATCH as u64).map(|seed| no_op(seed, latch)));
        }
        latch.wait();
    });
    of_each(bed, batches * BATCH, &seconds)
}
