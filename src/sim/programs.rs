//! Random programs, run by the engine itself: on random machines, in random orders of steps.
//!
//! A program is a number of issuers, each with a list of operations on a few queues. Nothing that it does is drawn while
//! it runs. So what a program does follows from its seed, and so does the order of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::random::runs;
use crate::policy::detection::Detection;
use crate::protocol::exchange::Member as _;
use crate::sys::machine::{self, Config, burn, pause, run};
use crate::sys::thread::{self, spawn};
use crate::sys::wait::Until;
use crate::{Executor, TopologySource, Work, WorkQueue, blocking, may_block};

/// What an item does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Burn(Duration),
    /// Under a guard.
    Block(Duration),
    /// Under a guard that says that it may block.
    MayBlock(Duration),
    /// Without a guard.
    Nap(Duration),
    /// Queues an item of this number on this queue.
    Spawn(usize, usize),
}

/// What an issuer does.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Spawn(usize, usize),
    SpawnBatch(usize, usize, usize),
    SpawnAfter(usize, usize, Duration),
    /// A reusable item of this number.
    Queue(usize, usize),
    QueueDelayed(usize, usize, Duration),
    ModDelayed(usize, usize, Duration),
    Cancel(usize),
    CancelSync(usize),
    FlushWork(usize),
    Flush(usize),
    FlushTimeout(usize, Duration),
    SetMaxActive(usize, usize),
    Pause(Duration),
}

/// A program.
#[derive(Debug)]
struct Program {
    config: Config,
    machine: String,
    detection: Detection,
    queues: Vec<Kind>,
    items: Vec<Vec<Step>>,
    issuers: Vec<Vec<Operation>>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    kind: usize,
    max_active: Option<usize>,
    cpu_intensive: bool,
}

/// How many reusable items a program has.
const WORKS: usize = 2;

fn micros(random: &mut Rng) -> Duration {
    Duration::from_micros([10, 100, 500, 1000, 3000, 12_000][random.usize(..6)])
}

impl Program {
    fn new(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        let cpus = [1, 2, 2, 4][random.usize(..4)];
        let caches = if cpus == 4 { random.usize(1..=2) } else { 1 };
        let mut config = Config::new(cpus).seed(seed);
        config.switches = [5, 50, 300][random.usize(..3)];
        let queues: Vec<_> = (0..random.usize(1..=3))
            .map(|_| Kind {
                kind: random.usize(..5),
                max_active: random.bool().then(|| random.usize(1..=3)),
                cpu_intensive: random.usize(..8) == 0,
            })
            .collect();
        let items: Vec<Vec<_>> = (0..random.usize(1..=6))
            .map(|number| {
                (0..random.usize(..4))
                    .map(|_| match random.usize(..10) {
                        0..=3 => Step::Burn(micros(random)),
                        4 | 5 => Step::Block(micros(random)),
                        6 => Step::MayBlock(micros(random)),
                        7 => Step::Nap(micros(random)),
                        // Of a lower number: a chain ends.
                        _ if number > 0 => Step::Spawn(random.usize(..queues.len()), random.usize(..number)),
                        _ => Step::Burn(micros(random)),
                    })
                    .collect()
            })
            .collect();
        let issuers = (0..random.usize(1..=3))
            .map(|_| {
                let operation = |_| Operation::draw(random, queues.len(), items.len());
                (0..12).map(operation).collect()
            })
            .collect();
        Self {
            config,
            machine: format!("l3:{caches} core:{} pu:1", cpus / caches),
            detection: if random.bool() { Detection::Sampling } else { Detection::Off },
            queues,
            items,
            issuers,
        }
    }

    fn executor(&self) -> Executor {
        let builder = Executor::builder().topology(TopologySource::Synthetic(self.machine.clone()));
        builder.detection(self.detection).idle_timeout(Duration::from_millis(20)).build().unwrap()
    }

