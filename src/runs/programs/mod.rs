//! Random programs, which the engine itself runs on random machines, in random orders of steps.
//!
//! A program consists of issuers, each of which has a list of operations on a few queues. The whole program is drawn at
//! random before it runs. So the seed determines what the program does, and also the order of its steps.
//!
//! | file | what |
//! |---|---|
//! | this one | the programs |
//! | `world` | the execution of a program, and the accounts of its items |
//! | `checks` | the rules that hold whenever time is about to pass |
//!
//! Red under: `first-item-wakes-no-other`, `offers-nothing`, `rests-and-counts`.

mod checks;
mod world;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;

use self::checks::{Rules, is_quiet, watch};
use self::world::{Issuer, World};
use super::seeds::runs;
use crate::kernel::{self, WorkQueueBuilderExt};
use crate::policy::detection::Detection;
use crate::sys::PORTABLE;
use crate::sys::machine::{self, Config, pause, run};
use crate::sys::thread::{self, spawn};
use crate::sys::wait::Until;
use crate::{Executor, TopologySource, WhenFull, WorkQueue, WorkQueueBuilder};

/// A step of an item. Queues and items are identified by numbers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Burn(Duration),
    /// Sleeps under a guard.
    Block(Duration),
    /// Sleeps under a `may_block` guard, which is for blocks that are usually short.
    MayBlock(Duration),
    /// Waits until the item is asked to stop, but at most for this time.
    Ask(Duration),
    /// Sleeps without a guard.
    Nap(Duration),
    /// Queues the item with the second number on the queue with the first number.
    Spawn(usize, usize),
    Panic,
}

/// An operation of an issuer. Queues, items and reusable items are identified by numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Spawn(usize, usize),
    SpawnOn(usize, usize, usize),
    SpawnBatch(usize, usize, usize),
    SpawnAfter(usize, usize, Duration),
    SpawnAndCancel(usize, usize, Duration),
    SpawnAndStop(usize, usize, Duration),
    /// Queues the item with a token, and cancels the token after the given time.
    SpawnWithToken(usize, usize, Duration),
    /// Queues the item with a deadline.
    SpawnWithin(usize, usize, Duration),
    SpawnAndJoin(usize, usize),
    Scope(usize, usize),
    /// Runs a periodic item. The first duration is the item's period. After the second duration, the item is cancelled.
    Every(usize, Duration, Duration),
    Queue(usize, usize),
    QueueOn(usize, usize, usize),
    QueueDelayed(usize, usize, Duration),
    ModDelayed(usize, usize, Duration),
    Cancel(usize),
    CancelSync(usize),
    /// Disables the item for some time.
    Disable(usize, Duration),
    FlushWork(usize),
    Flush(usize),
    FlushTimeout(usize, Duration),
    Drain(usize),
    SetMaxActive(usize, usize),
    ApplyAttrs(usize, usize),
    /// Freezes the executor for some time.
    Freeze(Duration),
    Pause(Duration),
}

/// A program.
#[derive(Debug)]
struct Program {
    config: Config,
    machine: String,
    detection: Detection,
    /// The maximum number of workers.
    max_threads: Option<usize>,
    /// Of a thousand attempts to make a thread, about this many fail.
    refused: u32,
    /// Whether workers are made when their queue is built.
    prestarts: bool,
    queues: Vec<Kind>,
    items: Vec<Vec<Step>>,
    issuers: Vec<Vec<Operation>>,
    /// The time from the end of the issuers until the executor is shut down.
    ends_after: Duration,
    /// Whether the first queue is destroyed before the shutdown, so that its pending items do not run.
    destroys_now: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    which: Which,
    max_active: Option<usize>,
    total: bool,
    cpu_intensive: bool,
    high_priority: bool,
    freezable: bool,
    rescuer: bool,
    /// Whether the queue holds only a few items, and a caller that finds it full runs the item itself.
    callers_run: bool,
    weight: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Managed,
    PerCpu,
    Unbound,
    Ordered,
    Bh,
}

