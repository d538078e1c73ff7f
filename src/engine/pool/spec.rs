//! The specification of a pool: which items it runs, where, and how many at a time.

use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::Share;
use crate::policy::idle_set::WorkerId;
use crate::policy::watch::Rules;

use crate::engine::executor::environment::Present;

/// The items that a pool runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolKind {
    /// Items that are queued on one CPU. `index` is the index of the CPU among the executor's CPUs.
    PerCpu { cpu: usize, index: usize, high: bool },
    /// Bh items that are queued on one CPU. The pool has one worker, even if an item blocks.
    Bh { cpu: usize, index: usize, high: bool },
    /// Items that are queued to unbound queues on the CPUs of one pod.
    Unbound { id: usize },
}

/// The fixed properties of a pool.
#[derive(Debug)]
pub(crate) struct PoolSpec {
    pub(crate) kind: PoolKind,
    /// The CPUs that the pool's workers may run on, as the topology numbers them.
    pub(crate) reach: CpuSet,
    /// The CPUs that the pool's queues may use, as the topology numbers them. The workers run on these CPUs if all CPUs
    /// of `reach` are lost.
    pub(crate) of_queue: CpuSet,
    /// The CPUs that the pool serves, as the topology numbers them.
    pub(crate) cpus: CpuSet,
    /// The CPUs that the pool serves, as the operating system numbers them. `None` if the pool's workers may not
    /// leave these CPUs.
    pub(crate) home: Option<CpuSet>,
    pub(crate) nice: i32,
    /// Whether the pool keeps as many workers runnable as it has CPUs at present. A pool that is not managed runs as
    /// many workers as it has items.
    pub(crate) managed: bool,
}

impl PoolSpec {
    /// Returns the pool's present share of the executor's CPUs.
    pub(crate) fn share(&self, present: &Present) -> Share {
        present.cpus.share(&self.reach, &self.of_queue)
    }

    #[inline]
    pub(crate) fn is_bh(&self) -> bool {
        matches!(self.kind, PoolKind::Bh { .. })
    }

    /// Returns whether a worker of this pool is in its home pod. `current_cpu` returns the CPU on which the worker
    /// runs.
    #[inline]
    pub(crate) fn is_home(&self, current_cpu: impl FnOnce() -> Option<usize>) -> bool {
        match &self.home {
            None => true,
            Some(home) => current_cpu().is_none_or(|cpu| home.contains(cpu)),
        }
    }

    /// Returns whether the manager has a reason to watch a pool with this specification. There is always a reason if
    /// the pool manages concurrency, because an item may stay in a `may_block` guard for a long time.
    pub(crate) fn is_watched(&self, rules: &Rules) -> bool {
        self.manages_concurrency() || rules.watchdog.is_some() || rules.patience.is_some()
    }

    /// Returns whether a worker of the pool leaves the count of running workers while its item blocks.
    #[inline]
    pub(crate) fn manages_concurrency(&self) -> bool {
        self.managed && !self.is_bh()
    }
}

impl PoolKind {
    /// Returns the name that the pool's workers share, such as `0`, `0H`, `bh0` or `u4`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::PerCpu { cpu, high, .. } => format!("{cpu}{}", if high { "H" } else { "" }),
            Self::Bh { cpu, high, .. } => format!("bh{cpu}{}", if high { "H" } else { "" }),
            Self::Unbound { id } => format!("u{id}"),
        }
    }

    /// Returns the name of a worker's thread, in the form of the kernel's worker names.
    pub(crate) fn worker_name(self, prefix: &str, id: WorkerId) -> String {
        match self {
            Self::PerCpu { cpu, high, .. } => format!("{prefix}/{cpu}:{id}{}", if high { "H" } else { "" }),
            Self::Bh { .. } => format!("{prefix}/{}", self.name()),
            Self::Unbound { id: pool } => format!("{prefix}/u{pool}:{id}"),
        }
    }
}
