use std::marker::PhantomData;
use std::sync::OnceLock;

use cmwq::{AffinityScope, Attrs, Executor, WorkQueue, WorkQueueBuilder, blocking};

use super::{Can, Part, Rival};

const UNLIMITED: &str = "the queue has no limit";

/// A queue of this kind. The first urgent item makes the queue of urgent items, and the first long item makes the queue
/// of long items.
pub(crate) struct Cmwq<K> {
    executor: Executor,
    queue: WorkQueue,
    urgent: OnceLock<WorkQueue>,
    long: OnceLock<WorkQueue>,
    kind: PhantomData<fn() -> K>,
}

/// A kind of queue, and its use.
pub(crate) trait Kind: 'static {
    const NAME: &'static str;
    const PART: Part;

    fn queue(name: &str) -> WorkQueueBuilder;
}

/// One row for each kind: its type, its name, its part in comparisons, and its queue.
macro_rules! kinds {
    ($($kind:ident, $name:literal, $part:ident, $queue:expr;)*) => {$(
        pub(crate) struct $kind;

        impl Kind for $kind {
            const NAME: &'static str = $name;
            const PART: Part = Part::$part;

            fn queue(name: &str) -> WorkQueueBuilder {
                $queue(name)
            }
        }
    )*};
}

kinds! {
    Default, "cmwq", Cmwq, WorkQueue::builder;
    Undeclared, "cmwq-undeclared", Undeclared, WorkQueue::builder;
    PerCpu, "cmwq-per-cpu", Cmwq, WorkQueue::per_cpu;
    PerCpuUndeclared, "cmwq-per-cpu-undeclared", Undeclared, WorkQueue::per_cpu;
    CpuScope, "cmwq-cpu-scope", Cmwq, |name| WorkQueue::builder(name).attrs(Attrs::new().scope(AffinityScope::Cpu));
    Unbound, "cmwq-unbound", Cmwq, WorkQueue::unbound;
    Ordered, "cmwq-ordered", Ordered, WorkQueue::ordered;
    Reusable, "cmwq-reusable", Reusable, WorkQueue::builder;
    ReusablePerCpu, "cmwq-reusable-per-cpu", Reusable, WorkQueue::per_cpu;
    ScopeCpu, "cmwq-scope-cpu", Scope, scoped(AffinityScope::Cpu);
    ScopeSmt, "cmwq-scope-smt", Scope, scoped(AffinityScope::Smt);
    ScopeCacheShard, "cmwq-scope-cache_shard", Scope, scoped(AffinityScope::CacheShard);
    ScopeCache, "cmwq-scope-cache", Scope, scoped(AffinityScope::Cache);
    ScopeNuma, "cmwq-scope-numa", Scope, scoped(AffinityScope::Numa);
    ScopeSystem, "cmwq-scope-system", Scope, scoped(AffinityScope::System);
}

/// The queues are unbound, as in the kernel's test.
fn scoped(scope: AffinityScope) -> impl Fn(&str) -> WorkQueueBuilder {
    move |name| WorkQueue::unbound(name).attrs(Attrs::new().scope(scope))
}

impl<K: Kind> Cmwq<K> {
    fn on(executor: &Executor, limit: Option<usize>) -> Self {
        let queue = match limit {
            Some(limit) => K::queue("items").max_active_total(limit),
            None => K::queue("items"),
        };
        let (executor, queue) = (executor.clone(), build(queue, executor));
        Self { executor, queue, urgent: OnceLock::new(), long: OnceLock::new(), kind: PhantomData }
    }
}

fn build(queue: WorkQueueBuilder, executor: &Executor) -> WorkQueue {
    queue.build_on(executor).expect("the kinds are well-formed")
}

impl<K: Kind> Rival for Cmwq<K> {
    const NAME: &'static str = K::NAME;
    const CAN: Can = Can {
        part: K::PART,
        limits: !matches!(K::PART, Part::Ordered),
        batches: true,
        priorities: !matches!(K::PART, Part::Ordered),
        joins: true,
        tenants: true,
        forks: matches!(K::PART, Part::Cmwq),
        pins: false,
    };

    fn new(limit: Option<usize>) -> Self {
        Self::on(&executor(), limit)
    }

    fn tenants(count: usize) -> Vec<Self> {
        let executor = executor();
        (0..count).map(|_| Self::on(&executor, None)).collect()
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.queue.spawn_detached(item).expect(UNLIMITED);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.queue.spawn(item).expect(UNLIMITED).join().expect("the item does not panic")
    }

    fn batch<F: FnOnce() + Send + 'static>(&self, items: impl Iterator<Item = F>) {
        self.queue.items(items).spawn_detached().expect(UNLIMITED);
    }

    fn both<A, B>(first: A, second: B) -> (u64, u64)
    where
        A: FnOnce() -> u64 + Send,
        B: FnOnce() -> u64 + Send,
    {
        cmwq::join(first, second)
    }

    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        // An ordered queue has no priority, and takes part in no workload with urgent items.
        let urgent = || build(K::queue("urgent").high_priority(true), &self.executor);
        self.urgent.get_or_init(urgent).spawn_detached(item).expect(UNLIMITED);
    }

    fn spawn_long<F: FnOnce() + Send + 'static>(&self, item: F) {
        let long = || build(WorkQueue::per_cpu("long").cpu_intensive(true), &self.executor);
        let tells = K::PART == Part::Cmwq;
        let queue = if tells { self.long.get_or_init(long) } else { &self.queue };
        queue.spawn_detached(item).expect(UNLIMITED);
    }

    fn block(sleep: impl FnOnce()) {
        if K::PART == Part::Undeclared { sleep() } else { blocking(sleep) }
    }

    fn queue(&self) -> Option<&WorkQueue> {
        matches!(K::PART, Part::Reusable | Part::Scope).then_some(&self.queue)
    }
}

fn executor() -> Executor {
    Executor::builder().build().expect("an executor can be made")
}
