use std::sync::Mutex;
use std::time::Instant;

use cmwq::Work;

use super::{cpus, empty, forever, items, of_each, percentiles};
use crate::bed::{Bed, issue};
use crate::load::{Latch, no_op};
use crate::rival::Rival;
use crate::system::pin;

const ITEMS: usize = 5_000;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let (issuers, each) = (cpus(), items::<R>(bed, ITEMS));
    let calls = Mutex::new(Vec::new());
    let over = Latch::new(0);
    let issuer = |number| {
        pin(number);
        let mine = calls_of_one(rival, each);
        calls.lock().expect("no issuer panics").extend(mine);
        over.count_down();
    };
    let seconds = issue(bed, issuers, || over.reset(issuers), issuer, || over.wait());
    let calls = calls.into_inner().expect("no issuer panics");
    let mut values = of_each(bed, issuers * each, &seconds);
    values.extend(percentiles(calls, &[50, 90, 95, 99]));
    values
}

/// Returns the duration in seconds of each call that queues an item. Each item has ended before the next item is
/// queued.
fn calls_of_one<R: Rival>(rival: &R, count: usize) -> Vec<f64> {
    let latch = Latch::new(0);
    let work = Work::new(no_op(0, latch));
    let once = |number| {
        latch.reset(1);
        let begin = Instant::now();
        match rival.queue() {
            // The worker may still be leaving the item's former run. But the item is not pending, because that run has
            // begun.
            Some(queue) => assert!(queue.enqueue(&work).expect("the queue has no limit"), "the item is idle"),
            None => rival.spawn(no_op(number, latch)),
        }
        let call = begin.elapsed().as_secs_f64();
        latch.wait();
        call
    };
    (0..count as u64).map(once).collect()
}
