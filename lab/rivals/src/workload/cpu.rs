use std::time::Duration;

use super::{cpus, forever};
use crate::bed::Bed;
use crate::load::{Latch, burn};
use crate::rival::Rival;

const ITEMS: usize = 4000;
pub(super) const BURN: Duration = Duration::from_micros(500);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    of_items(bed, ITEMS, |rival: &R, _number, latch| {
        rival.spawn(move || {
            burn(BURN);
            latch.count_down();
        });
    })
}

/// Returns the time from the first call until all items have ended, and its ratio to the ideal time. The ideal time is
/// the CPU time of all items divided by the number of CPUs.
pub(super) fn of_items<R: Rival>(
    bed: &Bed,
    full: usize,
    spawn: impl Fn(&R, usize, &'static Latch),
) -> Vec<f64> {
    let rival = forever::<R>(None);
    let count = bed.count(full);
    let latch = Latch::new(count);
    let time = bed.watch(|| {
        (0..count).for_each(|number| spawn(rival, number, latch));
        latch.wait();
    });
    let ideal = BURN.as_secs_f64() * count as f64 / cpus() as f64;
    vec![time.as_secs_f64(), time.as_secs_f64() / ideal]
}