    /// Runs it, and checks that all that was accepted has run, each flush waited for its issuer's items, and ordered items ran
    /// one at a time, those of an issuer in their order.
    fn run(self) {
        let program = Arc::new(self);
        run(program.config.clone(), || {
            let executor = program.executor();
            watch(&executor);
            let world = Arc::new(World::new(&program, &executor));
            let issuers: Vec<_> = (0..program.issuers.len())
                .map(|issuer| {
                    let (program, world) = (Arc::clone(&program), Arc::clone(&world));
                    let issue = move || {
                        let mut own = Own { issuer, queued: world.queues.iter().map(|_| Vec::new()).collect() };
                        for operation in &program.issuers[issuer] {
                            world.perform(&program, &mut own, *operation);
                        }
                    };
                    spawn(format!("issuer {issuer}"), None, issue).unwrap()
                })
                .collect();
            issuers.into_iter().for_each(|issuer| thread::join(issuer, Until::FOREVER).unwrap());
            // The last timer is over by then.
            pause(Duration::from_secs(1));
            world.queues.iter().for_each(|queue| queue.drain().unwrap());
            let report = executor.shutdown(Duration::MAX).unwrap();
            assert!(report.is_complete(), "{report:?}");
            let [accepted, ran] = [&world.accepted, &world.ran].map(|count| count.load(Ordering::Relaxed));
            assert_eq!(accepted, ran, "items were lost");
        });
    }
}

impl Operation {
    fn draw(random: &mut Rng, queues: usize, items: usize) -> Self {
        let (queue, item, work) = (random.usize(..queues), random.usize(..items), random.usize(..WORKS));
        match random.usize(..16) {
            0..=3 => Self::Spawn(queue, item),
            4 => Self::SpawnBatch(queue, item, random.usize(1..8)),
            5 => Self::SpawnAfter(queue, item, micros(random)),
            6 | 7 => Self::Queue(queue, work),
            8 => Self::QueueDelayed(queue, work, micros(random)),
            9 => Self::ModDelayed(queue, work, micros(random)),
            10 => Self::Cancel(work),
            11 => Self::CancelSync(work),
            12 => Self::FlushWork(work),
            13 => Self::Flush(queue),
            14 => match random.usize(..2) {
                0 => Self::FlushTimeout(queue, micros(random)),
                _ => Self::SetMaxActive(queue, random.usize(1..4)),
            },
            _ => Self::Pause(micros(random)),
        }
    }
}

/// What an issuer knows of its items.
struct Own {
    issuer: usize,
    /// By queue: has each of the items run?
    queued: Vec<Vec<Arc<AtomicBool>>>,
}

impl Own {
    /// The next item for this queue: its number, and what it sets when it has run.
    fn next(&mut self, queue: usize) -> Name {
        let done = Arc::new(AtomicBool::new(false));
        self.queued[queue].push(Arc::clone(&done));
        Name { queue, issuer: self.issuer, number: self.queued[queue].len(), done }
    }
}

/// An item of an issuer.
struct Name {
    queue: usize,
    issuer: usize,
    number: usize,
    done: Arc<AtomicBool>,
}

/// What runs on an ordered queue: how many items at once, and the last one of each issuer.
#[derive(Default)]
struct Ordered {
    active: AtomicU64,
    last: [AtomicU64; 3],
}

/// What the threads of a program share.
struct World {
    ordered: Vec<Option<Ordered>>,
    queues: Vec<WorkQueue>,
    works: Vec<Work>,
    accepted: AtomicU64,
    ran: AtomicU64,
}

impl World {
    fn new(program: &Program, executor: &Executor) -> Self {
        let queues = program.queues.iter().map(|kind| {
            let builder = match kind.kind {
                0 | 1 => WorkQueue::new("managed"),
                2 => WorkQueue::per_cpu("per CPU"),
                3 => WorkQueue::unbound("unbound"),
                _ => return WorkQueue::ordered("ordered").build_on(executor).unwrap(),
            };
            let builder = match kind.max_active {
                Some(items) => builder.max_active(items),
                None => builder,
            };
            let builder = if kind.cpu_intensive && kind.kind == 2 { builder.cpu_intensive() } else { builder };
            builder.build_on(executor).unwrap()
        });
        let work = |_| Work::new(|| burn(Duration::from_micros(200)));
        let ordered = |kind: &Kind| (kind.kind == 4).then(Ordered::default);
        Self {
            ordered: program.queues.iter().map(ordered).collect(),
            queues: queues.collect(),
            works: (0..WORKS).map(work).collect(),
            accepted: AtomicU64::new(0),
            ran: AtomicU64::new(0),
        }
    }

