//! The cost of short items on machines with up to 128 CPUs, on which it takes time to move cache lines and to wake
//! threads.
//!
//! `make lab-scale` prints the results ([`page`]). The assumptions are the same for all rows:
//!
//! * **CPUs.** Each cache has up to [`OF_CACHE`] CPUs. A thread keeps its CPU until it waits, or until another thread
//!   has waited for that CPU for [`SLICE`].
//! * **Lines.** It takes 40 ns to get a line from a CPU of the same cache, and 110 ns from another cache. A line serves
//!   one CPU after the other. The line stays with each CPU until the thread on this CPU has repeated a failed exchange.
//!   The machine has [lines](crate::sys::machine::Costs) for the crate's atomics and locks, and for the ends of its
//!   worklists and waiting lists. In addition, each item has a line that its issuer writes and its worker reads.
//! * **Waking.** A thread that unparks another thread uses 2 µs of CPU time for this call. The other thread begins at
//!   most 5 µs after the beginning of the call. One idle worker of each pool stays awake for up to 20 µs. Waking this
//!   worker takes only the time in which cache lines move.
//! * **Everything else.** The submission of an item takes [`SUBMITS`]. The run of an item, together with its worker's
//!   own steps, takes [`Load::runs`]. Both are times for which one CPU is busy.

mod page;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::setup::{executor, micros};
use crate::sys::clock;
use crate::sys::machine::{self, Config, Costs, burn, moved, pause, run, touch};
use crate::sys::sync::{AtomicU64, Ordering::Relaxed};
use crate::sys::thread::{self, spawn};
use crate::sys::wait::Until;
use crate::{CpuSet, Executor, WorkQueue};

const OF_CACHE: usize = 8;
const SLICE: Duration = Duration::from_micros(700);
const SUBMITS: Duration = Duration::from_nanos(70);

/// The kind of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Default,
    PerCpu,
}

/// The work that a row of the results measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// One issuer queues items.
    OneIssuer,
    /// For every two CPUs, one issuer queues items.
    Empty,
    /// For every two CPUs, one issuer queues items that take 5 µs.
    Short,
    /// For each CPU, there is a chain of items: each item queues the next one.
    Chain,
    /// For each CPU, an item queues four items, each of these queues four items, and so on.
    FanOut,
}

const LOADS: [Load; 5] = [Load::OneIssuer, Load::Empty, Load::Short, Load::Chain, Load::FanOut];

/// The amount of work that a row does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Size {
    /// Enough work for the pools to make their workers.
    WarmUp,
    Whole,
}

impl Load {
    fn issuers(self, cpus: usize) -> usize {
        match self {
            Self::OneIssuer => 1,
            Self::Empty | Self::Short => cpus.div_ceil(2),
            Self::Chain | Self::FanOut => cpus,
        }
    }

    /// Returns the number of items that each issuer queues, the length of each chain, or the number of levels of a
    /// fan-out.
    const fn extent(self, size: Size) -> usize {
        match (self, size) {
            (Self::FanOut, Size::WarmUp) => 3,
            (Self::FanOut, Size::Whole) => 6,
            (Self::Short, Size::Whole) => 500,
            (_, Size::WarmUp) => 50,
            (_, Size::Whole) => 2000,
        }
    }

    /// Returns the time that one CPU takes for an item and for its worker's own steps.
    const fn runs(self) -> Duration {
        match self {
            Self::Short => Duration::from_micros(5),
            _ => Duration::from_nanos(70),
        }
    }

    /// Returns the number of items for each issuer.
    fn items(self, size: Size) -> u64 {
        let extent = self.extent(size);
        match self {
            Self::OneIssuer | Self::Empty | Self::Short | Self::Chain => extent as u64,
            Self::FanOut => (0..extent as u32).map(|level| 4_u64.pow(level)).sum(),
        }
    }
}

/// The results of a row.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The CPU time of all CPUs for each item, in nanoseconds. This time includes the time of CPUs that were not used.
    /// For [`Load::OneIssuer`], this is only the time of one CPU.
    cost: f64,
    /// The number of lines that moved for each item.
    lines: f64,
    /// The number of threads that were woken for each thousand items.
    wakes: f64,
}

