//! The pools of one executor, and how a queue's attributes determine the pools that the queue uses.

use std::sync::{Arc, OnceLock};

use crate::policy::attrs::AttrDefaults;
use crate::policy::cpu_set::CpuSet;
use crate::policy::locks::Rank;
use crate::policy::nearby::Nearby;
use crate::policy::pods::AffinityScope;
use crate::policy::topology::Topology;
use crate::protocol::bytes::ByteCell;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::sync::{AtomicUsize, Mutex};

use crate::engine::item::token::Token;
use crate::engine::pool::class::{Class, Division, PoolChoice};
use crate::engine::pool::spec::{PoolKind, PoolSpec};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::backlog::Backlog;
use crate::engine::queue::register::Register;
use crate::engine::queue::workqueue::QueueKind;
use crate::engine::refusal::QueueError;

use super::core::Core;
use super::placement::Placement;
use super::upkeep::Upkeep;

/// The data that the handles and the queues of an executor share. When this data is dropped, the executor's threads
/// end.
#[derive(Debug)]
pub(crate) struct ExecutorInner {
    /// A copy of `core.origin`, so that issuers need not access `core`.
    pub(crate) origin: Origin, // I
    /// The number of the made-up (simulated) machine on which the executor was made. 0 if the executor was made on the
    /// real machine.
    pub(crate) machine: u64, // I
    pub(crate) core: Arc<Core>,      // I
    pub(crate) upkeep: Arc<Upkeep>,  // I
    pub(crate) placement: Placement, // I
    /// The executor's CPUs, numbered as in the topology.
    pub(crate) cpus: CpuSet, // I
    /// The default attributes, which may change at run time. A thread that changes these attributes uses the register
    /// of queues to find the queues that it must update.
    pub(crate) defaults: Mutex<AttrDefaults>, // K
    pub(crate) nice: NiceLevels,     // I
    pub(crate) power_efficient: bool, // I
    /// Whether the executor times the items of a queue if the queue's builder does not say whether to time them.
    pub(crate) times_items: bool, // I
    /// Whether the pools of a queue make workers when the queue is built, before it has items.
    pub(crate) prestarts: bool, // I
    pub(crate) queues: Register,     // K
    /// The count of the pending items of all queues, if the executor has a bound on their number.
    pub(crate) backlog: Option<Backlog>, // A
    /// The count of the bytes of the pending items of all queues, if the executor has a bound on these bytes.
    pub(crate) bytes: Option<ByteCell>, // K
    pub(crate) topology: Topology,   // I
    /// The executor's token, which is the parent of the queues' tokens. The token is made when a thread first needs it.
    pub(crate) token: OnceLock<Token>, // A
    /// For each CPU and each NUMA node of the machine, the indices of the executor's CPUs that serve this CPU or node.
    /// A thread computes this value when it is first needed.
    nearby: OnceLock<Nearby>, // A
    /// The number of submissions to a NUMA node by an issuer outside that node, for all nodes together. The CPUs of a
    /// node get such submissions in rotation.
    pub(crate) turns: AtomicUsize, // A
    /// The pools of each of the executor's CPUs. Each pool is made when it is first used.
    per_cpu: Box<[CpuPools]>, // A, set under U
    making_pools: Mutex<()>,         // U
}

/// The pools and the bh contexts of one CPU. There is one pool and one bh context for each of the two priorities,
/// normal and high.
#[derive(Debug, Default)]
struct CpuPools {
    pools: [OnceLock<Arc<Pool>>; 2],
    bh: [OnceLock<Arc<Pool>>; 2],
}

/// The nice levels of normal and high-priority pools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NiceLevels {
    pub(crate) normal: i32,
    pub(crate) high: i32,
}

