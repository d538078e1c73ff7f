//! The pools of one executor, and how a queue's attributes become pools.

use std::sync::{Arc, OnceLock};

use crate::policy::cpu_set::CpuSet;
use crate::policy::pods::{AffinityScope, Pods};
use crate::policy::topology::Topology;
use crate::sys::fork::Origin;

use super::core::{Core, UnboundKey, UnboundUser};
use super::placement::Placement;
use super::pool::{Pool, PoolKind, PoolSpec};
use super::queue::QueueKind;
use super::register::Register;

/// What the handles of an executor, and its queues, share. Its end is the end of the executor's threads.
#[derive(Debug)]
pub(crate) struct ExecutorInner {
    /// That of `core`, where issuers find it at once.
    pub(crate) origin: Origin,
    pub(crate) core: Arc<Core>,
    pub(crate) placement: Placement,
    /// The executor's CPUs, by the numbers of the topology.
    pub(crate) cpus: CpuSet,
    pub(crate) default_scope: AffinityScope,
    pub(crate) nice: NiceLevels,
    pub(crate) power_efficient: bool,
    pub(crate) queues: Register,
    topology: Topology,
    /// By scope; derived when first used.
    pods: [OnceLock<Pods>; AffinityScope::ALL.len()],
    /// By slot, normal and high priority; made when first used.
    per_cpu: Box<[[OnceLock<Arc<Pool>>; 2]]>,
}

/// The levels of normal and high-priority pools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NiceLevels {
    pub(crate) normal: i32,
    pub(crate) high: i32,
}

/// Where a shard's items go.
#[derive(Debug)]
pub(crate) struct PoolChoice {
    pub(crate) pool: Arc<Pool>,
    /// Keeps it open, if it is an unbound one.
    pub(crate) user: Option<Arc<UnboundUser>>,
}

impl ExecutorInner {
    pub(crate) fn new(
        core: Arc<Core>,
        (placement, cpus, topology): (Placement, CpuSet, Topology),
        default_scope: AffinityScope,
        nice: NiceLevels,
        power_efficient: bool,
    ) -> Self {
        let per_cpu = (0..placement.slots()).map(|_| [OnceLock::new(), OnceLock::new()]).collect();
        Self {
            origin: core.origin,
            core,
            placement,
            cpus,
            default_scope,
            nice,
            power_efficient,
            queues: Register::new(),
            topology,
            pods: Default::default(),
            per_cpu,
        }
    }

    /// The pool for items of this kind that are queued on the CPU of this slot.
    pub(crate) fn pool_for(&self, kind: &QueueKind, slot: usize) -> PoolChoice {
        match kind {
            QueueKind::PerCpu { high } => PoolChoice { pool: self.per_cpu_pool(slot, *high), user: None },
            QueueKind::Unbound { managed, scope, nice, cpus } => {
                let cpu = self.placement.slot_info(slot).cpu;
                let cpus = self.pod(*scope, cpus, cpu);
                let binding = self.placement.real(&cpus);
                let key = UnboundKey { cpus, nice: *nice, managed: *managed };
                let user = self.core.unbound_pool(key, binding);
                PoolChoice { pool: Arc::clone(&user.pool), user: Some(user) }
            }
        }
    }

    /// The CPUs near `cpu` that a queue may use: its pod, restricted to `allowed`, or all of `allowed` if nothing of
    /// the pod is left.
    fn pod(&self, scope: AffinityScope, allowed: &CpuSet, cpu: usize) -> CpuSet {
        let pods = self.pods[scope as usize].get_or_init(|| Pods::derive(&self.topology, scope, &self.cpus));
        let pod = pods.pod_of(cpu).map(|pod| pods.pods()[pod].intersection(allowed));
        pod.filter(|pod| !pod.is_empty()).unwrap_or_else(|| allowed.clone())
    }

    fn per_cpu_pool(&self, slot: usize, high: bool) -> Arc<Pool> {
        let make = || {
            let info = self.placement.slot_info(slot);
            let spec = PoolSpec {
                kind: PoolKind::PerCpu { cpu: info.cpu, slot, high },
                binding: CpuSet::single(info.real),
                cpus: CpuSet::single(info.cpu),
                nice: if high { self.nice.high } else { self.nice.normal },
                target: Some(1),
            };
            let pool = Pool::new(spec, Arc::clone(&self.core));
            self.core.register(&pool);
            pool
        };
        Arc::clone(self.per_cpu[slot][usize::from(high)].get_or_init(make))
    }
}

impl Drop for ExecutorInner {
    /// Nobody has a handle or a queue any more, and no item is in flight: the threads end by themselves.
    fn drop(&mut self) {
        if self.origin.is_forked() {
            // The threads are the parent's. What else is here is memory of nobody but the handle that goes.
            return;
        }
        for pool in self.per_cpu.iter().flatten().filter_map(OnceLock::get) {
            pool.close();
        }
        self.core.manager.stop();
    }
}
