//! The pools of an executor at one moment, typed, and printed in the form of the kernel's `wq_dump`.

use std::fmt;

use crate::engine::core::Core;
use crate::engine::pool::Pool;
use crate::engine::worker::Worker;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::sys;

/// An executor at one moment: its pools, its threads, and what the system denied it.
///
/// Made by [`Executor::snapshot`](crate::Executor::snapshot). Its `Display` is meant for people. The pools are
/// looked at one after the other, each under its own lock; nothing is stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutorSnapshot {
    /// The executor belongs to the process that this one was forked from: nothing of it is here, and nothing else is
    /// told.
    pub forked: bool,
    /// Worker threads that exist or are being made. The manager's thread and rescuers are not among them.
    pub threads: usize,
    /// On this system, the crate binds no thread to CPUs and sets no nice level: workers run wherever the system puts
    /// them, and at the level of whoever made the executor. So it is everywhere but on Linux.
    pub portable: bool,
    /// Workers run at another nice level than they should, because the process lacks the privilege: at that of the
    /// manager, which made them. That is the executor's normal level or, if the manager was denied that as well, the
    /// level of the thread that started it: the one that made the executor, unless the first attempt failed.
    pub nice_denied: bool,
    /// Workers could not be bound to their CPUs.
    pub affinity_denied: bool,
    /// The executor's CPUs that the process may not use at present: they went offline, or a cpuset or an affinity mask
    /// excludes them. Their items run elsewhere. Noticed within a second while anybody works.
    #[doc(alias = "workqueue_offline_cpu")]
    pub lost_cpus: CpuSet,
    /// How many CPUs the cgroups of the process let it keep busy, if they limit that: the targets of managed pools are
    /// less then. Noticed likewise.
    #[doc(alias = "cpu.max")]
    #[doc(alias = "cfs_quota_us")]
    pub cpu_quota: Option<f64>,
    /// How blocking without a guard is noticed: what is in force, never [`Detection::Auto`].
    pub detection: Detection,
    /// Why that is not what [`ExecutorBuilder::detection`](crate::ExecutorBuilder::detection) asked for, or not the best
    /// for [`Detection::Auto`], or does not work as well as it should: the first thing that the system has refused.
    pub detection_fallback: Option<String>,
    /// The pools that have been made and not closed, and those that still finish what they have.
    pub pools: Vec<PoolSnapshot>,
}

/// A worker pool at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The name that its workers share, as in their thread names: `0`, `0H`, `bh0`, `u4`.
    pub name: String,
    /// The CPUs that it serves.
    pub cpus: CpuSet,
    /// The nice level that it wants. What its workers have instead where that was denied:
    /// [`nice_denied`](ExecutorSnapshot::nice_denied).
    pub nice: i32,
    /// Workers that count as running. In an unmanaged pool, all that have an item.
    pub running: usize,
    /// Workers that were woken, or are being made, and have not begun.
    pub waking: usize,
    /// How many workers it keeps runnable, at present; `None` if it is unmanaged.
    pub target: Option<usize>,
    /// Workers that exist.
    pub workers: usize,
    /// Workers that are parked.
    pub idle: usize,
    /// Entries on the worklist, cancelled ones included.
    pub pending: usize,
    /// The manager has been asked for a worker.
    pub creating: bool,
    /// What each worker is doing, how many items it has begun, and what the present one has said of itself by
    /// [`set_description`](crate::set_description): `0 Running#17 "cat.jpg"`.
    pub worker_states: Vec<String>,
}

impl ExecutorSnapshot {
    pub(crate) fn take(core: &Core) -> Self {
        let forked = core.origin.is_forked();
        // The locks of pools may be held for ever in this process.
        let pools = if forked { Vec::new() } else { core.pools() };
        let environment = (!forked).then(|| core.environment.present().cpus);
        Self {
            forked,
            threads: if forked { 0 } else { core.threads() },
            portable: sys::PORTABLE,
            nice_denied: core.denials.nice_denied(),
            affinity_denied: core.denials.affinity_denied(),
            lost_cpus: environment.as_ref().map_or_else(CpuSet::new, |environment| environment.lost()),
            cpu_quota: environment.and_then(|environment| Some(environment.quota()?.cpus())),
            detection: if forked { Detection::Off } else { core.settings.detection },
            detection_fallback: if forked { None } else { core.shortfall.reason() },
            pools: pools
                .iter()
                .filter(|pool| pool.is_in_use())
                .map(|pool| PoolSnapshot::take(pool))
                .collect(),
        }
    }
}

impl PoolSnapshot {
    fn take(pool: &Pool) -> Self {
        let counts = pool.counts();
        let workers = pool.workers();
        Self {
            name: pool.spec.kind.name(),
            cpus: pool.spec.cpus.clone(),
            nice: pool.spec.nice,
            running: counts.running.running() as usize,
            waking: counts.running.waking() as usize,
            target: counts.running.target().map(|target| (target as usize).min(pool.spec.cpus.len())),
            workers: counts.workers,
            idle: counts.idle,
            pending: counts.pending,
            creating: counts.creating,
            worker_states: workers.iter().map(|worker| state_of(worker)).collect(),
        }
    }
}

fn state_of(worker: &Worker) -> String {
    let state = format!("{} {:?}", worker.id, worker.cell.load());
    match worker.description() {
        Some(description) => format!("{state} {description:?}"),
        None => state,
    }
}

impl fmt::Display for ExecutorSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Worker Pools ({} threads)", self.threads)?;
        writeln!(f, "============")?;
        for pool in &self.pools {
            writeln!(f, "{pool}")?;
        }
        if self.forked {
            writeln!(f, "the executor belongs to the process that this one was forked from")?;
        }
        write!(f, "undeclared blocking: detection {}", self.detection)?;
        match &self.detection_fallback {
            Some(why) => writeln!(f, " ({why})")?,
            None => writeln!(f)?,
        }
        if self.portable {
            writeln!(
                f,
                "this system has no CPU affinity and no nice levels for workers: they run wherever it puts them"
            )?;
        }
        if self.nice_denied {
            writeln!(
                f,
                "nice levels were denied: such workers run at the executor's normal level or, if that was denied as \
                 well, at that of the thread that started the manager"
            )?;
        }
        if self.affinity_denied {
            writeln!(f, "CPU affinity was denied: workers run wherever the system puts them")?;
        }
        if !self.lost_cpus.is_empty() {
            writeln!(f, "lost CPUs: {}", self.lost_cpus)?;
        }
        if let Some(quota) = self.cpu_quota {
            writeln!(f, "CPU quota: {quota:.2}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PoolSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.map_or("none".into(), |target| target.to_string());
        write!(
            f,
            "pool[{}] nice={} idle/workers={}/{} running={} waking={} target={target} pending={} cpus={}",
            self.name, self.nice, self.idle, self.workers, self.running, self.waking, self.pending, self.cpus
        )?;
        if self.creating {
            write!(f, " creating")?;
        }
        for state in &self.worker_states {
            write!(f, "\n    worker {state}")?;
        }
        Ok(())
    }
}
