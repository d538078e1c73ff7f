use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::{empty, forever, items, percentiles};
use crate::bed::Bed;
use crate::load::{Latch, of_32_bytes, work};
use crate::rival::Rival;

const BURSTS: usize = 10;
const ITEMS: usize = 10_000;
const PERIOD: Duration = Duration::from_millis(100);
/// The steps of an item, which take about a microsecond together.
const STEPS: u32 = 700;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    let count = items::<R>(bed, ITEMS);
    empty::warm_up(rival, count);
    let latch = Latch::new(0);
    let mut seconds = Vec::new();
    bed.watch(|| {
        for _ in 0..bed.count(BURSTS * 10).min(BURSTS) {
            let begin = Instant::now();
            latch.reset(count);
            for seed in 0..count as u64 {
                let captured = [seed; 3];
                rival.spawn(of_32_bytes(move || {
                    black_box(work(STEPS, captured[0]));
                    latch.count_down();
                }));
            }
            latch.wait();
            seconds.push(begin.elapsed().as_secs_f64());
            thread::sleep(PERIOD.saturating_sub(begin.elapsed()));
        }
    });
    percentiles(seconds, &[50, 100])
}
