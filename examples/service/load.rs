//! Background work to observe, as in a shop that sells pictures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cmwq::{BuildQueueError, PeriodicHandle, WorkQueue, WorkQueueBuilder};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The interval at which items are queued.
const TICK: Duration = Duration::from_millis(10);

/// The parts of the load. Each kind has a queue.
const KINDS: [Kind; 5] = [
    // Computes on the CPU where it was queued.
    Kind {
        queue: || WorkQueue::per_cpu("thumbnails"),
        spawn: |queue| drop(queue.spawn(thumbnail)),
        in_a_thousand: 300,
    },
    // Waits for other services, under a guard.
    Kind { queue: || WorkQueue::builder("mail"), spawn: |queue| drop(queue.spawn(mail)), in_a_thousand: 500 },
    // Runs one item after the other.
    Kind {
        queue: || WorkQueue::ordered("journal"),
        spawn: |queue| drop(queue.spawn(entry)),
        in_a_thousand: 180,
    },
    // Waits without a guard.
    Kind {
        queue: || WorkQueue::builder("legacy"),
        spawn: |queue| drop(queue.spawn(import)),
        in_a_thousand: 15,
    },
    // Computes for long.
    Kind {
        queue: || WorkQueue::per_cpu("reports"),
        spawn: |queue| drop(queue.spawn(report)),
        in_a_thousand: 5,
    },
];

struct Kind {
    queue: fn() -> WorkQueueBuilder,
    /// Spawns the item. The closure names the function itself, and not a pointer to it, because reports name the type
    /// of the queued item.
    spawn: fn(&WorkQueue),
    in_a_thousand: u64,
}

/// Stands for work: uses this much CPU time of its thread.
fn burn(time: Duration) {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let end = now() + Timespec::try_from(time).expect("it is short");
    while now() < end {
        std::hint::spin_loop();
    }
}

fn thumbnail() {
    burn(Duration::from_micros(800));
}

fn mail() {
    burn(Duration::from_micros(50));
    cmwq::blocking(|| sleep(Duration::from_millis(20)));
    burn(Duration::from_micros(50));
}

fn entry() {
    burn(Duration::from_micros(100));
}

fn import() {
    sleep(Duration::from_millis(5));
}

fn report() {
    burn(Duration::from_millis(25));
}

/// The background load, which queues items until this value is dropped.
pub(crate) struct Load {
    _periodic: PeriodicHandle,
}

impl Load {
    /// Starts the load with `rate` items per second.
    pub(crate) fn start(rate: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let build = |kind: &Kind| (kind.queue)().control(true).histograms(true).max_pending(1000).build();
        let queues = KINDS.iter().map(build).collect::<Result<Vec<WorkQueue>, BuildQueueError>>()?;
        let (begin, queued) = (Instant::now(), AtomicU64::new(0));
        let clock = WorkQueue::new("clock");
        let tick = move || {
            let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64;
            // After a pause, at most the items of one second are queued together.
            let queued = queued.swap(due, Relaxed).max(due.saturating_sub(rate));
            (queued..due).for_each(|number| queue_item(&queues, number));
        };
        Ok(Self { _periodic: clock.item(tick).spawn_every(TICK)? })
    }
}

fn queue_item(queues: &[WorkQueue], number: u64) {
    // The multiplication permutes each thousand of items, so that the kinds take turns.
    let mut place = number * 619 % 1000;
    for (kind, queue) in KINDS.iter().zip(queues) {
        if place < kind.in_a_thousand {
            // If too many items wait, this item is refused and dropped.
            (kind.spawn)(queue);
            return;
        }
        place -= kind.in_a_thousand;
    }
}
