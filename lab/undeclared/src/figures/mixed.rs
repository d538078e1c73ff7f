//! Items that compute, of which every fourth also sleeps. The figure shows whether other items fill the sleeps, and the
//! number of threads.

use std::error::Error;
use std::time::Duration;

use cmwq::WorkQueue;

use super::makespan::{self, Load};
use crate::effort::Effort;
use crate::figure::Outcome;
use crate::load::burn;
use crate::mode::Mode;

const BURN: Duration = Duration::from_micros(500);
const SLEEP: Duration = Duration::from_millis(5);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let burn_and_sleep = |item| {
        move || {
            burn(BURN);
            if item % 4 == 0 {
                mode.wait(|| std::thread::sleep(SLEEP));
            }
        }
    };
    let load = Load {
        queue: WorkQueue::builder("mixed"),
        items: effort.items,
        item: burn_and_sleep,
        at_most: 1.15,
        most_threads: 16.0,
    };
    makespan::measure(mode, effort.runs, load, |bed| bed.ideal(BURN * effort.items as u32))
}
