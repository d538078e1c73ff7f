use cmwq::Work;

use super::{empty, forever, items, of_each};
use crate::bed::Bed;
use crate::load::{Latch, no_op};
use crate::rival::Rival;

const ITEMS: usize = 5_000;
const TIMES: usize = 20;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    let count = items::<R>(bed, ITEMS);
    empty::warm_up(rival, count);
    let latch = Latch::new(0);
    let seeds = 0..count as u64;
    let works: Vec<Work> = seeds.clone().map(|seed| Work::new(no_op(seed, latch))).collect();
    let seconds = bed.repeat(|| {
        for _ in 0..TIMES {
            latch.reset(count);
            match rival.queue() {
                Some(queue) => works.iter().for_each(|work| {
                    let new = queue.enqueue(work).expect("the queue has no limit");
                    assert!(new, "an item counted that was still pending");
                }),
                None => seeds.clone().for_each(|seed| rival.spawn(no_op(seed, latch))),
            }
            latch.wait();
        }
    });
    of_each(bed, count * TIMES, &seconds)
}
