//! The cost of counting: no-op items with the counters on, with histograms on, and in a build without counters.
//!
//! ```text
//! cargo bench --bench counters -- --quick
//! make bench-counters
//! ```
//!
//! An iteration is one no-op item, queued and run. An item queues a batch of them on its own CPU, and the worker that
//! ran it runs the batch. So one thread does everything, and none is woken meanwhile.
//!
//! | group | items |
//! |---|---|
//! | `reusable, per-CPU queue`, `reusable, default queue` | a `Work` each, queued by `WorkQueue::enqueue` |
//! | `one-shot, per-CPU queue`, `one-shot, default queue` | closures that capture 32 bytes, their handles dropped |
//! | `two queues in turn` | as the first one, but each item is of another queue than the one before |
//!
//! In each group, `counters` is the library as it is, and `histograms` also times the items.
//!
//! `make bench-counters` compares with a build with `--cfg cmwq_uncounted`. The two builds run in turns, because the
//! machine changes from minute to minute; the table shows medians. `-- --against PROGRAM` compares with any other build
//! of this bench, in `ROUNDS=n` rounds. With `--check` as well, the bench exits with 1 if counting costs more than
//! permitted in each of up to three measurements.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cmwq::{CpuSet, Executor, Work, WorkQueue, WorkQueueBuilder};
use criterion::Throughput;

/// The items of a batch. They are fewer than the queue's `max_active`, so all of them go to the worklist.
const BATCH: usize = 500;
const MAX_ACTIVE: usize = 512;
/// The permitted cost of counting, as a part of an item's time: of counters, and of counters with histograms. The cases
/// with two queues in turn have no limit.
const MOST: [f64; 2] = [0.05, 0.15];
/// How often a cost above the limit is measured.
const TRIES: usize = 3;
/// The time for each case in each round when builds are compared, and the number of rounds.
const SLICE: Duration = Duration::from_millis(250);
const ROUNDS: usize = 9;

type NewQueue = fn(&'static str) -> WorkQueueBuilder;

const CASES: [(&str, Items, NewQueue); 5] = [
    ("reusable, per-CPU queue", Items::Reusable, |name| WorkQueue::per_cpu(name)),
    ("reusable, default queue", Items::Reusable, |name| WorkQueue::builder(name)),
    ("one-shot, per-CPU queue", Items::OneShot, |name| WorkQueue::per_cpu(name)),
    ("one-shot, default queue", Items::OneShot, |name| WorkQueue::builder(name)),
    ("two queues in turn", Items::InTurn, |name| WorkQueue::per_cpu(name)),
];

const SETTINGS: [(&str, bool); 2] = [("counters", false), ("histograms", true)];

#[derive(Clone, Copy)]
enum Items {
    Reusable,
    OneShot,
    /// Reusable items, of two queues in turn.
    InTurn,
}

/// An executor of one CPU, and the queues and items of a case.
struct Bench {
    items: Items,
    queues: [WorkQueue; 2],
    works: Vec<Work>,
}

impl Bench {
    fn new(items: Items, kind: NewQueue, histograms: bool) -> Self {
        let cpu = Executor::global().cpus().first().expect("an executor has a CPU");
        let executor = Executor::builder().cpus(CpuSet::single(cpu)).build().expect("it can be made");
        let queue = |name| kind(name).max_active(MAX_ACTIVE).histograms(histograms).build_on(&executor);
        let queues = ["even", "odd"].map(|name| queue(name).expect("a queue can be made"));
        let works = (0..BATCH)
            .map(|_| {
                Work::new(|| {
                    black_box(0);
                })
            })
            .collect();
        Self { items, queues, works }
    }

    /// Returns the time of a batch, from before its first item is queued until its last one has run.
    fn batch(&self) -> Duration {
        let (tell, told) = channel();
        let (queues, items, works) = (self.queues.clone(), self.items, self.works.clone());
        let first = queues[0].clone();
        let issue = move || {
            let begin = Instant::now();
            for (n, work) in works.iter().enumerate() {
                match items {
                    Items::Reusable => drop(queues[0].enqueue(work).expect(UNLIMITED)),
                    Items::InTurn => drop(queues[n % 2].enqueue(work).expect(UNLIMITED)),
                    Items::OneShot => {
                        let captured = [n as u64; 4];
                        let no_op = move || {
                            black_box(captured);
                        };
                        drop(queues[0].spawn(no_op).expect(UNLIMITED));
                    }
                }
            }
            // The last item lets the main thread go on.
            let last = move || {
                let _heard = tell.send(begin.elapsed());
            };
            drop(queues[0].spawn(last).expect(UNLIMITED));
        };
        drop(first.spawn(issue).expect(UNLIMITED));
        told.recv().expect("the last item sends its time")
    }

    /// Returns nanoseconds per item: the median of batches.
    fn nanos(&self, time: Duration) -> f64 {
        let begin = Instant::now();
        let mut batches = Vec::new();
        while begin.elapsed() < time {
            batches.push(self.batch().as_nanos() as f64 / BATCH as f64);
        }
        median(batches)
    }
}

const UNLIMITED: &str = "the queue has no limit";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().position(|argument| argument == name);
    if after("--once").is_some() {
        once();
    } else if let Some(at) = after("--against") {
        let other = arguments.get(at + 1).expect("--against PROGRAM: another build of this bench");
        let tries = if after("--check").is_some() { TRIES } else { 1 };
        let holds = (0..tries).any(|_| compare(&arguments[0], other));
        if !holds && tries > 1 {
            println!("Counting costs more than permitted: {TRIES} times of {TRIES}");
            std::process::exit(1);
        }
    } else {
        bench();
    }
}

