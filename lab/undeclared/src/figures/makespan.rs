//! The total time of a load, its ratio to the ideal time, and the number of threads.

use std::error::Error;
use std::time::{Duration, Instant};

use cmwq::WorkQueueBuilder;

use crate::bed::{Bed, UNLIMITED};
use crate::figure::{Outcome, Times, Unit, Value, milliseconds};
use crate::mode::Mode;

/// A load, and its aims for modes with detection and without guards.
pub(super) struct Load<F> {
    pub(super) queue: WorkQueueBuilder,
    pub(super) items: usize,
    /// Makes the item of this number.
    pub(super) item: F,
    /// The largest multiple of the ideal time.
    pub(super) at_most: f64,
    pub(super) most_threads: f64,
}

/// Measures the median of this many runs. `ideal` returns the ideal time on the executor of the bed.
pub(super) fn measure<I: FnOnce() + Send + 'static>(
    mode: Mode,
    runs: usize,
    load: Load<impl Fn(usize) -> I>,
    ideal: impl FnOnce(&Bed) -> Duration,
) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(load.queue);
    let run = || {
        let begin = Instant::now();
        (0..load.items).for_each(|item| drop(queue.spawn((load.item)(item)).expect(UNLIMITED)));
        queue.flush().expect("main is no item");
        begin.elapsed()
    };
    // The first run makes the threads.
    run();
    let median = Times::new((0..runs).map(|_| run()).collect()).percentile(50);
    let times = median / milliseconds(ideal(&bed));
    Ok(Outcome::of(vec![
        Value::new("in all", Unit::Milliseconds, median),
        Value::new("of the ideal", Unit::Times, times).aim(mode, load.at_most),
        Value::new("threads", Unit::Count, bed.peak_threads() as f64).aim(mode, load.most_threads),
    ]))
}
