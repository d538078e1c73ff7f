//! Items that compute, of which every fourth also sleeps. Measures whether other items fill the sleeps, and the number
//! of threads.

use std::error::Error;
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

use crate::bed::{Bed, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value, milliseconds};
use crate::load::burn;
use crate::mode::Mode;

const BURN: Duration = Duration::from_micros(500);
const SLEEP: Duration = Duration::from_millis(5);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(WorkQueue::builder("mixed"));
    // The first run makes the threads.
    run(mode, &queue, effort.items);
    let runs = Times::new((0..effort.runs).map(|_| run(mode, &queue, effort.items)).collect());
    let ideal = bed.ideal(BURN * effort.items as u32);
    Ok(Outcome::of(vec![
        Value::new("in all", Unit::Milliseconds, runs.percentile(50)),
        Value::new("of the ideal", Unit::Times, runs.percentile(50) / milliseconds(ideal)).aim(mode, 1.15),
        Value::new("threads", Unit::Count, bed.peak_threads() as f64).aim(mode, 16.0),
    ]))
}

fn run(mode: Mode, queue: &WorkQueue, items: usize) -> Duration {
    let begin = Instant::now();
    for item in 0..items {
        let burn_and_sleep = move || {
            burn(BURN);
            if item % 4 == 0 {
                mode.wait(|| std::thread::sleep(SLEEP));
            }
        };
        drop(queue.spawn(burn_and_sleep).expect(UNLIMITED));
    }
    queue.flush().expect("main is no item");
    begin.elapsed()
}
