//! The executors, queues and items of a round. Each is replaced by another one now and then, so that all of them also
//! end in the midst of things.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{
    AffinityScope, Attrs, BuildQueueError, Executor, TopologySource, Work, WorkQueue, WorkQueueBuilder,
};

use crate::behaviour;
use crate::books::{Books, Cell};
use crate::random::Random;

const EXECUTORS: usize = 2;
const QUEUES: usize = 12;
const ITEMS: usize = 12;
/// Longer than any thread is kept from going on, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

const SCOPES: [AffinityScope; 4] =
    [AffinityScope::Cpu, AffinityScope::Smt, AffinityScope::Cache, AffinityScope::System];

const SHAPES: [&str; 5] =
    ["core:1 pu:1", "core:2 pu:1", "l3:1 core:8 pu:1", "l3:2 core:2 pu:1", "numa:2 core:2 pu:2"];

/// See the module.
pub(crate) struct World {
    pub(crate) books: Arc<Books>,
    executors: Vec<Mutex<Option<Executor>>>,
    queues: Vec<Mutex<Option<Queue>>>,
    items: Vec<Mutex<Option<Item>>>,
    /// What threads are named: those of a round can be told from others.
    prefix: String,
    /// Items spawn and queue nothing any more.
    closing: AtomicBool,
    /// Queues are destroyed, and executors shut down, while others use them.
    pub(crate) has_ends: bool,
    /// One of so many threads cannot be made; 0: all can.
    creation_fails: Arc<AtomicUsize>,
}

/// A queue, and what is known of it.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) queue: WorkQueue,
    /// If one item at a time runs on it: the place for that item.
    pub(crate) alone: Option<Arc<Cell>>,
}

/// A reusable item.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) work: Work,
}

impl World {
    pub(crate) fn new(random: &mut Random, round: usize) -> Arc<Self> {
        let world = Arc::new(Self {
            books: Arc::default(),
            executors: (0..EXECUTORS).map(|_| Mutex::default()).collect(),
            queues: (0..QUEUES).map(|_| Mutex::default()).collect(),
            items: (0..ITEMS).map(|_| Mutex::default()).collect(),
            prefix: format!("s{round}"),
            closing: AtomicBool::new(false),
            has_ends: random.once_in(2),
            // A failure holds all creations back for a second, so such a round does little else than wait.
            creation_fails: Arc::new(AtomicUsize::new(if round % 6 == 2 { 12 } else { 0 })),
        });
        (0..EXECUTORS).for_each(|at| world.new_executor(at, random));
        (0..QUEUES).for_each(|at| world.new_queue(at, random));
        (0..ITEMS).for_each(|at| world.new_item(at, random));
        world
    }

    pub(crate) fn executor(&self, random: &mut Random) -> Option<Executor> {
        random.pick(&self.executors).lock().unwrap().clone()
    }

    /// Another one takes its place.
    pub(crate) fn take_executor(&self, random: &mut Random) -> Option<Executor> {
        let at = random.below(EXECUTORS);
        let executor = self.executors[at].lock().unwrap().clone();
        self.new_executor(at, random);
        executor
    }

    pub(crate) fn queue(&self, random: &mut Random) -> Option<Queue> {
        random.pick(&self.queues).lock().unwrap().clone()
    }

