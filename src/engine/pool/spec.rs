//! What a pool is: which items it runs, where, and how many at a time.

use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::WorkerId;
use crate::policy::watch::Rules;

/// The items that a pool runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolKind {
    /// Items queued on one CPU; the slot is the CPU's place in the executor.
    PerCpu { cpu: usize, slot: usize, high: bool },
    /// Bh items queued on one CPU. The pool has one worker, whatever the items do.
    Bh { cpu: usize, slot: usize, high: bool },
    /// Items of a pod.
    Unbound { id: usize },
}

/// What a pool is made of.
#[derive(Debug)]
pub(crate) struct PoolSpec {
    pub(crate) kind: PoolKind,
    /// The CPUs that its workers may run on, by the numbers of the topology.
    pub(crate) reach: CpuSet,
    /// The CPUs that it serves, by the numbers of the topology.
    pub(crate) cpus: CpuSet,
    /// The CPUs that it serves, by the numbers of the operating system. `None` if its workers may not leave them.
    pub(crate) home: Option<CpuSet>,
    pub(crate) nice: i32,
    /// Whether it keeps as many workers runnable as it has CPUs at present. Otherwise it runs as many as there are
    /// items.
    pub(crate) managed: bool,
}

impl PoolSpec {
    #[inline]
    pub(crate) fn is_bh(&self) -> bool {
        matches!(self.kind, PoolKind::Bh { .. })
    }

    /// Returns whether a worker on this CPU is in the pod that it works for.
    #[inline]
    pub(crate) fn is_home(&self, current_cpu: impl FnOnce() -> Option<usize>) -> bool {
        match &self.home {
            None => true,
            Some(home) => current_cpu().is_none_or(|cpu| home.contains(cpu)),
        }
    }

    /// Returns whether there is anything to look for in such a pool. If the pool manages concurrency, there always is:
    /// an item may be in a `may_block` guard for long.
    pub(crate) fn is_watched(&self, rules: &Rules) -> bool {
        self.manages_concurrency() || rules.watchdog.is_some() || rules.patience.is_some()
    }

    /// Returns whether a worker stops counting while its item blocks.
    #[inline]
    pub(crate) fn manages_concurrency(&self) -> bool {
        self.managed && !self.is_bh()
    }
}

impl PoolKind {
    /// Returns the name that the pool's workers share: `0`, `0H`, `bh0`, `u4`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::PerCpu { cpu, high, .. } => format!("{cpu}{}", if high { "H" } else { "" }),
            Self::Bh { cpu, high, .. } => format!("bh{cpu}{}", if high { "H" } else { "" }),
            Self::Unbound { id } => format!("u{id}"),
        }
    }

    /// Returns the name of a worker's thread, formed as in the kernel.
    pub(crate) fn worker_name(self, prefix: &str, id: WorkerId) -> String {
        match self {
            Self::PerCpu { cpu, high, .. } => format!("{prefix}/{cpu}:{id}{}", if high { "H" } else { "" }),
            Self::Bh { .. } => format!("{prefix}/{}", self.name()),
            Self::Unbound { id: pool } => format!("{prefix}/u{pool}:{id}"),
        }
    }
}
