//! The types of a snapshot.

use std::time::Duration;

use crate::engine::manager::offenders::Offender;
use crate::policy::attrs::EffectiveAttrs;
use crate::policy::counters::Counters;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::histogram::Latency;
use crate::policy::pods::AffinityScope;

/// An executor at one moment: its pods, pools, workers and queues, and what the system denied it.
///
/// Made by [`Executor::dump`](crate::Executor::dump). Pools and queues are read one after the other, each under its own
/// lock for a moment, and no thread is stopped. So each pool and queue is consistent in itself, but they are not all of
/// the same moment. Its `Display` has the format of the kernel's `wq_dump`; [`busy`](Self::busy) reports what runs now.
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
    /// The version of the format: [`Snapshot::FORMAT`]. It is raised when a name or a meaning changes, but not when
    /// names are added.
    pub format: u32,
    /// The process id.
    pub pid: u32,
    /// The prefix of the names of its threads.
    pub prefix: String,
    /// When the snapshot was taken, since the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(rename = "time_ns", with = "crate::policy::nanos"))]
    pub time: Duration,
    /// The executor belongs to the process that this one was forked from. Nothing of it exists here, and the other
    /// fields are empty.
    pub forked: bool,
    /// Worker threads that exist or are being made. The manager's thread and rescuers are not among them.
    pub threads: usize,
    /// The maximum of worker threads: [`ExecutorBuilder::max_threads`](crate::ExecutorBuilder::max_threads). `None` if
    /// there is no limit.
    pub max_threads: Option<usize>,
    /// Work has had to wait for a thread because that maximum was reached.
    #[cfg_attr(feature = "serde", serde(default))]
    pub thread_limit_reached: bool,
    /// On this system, the crate binds no thread to CPUs and sets no nice level. The system chooses the CPUs of
    /// workers, and their level is that of the thread that made the executor. True on all systems but Linux.
    pub portable: bool,
    /// Workers run at another nice level than they should, because the process lacks the privilege: at the level of the
    /// manager, which made them. That is the executor's normal level. If the manager was denied that as well, it is the
    /// level of the thread that started the manager: the one that made the executor, unless its attempt failed.
    pub nice_denied: bool,
    /// Workers could not be bound to their CPUs.
    pub affinity_denied: bool,
    /// The executor's CPUs that the process may not use at present: they went offline, or a cpuset or an affinity mask
    /// excludes them. Their items run elsewhere. Noticed within a second while the executor has work.
    #[doc(alias = "workqueue_offline_cpu")]
    pub lost_cpus: CpuSet,
    /// How many CPUs the cgroups of the process let it keep busy; `None` if they set no quota. The targets of managed
    /// pools are lower then. Noticed within a second while the executor has work.
    #[doc(alias = "cpu.max")]
    #[doc(alias = "cfs_quota_us")]
    pub cpu_quota: Option<f64>,
    /// The method in force that detects blocking without a guard, never [`Detection::Auto`].
    pub detection: Detection,
    /// Why that method is not the one that [`ExecutorBuilder::detection`](crate::ExecutorBuilder::detection) asked for,
    /// or not the best for [`Detection::Auto`], or does not work as well as it should: the first thing that the system
    /// has refused.
    pub detection_fallback: Option<String>,
    /// How many stalls of pools the [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported.
    pub stalls: u64,
    /// The executor's CPUs, by the numbers of its topology.
    pub cpus: CpuSet,
    /// The CPUs that [unbound queues may use](crate::Executor::unbound_cpus).
    #[doc(alias = "wq_unbound_cpumask")]
    pub unbound_cpus: CpuSet,
    /// How each scope divides the executor's CPUs, smallest pods first.
    pub scopes: Vec<ScopeSnapshot>,
    /// The pools that have been made and not closed, pools that still finish their items, and pools to which a queue
    /// leads. By [`id`](PoolSnapshot::id).
    pub pools: Vec<PoolSnapshot>,
    /// The queues, in the order in which they were made.
    pub queues: Vec<QueueSnapshot>,
    /// As [`Executor::hogs`](crate::Executor::hogs) returns them.
    pub hogs: Vec<Offender>,
    /// As [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) returns them.
    pub undeclared_blockers: Vec<Offender>,
}

