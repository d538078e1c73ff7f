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

/// What moves between the pods of a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Moves {
    /// Nothing: each item starts, and stays, in its pod.
    Nothing,
    /// Items that their own pod cannot take, before they start.
    Items,
    /// Threads, wherever the system puts them.
    Threads,
}

impl PoolAttrs {
    /// What moves between this many pods.
    pub(crate) fn moves(&self, pods: usize) -> Moves {
        match (self.strict || pods < 2, self.managed) {
            (true, _) => Moves::Nothing,
            (false, true) => Moves::Items,
            (false, false) => Moves::Threads,
        }
    }
}