/// A queue, and for each CPU the number of items that have run there.
struct Row {
    queue: WorkQueue,
    runs: Duration,
    done: Vec<CachePadded<AtomicU64>>,
    /// For each CPU, the number of items that were queued there.
    queued: Vec<CachePadded<AtomicU64>>,
}

impl Row {
    /// Runs an item. `line` is the address of the item's own line.
    fn run(&self, line: usize) {
        touch(line, false);
        burn(self.runs);
        let cpu = machine::current_cpu().expect("it is of the machine");
        self.done[cpu].fetch_add(1, Relaxed);
    }

    /// Returns the number of items that have run. On the simulated machine, these reads move no cache line.
    fn items(&self) -> u64 {
        machine::quietly(|| self.done.iter().map(|done| done.load(Relaxed)).sum())
    }

    /// Writes a new item's line, and returns its address. Items use the same few lines again and again, as if an
    /// allocator reused their memory.
    fn own_line(&self) -> usize {
        let cpu = machine::current_cpu().expect("it is of the machine");
        let number = machine::quietly(|| self.queued[cpu].fetch_add(1, Relaxed)) as usize;
        let line = (1 << 30) + (cpu * 512 + number % 512) * 64;
        touch(line, true);
        line
    }

    fn submit(self: &Arc<Self>, item: impl FnOnce(&Arc<Self>) + Send + 'static) {
        burn(SUBMITS);
        let row = Arc::clone(self);
        assert!(self.queue.spawn_detached(move || item(&row)).is_ok());
    }

    fn chain(self: &Arc<Self>, left: usize) {
        let line = self.own_line();
        self.submit(move |row| {
            row.run(line);
            if left > 1 {
                row.chain(left - 1);
            }
        });
    }

    fn fan_out(self: &Arc<Self>, levels: usize) {
        let line = self.own_line();
        self.submit(move |row| {
            row.run(line);
            if levels > 1 {
                (0..4).for_each(|_| row.fan_out(levels - 1));
            }
        });
    }

    /// Does the work of the issuer on this CPU.
    fn issue(self: &Arc<Self>, cpu: usize, load: Load, extent: usize) {
        let own = machine::current().expect("it is of the machine");
        machine::bind(own, &CpuSet::single(cpu));
        match load {
            Load::OneIssuer | Load::Empty | Load::Short => (0..extent).for_each(|_| {
                let line = self.own_line();
                self.submit(move |row| row.run(line));
            }),
            Load::Chain => self.chain(extent),
            Load::FanOut => self.fan_out(extent),
        }
    }

    /// Does the work of the row once. Returns the time that the work took.
    fn round(self: &Arc<Self>, cpus: usize, load: Load, size: Size) -> Duration {
        let begin = clock::now();
        let issuers = load.issuers(cpus);
        let end = self.items() + issuers as u64 * load.items(size);
        let issue = |issuer: usize| {
            let row = Arc::clone(self);
            let issue = move || row.issue(issuer * cpus / issuers, load, load.extent(size));
            spawn("issuer".to_owned(), None, issue).unwrap()
        };
        let threads: Vec<_> = (0..issuers).map(issue).collect();
        threads.into_iter().for_each(|thread| thread::join(thread, Until::FOREVER).unwrap());
        // This loop does not flush the queue, because the queue would have to count its items for a flush.
        while self.items() < end {
            pause(micros(1));
        }
        clock::now().since(begin)
    }
}

fn config(cpus: usize, seed: u64) -> Config {
    let costs = Costs {
        of_cache: OF_CACHE,
        near: Duration::from_nanos(40),
        far: Duration::from_nanos(110),
        wake: micros(2),
    };
    Config {
        switches: 0,
        slice: SLICE,
        latency: micros(5),
        costs: Some(costs),
        restless: u64::MAX,
        ..Config::new(cpus).seed(seed)
    }
}

fn queue(executor: &Executor, kind: Kind) -> WorkQueue {
    let builder = match kind {
        Kind::Default => WorkQueue::builder("scale"),
        Kind::PerCpu => WorkQueue::per_cpu("scale"),
    };
    builder.build_on(executor).unwrap()
}