impl ExecutorInner {
    pub(crate) fn new(
        upkeep: Arc<Upkeep>,
        (placement, topology): (Placement, Topology),
        default_scope: AffinityScope,
        nice: NiceLevels,
        (power_efficient, times_items, prestarts): (bool, bool, bool),
    ) -> Self {
        let cpus: CpuSet = placement.cpus.iter().map(|cpu| cpu.cpu).collect();
        let per_cpu = (0..placement.len()).map(|_| CpuPools::default()).collect();
        let backlog = upkeep.core.settings.max_pending.map(Backlog::new);
        let bytes = upkeep.core.settings.max_pending_bytes.map(ByteCell::new);
        Self {
            origin: upkeep.core.origin,
            machine: machine::number(),
            core: Arc::clone(&upkeep.core),
            upkeep,
            placement,
            defaults: Mutex::new(AttrDefaults { scope: default_scope, cpus: cpus.clone() }),
            cpus,
            nice,
            power_efficient,
            times_items,
            prestarts,
            queues: Register::new(),
            backlog,
            bytes,
            topology,
            token: OnceLock::new(),
            nearby: OnceLock::new(),
            turns: AtomicUsize::new(0),
            per_cpu,
            making_pools: Mutex::ranked(Rank::PerCpuPools, ()),
        }
    }

    /// Returns the pool for items that are queued to a queue of this kind on the CPU with this index. If the pool
    /// belongs to a class, the caller must call [`attend`](Class::attend) on the class. `known` caches how the queue's
    /// attributes divide the CPUs.
    pub(crate) fn pool_for(
        &self,
        kind: &QueueKind,
        index: usize,
        known: &mut Option<Division>,
    ) -> PoolChoice {
        match kind {
            QueueKind::PerCpu { high } => {
                PoolChoice { pool: self.per_cpu_pool(index, *high, false), user: None }
            }
            QueueKind::Bh { high } => PoolChoice { pool: self.per_cpu_pool(index, *high, true), user: None },
            QueueKind::Unbound(attrs) => {
                let known = match known.take() {
                    Some(division) if division.is_of(attrs) => known.insert(division),
                    _ => known.insert(Division::of(attrs, &self.topology)),
                };
                let pools = &self.upkeep.pools;
                let make = |key| Class::new(key, &self.topology, &self.placement, Arc::clone(pools));
                let user = known.user(|key| pools.class(key, make));
                let pod = known.pod_for(self.placement.cpu(index).cpu);
                PoolChoice { pool: user.pool(pod), user: Some(user) }
            }
        }
    }

    pub(crate) fn nearby(&self) -> Result<&Nearby, QueueError> {
        if self.origin.is_forked() {
            // When the process was forked, another thread of the parent may have been computing `nearby`. The child has
            // no thread that would finish this computation, so the child must not wait for `nearby`.
            return Err(QueueError::Forked);
        }
        Ok(self.nearby.get_or_init(|| Nearby::derive(&self.topology, &self.cpus)))
    }

    fn per_cpu_pool(&self, index: usize, high: bool, bh: bool) -> Arc<Pool> {
        let of_cpu = &self.per_cpu[index];
        let pools = if bh { &of_cpu.bh } else { &of_cpu.pools };
        let make = || {
            let cpu = self.placement.cpu(index).cpu;
            let spec = PoolSpec {
                kind: if bh {
                    PoolKind::Bh { cpu, index, high }
                } else {
                    PoolKind::PerCpu { cpu, index, high }
                },
                reach: CpuSet::single(cpu),
                of_queue: CpuSet::single(cpu),
                cpus: CpuSet::single(cpu),
                home: None,
                nice: if high { self.nice.high } else { self.nice.normal },
                managed: true,
            };
            let pool = Pool::new(spec, Arc::clone(&self.core), None);
            self.upkeep.pools.add(&pool);
            pool.adapt(&self.core.environment.present());
            pool
        };
        let pool = &pools[usize::from(high)];
        if let Some(pool) = pool.get() {
            return Arc::clone(pool);
        }
        // A made-up machine does not notice that a thread waits for a `OnceLock`. Each thread that makes a pool here
        // holds the lock `making_pools`, so no thread waits for a `OnceLock`.
        let _making = self.making_pools.lock();
        Arc::clone(pool.get_or_init(make))
    }
}

impl Drop for ExecutorInner {
    /// Tells the executor's threads to end. When this function is called, the executor has no handle, no queue and no
    /// item in flight.
    fn drop(&mut self) {
        if self.origin.is_forked() {
            // The threads belong to the parent process. In a forked process, the executor is only memory, which is
            // freed after this call.
            return;
        }
        let pools = self.per_cpu.iter().flat_map(|of_cpu| of_cpu.pools.iter().chain(&of_cpu.bh));
        for pool in pools.filter_map(OnceLock::get) {
            pool.close();
        }
        self.core.manager.stop();
    }
}