    pub(crate) fn item(&self, random: &mut Random) -> Option<Item> {
        random.pick(&self.items).lock().unwrap().clone()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Items bring forth no others from now on, and threads can be made.
    pub(crate) fn close(&self) {
        self.closing.store(true, SeqCst);
        self.creation_fails.store(0, SeqCst);
    }

    /// Drops every handle.
    pub(crate) fn clear(&self) {
        // Outside of the locks: destructors may look for others.
        let items: Vec<_> = self.items.iter().map(|item| item.lock().unwrap().take()).collect();
        let queues: Vec<_> = self.queues.iter().map(|queue| queue.lock().unwrap().take()).collect();
        let executors: Vec<_> =
            self.executors.iter().map(|executor| executor.lock().unwrap().take()).collect();
        drop((items, queues, executors));
    }

    /// What the executors look like, for whoever finds out what went wrong.
    pub(crate) fn describe(&self) -> String {
        let executors = self.executors.iter().filter_map(|executor| executor.lock().unwrap().clone());
        executors.map(|executor| executor.snapshot().to_string()).collect()
    }

    pub(crate) fn replace_executor(&self, random: &mut Random) {
        self.new_executor(random.below(EXECUTORS), random);
    }

    pub(crate) fn replace_queue(self: &Arc<Self>, random: &mut Random) {
        self.new_queue(random.below(QUEUES), random);
    }

    pub(crate) fn replace_item(self: &Arc<Self>, random: &mut Random) {
        self.new_item(random.below(ITEMS), random);
    }

    fn new_executor(&self, at: usize, random: &mut Random) {
        let (fails, drawn) = (Arc::clone(&self.creation_fails), AtomicU64::new(random.next()));
        let before_spawn = move |name: &str| {
            let once_in = fails.load(SeqCst);
            let mut random = Random(drawn.fetch_add(1, SeqCst));
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
            .progress_check(PATIENCE)
            .before_spawn(before_spawn);
        if random.once_in(2) {
            builder = builder.random_placement(random.next());
        }
        if random.once_in(4) {
            builder = builder.max_threads(3 + random.below(20));
        }
        let executor = builder.build().expect("an executor can be made");
        let before = self.executors[at].lock().unwrap().replace(executor);
        drop(before);
    }

    fn new_queue(&self, at: usize, random: &mut Random) {
        let Some(executor) = self.executor(random) else { return };
        let (builder, is_alone) = any_kind(random);
        let builder = if random.once_in(3) { builder.max_pending(1 + random.below(200)) } else { builder };
        let builder = if random.once_in(4) { builder.rescuer() } else { builder };
        let queue = match builder.build_on(&executor) {
            Ok(queue) => queue,
            Err(BuildQueueError::Rescuer { .. }) if self.creation_fails.load(SeqCst) > 0 => return,
            // Somebody shuts the executor down at this moment, perhaps before the rescuer is made.
            Err(BuildQueueError::ShutDown | BuildQueueError::Rescuer { .. }) if self.has_ends => return,
            Err(error) => panic!("a queue cannot be made: {error}"),
        };
        let before =
            self.queues[at].lock().unwrap().replace(Queue { queue, alone: is_alone.then(Arc::default) });
        drop(before);
    }

    fn new_item(self: &Arc<Self>, at: usize, random: &mut Random) {
        let item = Item { work: behaviour::reusable(self, random.next()) };
        let before = self.items[at].lock().unwrap().replace(item);
        drop(before);
    }
}

/// A queue of any kind, and whether one item at a time runs on it.
fn any_kind(random: &mut Random) -> (WorkQueueBuilder, bool) {
    let (builder, alone) = any_unfrozen(random);
    (if random.once_in(3) { builder.freezable() } else { builder }, alone)
}

fn any_unfrozen(random: &mut Random) -> (WorkQueueBuilder, bool) {
    let scope = *random.pick(&SCOPES);
    match random.below(9) {
        0 => (WorkQueue::new("managed"), false),
        1 => (WorkQueue::new("scoped").attrs(Attrs::new().scope(scope)), false),
        2 => (WorkQueue::new("limited").max_active_total(1 + random.below(4)), false),
        3 => (WorkQueue::per_cpu("per CPU").max_active(random.below(8)), false),
        4 => (WorkQueue::per_cpu("high").high_priority(), false),
        5 => (WorkQueue::per_cpu("heavy").cpu_intensive(), false),
        6 => (WorkQueue::per_cpu("frugal").power_efficient(), false),
        7 => (WorkQueue::unbound("unbound").max_active(1 + random.below(16)), false),
        _ => (WorkQueue::ordered("ordered"), true),
    }
}
