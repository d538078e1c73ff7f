//! The pools of one executor, and how a queue's attributes become pools.

use std::sync::{Arc, OnceLock};

use crate::policy::attrs::AttrDefaults;
use crate::policy::cpu_set::CpuSet;
use crate::policy::nearby::Nearby;
use crate::policy::pods::AffinityScope;
use crate::policy::topology::Topology;
use crate::sys::fork::Origin;
use crate::sys::sync::{AtomicUsize, Mutex};

use crate::engine::pool::class::{Class, Division, PoolChoice};
use crate::engine::pool::spec::{PoolKind, PoolSpec};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::register::Register;
use crate::engine::queue::workqueue::QueueKind;
use crate::engine::refusal::QueueError;

use super::core::Core;
use super::placement::Placement;
use super::upkeep::Upkeep;

/// What the handles and the queues of an executor share. When it is dropped, the executor's threads end.
#[derive(Debug)]
pub(crate) struct ExecutorInner {
    /// A copy of `core.origin`, which issuers reach without `core`.
    pub(crate) origin: Origin, // I
    pub(crate) core: Arc<Core>,      // I
    pub(crate) upkeep: Arc<Upkeep>,  // I
    pub(crate) placement: Placement, // I
    /// The executor's CPUs, by the numbers of the topology.
    pub(crate) cpus: CpuSet, // I
    /// Attributes that may change at run time. The register of queues knows which queues must learn of a change.
    pub(crate) defaults: Mutex<AttrDefaults>, // K
    pub(crate) nice: NiceLevels,     // I
    pub(crate) power_efficient: bool, // I
    /// Whether the items of a queue are timed if its builder does not say.
    pub(crate) times_items: bool, // I
    pub(crate) queues: Register,     // K
    pub(crate) topology: Topology,   // I
    /// Which slots serve a CPU or node. Derived when first used.
    nearby: OnceLock<Nearby>, // A
    /// Counts items that were queued for a node from elsewhere. They take turns among the node's CPUs.
    pub(crate) turns: AtomicUsize, // A
    /// By slot. A CPU's pools are made when first used.
    per_cpu: Box<[CpuPools]>, // A
}

/// The pools of one CPU and its bh contexts: for each priority, normal and high, one of both.
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
        (placement, cpus, topology): (Placement, CpuSet, Topology),
        default_scope: AffinityScope,
        nice: NiceLevels,
        (power_efficient, times_items): (bool, bool),
    ) -> Self {
        let per_cpu = (0..placement.slots()).map(|_| CpuPools::default()).collect();
        Self {
            origin: upkeep.core.origin,
            core: Arc::clone(&upkeep.core),
            upkeep,
            placement,
            defaults: Mutex::new(AttrDefaults { scope: default_scope, cpus: cpus.clone() }),
            cpus,
            nice,
            power_efficient,
            times_items,
            queues: Register::new(),
            topology,
            nearby: OnceLock::new(),
            turns: AtomicUsize::new(0),
            per_cpu,
        }
    }

    /// Returns the pool for items of this kind that are queued on the CPU of this slot. If the pool belongs to a
    /// class, the caller calls [`attend`](Class::attend) on that. `known`: how the queue's attributes divide the
    /// CPUs, as last found.
    pub(crate) fn pool_for(&self, kind: &QueueKind, slot: usize, known: &mut Option<Division>) -> PoolChoice {
        match kind {
            QueueKind::PerCpu { high } => {
                PoolChoice { pool: self.per_cpu_pool(slot, *high, false), user: None }
            }
            QueueKind::Bh { high } => PoolChoice { pool: self.per_cpu_pool(slot, *high, true), user: None },
            QueueKind::Unbound(attrs) => {
                let known = match known.take() {
                    Some(division) if division.is_of(attrs) => known.insert(division),
                    _ => known.insert(Division::of(attrs, &self.topology)),
                };
                let pools = &self.upkeep.pools;
                let make = |key| Class::new(key, &self.topology, &self.placement, Arc::clone(pools));
                let user = known.user(|key| pools.class(key, make));
                let pod = known.pod_for(self.placement.slot_info(slot).cpu, &self.topology);
                PoolChoice { pool: user.pool(pod), user: Some(user) }
            }
        }
    }

    pub(crate) fn nearby(&self) -> Result<&Nearby, QueueError> {
        if self.origin.is_forked() {
            // Another thread of the parent may have been deriving this, and in the child no thread completes that.
            return Err(QueueError::Forked);
        }
        Ok(self.nearby.get_or_init(|| Nearby::derive(&self.topology, &self.cpus)))
    }

    fn per_cpu_pool(&self, slot: usize, high: bool, bh: bool) -> Arc<Pool> {
        let of_cpu = &self.per_cpu[slot];
        let pools = if bh { &of_cpu.bh } else { &of_cpu.pools };
        let make = || {
            let cpu = self.placement.slot_info(slot).cpu;
            let spec = PoolSpec {
                kind: if bh {
                    PoolKind::Bh { cpu, slot, high }
                } else {
                    PoolKind::PerCpu { cpu, slot, high }
                },
                reach: CpuSet::single(cpu),
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
        Arc::clone(pools[usize::from(high)].get_or_init(make))
    }
}

impl Drop for ExecutorInner {
    /// Lets the threads end. There is no handle and no queue any more, and no item is in flight.
    fn drop(&mut self) {
        if self.origin.is_forked() {
            // The threads are the parent's. In this process only memory is left, which the last handle frees.
            return;
        }
        let pools = self.per_cpu.iter().flat_map(|of_cpu| of_cpu.pools.iter().chain(&of_cpu.bh));
        for pool in pools.filter_map(OnceLock::get) {
            pool.close();
        }
        self.core.manager.stop();
    }
}