fn bench() {
    let mut criterion = figures::criterion();
    for (name, items, kind) in CASES {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        for (setting, histograms) in SETTINGS {
            let bench = Bench::new(items, kind, histograms);
            group.bench_function(setting, |bencher| {
                bencher.iter_custom(|iterations| {
                    let batches = iterations.div_ceil(BATCH as u64);
                    let spent: Duration = (0..batches).map(|_| bench.batch()).sum();
                    spent.mul_f64(iterations as f64 / (batches * BATCH as u64) as f64)
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Measures all cases once, for a comparison.
fn once() {
    for (name, items, kind) in CASES {
        // The slices of both settings alternate.
        let benches = SETTINGS.map(|(_, histograms)| Bench::new(items, kind, histograms));
        benches.iter().for_each(|bench| {
            bench.nanos(SLICE / 10);
        });
        let mut slices = [Vec::new(), Vec::new()];
        for _ in 0..4 {
            for (bench, slices) in benches.iter().zip(&mut slices) {
                slices.push(bench.nanos(SLICE / 4));
            }
        }
        for ((setting, _), slices) in SETTINGS.iter().zip(slices) {
            println!("{name}\t{setting}\t{}", median(slices));
        }
    }
}

/// Runs this build and another one in turns. Returns whether counting costs no more than permitted.
fn compare(own: &str, other: &str) -> bool {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let mut found: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (program, suffix) in [(other, " without"), (own, "")] {
            let run = Command::new(program).arg("--once").output().expect("the bench can be run");
            for line in String::from_utf8_lossy(&run.stdout).lines() {
                let [case, setting, nanos] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
                let key = (case.to_owned(), format!("{setting}{suffix}"));
                found.entry(key).or_default().push(nanos.parse().expect("it prints a number"));
            }
        }
    }
    let [counters, histograms] = MOST.map(|most| 100.0 * most);
    println!(
        "ns per no-op item, medians of {rounds} rounds (aims: counters {counters} %, histograms {histograms} %)"
    );
    println!("{:<26}{:>9}{:>10}{:>8}{:>12}{:>8}", "", "without", "counters", "", "histograms", "");
    let mut holds = true;
    for (case, items, _) in CASES {
        let of = |setting: &str| {
            found.get(&(case.to_owned(), setting.to_owned())).map_or(f64::NAN, |nanos| median(nanos.clone()))
        };
        let (without, counters, histograms) = (of("counters without"), of("counters"), of("histograms"));
        let cost = |of: f64| of / without - 1.0;
        holds &= matches!(items, Items::InTurn) || (cost(counters) <= MOST[0] && cost(histograms) <= MOST[1]);
        let more = |of: f64| format!("{:+.1} %", 100.0 * cost(of));
        println!(
            "{case:<26}{without:>9.1}{counters:>10.1}{:>8}{histograms:>12.1}{:>8}",
            more(counters),
            more(histograms)
        );
    }
    holds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
