//! Many items that only sleep, 256 of them at a time. The figure shows whether the pool grows until that many items
//! sleep, and the number of threads.

use std::error::Error;
use std::time::Duration;

use cmwq::WorkQueue;

use super::makespan::{self, Load};
use crate::effort::Effort;
use crate::figure::Outcome;
use crate::mode::Mode;

const SLEEP: Duration = Duration::from_millis(10);
const AT_A_TIME: usize = 256;

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let load = Load {
        queue: WorkQueue::builder("sleepers").max_active_total(AT_A_TIME),
        items: effort.sleepers,
        item: |_| move || mode.wait(|| std::thread::sleep(SLEEP)),
        at_most: 3.0,
        most_threads: 280.0,
    };
    makespan::measure(mode, effort.runs, load, |_| SLEEP * effort.sleepers.div_ceil(AT_A_TIME) as u32)
}
