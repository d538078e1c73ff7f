use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::{Starts, cpus, empty, forever, percentiles};
use crate::bed::Bed;
use crate::load::{Latch, burn, no_op, of_32_bytes};
use crate::rival::Rival;

const ITEMS: usize = 400;
const PAUSE: Duration = Duration::from_millis(3);
const HOG: Duration = Duration::from_millis(50);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    empty::warm_up_by(100, |seed, latch| rival.spawn_long(no_op(seed, latch)));
    let count = bed.count(ITEMS);
    let hogs = 2 * cpus();
    let (starts, all) = (Starts::new(count), Latch::new(count + hogs));
    let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    bed.watch(|| {
        (0..hogs).for_each(|_| rival.spawn_long(move || hog(rival, stop, all)));
        for number in 0..count {
            thread::sleep(PAUSE);
            let queued = starts.now();
            rival.spawn(of_32_bytes(move || {
                starts.begin(number, queued);
                all.count_down();
            }));
        }
        stop.store(true, Relaxed);
        all.wait();
    });
    percentiles(starts.lateness(), &[99, 50, 100])
}

/// An item that keeps a CPU busy and then spawns its successor.
fn hog<R: Rival>(rival: &'static R, stop: &'static AtomicBool, all: &'static Latch) {
    burn(HOG);
    if stop.load(Relaxed) {
        all.count_down();
    } else {
        rival.spawn_long(move || hog(rival, stop, all));
    }
}
