//! The executors, queues and items of a round. Drivers replace them from time to time, so they also end while other
//! threads use them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::{self, ExecutorBuilderExt, ExecutorExt, WorkQueueBuilderExt};
use cmwq::{
    AffinityScope, Attrs, BuildExecutorError, BuildQueueError, Detection, Executor, SetMaxActiveError,
    TopologySource, Work, WorkQueue, WorkQueueBuilder,
};

use crate::behaviour;
use crate::books::{Books, Cell};
use crate::clock;
use crate::random::Random;

const EXECUTORS: usize = 2;
const QUEUES: usize = 12;
const ITEMS: usize = 12;
/// The name of the queues that have only periodic items.
pub(crate) const BEATS: &str = "beats";
/// The patience of the progress check, which is longer than any thread is delayed on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const SCOPES: [AffinityScope; 4] =
    [AffinityScope::Cpu, AffinityScope::Smt, AffinityScope::Cache, AffinityScope::System];

const SHAPES: [&str; 5] =
    ["core:1 pu:1", "core:2 pu:1", "l3:1 core:8 pu:1", "l3:2 core:2 pu:1", "numa:2 core:2 pu:2"];

/// The modes of detection.
const DETECTION: [Detection; 4] = [Detection::Off, Detection::Sampling, Detection::Switches, Detection::Auto];

/// The system queues of every executor, with the bh queues at the end.
const SYSTEM: [fn(&Executor) -> &WorkQueue; 9] = [
    Executor::events,
    Executor::events_highpri,
    Executor::events_long,
    Executor::events_unbound,
    Executor::events_freezable,
    Executor::events_power_efficient,
    Executor::events_freezable_power_efficient,
    Executor::events_bh,
    Executor::events_bh_highpri,
];
const SYSTEM_BH: usize = 7;

/// All objects of a round.
pub(crate) struct World {
    pub(crate) books: Arc<Books>,
    executors: Vec<Mutex<Option<Executor>>>,
    queues: Vec<Mutex<Option<Queue>>>,
    items: Vec<Mutex<Option<Item>>>,
    /// A queue only for periodic items. The books do not count the items that its end gives back.
    beats: Mutex<Option<WorkQueue>>,
    /// The prefix of thread names, which distinguishes the threads of a round from others.
    prefix: String,
    /// Set at the end of the round. Then items must neither spawn nor queue further items.
    closing: AtomicBool,
    /// Whether drivers destroy queues and shut executors down while other threads use them.
    pub(crate) has_ends: bool,
    /// Whether the test kit may shut all executors down.
    may_be_shut_down: bool,
    /// Of so many threads, one cannot be made. Zero means that all can be made.
    creation_fails: Arc<AtomicUsize>,
}

/// A queue, and the properties that the tests check.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) queue: WorkQueue,
    /// The cell that each run of the queue enters, if the queue runs one item at a time.
    pub(crate) alone: Option<Arc<Cell>>,
    /// The expected result of changing the queue's limit.
    pub(crate) limit: Result<(), SetMaxActiveError>,
}

/// A reusable item.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) work: Work,
}

impl World {
    pub(crate) fn new(random: &mut Random, round: usize, may_be_shut_down: bool) -> Arc<Self> {
        let world = Arc::new(Self {
            books: Arc::default(),
            executors: (0..EXECUTORS).map(|_| Mutex::default()).collect(),
            queues: (0..QUEUES).map(|_| Mutex::default()).collect(),
            items: (0..ITEMS).map(|_| Mutex::default()).collect(),
            beats: Mutex::default(),
            prefix: format!("s{round}"),
            closing: AtomicBool::new(false),
            has_ends: random.once_in(2),
            may_be_shut_down,
            // Only one round of six has failures, because a failure delays all creations for a second.
            creation_fails: Arc::new(AtomicUsize::new(if round % 6 == 2 { 12 } else { 0 })),
        });
        (0..EXECUTORS).for_each(|at| world.new_executor(at, random));
        (0..QUEUES).for_each(|at| world.new_queue(at, random));
        (0..ITEMS).for_each(|at| world.new_item(at, random));
        world.replace_beats(random);
        world
    }

    pub(crate) fn executor(&self, random: &mut Random) -> Option<Executor> {
        random.pick(&self.executors).lock().unwrap().clone()
    }

    /// Returns an executor, and puts a new one in its place.
    pub(crate) fn take_executor(&self, random: &mut Random) -> Option<Executor> {
        let at = random.below(EXECUTORS);
        let executor = self.executors[at].lock().unwrap().clone();
        self.new_executor(at, random);
        executor
    }

