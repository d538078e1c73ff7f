use std::thread;
use std::time::Duration;

use super::{Starts, cpus, empty, forever, percentiles};
use crate::bed::Bed;
use crate::load::{Latch, burn, no_op, of_32_bytes};
use crate::rival::Rival;

/// For each CPU: they last for longer than urgent ones come.
const BACKLOG: usize = 2000;
const BURN: Duration = Duration::from_micros(500);
const URGENT: usize = 300;
const PAUSE: Duration = Duration::from_millis(3);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    empty::warm_up_by(100, |seed, latch| rival.spawn_urgent(no_op(seed, latch)));
    let (backlog, count) = (bed.count(BACKLOG * cpus()), bed.count(URGENT));
    let (starts, all) = (Starts::new(count), Latch::new(backlog + count));
    bed.watch(|| {
        for _ in 0..backlog {
            rival.spawn(move || {
                burn(BURN);
                all.count_down();
            });
        }
        for number in 0..count {
            thread::sleep(PAUSE);
            let queued = starts.now();
            rival.spawn_urgent(of_32_bytes(move || {
                starts.begin(number, queued);
                all.count_down();
            }));
        }
        all.wait();
    });
    percentiles(starts.lateness(), &[99, 50, 100])
}