/// How a scope divides the executor's CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// The scope; never [`AffinityScope::Default`].
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
    /// Its number in this snapshot, and its index in [`Snapshot::pools`]. The pool may have another number in another
    /// snapshot; its name stays the same.
    pub id: usize,
    /// The name that its workers share, as in their thread names: `0`, `0H`, `bh0`, `u4`.
    pub name: String,
    /// The CPUs that it serves.
    pub cpus: CpuSet,
    /// The CPUs that its workers are bound to at present, by the numbers of the operating system. They differ from
    /// [`cpus`](Self::cpus) if some of those are lost, if the topology is synthetic, or if workers may leave their pod.
    pub binding: CpuSet,
    /// It serves only items that were queued on its one CPU.
    pub per_cpu: bool,
    /// It is the bh context of its CPU.
    pub bh: bool,
    /// Its items and workers stay on its CPUs, while it has any.
    pub strict: bool,
    /// The requested nice level of its workers. See [`nice_denied`](Snapshot::nice_denied) for the level where that was
    /// denied.
    pub nice: i32,
    /// How many parts of queues lead to it, each for one CPU.
    pub users: usize,
    /// Workers that count as running. In an unmanaged pool, all workers that execute an item.
    pub running: usize,
    /// Workers that were woken, or are being made, and have not begun.
    pub waking: usize,
    /// The number of runnable workers that it aims at. `None` if it is unmanaged.
    pub target: Option<usize>,
    /// Workers that exist. Rescuers are not among them.
    pub workers: usize,
    /// Workers that are parked.
    pub idle: usize,
    /// Entries on the worklist, cancelled ones included.
    pub pending: usize,
    /// The manager has been asked for a worker.
    pub creating: bool,
    /// For how long it has had work and started none, if the [watchdog](crate::ExecutorBuilder::watchdog_threshold) has
    /// reported that stall and it is not over.
    #[cfg_attr(feature = "serde", serde(rename = "stalled_for_ns", with = "crate::policy::nanos::option"))]
    pub stalled_for: Option<Duration>,
    /// Its workers, and the rescuers that serve it now.
    pub crew: Vec<WorkerSnapshot>,
}

/// A worker, or a rescuer that serves a pool, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// The name of its thread.
    pub thread: String,
    /// The number of its thread, where the system has such numbers. `None` if the thread has ended.
    pub thread_id: Option<u32>,
    /// Its state.
    pub state: WorkerState,
    /// How many items it has begun; for a rescuer, since it came to this pool.
    pub items: u64,
    /// The item that it executes, if there is one.
    pub item: Option<RunningItem>,
    /// It is the rescuer of a queue, not a worker of the pool.
    pub is_rescuer: bool,
}

/// The state of a worker.
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
    /// Its item is inside of a [`blocking`](crate::blocking()) guard, or was in `may_block` for so long that it no
    /// longer counts.
    Blocked,
    /// Its item was seen blocking without a guard.
    Asleep,
    /// It runs an item that does not count as running: a CPU-intensive one, or one of a pool that counts none, or one
    /// on a rescuer.
    Uncounted,
    /// Its item was found to keep the CPU for too long.
    #[doc(alias = "WORKER_CPU_INTENSIVE")]
    Hog,
    /// It was told to end.
    Exiting,
}

