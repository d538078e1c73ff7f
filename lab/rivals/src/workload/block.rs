use std::thread;
use std::time::Duration;

use super::forever;
use crate::bed::Bed;
use crate::load::Latch;
use crate::rival::Rival;

const ITEMS: usize = 2000;
const SLEEP: Duration = Duration::from_millis(10);
/// The sleep of each item before the measurement. The first item still sleeps when the last thread has been made.
const WARM_UP: Duration = Duration::from_millis(50);

pub(super) fn run<R: Rival>(bed: &Bed, limit: usize) -> Vec<f64> {
    let rival = forever::<R>(Some(limit));
    // With fewer items, the pool would not reach its limit.
    let count = bed.count(10 * ITEMS).min(ITEMS);
    sleep(rival, limit.min(count), WARM_UP);
    let time = bed.watch(|| sleep(rival, count, SLEEP));
    vec![time.as_secs_f64()]
}

fn sleep<R: Rival>(rival: &R, count: usize, time: Duration) {
    let latch = Latch::new(count);
    for _ in 0..count {
        rival.spawn(move || {
            R::block(|| thread::sleep(time));
            latch.count_down();
        });
    }
    latch.wait();
}
