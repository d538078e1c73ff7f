//! The cost of the feature `tracing` for an item while there is no subscriber.
//!
//! ```text
//! cargo bench --bench tracing --no-run                       # prints the path of the program
//! cargo bench --bench tracing --no-run --features tracing    # prints the path of the other one
//! target/release/deps/tracing-ONE --against target/release/deps/tracing-OTHER
//! ```
//!
//! Each item queues the next item, which is the same item (`reusable`) or a new closure (`one-shot`). So one worker
//! does all work and no thread is woken, and the CPU time of the process is that of the items. The two programs run in
//! turns, each as a process of its own, because two builds of one library do not fit into one program. The fastest of
//! all rounds counts, because other programs only make rounds slower.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, reason = "stands in for a user of the crate")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use cmwq::{Work, WorkQueue};
use lexopt::prelude::*;
use rustix::time::{ClockId, clock_gettime};

/// The number of items of a round.
const ITEMS: u64 = 100_000;
const ROUNDS: usize = 10;
/// The number of times that each program runs.
const RUNS: usize = 31;
const KINDS: [&str; 2] = ["reusable", "one-shot"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_env();
    let mut other = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Long("against") => other = Some(parser.value()?),
            // Cargo passes this option.
            Long("bench") => {}
            other => return Err(other.unexpected().into()),
        }
    }
    match other {
        Some(other) => compare(&std::env::current_exe()?, Path::new(&other)),
        None => {
            let [reusable, one_shot] = measure()?;
            println!("{reusable:.2} {one_shot:.2}");
            Ok(())
        }
    }
}

/// Returns the nanoseconds per item in the fastest round of each kind.
fn measure() -> Result<[f64; 2], Box<dyn Error>> {
    let queue = WorkQueue::per_cpu("chain").build()?;
    let rounds = |round: &dyn Fn()| {
        let times = (0..ROUNDS).map(|_| {
            let before = cpu_time();
            round();
            (cpu_time() - before).as_nanos() as f64 / ITEMS as f64
        });
        fastest(times.collect())
    };
    let reusable = rounds(&|| {
        let (done, over) = channel();
        let left = AtomicU64::new(ITEMS);
        let again = queue.clone();
        let work = Work::with_handle(move |work| match left.fetch_sub(1, Relaxed) {
            1 => done.send(()).expect("it is waited for"),
            _ => assert!(again.enqueue(work).expect("the queue is open")),
        });
        queue.enqueue(&work).expect("the queue is open");
        over.recv().expect("the last item sends");
    });
    let one_shot = rounds(&|| {
        let (done, over) = channel();
        chain(&queue, ITEMS, done);
        over.recv().expect("the last item sends");
    });
    Ok([reusable, one_shot])
}

fn chain(queue: &WorkQueue, left: u64, done: Sender<()>) {
    let next = queue.clone();
    let item = move || match left {
        0 => done.send(()).expect("it is waited for"),
        left => chain(&next, left - 1, done),
    };
    drop(queue.spawn(item).expect("the queue is open"));
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn compare(own: &Path, other: &Path) -> Result<(), Box<dyn Error>> {
    let mut times: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..RUNS {
        for (program, of_program) in [own, other].into_iter().zip(&mut times) {
            let output = String::from_utf8(Command::new(program).output()?.stdout)?;
            for (time, of_kind) in output.split_whitespace().zip(of_program) {
                of_kind.push(time.parse()?);
            }
        }
    }
    println!("{:<10} {:>10} {:>10} {:>8}", "", "this, ns", "other, ns", "change");
    let [own, other] = times;
    for ((kind, own), other) in KINDS.into_iter().zip(own).zip(other) {
        let (own, other) = (fastest(own), fastest(other));
        println!("{kind:<10} {own:>10.2} {other:>10.2} {:>7.1}%", (other / own - 1.0) * 100.0);
    }
    Ok(())
}

fn fastest(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}
