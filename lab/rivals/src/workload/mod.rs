//! The workloads, and their measures.

mod batch;
mod block;
mod burst;
mod chain;
mod cpu;
mod dep;
mod empty;
mod fanout;
mod forks;
mod hog;
mod issuers;
mod latency;
mod list;
mod mixed;
mod priority;
mod reuse;
mod roundtrip;
mod tenants;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::bed::Bed;
use crate::rival::{Can, Part, Rival};
use crate::unit::{Better, Measure, Unit};
use testkit::stats::{Spread, percentile};

pub(crate) use list::CASES;

/// A workload, or one variant of it.
pub(crate) struct Case {
    pub(crate) workload: &'static str,
    /// The number that distinguishes the variants of a workload.
    pub(crate) variant: Option<usize>,
    /// The exact definition of the work and of the measures. Its counts are those of a full run.
    pub(crate) definition: &'static str,
    /// The measures. The first one ranks the rows.
    pub(crate) measures: &'static [Measure],
    pub(crate) takes: fn(&Can) -> bool,
    /// See [`Bed::new`].
    pub(crate) sleeper: bool,
    pub(crate) settles: bool,
    /// The number of rounds, unless the command line sets it.
    pub(crate) rounds: usize,
    /// The time limit. A rival that has not finished after this time is stuck.
    pub(crate) limit: Duration,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        match self.variant {
            Some(variant) => format!("{}/{variant}", self.workload),
            None => self.workload.to_owned(),
        }
    }

    /// Returns whether the name is that of this case or of its workload.
    pub(crate) fn is_meant_by(&self, name: &str) -> bool {
        name == self.workload || name == self.name()
    }

    /// Runs the case and returns the values of its measures, in their order.
    pub(crate) fn run_on<R: Rival>(&self, bed: &Bed) -> Vec<f64> {
        let number = self.variant.unwrap_or(1);
        let values = match self.workload {
            "empty" => empty::run::<R>(bed, number),
            "reuse" => reuse::run::<R>(bed),
            "batch" => batch::run::<R>(bed),
            "latency" => latency::run::<R>(bed),
            "roundtrip" => roundtrip::run::<R>(bed),
            "cpu" => cpu::run::<R>(bed),
            "mixed" => mixed::run::<R>(bed),
            "block" => block::run::<R>(bed, number),
            "dep" => dep::run::<R>(bed),
            "burst" => burst::run::<R>(bed),
            "tenants" => tenants::run::<R>(bed),
            "hog" => hog::run::<R>(bed),
            "priority" => priority::run::<R>(bed),
            "chain" => chain::run::<R>(bed),
            "fanout" => fanout::run::<R>(bed),
            "forks" => forks::run::<R>(bed),
            "issuers" => issuers::run::<R>(bed),
            other => unreachable!("every workload in the list runs, {other} as well"),
        };
        assert_eq!(values.len(), self.measures.len(), "each measure has a value");
        values
    }
}

const fn rate() -> Measure {
    Measure { name: "items", unit: Unit::ItemsPerSecond, better: Better::More }
}

const fn less(name: &'static str, unit: Unit) -> Measure {
    Measure { name, unit, better: Better::Less }
}

/// Makes a rival that is never dropped. So its threads can be counted at the end, and its items can queue further
/// items.
fn forever<R: Rival>(limit: Option<usize>) -> &'static R {
    Box::leak(Box::new(R::new(limit)))
}

/// Returns the number of items. A rival that makes a thread for each item is so slow that a tenth of the items is
/// enough.
fn items<R: Rival>(bed: &Bed, full: usize) -> usize {
    let full = if R::CAN.part == Part::Threads { full / 10 } else { full };
    bed.count(full)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the median rate of the repetitions in items per second, and the CPU time per item over all repetitions. On a
/// shared machine, the CPU time is more reliable.
fn of_each(bed: &Bed, items: usize, seconds: &[f64]) -> Vec<f64> {
    let median = Spread::of(seconds).expect("something was done").median;
    vec![items as f64 / median, bed.cpu_seconds() / (items * seconds.len()) as f64]
}

/// Returns these percentiles of the times, in seconds.
fn percentiles(mut seconds: Vec<f64>, percents: &[usize]) -> Vec<f64> {
    seconds.sort_by(f64::total_cmp);
    let of = |percent: &usize| percentile(&seconds, *percent);
    percents.iter().map(|percent| of(percent).expect("something was measured")).collect()
}

/// How late items began, in nanoseconds. Each item writes its own number, and the numbers are read at the end.
struct Starts {
    epoch: Instant,
    starts: Vec<AtomicU64>,
}

impl Starts {
    fn new(count: usize) -> &'static Self {
        let starts = (0..count).map(|_| AtomicU64::new(0)).collect();
        Box::leak(Box::new(Self { epoch: Instant::now(), starts }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records that the item of this number begins now. `queued` is the moment at which it was queued.
    fn begin(&self, number: usize, queued: u64) {
        let late = self.now().saturating_sub(queued);
        self.starts[number].store(late, Relaxed);
    }

    /// Returns the lateness of each item, in seconds. All items must have begun.
    fn lateness(&self) -> Vec<f64> {
        let seconds = |late: &AtomicU64| late.load(Relaxed) as f64 / 1e9;
        self.starts.iter().map(seconds).collect()
    }
}
