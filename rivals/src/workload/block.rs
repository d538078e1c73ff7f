use std::thread;
use std::time::Duration;

use super::forever;
use crate::bed::Bed;
use crate::load::Latch;
use crate::rival::Rival;

const ITEMS: usize = 2000;
const SLEEP: Duration = Duration::from_millis(10);

pub(super) fn run<R: Rival>(bed: &Bed, limit: usize) -> Vec<f64> {
    let rival = forever::<R>(Some(limit));
    let count = bed.count(ITEMS);
    let latch = Latch::new(count);
    let time = bed.watch(|| {
        for _ in 0..count {
            rival.spawn(move || {
                R::block(|| thread::sleep(SLEEP));
                latch.count_down();
            });
        }
        latch.wait();
    });
    vec![time.as_secs_f64()]
}