fn measure(cpus: usize, kind: Kind, load: Load, seed: u64) -> Measured {
    assert!(cpus <= 128 && (cpus <= OF_CACHE || cpus % OF_CACHE == 0), "the caches of {cpus} CPUs");
    let (caches, cores) = (cpus.div_ceil(OF_CACHE), cpus.min(OF_CACHE));
    run(config(cpus, seed), || {
        let executor = executor(&format!("l3:{caches} core:{cores} pu:1"), |builder| builder);
        let numbers = || (0..cpus).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        let row = Arc::new(Row {
            queue: queue(&executor, kind),
            runs: load.runs(),
            done: numbers(),
            queued: numbers(),
        });
        row.round(cpus, load, Size::WarmUp);
        let before = moved();
        let took = row.round(cpus, load, Size::Whole);
        let after = moved();
        let counted = if load == Load::OneIssuer { 1 } else { cpus };
        let items = load.issuers(cpus) as f64 * load.items(Size::Whole) as f64;
        let measured = Measured {
            cost: took.as_nanos() as f64 * counted as f64 / items,
            lines: (after.lines() - before.lines()) as f64 / items,
            wakes: 1000.0 * (after.wakes - before.wakes) as f64 / items,
        };
        drop(row);
        executor.shutdown(Duration::MAX).unwrap();
        measured
    })
}

/// An item on a per-CPU queue moves hardly any cache line. If half of the CPUs issue items, the other half has nothing
/// to do. The idle time of the other half counts as a cost.
#[test]
fn an_item_that_stays_on_its_cpu_costs_at_most_30_percent_more_on_8_cpus() {
    for (load, idle) in [(Load::Empty, 2.0), (Load::FanOut, 1.0)] {
        let [one, many] = [1, 8].map(|cpus| measure(cpus, Kind::PerCpu, load, 1));
        assert!(many.cost < 1.3 * idle * one.cost && many.lines < 0.5, "{load:?}: {one:?}, {many:?}");
    }
}

/// Items that do nothing and come from one issuer do not become more expensive if more CPUs are free.
///
/// spec: C3.4
#[test]
fn the_no_ops_of_one_issuer_cost_as_much_on_8_cpus_as_on_2() {
    for seed in 1..=5 {
        let [few, many] = [2, 8].map(|cpus| measure(cpus, Kind::Default, Load::OneIssuer, seed));
        assert!(many.cost < 2.0 * few.cost && many.wakes < 200.0, "{few:?}, {many:?}");
    }
}

/// The default queue uses all CPUs for items of 5 µs, although only half of the CPUs issue items. So cache lines move
/// between CPUs.
#[test]
fn short_items_cost_at_most_30_percent_more_on_24_cpus() {
    let measured = [2, 8, 24].map(|cpus| measure(cpus, Kind::Default, Load::Short, 1));
    let ideal = (SUBMITS + Load::Short.runs()).as_nanos() as f64;
    assert!(measured.iter().all(|row| row.cost < 1.3 * ideal && row.lines > 1.0), "{measured:?}");
}

/// If a failed exchange had to wait for all other CPUs, each change would move the line 64 times.
#[test]
fn a_word_that_64_cpus_change_moves_at_most_three_times_for_each_change() {
    let (changes, moves) = run(config(64, 1), || {
        let word = Arc::new(CachePadded::new(AtomicU64::new(0)));
        let change = |cpu| {
            let word = Arc::clone(&word);
            let change = move || {
                machine::bind(machine::current().expect("it is of the machine"), &CpuSet::single(cpu));
                for _ in 0..20 {
                    assert!(word.fetch_update(Relaxed, Relaxed, |changes| Some(changes + 1)).is_ok());
                }
            };
            spawn("changer".to_owned(), None, change).unwrap()
        };
        let threads: Vec<_> = (0..64).map(change).collect();
        threads.into_iter().for_each(|thread| thread::join(thread, Until::FOREVER).unwrap());
        (word.load(Relaxed), moved().lines())
    });
    assert_eq!(changes, 64 * 20);
    assert!(moves <= 3 * changes, "{moves}");
}
