//! Items of a per-CPU queue spin until a later item runs, which is on another queue of the same CPU. The spinning queue
//! admits only some items at a time. Threads beyond one for each admitted item would not help.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

use crate::bed::{Bed, NO_PANIC, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value, milliseconds};
use crate::mode::Mode;

const SPINNERS: usize = 200;
const MAX_ACTIVE: usize = 4;
/// After this time, the measurement assumes that the executor will never notice the wait.
const NEVER: Duration = Duration::from_secs(1);

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let (mut times, mut threads, mut given_up) = (Vec::new(), 0, false);
    for _ in 0..effort.crowds {
        // Each crowd begins with a pool that has no threads.
        let bed = Bed::new(mode)?;
        match crowd(&bed) {
            Some(time) => times.push(time),
            None => given_up = true,
        }
        threads = threads.max(pool_threads(&bed));
        if given_up {
            break;
        }
    }
    let value = if given_up { milliseconds(NEVER) } else { Times::new(times).longest() };
    Ok(Outcome::of(vec![
        Value::new("until it runs", Unit::Milliseconds, value).given_up(given_up).aim(mode, 150.0),
        Value::new("threads of that pool", Unit::Count, threads as f64).aim(mode, 7.0),
    ]))
}

/// Returns the time from the submission of the awaited item until it runs, or `None` if the measurement had to end the
/// wait. All other items wait for that item.
fn crowd(bed: &Bed) -> Option<Duration> {
    let cpu = bed.first_cpu();
    let spinners = bed.queue(WorkQueue::per_cpu("spinners").max_active(MAX_ACTIVE));
    let setters = bed.queue(WorkQueue::per_cpu("setters"));
    let flag = Arc::new(AtomicBool::new(false));
    for _ in 0..SPINNERS {
        let flag = Arc::clone(&flag);
        let spin = move || {
            while !flag.load(Relaxed) {
                std::hint::spin_loop();
            }
        };
        drop(spinners.item(spin).on_cpu(cpu).spawn().expect(UNLIMITED));
    }
    let (begin, set) = (Instant::now(), Arc::clone(&flag));
    let setter = move || {
        set.store(true, Relaxed);
        Instant::now()
    };
    let ran = setters.item(setter).on_cpu(cpu).spawn().expect(UNLIMITED).join_timeout(NEVER);
    flag.store(true, Relaxed);
    spinners.flush().expect("main is no item");
    Some(ran.ok()?.expect(NO_PANIC) - begin)
}

/// Returns the number of workers of the pool. Idle workers stay for minutes, so the number includes all workers that
/// were made.
fn pool_threads(bed: &Bed) -> usize {
    let name = bed.first_cpu().to_string();
    bed.executor.dump().pools.iter().find(|pool| pool.name == name).map_or(0, |pool| pool.workers)
}
