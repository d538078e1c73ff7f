//! The cost of watching items that only compute.
//!
//! There are two loads. In one load, all items are queued at the beginning, so the manager suspects the pool of a
//! blocked item until the last item begins. In the other load, each item queues the next item, so items are pushed all
//! the time.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use cmwq::WorkQueue;

use crate::bed::{Bed, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Unit, Value};
use crate::load::burn;
use crate::mode::Mode;

const BURN: Duration = Duration::from_micros(500);
/// How many items wait at a time in the load whose items queue each other.
const WAITING: usize = 64;

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(WorkQueue::builder("compute"));
    // The threads are made before the measurement.
    at_once(&queue, WAITING);
    let items = effort.items;
    Ok(Outcome::of(vec![
        share(&bed, "all queued at once", items, || at_once(&queue, items)).aim(mode, 0.5),
        share(&bed, "each queues another", items, || one_by_one(&queue, items)).aim(mode, 0.5),
        Value::new("taken for blocked", Unit::Count, taken_for_blocked(&bed)),
    ]))
}

/// Measures the CPU time that the manager uses, in percent of the items' CPU time.
fn share(bed: &Bed, what: &'static str, items: usize, work: impl FnOnce()) -> Value {
    let before = bed.manager_time();
    work();
    match before.zip(bed.manager_time()) {
        Some((before, after)) => {
            let share = (after - before).div_duration_f64(BURN * items as u32);
            Value::new(what, Unit::Percent, 100.0 * share)
        }
        None => Value::unknown(what, Unit::Percent),
    }
}

/// Returns how often the executor took an item for blocked. No item blocks, unless a page of its code has to be read.
fn taken_for_blocked(bed: &Bed) -> f64 {
    bed.executor.undeclared_blockers().iter().map(|offender| offender.count).sum::<u64>() as f64
}

fn at_once(queue: &WorkQueue, items: usize) {
    for _ in 0..items {
        drop(queue.spawn(|| burn(BURN)).expect(UNLIMITED));
    }
    queue.flush().expect("main is no item");
}

fn one_by_one(queue: &WorkQueue, items: usize) {
    let (end, ended) = channel();
    let left = AtomicUsize::new(items.saturating_sub(WAITING));
    let stream = Arc::new(Stream { queue: queue.clone(), left, _end: end });
    (0..items.min(WAITING)).for_each(|_| queue_one(&stream));
    drop(stream);
    ended.recv().expect_err("nothing is sent: the last item lets go of the other side");
}

struct Stream {
    queue: WorkQueue,
    left: AtomicUsize,
    _end: Sender<()>,
}

fn queue_one(stream: &Arc<Stream>) {
    let next = Arc::clone(stream);
    let item = move || {
        burn(BURN);
        if next.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            queue_one(&next);
        }
    };
    drop(stream.queue.spawn(item).expect(UNLIMITED));
}