/// The number of events of each kind in a program, by name.
type Counts = [(&'static str, u64); 11];

/// The number of reusable items in a program.
const WORKS: usize = 2;

/// The maximum number of issuers in a program.
const ISSUERS: usize = 3;

/// A time that is longer than any timer of a program.
const LONG: Duration = Duration::from_secs(1);

/// The number of programs that run, unless `CMWQ_SIM_RUNS` sets another number.
const RUNS: u64 = 500;

fn time(random: &mut Rng) -> Duration {
    Duration::from_micros([10, 100, 500, 1000, 3000, 12_000][random.usize(..6)])
}

impl Kind {
    fn draw(random: &mut Rng) -> Self {
        use Which::{Bh, Managed, Ordered, PerCpu, Unbound};
        let which = [Managed, Managed, Managed, PerCpu, PerCpu, Unbound, Unbound, Ordered, Ordered, Bh];
        Self {
            which: which[random.usize(..which.len())],
            max_active: random.bool().then(|| random.usize(1..=3)),
            total: random.bool(),
            cpu_intensive: random.usize(..8) == 0,
            high_priority: random.usize(..8) == 0,
            freezable: random.usize(..4) == 0,
            rescuer: random.usize(..6) == 0,
            callers_run: false,
            weight: None,
        }
    }

    /// Draws a weight from a separate generator, so that the rest of a program does not depend on the weights.
    fn weigh(&mut self, random: &mut Rng) {
        self.weight = random.bool().then(|| [1, 100, 10_000][random.usize(..3)]);
    }

    fn builder(self) -> WorkQueueBuilder {
        let builder = match self.which {
            Which::Managed => WorkQueue::builder("managed"),
            Which::PerCpu => WorkQueue::per_cpu("per CPU"),
            Which::Unbound => WorkQueue::unbound("unbound"),
            Which::Ordered => WorkQueue::ordered("ordered"),
            Which::Bh => kernel::bh("bh"),
        };
        let builder = builder.high_priority(self.high_priority);
        if self.which == Which::Bh {
            return builder;
        }
        let builder = builder.freezable(self.freezable);
        let builder = builder.rescuer(self.rescuer);
        let builder = match self.callers_run {
            true => builder.max_pending(2).when_full(WhenFull::CallerRuns),
            false => builder,
        };
        let builder = match self.weight {
            Some(weight) => builder.weight(weight),
            None => builder,
        };
        let is_per_cpu = self.which == Which::PerCpu;
        let builder = builder.cpu_intensive(self.cpu_intensive && is_per_cpu);
        match self.max_active {
            Some(items) if self.which != Which::Ordered && self.total => builder.max_active_total(items),
            Some(items) if self.which != Which::Ordered => builder.max_active(items),
            _ => builder,
        }
    }
}

impl Step {
    /// Draws a step of the item with this number. Items queue only items with lower numbers, so each chain of items
    /// ends.
    fn draw(random: &mut Rng, queues: &[Kind], number: usize) -> Self {
        match random.usize(..20) {
            0..=7 => Self::Burn(time(random)),
            8..=11 => Self::Block(time(random)),
            12 => Self::MayBlock(time(random)),
            13 => Self::Ask(time(random)),
            14 | 15 => Self::Nap(time(random)),
            16 => Self::Panic,
            _ if number > 0 => Self::Spawn(random.usize(..queues.len()), random.usize(..number)),
            _ => Self::Burn(time(random)),
        }
    }
}

impl Operation {
    fn draw(random: &mut Rng, queues: usize, items: usize) -> Self {
        let (queue, item, work) = (random.usize(..queues), random.usize(..items), random.usize(..WORKS));
        let cpu = random.usize(..4);
        match random.usize(..35) {
            0..=4 => Self::Spawn(queue, item),
            5 => Self::SpawnOn(queue, item, cpu),
            6 | 7 => Self::SpawnBatch(queue, item, random.usize(1..8)),
            8 => Self::SpawnAfter(queue, item, time(random)),
            9 => Self::SpawnAndCancel(queue, item, time(random)),
            10 => Self::SpawnAndJoin(queue, item),
            11 => Self::Scope(queue, random.usize(1..4)),
            12 => Self::Every(queue, time(random), time(random)),
            13..=15 => Self::Queue(queue, work),
            16 => Self::QueueOn(queue, work, cpu),
            17 => Self::QueueDelayed(queue, work, time(random)),
            18 => Self::ModDelayed(queue, work, time(random)),
            19 => Self::Cancel(work),
            20 => Self::CancelSync(work),
            21 => Self::Disable(work, time(random)),
            22 => Self::FlushWork(work),
            23 | 24 => Self::Flush(queue),
            25 => Self::FlushTimeout(queue, time(random)),
            26 => Self::Drain(queue),
            27 => Self::SetMaxActive(queue, random.usize(1..4)),
            28 => Self::ApplyAttrs(queue, random.usize(..4)),
            29 => Self::Freeze(time(random)),
            30 => Self::SpawnAndStop(queue, item, time(random)),
            31 => Self::SpawnWithToken(queue, item, time(random)),
            32 => Self::SpawnWithin(queue, item, time(random)),
            _ => Self::Pause(time(random)),
        }
    }
}

impl Program {
    fn new(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        let cpus = [1, 2, 2, 4][random.usize(..4)];
        let caches = if cpus == 4 { random.usize(1..=2) } else { 1 };
        let mut config = Config::new(cpus).seed(seed);
        config.switches = [5, 50, 300][random.usize(..3)];
        config.latency =
            [Duration::ZERO, Duration::from_micros(20), Duration::from_millis(1)][random.usize(..3)];
        let mut queues: Vec<_> = (0..random.usize(1..=3)).map(|_| Kind::draw(random)).collect();
        let weights = &mut Rng::with_seed(!seed);
        queues.iter_mut().for_each(|queue| queue.weigh(weights));
        let items: Vec<Vec<_>> = (0..random.usize(1..=6))
            .map(|number| (0..random.usize(..4)).map(|_| Step::draw(random, &queues, number)).collect())
            .collect();
        let issuers = (0..random.usize(1..=ISSUERS))
            .map(|_| (0..12).map(|_| Operation::draw(random, queues.len(), items.len())).collect())
            .collect();
        let mut program = Self {
            config,
            machine: format!("l3:{caches} core:{} pu:1", cpus / caches),
            detection: if random.bool() { Detection::Sampling } else { Detection::Off },
            max_threads: (random.usize(..4) == 0).then(|| random.usize(1..=4)),
            refused: if random.usize(..4) == 0 { random.u32(1..700) } else { 0 },
            queues,
            items,
            issuers,
            prestarts: random.usize(..4) == 0,
            ends_after: if random.bool() { LONG } else { time(random) },
            destroys_now: random.usize(..4) == 0,
        };
        program.draw_callers(random);
        program
    }

    /// Draws whether a caller that finds the first queue full runs the item itself. Items of other queues may wait for
    /// a place in the first queue. Two rules keep these waits from forming a cycle: callers run no items of other
    /// queues, and they run no items at all in a program that may lack threads.
    fn draw_callers(&mut self, random: &mut Rng) {
        let first = &mut self.queues[0];
        let fits = matches!(first.which, Which::Managed | Which::Unbound);
        let lacks_threads = self.max_threads.is_some() || self.refused > 0;
        first.callers_run = random.bool() && fits && !lacks_threads;
    }

    fn executor(&self) -> Executor {
        let builder = Executor::builder().topology(TopologySource::Synthetic(self.machine.clone()));
        let builder = builder.detection(self.detection).idle_timeout(Duration::from_millis(20));
        let builder = builder.panic_handler(|_| ()).prestart(self.prestarts);
        let builder = match self.max_threads {
            Some(threads) => builder.max_threads(threads),
            None => builder,
        };
        builder.build().unwrap()
    }

    /// Returns whether an issuer has an operation for which `is_it` returns true.
    fn has(&self, is_it: fn(&Operation) -> bool) -> bool {
        self.issuers.iter().flatten().any(is_it)
    }

    /// Returns the largest number of the queue's items that can ever be active at a time, whatever the queue's limit is
    /// now.
    fn ceiling(&self, queue: usize) -> u64 {
        let kind = self.queues[queue];
        let set = self.issuers.iter().flatten().filter_map(|what| match what {
            Operation::SetMaxActive(other, items) if *other == queue => Some(*items),
            _ => None,
        });
        match (kind.which, kind.max_active) {
            (Which::Ordered, _) => 1,
            (Which::Bh, _) | (_, None) => u64::MAX,
            (_, Some(items)) => {
                let limiters = if kind.total { 1 } else { self.config.cpus };
                (set.fold(items, usize::max) * limiters) as u64
            }
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            lacks_threads: self.max_threads.is_some() || self.refused > 0,
            placed: self.has(|what| matches!(what, Operation::SpawnOn(..) | Operation::QueueOn(..))),
            closes_pools: self.has(|what| matches!(what, Operation::ApplyAttrs(..))),
        }
    }

    fn issuers(&self, world: &Arc<World>) -> Vec<JoinHandle<()>> {
        let issuer = |(number, operations): (usize, &Vec<Operation>)| {
            let (mut issuer, operations) = (Issuer::new(number, world), operations.clone());
            let issue = move || operations.into_iter().for_each(|operation| issuer.perform(operation));
            spawn(format!("issuer {number}"), None, issue).unwrap()
        };
        self.issuers.iter().enumerate().map(issuer).collect()
    }

    /// Runs the program. [`World`] describes what is checked.
    fn run(self) -> Counts {
        let program = Arc::new(self);
        run(program.config.clone(), || {
            let executor = program.executor();
            watch(&executor, program.rules());
            let world = Arc::new(World::new(&program, &executor));
            let issuers = program.issuers(&world);
            machine::refuse_threads(program.refused);
            issuers.into_iter().for_each(|issuer| thread::join(issuer, Until::FOREVER).unwrap());
            pause(program.ends_after);
            if program.ends_after == LONG && program.refused == 0 && world.is_even() {
                pause(LONG);
                is_quiet(&executor);
            }
            if program.destroys_now {
                world.destroy_now();
            }
            let report = executor.shutdown(Duration::MAX).unwrap();
            assert!(report.is_complete(), "{report:?}");
            world.settle()
        })
    }
}

/// spec: E5.1, E5.3 (an accepted item runs once, or its owner is told), F1.1, Q4, Q4.1, C3.1 (no work waits while
/// another worker may start), A3.1 (no pool has too much work while a sibling pool has room), C1.1 (one item at a time
/// on one CPU), C5.1, I3.3, I3.4, I3.5, I3.6 (cancels, deadlines), P1.4 (counts are exact), Q3, Q3.2 (no more active
/// items than the limit), C4, F8, B2.2 (callers run items), C8 (idle workers leave)
#[test]
fn random_programs_keep_what_is_promised() {
    let mut seen = Counts::default();
    let all = runs(RUNS, |seed, trace| {
        let program = Program::new(seed);
        if trace {
            eprintln!("{program:#?}");
        }
        let counts = program.run();
        seen.iter_mut().zip(counts).for_each(|(seen, (name, count))| *seen = (name, seen.1 + count));
    });
    // Over all runs, rare events must also happen. The portable build does not observe threads.
    let never = |name: &str| PORTABLE && ["hogs", "undeclared blocks"].contains(&name);
    assert!(!all || seen.iter().all(|(name, count)| (*count > 0) != never(name)), "{seen:?}");
}
