//! What an executor is like at one moment: the types.

use std::time::Duration;

use crate::engine::offenders::Offender;
use crate::policy::attrs::EffectiveAttrs;
use crate::policy::counters::Counters;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::histogram::Latency;
use crate::policy::pods::AffinityScope;

/// An executor at one moment: its pods, pools, workers and queues, and what the system denied it.
///
/// Made by [`Executor::dump`](crate::Executor::dump). Pools and queues are looked at one after the other, each under its
/// own lock for a moment, and nothing is stopped: so each of them is consistent in itself, and all of them together are
/// not of the very same moment. Its `Display` has the form of the kernel's `wq_dump`; what is going on right now is told
/// by [`busy`](Self::busy).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, WorkQueue};
///
/// let executor = Executor::builder().build()?;
/// let mail = WorkQueue::per_cpu("mail").build_on(&executor)?;
/// mail.spawn(|| ())?.join()?;
/// let dump = executor.dump();
/// assert_eq!(dump.queue("mail").unwrap().counters.started, 1);
/// println!("{dump}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// Which form this has: [`Snapshot::FORMAT`]. It is raised when a name or a meaning changes; names that are added leave
    /// it as it is.
    pub format: u32,
    /// The process.
    pub pid: u32,
    /// What the names of its threads begin with.
    pub prefix: String,
    /// When it was taken, since the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(rename = "time_ns", with = "crate::policy::nanos"))]
    pub time: Duration,
    /// The executor belongs to the process that this one was forked from: nothing of it is here, and nothing else is
    /// told.
    pub forked: bool,
    /// Worker threads that exist or are being made. The manager's thread and rescuers are not among them.
    pub threads: usize,
    /// How many of them there may be: [`ExecutorBuilder::max_threads`](crate::ExecutorBuilder::max_threads). `None` if there is
    /// no limit.
    pub max_threads: Option<usize>,
    /// Work has had to wait for a thread since there were as many as may be.
    #[cfg_attr(feature = "serde", serde(default))]
    pub thread_limit_reached: bool,
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
    /// How often the [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported a pool.
    pub stalls: u64,
    /// The executor's CPUs, by the numbers of its topology.
    pub cpus: CpuSet,
    /// Those that [unbound queues may use](crate::Executor::unbound_cpus).
    #[doc(alias = "wq_unbound_cpumask")]
    pub unbound_cpus: CpuSet,
    /// How each scope divides the executor's CPUs, smallest pods first.
    pub scopes: Vec<ScopeSnapshot>,
    /// The pools that have been made and not closed, those that still finish what they have, and those that a queue leads
    /// to. By [`id`](PoolSnapshot::id).
    pub pools: Vec<PoolSnapshot>,
    /// The queues, in the order in which they were made.
    pub queues: Vec<QueueSnapshot>,
    /// As [`Executor::hogs`](crate::Executor::hogs) tells them.
    pub hogs: Vec<Offender>,
    /// As [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) tells them.
    pub undeclared_blockers: Vec<Offender>,
}

/// How a scope divides the executor's CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// Which one; never [`AffinityScope::Default`].
    pub scope: AffinityScope,
    /// Queues that name no scope have this one.
    pub is_default: bool,
    /// Its pods, by their lowest CPU. No two have a CPU in common.
    #[doc(alias = "nr_pods")]
    pub pods: Vec<PodSnapshot>,
}

/// A pod: CPUs that stay together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PodSnapshot {
    /// Its CPUs.
    #[doc(alias = "pod_cpus")]
    pub cpus: CpuSet,
    /// The NUMA node on which all of them are; `None` if they are on several.
    #[doc(alias = "pod_node")]
    pub node: Option<usize>,
}