/// An item that is being executed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RunningItem {
    /// The name of the queue whose slot it holds. `None` if that queue has ended meanwhile.
    pub queue: Option<String>,
    /// The [number](QueueSnapshot::number) of that queue.
    pub queue_number: Option<u64>,
    /// The type of its closure, as the compiler names it.
    pub item_type: String,
    /// Its description, set by [`set_description`](crate::set_description).
    #[doc(alias = "set_worker_desc")]
    pub description: Option<String>,
    /// For how long it has run. `None` if that is not known.
    #[cfg_attr(feature = "serde", serde(rename = "age_ns", with = "crate::policy::nanos::option"))]
    pub age: Option<Duration>,
}

/// A queue at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// Its number, which no other queue of the executor ever has. Names need not be unique.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// The kind of queue.
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
    /// It may be changed through the control socket.
    #[doc(alias = "WQ_SYSFS")]
    pub control: bool,
    /// It is frozen at the moment: none of its items starts.
    pub frozen: bool,
    /// It is being drained or destroyed, or its executor is being shut down: it accepts only submissions by its own
    /// items.
    #[doc(alias = "__WQ_DRAINING")]
    pub draining: bool,
    /// How many of its items may be active when it is not frozen, for each CPU or as a whole. `None` for bh queues,
    /// which have no limit.
    pub max_active: Option<usize>,
    /// The limit is for the queue as a whole, not for each CPU.
    pub limited_as_a_whole: bool,
    /// How many items may wait; beyond that it refuses submissions. `None` if no limit was set.
    pub max_pending: Option<usize>,
    /// The attributes in effect; `None` for per-CPU and bh queues, which have none.
    pub attrs: Option<EffectiveAttrs>,
    /// Items that wait or run.
    pub len: usize,
    /// Items that have a slot: they run, or are about to start.
    #[doc(alias = "nr_active")]
    pub active: usize,
    /// Items that wait for a slot, because [`max_active`](Self::max_active) items are active.
    #[doc(alias = "inactive_works")]
    pub inactive: usize,
    /// The counters of its items.
    pub counters: Counters,
    /// How long its items have waited and run, if that is measured.
    pub latency: Option<Latency>,
    /// Its parts on the CPUs on which something was queued so far, by CPU.
    #[doc(alias = "pool_workqueue")]
    pub shards: Vec<ShardSnapshot>,
    /// Its rescuer, if it has one.
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub rescuer: Option<RescuerSnapshot>,
    /// The pool of an unbound queue for items that belong to no pod of it, by [`PoolSnapshot::id`]. `None` if the queue
    /// has none, or has not needed it.
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
    /// The pool to which they go, by [`PoolSnapshot::id`].
    pub pool: usize,
    /// Items that have a slot of this CPU. `None` if the queue is limited as a whole: then slots belong to no CPU.
    pub active: Option<usize>,
    /// Items that wait for a slot of this CPU. `None` if the queue is limited as a whole.
    pub inactive: Option<usize>,
    /// The counters of its items.
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
    /// The CPUs that it may run on at present: those of the pool that it served last. Empty if they are not known.
    #[doc(alias = "rescuer_cpus")]
    pub cpus: CpuSet,
}

/// The kind of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum QueueKind {
    /// By [`WorkQueue::new`](crate::WorkQueue::new): unbound, and no more runnable items than CPUs.
    Managed,
    /// By [`WorkQueue::per_cpu`](crate::WorkQueue::per_cpu).
    #[cfg_attr(feature = "serde", serde(rename = "percpu"))]
    PerCpu,
    /// By [`WorkQueue::unbound`](crate::WorkQueue::unbound), and power-efficient queues where they are unbound.
    #[doc(alias = "WQ_UNBOUND")]
    Unbound,
    /// By [`WorkQueue::ordered`](crate::WorkQueue::ordered).
    Ordered,
    /// By [`WorkQueue::bh`](crate::WorkQueue::bh).
    #[doc(alias = "WQ_BH")]
    Bh,
}

impl Snapshot {
    /// The version of the format of this release: 1.
    pub const FORMAT: u32 = 1;

    /// Returns the first queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&QueueSnapshot> {
        self.queues.iter().find(|queue| queue.name == name)
    }
}
