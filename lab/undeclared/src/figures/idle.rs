//! An executor that has worked, and now has no work.

use std::error::Error;
use std::time::Duration;

use cmwq::WorkQueue;

use crate::bed::{Bed, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Unit, Value};
use crate::load::burn;
use crate::mode::Mode;

/// The pause before the measurement. After the last item, the manager continues its rounds for a time that is shorter
/// than this pause.
const SETTLE: Duration = Duration::from_millis(2500);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    // The items make the executor start workers that the manager could watch.
    for queue in [WorkQueue::builder("default"), WorkQueue::per_cpu("per-cpu")] {
        let queue = bed.queue(queue);
        for _ in 0..20 * bed.cpus() {
            let item = || {
                burn(Duration::from_micros(200));
                std::thread::sleep(Duration::from_millis(2));
            };
            drop(queue.spawn(item).expect(UNLIMITED));
        }
        queue.flush().expect("main is no item");
    }
    std::thread::sleep(SETTLE);

    let before = bed.switches();
    std::thread::sleep(effort.idle);
    let what = if effort.quick { "in 0.5 s" } else { "in 10 s" };
    Ok(Outcome::of(vec![match before.zip(bed.switches()) {
        Some((before, after)) => {
            Value::new(what, Unit::Count, after.saturating_sub(before) as f64).aim(mode, 0.0)
        }
        None => Value::unknown(what, Unit::Count),
    }]))
}