/// A worker pool at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// Its number in this snapshot, and its place in [`Snapshot::pools`]. In another snapshot, the pool may have another
    /// one; its name stays.
    pub id: usize,
    /// The name that its workers share, as in their thread names: `0`, `0H`, `bh0`, `u4`.
    pub name: String,
    /// The CPUs that it serves.
    pub cpus: CpuSet,
    /// The CPUs that its workers are bound to at present, by the numbers of the operating system. Other than
    /// [`cpus`](Self::cpus) if some of those are lost, if the topology was made up, or if workers may leave their pod.
    pub binding: CpuSet,
    /// It serves items that were queued on its one CPU, and no others.
    pub per_cpu: bool,
    /// It is the bh context of its CPU.
    pub bh: bool,
    /// Its items and workers stay on its CPUs, while it has any.
    pub strict: bool,
    /// The nice level that it wants. What its workers have instead where that was denied:
    /// [`nice_denied`](Snapshot::nice_denied).
    pub nice: i32,
    /// How many CPUs of queues lead to it.
    pub users: usize,
    /// Workers that count as running. In an unmanaged pool, all that have an item.
    pub running: usize,
    /// Workers that were woken, or are being made, and have not begun.
    pub waking: usize,
    /// How many workers it keeps runnable, at present; `None` if it is unmanaged.
    pub target: Option<usize>,
    /// Workers that exist. Rescuers are not among them.
    pub workers: usize,
    /// Workers that are parked.
    pub idle: usize,
    /// Entries on the worklist, cancelled ones included.
    pub pending: usize,
    /// The manager has been asked for a worker.
    pub creating: bool,
    /// It has had work for so long and has started none of it: the
    /// [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported it, and nothing was started since.
    #[cfg_attr(feature = "serde", serde(rename = "stalled_for_ns", with = "crate::policy::nanos::option"))]
    pub stalled_for: Option<Duration>,
    /// What each worker is doing, and each rescuer that helps.
    pub crew: Vec<WorkerSnapshot>,
}

/// A worker, or a rescuer that serves a pool, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// The name of its thread.
    pub thread: String,
    /// The number of its thread, where the system has such numbers. `None` if it has left.
    pub thread_id: Option<u32>,
    /// What it is doing.
    pub state: WorkerState,
    /// How many items it has begun; a rescuer, since it came to this pool.
    pub items: u64,
    /// The item that it has, if it has one.
    pub item: Option<RunningItem>,
    /// It is the rescuer of a queue, and none of the pool's workers.
    pub is_rescuer: bool,
}

/// What a worker is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WorkerState {
    /// It is parked.
    Idle,
    /// It was woken, and has not begun.
    Waking,
    /// It is between two items.
    Between,
    /// It runs an item, and counts as running.
    Running,
    /// Its item is inside of [`may_block`](crate::may_block), and counts as running.
    MayBlock,
    /// Its item is inside of a [`blocking`](crate::blocking()) guard, or was in `may_block` for so long that it does not
    /// count any more.
    Blocked,
    /// Its item was seen blocking outside of any guard.
    Asleep,
    /// It runs an item that does not count as running: a CPU-intensive one, or of a pool that counts none, or on a rescuer.
    Uncounted,
    /// Its item was found to keep the CPU for too long.
    #[doc(alias = "WORKER_CPU_INTENSIVE")]
    Hog,
    /// It was told to leave.
    Exiting,
}

/// An item that is being executed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RunningItem {
    /// The name of the queue whose slot it holds. `None` if that has ended meanwhile.
    pub queue: Option<String>,
    /// The [number](QueueSnapshot::number) of that queue.
    pub queue_number: Option<u64>,
    /// The type of its closure, as the compiler names it.
    pub item_type: String,
    /// What it has said of itself by [`set_description`](crate::set_description).
    #[doc(alias = "set_worker_desc")]
    pub description: Option<String>,
    /// For how long it has run. `None` where that is not known.
    #[cfg_attr(feature = "serde", serde(rename = "age_ns", with = "crate::policy::nanos::option"))]
    pub age: Option<Duration>,
}

