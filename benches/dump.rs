//! The cost of snapshots of an executor with a thousand busy queues. The bench ends with a table of figures and their
//! aims.
//!
//! ```text
//! cargo bench --bench dump -- --quick
//! ```
//!
//! Items of a few microseconds are queued to all queues in turn, as fast as they run, so every CPU is busy. The thread
//! that takes snapshots gets its share of the CPUs like the other threads. All medians are those of snapshots of the
//! loaded executor.
//!
//! | group | one iteration |
//! |---|---|
//! | `dump` | `Executor::dump`; a dump and its text; a dump and its busy report |
//! | `monitor` | `Monitor::sample`; a sample and its text |
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Executor, Work, WorkQueue, WorkQueueBuilder};
use criterion::Criterion;
use testkit::spin;

use figures::{Aim, Figures};

const QUEUES: usize = 1000;

fn main() {
    let mut criterion = figures::criterion();
    let figures = Figures::default();
    let executor = Executor::builder().build().expect("an executor can be made");
    let queues: Vec<WorkQueue> =
        (0..QUEUES).map(|n| kind(n).build_on(&executor).expect("a queue can be made")).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load(&queues, &stop));
        let monitor = executor.monitor();
        let aim = Some(Aim::AtMost(0.02));
        let look = |name: &str, aim: Option<Aim>, criterion: &mut Criterion, look: &dyn Fn() -> usize| {
            measure(criterion, &figures, name, aim, look);
        };
        look("dump: 1000 queues under load", aim, &mut criterion, &|| executor.dump().queues.len());
        look("dump: and its text", None, &mut criterion, &|| executor.dump().to_string().len());
        look("dump: and its busy report", None, &mut criterion, &|| executor.dump().busy().to_string().len());
        look("monitor: 1000 queues under load", aim, &mut criterion, &|| monitor.sample().queues.len());
        look("monitor: and its text", None, &mut criterion, &|| monitor.sample().to_string().len());
        stop.store(true, Ordering::Relaxed);
    });
    criterion.final_summary();
    figures.print();
}

fn kind(n: usize) -> WorkQueueBuilder {
    let name = format!("queue-{n}");
    match n % 4 {
        0 => WorkQueue::builder(name),
        1 => WorkQueue::per_cpu(name),
        2 => WorkQueue::unbound(name),
        _ => WorkQueue::ordered(name),
    }
}

/// Keeps queueing one item to each queue, as soon as that item is not pending any more.
fn load(queues: &[WorkQueue], stop: &AtomicBool) {
    let works: Vec<Work> = queues.iter().map(|_| Work::new(|| spin(Duration::from_micros(5)))).collect();
    while !stop.load(Ordering::Relaxed) {
        for (queue, work) in queues.iter().zip(&works) {
            queue.enqueue(work).expect("it is open");
        }
        queues.iter().step_by(100).for_each(|queue| queue.flush().expect("this is no item"));
    }
}

fn measure(
    criterion: &mut Criterion,
    figures: &Figures,
    name: &str,
    aim: Option<Aim>,
    look: &dyn Fn() -> usize,
) {
    let figure = figures.add(name, aim);
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let begin = Instant::now();
            for _ in 0..iterations {
                black_box(look());
            }
            figures.time(figure, begin.elapsed(), iterations)
        });
    });
}
