//! Many items that only sleep, 256 of them at a time. Measures whether the pool grows until that many items sleep, and
//! the number of threads.

use std::error::Error;
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

use crate::bed::{Bed, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value, milliseconds};
use crate::mode::Mode;

const SLEEP: Duration = Duration::from_millis(10);
const AT_A_TIME: usize = 256;

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(WorkQueue::builder("sleepers").max_active_total(AT_A_TIME));
    // The first run makes the threads.
    run(mode, &queue, effort.sleepers);
    let runs = Times::new((0..effort.runs).map(|_| run(mode, &queue, effort.sleepers)).collect());
    let ideal = SLEEP * effort.sleepers.div_ceil(AT_A_TIME) as u32;
    Ok(Outcome::of(vec![
        Value::new("in all", Unit::Milliseconds, runs.percentile(50)),
        Value::new("of the ideal", Unit::Times, runs.percentile(50) / milliseconds(ideal)).aim(mode, 3.0),
        Value::new("threads", Unit::Count, bed.peak_threads() as f64).aim(mode, 280.0),
    ]))
}

fn run(mode: Mode, queue: &WorkQueue, items: usize) -> Duration {
    let begin = Instant::now();
    for _ in 0..items {
        let sleeps = move || mode.wait(|| std::thread::sleep(SLEEP));
        drop(queue.spawn(sleeps).expect(UNLIMITED));
    }
    queue.flush().expect("main is no item");
    begin.elapsed()
}