/// A queue at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// Its number, of which each of the executor's queues has another one, also after it has ended. Names need not be
    /// unique.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// How it was built.
    pub kind: QueueKind,
    /// It was built as [`high_priority`](crate::WorkQueueBuilder::high_priority).
    #[doc(alias = "WQ_HIGHPRI")]
    pub high_priority: bool,
    /// It was built as [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive).
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub cpu_intensive: bool,
    /// It was built as [`freezable`](crate::WorkQueueBuilder::freezable).
    #[doc(alias = "WQ_FREEZABLE")]
    pub freezable: bool,
    /// It may be changed from outside of the process.
    #[doc(alias = "WQ_SYSFS")]
    pub control: bool,
    /// It is frozen at the moment: nothing starts.
    pub frozen: bool,
    /// It is being drained or destroyed, or its executor shut down: it accepts nothing from outside.
    #[doc(alias = "__WQ_DRAINING")]
    pub draining: bool,
    /// So many of its items may be active, for each CPU or as a whole; `None` for bh queues, which have no limit. What
    /// holds when it is not frozen.
    pub max_active: Option<usize>,
    /// The limit is for the queue as a whole, and not for each CPU.
    pub limited_as_a_whole: bool,
    /// So many items may wait or it refuses the next one.
    pub max_pending: Option<usize>,
    /// The attributes that hold at the moment; `None` for per-CPU and bh queues, which have none.
    pub attrs: Option<EffectiveAttrs>,
    /// Items that wait or run.
    pub len: usize,
    /// Items that have a slot: they run, or are about to start.
    #[doc(alias = "nr_active")]
    pub active: usize,
    /// Items that wait for a slot, since [`max_active`](Self::max_active) of them are active.
    #[doc(alias = "inactive_works")]
    pub inactive: usize,
    /// What has become of its items, in numbers.
    pub counters: Counters,
    /// How long its items have waited and run, if that is measured.
    pub latency: Option<Latency>,
    /// Its parts on the CPUs on which something was queued so far, by CPU.
    #[doc(alias = "pool_workqueue")]
    pub shards: Vec<ShardSnapshot>,
    /// Its rescuer, if it has one.
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub rescuer: Option<RescuerSnapshot>,
    /// The pool of an unbound queue for items that belong to no pod of it, by [`PoolSnapshot::id`]. `None` if there is none,
    /// or it has not been needed.
    #[doc(alias = "dfl_pwq")]
    pub default_pool: Option<usize>,
}

/// A queue's part on one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The CPU on which its items were queued.
    pub cpu: usize,
    /// The pool that they go to, by [`PoolSnapshot::id`].
    pub pool: usize,
    /// Items that have a slot of this CPU. `None` if the queue is limited as a whole: slots belong to no CPU then.
    pub active: Option<usize>,
    /// Items that wait for a slot of this CPU, likewise.
    pub inactive: Option<usize>,
    /// What has become of its items, in numbers.
    pub counters: Counters,
}

/// The rescuer of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RescuerSnapshot {
    /// The name of its thread.
    pub thread: String,
    /// The number of its thread, where the system has such numbers. `None` before it begins and after it has ended.
    pub thread_id: Option<u32>,
    /// The CPUs that it may run on at present: those of the pool that it has served last. Empty if that is not known.
    #[doc(alias = "rescuer_cpus")]
    pub cpus: CpuSet,
}

/// Which kind of queue it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum QueueKind {
    /// By [`WorkQueue::new`](crate::WorkQueue::new): unbound, and no more runnable items than CPUs.
    Managed,
    /// By [`WorkQueue::per_cpu`](crate::WorkQueue::per_cpu).
    #[cfg_attr(feature = "serde", serde(rename = "percpu"))]
    PerCpu,
    /// By [`WorkQueue::unbound`](crate::WorkQueue::unbound), and power-efficient ones where they are unbound.
    #[doc(alias = "WQ_UNBOUND")]
    Unbound,
    /// By [`WorkQueue::ordered`](crate::WorkQueue::ordered).
    Ordered,
    /// By [`WorkQueue::bh`](crate::WorkQueue::bh).
    #[doc(alias = "WQ_BH")]
    Bh,
}

impl Snapshot {
    /// The form of snapshots of this release: 1.
    pub const FORMAT: u32 = 1;

    /// The first queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&QueueSnapshot> {
        self.queues.iter().find(|queue| queue.name == name)
    }
}