    /// An item, with its name if it is not one that another item makes.
    fn item(
        self: &Arc<Self>,
        program: &Arc<Program>,
        name: Option<Name>,
        item: usize,
    ) -> impl FnOnce() + Send + 'static + use<> {
        let (world, program) = (Arc::clone(self), Arc::clone(program));
        self.accepted.fetch_add(1, Ordering::Relaxed);
        move || {
            let ordered = name.as_ref().and_then(|name| world.ordered[name.queue].as_ref().map(|own| (name, own)));
            if let Some((name, ordered)) = ordered {
                assert_eq!(ordered.active.fetch_add(1, Ordering::Relaxed), 0, "two at once");
                let last = ordered.last[name.issuer].swap(name.number as u64, Ordering::Relaxed);
                assert!(last < name.number as u64, "item {} after {last}", name.number);
            }
            for step in &program.items[item] {
                match *step {
                    Step::Burn(time) => burn(time),
                    Step::Block(time) => blocking(|| pause(time)),
                    Step::MayBlock(time) => may_block(|| pause(time)),
                    Step::Nap(time) => pause(time),
                    Step::Spawn(queue, item) => {
                        world.queues[queue].spawn_detached(world.item(&program, None, item)).unwrap();
                    }
                }
            }
            if let Some((_, ordered)) = ordered {
                ordered.active.fetch_sub(1, Ordering::Relaxed);
            }
            if let Some(name) = &name {
                name.done.store(true, Ordering::Relaxed);
            }
            world.ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn perform(self: &Arc<Self>, program: &Arc<Program>, own: &mut Own, operation: Operation) {
        let item = |name, item| self.item(program, name, item);
        match operation {
            Operation::Spawn(queue, number) => {
                drop(self.queues[queue].spawn(item(Some(own.next(queue)), number)).unwrap());
            }
            Operation::SpawnBatch(queue, number, count) => {
                let items: Vec<_> = (0..count).map(|_| item(Some(own.next(queue)), number)).collect();
                self.queues[queue].spawn_batch_detached(items).unwrap();
            }
            Operation::SpawnAfter(queue, number, delay) => {
                drop(self.queues[queue].spawn_after(delay, item(None, number)).unwrap());
            }
            Operation::Queue(queue, work) => _ = self.queues[queue].queue(&self.works[work]).unwrap(),
            Operation::QueueDelayed(queue, work, delay) => {
                _ = self.queues[queue].queue_delayed(&self.works[work], delay).unwrap();
            }
            Operation::ModDelayed(queue, work, delay) => {
                _ = self.queues[queue].mod_delayed(&self.works[work], delay).unwrap();
            }
            Operation::Cancel(work) => _ = self.works[work].cancel(),
            Operation::CancelSync(work) => _ = self.works[work].cancel_sync().unwrap(),
            Operation::FlushWork(work) => _ = self.works[work].flush().unwrap(),
            Operation::Flush(queue) => {
                self.queues[queue].flush().unwrap();
                let done = own.queued[queue].iter().all(|done| done.load(Ordering::Relaxed));
                assert!(done, "a flush of {} returned early", self.queues[queue].name());
            }
            Operation::FlushTimeout(queue, time) => _ = self.queues[queue].flush_timeout(time),
            // An ordered queue has no limit to set.
            Operation::SetMaxActive(queue, items) => _ = self.queues[queue].set_max_active(items),
            Operation::Pause(time) => pause(time),
        }
    }
}

/// Whenever time is about to pass, each pool that has work has as many workers as it wants, and none has too much while a
/// sibling has room.
fn watch(executor: &Executor) {
    let core = Arc::downgrade(&executor.inner.core);
    machine::check(Box::new(move |now| {
        let Some(core) = core.upgrade() else { return };
        for pool in core.pools() {
            let word = pool.running.load();
            let pending = pool.pending() as u64;
            let enough = match word.target() {
                Some(target) => word.running() + word.waking() >= target.min(word.running() + pending),
                // Each worker that starts wakes the next one.
                None => pending == 0 || word.waking() > 0,
            };
            let name = pool.spec.kind.name();
            assert!(enough, "at {now:?} pool {name} has {pending} items and too few workers: {word:?}");
        }
        let pools = core.pools();
        let gives = pools.iter().filter(|pool| pool.is_sibling_of(pool) && pool.has_excess());
        for giver in gives {
            let taker = pools.iter().find(|pool| pool.is_sibling_of(giver) && pool.running.load().takes_errands());
            let names = taker.map(|taker| [giver, taker].map(|pool| pool.spec.kind.name()));
            assert_eq!(names, None, "at {now:?} the first has too much and the second has room");
        }
    }));
}

/// So many programs run, unless `CMWQ_SIM_RUNS` says otherwise.
const RUNS: u64 = 300;

/// spec: L1 (accepted items run), C1.1 (an item waits for no worker while one may start)
#[test]
fn random_programs_lose_nothing() {
    runs(RUNS, |seed, trace| {
        let program = Program::new(seed);
        if trace {
            eprintln!("{program:#?}");
        }
        program.run();
    });
}
