//! Who takes part: one trait, and everybody who implements it.

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

/// An executor, as its user would set it up who knows its documentation.
///
/// Everything is generic, so that each rival is called as directly as in a program of its own. A process ends with its
/// rival in it: none is shut down.
pub(crate) trait Rival: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const CAN: Can;

    /// With the limit on items at a time that it has by default, or with this one.
    fn new(limit: Option<usize>) -> Self;

    /// One for each of so many users who know nothing of each other.
    fn tenants(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new(None)).collect()
    }

    /// Runs it once, and tells nobody.
    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F);

    /// Runs it and waits for what it returns, in the way that the rival has for this.
    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64;

    /// Many at once.
    fn batch<F: FnOnce() + Send + 'static>(&self, items: impl Iterator<Item = F>) {
        items.for_each(|item| self.spawn(item));
    }

    /// Before others, if there is a way.
    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.spawn(item);
    }

    /// One that keeps a CPU busy for long, if there is a way to say so.
    fn spawn_long<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.spawn(item);
    }

    /// What an item does around something that sleeps.
    fn block(sleep: impl FnOnce()) {
        sleep();
    }

    /// Where reusable items are queued. Only cmwq has such.
    fn queue(&self) -> Option<&WorkQueue> {
        None
    }
}

/// What a rival can do, and what it is there for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Can {
    pub(crate) part: Part,
    /// It can be told how many items to run at a time, hundreds if need be.
    pub(crate) limits: bool,
    /// There is a call that queues many items.
    pub(crate) batches: bool,
    /// Some items can overtake others.
    pub(crate) priorities: bool,
    /// Waiting for a value is not another one's, called the same.
    pub(crate) joins: bool,
    /// Each user can have one of his own.
    pub(crate) tenants: bool,
}

/// Which comparisons it is there for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A pool that somebody would use.
    Pool,
    /// A channel with threads behind it, which manages nothing: what no pool can do without.
    Floor,
    /// A thread for each item.
    Threads,
    /// Pools beside each other, one for what is urgent or takes long: only where there is such.
    Apart,
    /// A queue of cmwq whose items tell what they do.
    Cmwq,
    /// The same, and they tell nothing.
    Undeclared,
    /// One item after the other.
    Ordered,
    /// The same items again and again.
    Reusable,
    /// Reusable items, and pods of one affinity scope.
    Scope,
}

impl Part {
    pub(crate) fn is_cmwq(self) -> bool {
        !matches!(self, Self::Pool | Self::Floor | Self::Threads | Self::Apart)
    }

    /// Takes part where items are independent of each other and tell nothing of themselves.
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
    };
}

/// What is known of a rival without making one.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) can: Can,
    /// Runs the case in this process.
    pub(crate) run: fn(&Case, &Bed) -> Vec<f64>,
}

const fn entry<R: Rival>() -> Entry {
    Entry { name: R::NAME, can: R::CAN, run: Case::run_on::<R> }
}

/// All, in the order of tables whose rows tie.
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

/// The CPUs that this process may use: as many threads are in a pool whose size somebody has to choose.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// For rivals that return nothing: the item sends its value.
fn join_by_channel(spawn: impl FnOnce(std::sync::mpsc::SyncSender<u64>)) -> u64 {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    spawn(send);
    receive.recv().expect("the item sends before it ends")
}
