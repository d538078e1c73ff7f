//! All participants, and the trait that they implement.

mod affinitypool;
mod blocking;
mod channel;
mod cmwq;
mod rayon;
mod rusty_pool;
mod threadpool;
mod threads;
mod tokio;
mod vicinal;

use ::cmwq::WorkQueue;

use crate::bed::Bed;
use crate::workload::Case;

/// An executor that is set up as its documentation recommends. All functions are generic, so that each rival is called
/// as directly as in a program of its own. A process ends without shutting its rival down.
pub(crate) trait Rival: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const CAN: Can;

    /// Makes the rival. `limit` is the number of items that it runs at a time, or `None` for the rival's default.
    fn new(limit: Option<usize>) -> Self;

    /// Makes one rival for each of this many independent users.
    fn tenants(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new(None)).collect()
    }

    /// Runs the item once, and does not return its result.
    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F);

    /// Runs the item and waits for its value in the way that the rival provides.
    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64;

    /// Runs many items.
    fn batch<F: FnOnce() + Send + 'static>(&self, items: impl Iterator<Item = F>) {
        items.for_each(|item| self.spawn(item));
    }

    /// Runs the item before other items, if the rival has a way to do that.
    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.spawn(item);
    }

    /// Runs an item that keeps a CPU busy for long, and declares that to the rival if possible.
    fn spawn_long<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.spawn(item);
    }

    /// Calls both closures, possibly at the same time. The caller is an item of a rival that [can fork](Can::forks).
    fn both<A, B>(first: A, second: B) -> (u64, u64)
    where
        A: FnOnce() -> u64 + Send,
        B: FnOnce() -> u64 + Send,
    {
        (first(), second())
    }

    /// Runs the sleep of an item, and declares the sleep to the rival if possible.
    fn block(sleep: impl FnOnce()) {
        sleep();
    }

    /// Returns the queue for reusable items, which only cmwq has.
    fn queue(&self) -> Option<&WorkQueue> {
        None
    }
}

/// The abilities of a rival, and its part in comparisons.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Can {
    pub(crate) part: Part,
    /// The number of items at a time can be limited, even to hundreds.
    pub(crate) limits: bool,
    /// One call can queue many items.
    pub(crate) batches: bool,
    /// Some items can overtake others.
    pub(crate) priorities: bool,
    /// This variant of the rival waits for a value in another way than the rival's other variants.
    pub(crate) joins: bool,
    /// Each user can have a rival of its own.
    pub(crate) tenants: bool,
    /// An item can give a part of its work to another worker.
    pub(crate) forks: bool,
    /// Workers stay on the CPU from which an item came.
    pub(crate) pins: bool,
}

/// The comparisons in which a rival takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A pool that programs use.
    Pool,
    /// Threads that take closures from a channel, without any management. Their cost is the least that a pool can have.
    Floor,
    /// A thread for each item.
    Threads,
    /// Two separate pools, one of them for items that are urgent or take long. They take part only if there are such
    /// items.
    Apart,
    /// A queue of cmwq whose items enter guards and set flags.
    Cmwq,
    /// A queue of cmwq whose items enter no guards and set no flags.
    Undeclared,
    /// A queue of cmwq that runs one item after the other.
    Ordered,
    /// A queue of cmwq with reusable items.
    Reusable,
    /// A queue of cmwq with reusable items, and with the pods (groups of CPUs that share a worker pool) of one affinity
    /// scope.
    Scope,
}

impl Part {
    pub(crate) fn is_cmwq(self) -> bool {
        !matches!(self, Self::Pool | Self::Floor | Self::Threads | Self::Apart)
    }

    /// Returns whether the rival takes part if items are independent of each other and have no special properties.
    pub(crate) fn is_general(self) -> bool {
        matches!(self, Self::Pool | Self::Floor | Self::Threads | Self::Cmwq)
    }
}

impl Can {
    const POOL: Self = Self {
        part: Part::Pool,
        limits: true,
        batches: false,
        priorities: false,
        joins: true,
        tenants: true,
        forks: false,
        pins: false,
    };
}

/// The facts about a rival that are known without making the rival.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) can: Can,
    /// Runs the case in this process.
    pub(crate) run: fn(&Case, &Bed) -> Vec<f64>,
}

const fn entry<R: Rival>() -> Entry {
    Entry { name: R::NAME, can: R::CAN, run: Case::run_on::<R> }
}

/// All rivals. Tables show rows with equal values in this order.
pub(crate) static RIVALS: &[Entry] = &[
    entry::<rayon::Rayon>(),
    entry::<rayon::RayonFifo>(),
    entry::<rayon::RayonApart>(),
    entry::<tokio::TokioBlocking>(),
    entry::<tokio::TokioSpawn>(),
    entry::<blocking::Blocking>(),
    entry::<threadpool::Threadpool>(),
    entry::<rusty_pool::RustyPool>(),
    entry::<affinitypool::Affinitypool>(),
    entry::<vicinal::Vicinal>(),
    entry::<vicinal::VicinalSystem>(),
    entry::<channel::Channel>(),
    entry::<threads::Threads>(),
    entry::<cmwq::Cmwq<cmwq::Default>>(),
    entry::<cmwq::Cmwq<cmwq::Undeclared>>(),
    entry::<cmwq::Cmwq<cmwq::PerCpu>>(),
    entry::<cmwq::Cmwq<cmwq::PerCpuUndeclared>>(),
    entry::<cmwq::Cmwq<cmwq::CpuScope>>(),
    entry::<cmwq::Cmwq<cmwq::Unbound>>(),
    entry::<cmwq::Cmwq<cmwq::Ordered>>(),
    entry::<cmwq::Cmwq<cmwq::Reusable>>(),
    entry::<cmwq::Cmwq<cmwq::ReusablePerCpu>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeCpu>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeSmt>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeCacheShard>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeCache>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeNuma>>(),
    entry::<cmwq::Cmwq<cmwq::ScopeSystem>>(),
];

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    RIVALS.iter().find(|entry| entry.name == name)
}

/// Returns the number of CPUs of this process. Pools whose size must be chosen get this number of threads.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Waits for an item's value through a channel. Rivals that return no values need it.
fn join_by_channel(spawn: impl FnOnce(std::sync::mpsc::SyncSender<u64>)) -> u64 {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    spawn(send);
    receive.recv().expect("the item sends before it ends")
}
