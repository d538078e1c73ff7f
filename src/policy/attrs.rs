//! What the pools of an unbound queue are made by.

#![forbid(unsafe_code)]

use super::cpu_set::CpuSet;
use super::pods::AffinityScope;

/// Everything that decides on an unbound queue's pools. Queues that agree in it share their pools.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PoolAttrs {
    /// At most as many items are runnable as a pod has CPUs.
    pub(crate) managed: bool,
    pub(crate) scope: AffinityScope,
    /// Items never leave their pod.
    pub(crate) strict: bool,
    pub(crate) nice: i32,
    /// The CPUs that items may run on, by the numbers of the topology; not empty.
    pub(crate) cpus: CpuSet,
}
