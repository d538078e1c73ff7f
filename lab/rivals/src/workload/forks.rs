use std::hint::black_box;

use super::{empty, forever, items, of_each};
use crate::bed::Bed;
use crate::load::work;
use crate::rival::Rival;

const LEAVES: usize = 1 << 18;
/// The steps of an item, which take about 100 ns together.
const STEPS: u32 = 210;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let leaves = items::<R>(bed, LEAVES);
    let seconds = bed.repeat(|| {
        let sum = rival.join(move || divide::<R>(0, leaves as u64));
        assert_eq!(sum, leaves as u64, "each leaf counts itself");
    });
    of_each(bed, leaves, &seconds)
}

fn divide<R: Rival>(from: u64, to: u64) -> u64 {
    if to - from <= 1 {
        black_box(work(STEPS, from));
        return to - from;
    }
    let middle = from + (to - from) / 2;
    let (left, right) = R::both(|| divide::<R>(from, middle), || divide::<R>(middle, to));
    left + right
}
