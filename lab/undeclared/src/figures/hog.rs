//! An item of a per-CPU queue computes for long, and another item waits behind it.

use std::error::Error;
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

use crate::bed::{Bed, NO_PANIC, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value};
use crate::load::burn;
use crate::mode::Mode;

const LONG: Duration = Duration::from_millis(100);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(WorkQueue::per_cpu("hogs"));
    // The first trial makes the threads.
    let trials = (0..=effort.hogs).map(|_| trial(&queue, bed.first_cpu())).skip(1);
    let delays = Times::new(trials.collect());
    let value = |what, percent| Value::new(what, Unit::Milliseconds, delays.percentile(percent));
    Ok(Outcome::of(vec![value("p50", 50).aim(mode, 15.0), value("p90", 90).aim(mode, 15.0)]))
}

/// Returns the time from the start of the long item to the start of the next item.
fn trial(queue: &WorkQueue, cpu: usize) -> Duration {
    let hog = || {
        let begin = Instant::now();
        burn(LONG);
        begin
    };
    let hog = queue.item(hog).on_cpu(cpu).spawn().expect(UNLIMITED);
    let next = queue.item(Instant::now).on_cpu(cpu).spawn().expect(UNLIMITED);
    let next = next.join().expect(NO_PANIC);
    next.saturating_duration_since(hog.join().expect(NO_PANIC))
}
