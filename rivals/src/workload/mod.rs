//! What is to be done, and what is measured of it.

mod batch;
mod block;
mod burst;
mod chain;
mod cpu;
mod dep;
mod empty;
mod fanout;
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
use crate::stats::{Spread, percentile};
use crate::unit::{Better, Measure, Unit};

pub(crate) use list::CASES;

/// A workload, or one variant of it.
pub(crate) struct Case {
    pub(crate) workload: &'static str,
    /// What the variants differ in, of which there is one for each number.
    pub(crate) variant: Option<usize>,
    /// What exactly is done, and what the numbers are numbers of. Counts are those of a full run.
    pub(crate) definition: &'static str,
    /// What is measured; by the first one, rows are ranked.
    pub(crate) measures: &'static [Measure],
    pub(crate) takes: fn(&Can) -> bool,
    /// See [`Bed::new`].
    pub(crate) sleeper: bool,
    pub(crate) settles: bool,
    /// Rounds, unless the command line says otherwise.
    pub(crate) rounds: usize,
    /// Who is not done by then is stuck.
    pub(crate) limit: Duration,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        match self.variant {
            Some(variant) => format!("{}/{variant}", self.workload),
            None => self.workload.to_owned(),
        }
    }

    /// It, or all variants of its workload.
    pub(crate) fn is_meant_by(&self, name: &str) -> bool {
        name == self.workload || name == self.name()
    }

    /// The values of its measures, in their order.
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

/// One that lives as long as the process: its threads are counted at the end, and its items can queue others.
fn forever<R: Rival>(limit: Option<usize>) -> &'static R {
    Box::leak(Box::new(R::new(limit)))
}

/// A thread for each item takes so much longer than anything else that a tenth of the items tells as much.
fn items<R: Rival>(bed: &Bed, full: usize) -> usize {
    let full = if R::CAN.part == Part::Threads { full / 10 } else { full };
    bed.count(full)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many items a second, in the median of the repetitions, and the CPU time of each, in all of them. On a machine that
/// others use, too, the second one tells more.
fn of_each(bed: &Bed, items: usize, seconds: &[f64]) -> Vec<f64> {
    let median = Spread::of(seconds).expect("something was done").median;
    vec![items as f64 / median, bed.cpu_seconds() / (items * seconds.len()) as f64]
}

/// These percentiles of the times, in seconds.
fn percentiles(mut seconds: Vec<f64>, percents: &[usize]) -> Vec<f64> {
    seconds.sort_by(f64::total_cmp);
    let of = |percent: &usize| percentile(&seconds, *percent);
    percents.iter().map(|percent| of(percent).expect("something was measured")).collect()
}

/// When an item began, in nanoseconds since some moment: one for each item, written by it and read at the end.
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

    /// The item of this number, which was queued at that moment, begins.
    fn begin(&self, number: usize, queued: u64) {
        let late = self.now().saturating_sub(queued);
        self.starts[number].store(late, Relaxed);
    }

    /// How late each was, in seconds. All have begun.
    fn lateness(&self) -> Vec<f64> {
        let seconds = |late: &AtomicU64| late.load(Relaxed) as f64 / 1e9;
        self.starts.iter().map(seconds).collect()
    }
}
