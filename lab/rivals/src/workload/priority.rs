use std::thread;
use std::time::{Duration, Instant};

use super::{Starts, cpus, empty, forever, percentiles};
use crate::bed::Bed;
use crate::load::{Latch, burn, no_op, of_32_bytes};
use crate::rival::Rival;

/// The number of pending items for each CPU at the moments when an urgent item is queued.
const DEPTH: usize = 500;
const BURN: Duration = Duration::from_micros(500);
const URGENT: usize = 400;
const PAUSE: Duration = Duration::from_millis(3);
/// The longest time of a measurement. It is limited because the issuer may hardly run on a busy machine.
const LONGEST: Duration = Duration::from_secs(3);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    empty::warm_up_by(100, |seed, latch| rival.spawn_urgent(no_op(seed, latch)));
    let (depth, count) = (bed.count(DEPTH * cpus()), bed.count(URGENT));
    let (starts, all, backlog) = (Starts::new(count), Latch::new(0), Latch::new(0));
    let mut lateness = Vec::new();
    bed.watch(|| {
        renew(rival, backlog, depth);
        let begin = Instant::now();
        let mut issued = 0;
        while issued < count && begin.elapsed() < LONGEST {
            let number = issued;
            thread::sleep(PAUSE);
            renew(rival, backlog, depth);
            all.add(1);
            let queued = starts.now();
            rival.spawn_urgent(of_32_bytes(move || {
                starts.begin(number, queued);
                all.count_down();
            }));
            issued += 1;
        }
        all.wait();
        backlog.wait();
        lateness.extend(starts.lateness().into_iter().take(issued));
    });
    percentiles(lateness, &[99, 50, 100])
}

/// Queues new items in place of those that have ended. The issuer queues them, because items that queue each other
/// would use the pool's own order.
fn renew<R: Rival>(rival: &R, backlog: &'static Latch, depth: usize) {
    let missing = depth - backlog.left();
    backlog.add(missing);
    for _ in 0..missing {
        rival.spawn(move || {
            burn(BURN);
            backlog.count_down();
        });
    }
}
