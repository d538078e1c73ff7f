//! Items of all kinds.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use cmwq::{Executor, Work, WorkQueue};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The number of items that have begun.
static ITEMS: AtomicU64 = AtomicU64::new(0);

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Stands for work, and uses this much CPU time of its thread.
fn burn(time: Duration) {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let end = now() + Timespec::try_from(time).expect("it is short");
    while now() < end {
        std::hint::spin_loop();
    }
}

fn thumbnail() {
    ITEMS.fetch_add(1, Relaxed);
    tracing::trace_span!("decode").in_scope(|| burn(millis(1)));
    tracing::trace_span!("scale").in_scope(|| burn(millis(1)));
}

fn request() {
    ITEMS.fetch_add(1, Relaxed);
    burn(Duration::from_micros(250));
    tracing::trace_span!("ask the database").in_scope(|| cmwq::blocking(|| sleep(millis(4))));
    burn(Duration::from_micros(250));
}

fn legacy() {
    ITEMS.fetch_add(1, Relaxed);
    sleep(millis(15));
}

fn report() {
    ITEMS.fetch_add(1, Relaxed);
    burn(millis(40));
}

fn tick() {
    ITEMS.fetch_add(1, Relaxed);
}

/// Queues items for a third of a second, and waits for their end. Returns their number.
pub(crate) fn run(executor: &Executor) -> Result<u64, Box<dyn Error>> {
    let images = WorkQueue::per_cpu("images").build_on(executor)?;
    let web = WorkQueue::builder("web").build_on(executor)?;
    let old = WorkQueue::per_cpu("old").build_on(executor)?;
    let house = WorkQueue::builder("housekeeping").build_on(executor)?;
    let every = house.item(tick).spawn_every(millis(20))?;

    // A reusable item that is queued repeatedly never runs in two places at the same time.
    let reports = Work::new(report);
    for round in 0..10 {
        if round % 5 == 1 {
            images.enqueue(&reports)?;
        }
        for _ in 0..6 {
            drop(images.spawn(thumbnail)?);
        }
        for _ in 0..20 {
            drop(web.spawn(request)?);
        }
        if round % 3 == 0 {
            drop(old.spawn(legacy)?);
        }
        sleep(millis(30));
    }
    drop(every);
    for queue in [&images, &web, &old, &house] {
        queue.flush()?;
    }
    Ok(ITEMS.load(Relaxed))
}
