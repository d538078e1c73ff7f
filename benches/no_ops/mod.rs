//! No-op items on one thread, and the comparison of their times in two builds of a bench.
//!
//! An iteration is one no-op item, which is queued and run. One item queues a batch of no-op items on its own CPU, and
//! the worker that ran this item runs the batch. So one thread does all work, and no thread is woken during a batch.
//!
//! The two builds run in turns, because the speed of the machine changes from minute to minute.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cmwq::{CpuSet, Executor, Work, WorkQueue, WorkQueueBuilder};
use testkit::stats::median;

/// The number of items of a batch. They are fewer than the queue's `max_active`, so all of them go to the worklist.
pub(crate) const BATCH: usize = 500;
const MAX_ACTIVE: usize = 512;
/// How often a cost is measured at most if it is above its limit.
const TRIES: usize = 3;
/// The time for each case in each round when builds are compared. `ROUNDS` is the number of rounds.
const SLICE: Duration = Duration::from_millis(250);
const ROUNDS: usize = 9;

type NewQueue = fn(&'static str) -> WorkQueueBuilder;

pub(crate) const CASES: [(&str, Items, NewQueue); 5] = [
    ("reusable, per-CPU queue", Items::Reusable, |name| WorkQueue::per_cpu(name)),
    ("reusable, default queue", Items::Reusable, |name| WorkQueue::builder(name)),
    ("one-shot, per-CPU queue", Items::OneShot, |name| WorkQueue::per_cpu(name)),
    ("one-shot, default queue", Items::OneShot, |name| WorkQueue::builder(name)),
    ("two queues in turn", Items::InTurn, |name| WorkQueue::per_cpu(name)),
];

#[derive(Clone, Copy)]
pub(crate) enum Items {
    Reusable,
    OneShot,
    /// Reusable items, of two queues in turn.
    InTurn,
}

/// The name of a setting, and whether its queues measure items for histograms.
pub(crate) type Setting = (&'static str, bool);

/// An executor of one CPU, and the queues and items of a case.
pub(crate) struct Bench {
    items: Items,
    queues: [WorkQueue; 2],
    works: Vec<Work>,
}

impl Bench {
    pub(crate) fn new(items: Items, kind: NewQueue, histograms: bool) -> Self {
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

    /// Returns the time of a batch, from before its first item is queued until its last item runs.
    pub(crate) fn batch(&self) -> Duration {
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
            // The last item sends the time to the main thread, which then continues.
            let last = move || {
                let _heard = tell.send(begin.elapsed());
            };
            drop(queues[0].spawn(last).expect(UNLIMITED));
        };
        drop(first.spawn(issue).expect(UNLIMITED));
        told.recv().expect("the last item sends its time")
    }

    /// Returns the nanoseconds per item, in the median of batches.
    fn nanos(&self, time: Duration) -> f64 {
        let begin = Instant::now();
        let mut batches = Vec::new();
        while begin.elapsed() < time {
            batches.push(self.batch().as_nanos() as f64 / BATCH as f64);
        }
        median(&batches)
    }
}

const UNLIMITED: &str = "the queue has no limit";

/// The nanoseconds per item in all rounds of both builds, by case and setting.
pub(crate) struct InTurns(BTreeMap<(String, String), [Vec<f64>; 2]>);

impl InTurns {
    /// Returns the medians of a case in a setting: first of the build without the measured feature, and then of the
    /// build with it.
    pub(crate) fn of(&self, case: &str, setting: &str) -> [f64; 2] {
        let found = self.0.get(&(case.to_owned(), setting.to_owned()));
        found.map_or([f64::NAN; 2], |builds| builds.each_ref().map(|rounds| median(rounds)))
    }
}

/// Reads the command line of a bench that can be compared with another build of itself. Returns false if the command
/// line has neither `--against` nor `--once`. For `--against PROGRAM`, runs both builds in turns, and calls `show`,
/// which prints the times and returns whether the costs are permitted. If `--check` is given, too, exits with 1 if the
/// costs are not permitted in each of three measurements.
pub(crate) fn was_compared(settings: &[Setting], show: impl Fn(&InTurns, usize) -> bool) -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().position(|argument| argument == name);
    if after("--once").is_some() {
        once(settings);
        return true;
    }
    let Some(at) = after("--against") else { return false };
    let other = arguments.get(at + 1).expect("--against PROGRAM: another build of this bench");
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let tries = if after("--check").is_some() { TRIES } else { 1 };
    let holds = (0..tries).any(|_| show(&in_turns([other, &arguments[0]], rounds), rounds));
    if !holds && tries > 1 {
        println!("It costs more than permitted: {TRIES} times of {TRIES}");
        std::process::exit(1);
    }
    true
}

/// Measures all cases once, for a comparison.
fn once(settings: &[Setting]) {
    for (name, items, kind) in CASES {
        // The slices of the settings alternate.
        let benches: Vec<_> =
            settings.iter().map(|&(_, histograms)| Bench::new(items, kind, histograms)).collect();
        benches.iter().for_each(|bench| {
            bench.nanos(SLICE / 10);
        });
        let mut slices = vec![Vec::new(); benches.len()];
        for _ in 0..4 {
            for (bench, slices) in benches.iter().zip(&mut slices) {
                slices.push(bench.nanos(SLICE / 4));
            }
        }
        for ((setting, _), slices) in settings.iter().zip(slices) {
            println!("{name}\t{setting}\t{}", median(&slices));
        }
    }
}

fn in_turns(builds: [&str; 2], rounds: usize) -> InTurns {
    let mut found: BTreeMap<_, [Vec<f64>; 2]> = BTreeMap::new();
    for _ in 0..rounds {
        for (which, program) in builds.into_iter().enumerate() {
            let run = Command::new(program).arg("--once").output().expect("the bench can be run");
            for line in String::from_utf8_lossy(&run.stdout).lines() {
                let [case, setting, nanos] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
                let times = found.entry((case.to_owned(), setting.to_owned())).or_default();
                times[which].push(nanos.parse().expect("it prints a number"));
            }
        }
    }
    InTurns(found)
}

pub(crate) fn more(cost: f64) -> String {
    format!("{:+.1} %", 100.0 * cost)
}
