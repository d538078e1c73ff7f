//! How long the next item waits after a running item falls asleep. On a per-CPU queue, one item runs. On a default
//! queue, as many items run as there are CPUs.
//!
//! Each sleep begins at another phase of the manager's rounds, because the item computes for a random time before it.

use std::error::Error;
use std::time::{Duration, Instant};

use cmwq::{JoinHandle, WorkQueue};
use fastrand::Rng;

use crate::bed::{Bed, NO_PANIC, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value};
use crate::load::{burn, some};
use crate::mode::Mode;

/// The longest computation before a sleep, which is longer than two rounds of the manager.
const PHASE: Duration = Duration::from_millis(4);
/// The length of a sleep. A sleep that is not detected within this time ends unnoticed.
const SLEEP: Duration = Duration::from_millis(12);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let mut random = Rng::with_seed(5);
    let mut series = |queue: &WorkQueue, cpu, blockers| {
        let trials = (0..effort.warm_up + effort.blocks).map(|_| {
            let phases = (0..blockers).map(|_| some(&mut random, PHASE)).collect();
            trial(mode, queue, cpu, phases)
        });
        Times::new(trials.skip(effort.warm_up).collect())
    };
    let per_cpu = series(&bed.queue(WorkQueue::per_cpu("per-cpu")), Some(bed.first_cpu()), 1);
    let default = series(&bed.queue(WorkQueue::builder("default")), None, bed.cpus());
    let value = |what, value| Value::new(what, Unit::Milliseconds, value);
    Ok(Outcome::of(vec![
        value("per-CPU queue, p50", per_cpu.percentile(50)).aims(mode, 2.0, 0.2),
        value("per-CPU queue, p99", per_cpu.percentile(99)).aims(mode, 5.0, 0.5),
        value("default queue, p50", default.percentile(50)).aims(mode, 2.0, 0.2),
        value("default queue, p90", default.percentile(90)).aims(mode, 5.0, 0.5),
        // The next item may start on another CPU, and the wake-up of that CPU alone can take half a millisecond here.
        value("default queue, p99", default.percentile(99)).aims(mode, 5.0, 1.0),
    ]))
}

/// Returns the time from the first sleep to the start of the item that waits behind the sleeping items.
fn trial(mode: Mode, queue: &WorkQueue, cpu: Option<usize>, phases: Vec<Duration>) -> Duration {
    let blockers: Vec<_> = phases
        .into_iter()
        .map(|phase| {
            let block = move || {
                burn(phase);
                let begin = Instant::now();
                mode.wait(|| std::thread::sleep(SLEEP));
                begin
            };
            spawn(queue, cpu, block)
        })
        .collect();
    let next = spawn(queue, cpu, Instant::now);
    let queued = Instant::now();
    let next = next.join().expect(NO_PANIC);
    let blocked = blockers.into_iter().map(|blocker| blocker.join().expect(NO_PANIC)).min();
    next.saturating_duration_since(blocked.expect("an item blocks").max(queued))
}

fn spawn<T: Send + 'static>(
    queue: &WorkQueue,
    cpu: Option<usize>,
    item: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    match cpu {
        Some(cpu) => queue.item(item).on_cpu(cpu).spawn().expect(UNLIMITED),
        None => queue.spawn(item).expect(UNLIMITED),
    }
}