    pub(crate) fn queue(&self, random: &mut Random) -> Option<Queue> {
        if random.once_in(8) {
            return self.system_queue(random);
        }
        random.pick(&self.queues).lock().unwrap().clone()
    }

    fn system_queue(&self, random: &mut Random) -> Option<Queue> {
        let executor = self.executor(random)?;
        let at = random.below(SYSTEM.len());
        let limit = if at < SYSTEM_BH { Ok(()) } else { Err(SetMaxActiveError::Bh) };
        Some(Queue { queue: SYSTEM[at](&executor).clone(), alone: None, limit })
    }

    pub(crate) fn beats(&self) -> Option<WorkQueue> {
        self.beats.lock().unwrap().clone()
    }

    pub(crate) fn item(&self, random: &mut Random) -> Option<Item> {
        random.pick(&self.items).lock().unwrap().clone()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Returns whether any queue may end while it is used.
    pub(crate) fn may_end(&self) -> bool {
        self.has_ends || self.may_be_shut_down
    }

    /// Returns whether any queue may refuse an item. A queue may do so when it ends, or because of a fault of the test
    /// kit.
    pub(crate) fn may_refuse_any(&self) -> bool {
        self.has_ends || clock::is_virtual()
    }

    /// Returns whether the creation of a thread may fail.
    fn lacks_threads(&self) -> bool {
        self.creation_fails.load(SeqCst) > 0 || clock::is_virtual()
    }

    /// From now on, items spawn no further items, and all threads can be made.
    pub(crate) fn close(&self) {
        self.closing.store(true, SeqCst);
        self.creation_fails.store(0, SeqCst);
    }

    /// Drops every handle.
    pub(crate) fn clear(&self) {
        // The handles are dropped outside of the locks, because destructors may take them.
        let beats = self.beats.lock().unwrap().take();
        let items: Vec<_> = self.items.iter().map(|item| item.lock().unwrap().take()).collect();
        let queues: Vec<_> = self.queues.iter().map(|queue| queue.lock().unwrap().take()).collect();
        let executors: Vec<_> =
            self.executors.iter().map(|executor| executor.lock().unwrap().take()).collect();
        drop((beats, items, queues, executors));
    }

    /// Returns whether a reusable item is pending, running or disabled.
    pub(crate) fn has_restless_item(&self) -> bool {
        let items = self.items.iter().filter_map(|item| item.lock().unwrap().clone());
        items.map(|item| item.work).any(|work| work.is_pending() || work.is_running() || work.is_disabled())
    }

    /// Returns dumps of the executors, to find out what went wrong.
    pub(crate) fn describe(&self) -> String {
        let executors = self.executors.iter().filter_map(|executor| executor.lock().unwrap().clone());
        executors.map(|executor| executor.dump().to_string()).collect()
    }

    pub(crate) fn replace_executor(&self, random: &mut Random) {
        self.new_executor(random.below(EXECUTORS), random);
    }

    pub(crate) fn replace_queue(self: &Arc<Self>, random: &mut Random) {
        self.new_queue(random.below(QUEUES), random);
    }

    pub(crate) fn replace_beats(&self, random: &mut Random) {
        let Some(executor) = self.executor(random) else { return };
        let builder = if random.once_in(2) { WorkQueue::builder(BEATS) } else { WorkQueue::per_cpu(BEATS) };
        match builder.build_on(&executor) {
            Ok(queue) => drop(self.beats.lock().unwrap().replace(queue)),
            Err(BuildQueueError::ShutDown) if self.may_end() => {}
            Err(error) => panic!("a queue cannot be made: {error}"),
        }
    }

    pub(crate) fn replace_item(self: &Arc<Self>, random: &mut Random) {
        self.new_item(random.below(ITEMS), random);
    }

    fn new_executor(&self, at: usize, random: &mut Random) {
        let (fails, drawn) = (Arc::clone(&self.creation_fails), AtomicU64::new(random.next()));
        let before_spawn = move |name: &str| {
            let once_in = fails.load(SeqCst);
            let mut random = Random::new(drawn.fetch_add(1, SeqCst));
            if once_in > 0 && !name.ends_with("/manager") && random.once_in(once_in) {
                return Err(io::Error::other("no thread today"));
            }
            Ok(())
        };
        let mut builder = Executor::builder()
            .topology(TopologySource::Synthetic((*random.pick(&SHAPES)).to_owned()))
            .thread_name_prefix(self.prefix.clone())
            .idle_timeout(Duration::from_millis(20))
            .power_efficient(random.once_in(2))
            .detection(*random.pick(&DETECTION))
            .hog_threshold(random.pick(&[None, Some(2), Some(10)]).map(Duration::from_millis))
            .before_spawn(before_spawn);
        builder = match clock::is_virtual() {
            // The test kit finds hangs by itself. Without the handler, it would fail because no thread learns of an
            // item's panic.
            true => builder.panic_handler(|_| ()),
            false => builder.progress_check(PATIENCE),
        };
        builder = builder.prestart(random.once_in(4)).min_idle(2 + random.below(3));
        if random.once_in(2) {
            builder = builder.max_pending_bytes(1 + random.below(20_000) as u64);
        }
        if random.once_in(2) {
            builder = builder.random_placement(random.next());
        }
        if random.once_in(4) {
            builder = builder.max_threads(3 + random.below(20));
        }
        let executor = match builder.build() {
            Ok(executor) => executor,
            // The executor's hook permits all managers, but the test kit may refuse them.
            Err(BuildExecutorError::Thread(_)) if clock::is_virtual() => return,
            Err(error) => panic!("an executor cannot be made: {error}"),
        };
        let before = self.executors[at].lock().unwrap().replace(executor);
        drop(before);
    }

    fn new_queue(&self, at: usize, random: &mut Random) {
        let Some(executor) = self.executor(random) else { return };
        let (builder, limit) = any_kind(random);
        let builder = if random.once_in(3) { builder.max_pending(1 + random.below(200)) } else { builder };
        let may_have_rescuer = limit != Err(SetMaxActiveError::Bh);
        let builder = if may_have_rescuer && random.once_in(4) { builder.rescuer(true) } else { builder };
        let queue = match builder.name_threads(random.once_in(4)).build_on(&executor) {
            Ok(queue) => queue,
            Err(BuildQueueError::Rescuer { .. }) if self.lacks_threads() => return,
            // Another driver may shut the executor down at this moment.
            Err(BuildQueueError::ShutDown) if self.may_end() => return,
            Err(error) => panic!("a queue cannot be made: {error}"),
        };
        let alone = (limit == Err(SetMaxActiveError::Ordered)).then(Arc::default);
        let before = self.queues[at].lock().unwrap().replace(Queue { queue, alone, limit });
        drop(before);
    }

    fn new_item(self: &Arc<Self>, at: usize, random: &mut Random) {
        let item = Item { work: behaviour::reusable(self, random.next()) };
        let before = self.items[at].lock().unwrap().replace(item);
        drop(before);
    }
}

/// Draws a builder for a queue of any kind. Also returns the expected result of changing the queue's limit.
fn any_kind(random: &mut Random) -> (WorkQueueBuilder, Result<(), SetMaxActiveError>) {
    let (builder, limit) = any_unfrozen(random);
    // A bh queue passes its items to their thread at once, so it cannot be frozen.
    let freezes = limit != Err(SetMaxActiveError::Bh) && random.once_in(3);
    (if freezes { builder.freezable(true) } else { builder }, limit)
}

fn any_unfrozen(random: &mut Random) -> (WorkQueueBuilder, Result<(), SetMaxActiveError>) {
    let scope = *random.pick(&SCOPES);
    let builder = match random.below(11) {
        0 => WorkQueue::builder("managed"),
        1 => WorkQueue::builder("scoped").attrs(Attrs::new().scope(scope)),
        2 => WorkQueue::builder("limited").weight(300).max_active_total(1 + random.below(4)),
        3 => match random.below(8) {
            0 => WorkQueue::per_cpu("per CPU"),
            limit => WorkQueue::per_cpu("per CPU").max_active(limit),
        },
        4 => WorkQueue::per_cpu("high").high_priority(true),
        5 => WorkQueue::per_cpu("heavy").weight(1).cpu_intensive(true),
        6 => WorkQueue::per_cpu("frugal").power_efficient(true),
        7 => WorkQueue::unbound("unbound").weight(10_000).max_active(1 + random.below(16)),
        8 => return (kernel::bh("bh"), Err(SetMaxActiveError::Bh)),
        9 => return (kernel::bh("urgent bh").high_priority(true), Err(SetMaxActiveError::Bh)),
        _ => return (WorkQueue::ordered("ordered"), Err(SetMaxActiveError::Ordered)),
    };
    (builder, Ok(()))
}
