use std::thread;
use std::time::Duration;

use super::{Starts, empty, forever, percentiles};
use crate::bed::Bed;
use crate::load::{Latch, of_32_bytes};
use crate::rival::Rival;

const ITEMS: usize = 700;
/// The pause before each item, after which all threads sleep.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let count = bed.count(ITEMS);
    let (starts, latch) = (Starts::new(count), Latch::new(0));
    bed.watch(|| {
        for number in 0..count {
            thread::sleep(PAUSE);
            latch.reset(1);
            let queued = starts.now();
            rival.spawn(of_32_bytes(move || {
                starts.begin(number, queued);
                latch.count_down();
            }));
            latch.wait();
        }
    });
    percentiles(starts.lateness(), &[50, 99])
}
