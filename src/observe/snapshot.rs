//! The types of a snapshot.

use std::time::Duration;

use crate::engine::manager::offenders::Offender;
use crate::policy::attrs::EffectiveAttrs;
use crate::policy::counters::Counters;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::histogram::Latency;
use crate::policy::pods::AffinityScope;

use super::share::ShareSnapshot;

/// The state of an executor: its pods, pools, workers and queues, and the permissions that the system denied to it.
///
/// [`Executor::dump`](crate::Executor::dump) takes a snapshot. The calling thread reads pools and queues one after the
/// other, holds each lock only briefly, and stops no thread. So each pool and each queue is consistent in itself, but
/// different pools and queues were read at different times. The snapshot's `Display` has the format of the kernel's
/// `wq_dump`; [`busy`](Self::busy) reports the items that run.
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
    /// The version of the format: [`Snapshot::FORMAT`]. The version increases when the name or the meaning of a field
    /// changes, but not when fields are added.
    pub format: u32,
    /// The process id.
    pub pid: u32,
    /// The prefix of the names of the executor's threads.
    pub prefix: String,
    /// The time at which the snapshot was taken, since the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(rename = "time_ns", with = "crate::policy::nanos"))]
    pub time: Duration,
    /// Whether the present process was forked from the executor's process. In a forked process, none of the executor's
    /// threads exists, and the lists of scopes, pools and queues are empty.
    pub forked: bool,
    /// The number of worker threads that exist or are being made. The manager's thread and the threads of rescuers are
    /// not included.
    pub threads: usize,
    /// The maximum number of worker threads: [`ExecutorBuilder::max_threads`](crate::ExecutorBuilder::max_threads).
    /// `None` if there is no limit.
    pub max_threads: Option<usize>,
    /// Whether work has had to wait for a thread because `max_threads` was reached.
    #[cfg_attr(feature = "serde", serde(default))]
    pub thread_limit_reached: bool,
    /// The maximum number of pending items of all queues:
    /// [`ExecutorBuilder::max_pending`](crate::ExecutorBuilder::max_pending). `None` if there is no limit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_pending: Option<usize>,
    /// The number of pending items of all queues, plus the number of permits. `None` if there is no limit, because the
    /// executor counts these items only for the limit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pending: Option<usize>,
    /// The maximum number of bytes of the pending items of all queues:
    /// [`ExecutorBuilder::max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes). `None` if there is no limit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_pending_bytes: Option<u64>,
    /// The number of bytes of the pending items of all queues. `None` if there is no limit, because the executor counts
    /// these bytes only for the limit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pending_bytes: Option<u64>,
    /// Whether the crate binds no threads to CPUs and sets no nice levels on this system. If this field is true, the
    /// system chooses the CPUs of workers, and workers have the nice level of the thread that made the executor. True
    /// on all systems other than Linux.
    pub portable: bool,
    /// Whether some workers do not have their requested nice level, because the process lacks the privilege. Workers
    /// without their requested level have the level of the manager, which made them. The manager usually has the
    /// executor's normal level. If the system denied the executor's normal level, too, the manager has the level of the
    /// thread that started the manager. The thread that made the executor usually starts the manager. If the thread
    /// that made the executor cannot start the manager, another thread starts the manager later.
    pub nice_denied: bool,
    /// Whether workers could not be bound to their CPUs.
    pub affinity_denied: bool,
    /// The executor's CPUs that the process may not use at present, because these CPUs are offline, or because a cpuset
    /// or an affinity mask excludes them. The items of lost CPUs run on other CPUs. While the executor has work, it
    /// notices a lost or returned CPU within a second.
    #[doc(alias = "workqueue_offline_cpu")]
    pub lost_cpus: CpuSet,
    /// The number of CPUs that the process may keep busy according to its cgroups; `None` if the cgroups set no quota.
    /// A quota lowers the targets of managed pools. While the executor has work, it notices a change of the quota
    /// within a second.
    #[doc(alias = "cpu.max")]
    #[doc(alias = "cfs_quota_us")]
    pub cpu_quota: Option<f64>,
    /// The method in force for detecting blocks without a guard; never [`Detection::Auto`].
    pub detection: Detection,
    /// The first reason why the detection of blocks without a guard is worse than it should be. Later reasons are not
    /// kept. The reason may be that `detection` is not the method that the builder
    /// [requested](crate::ExecutorBuilder::detection), or not the best method if the builder requested
    /// [`Detection::Auto`]. The reason may also be that the method in force does not work as well as it should.
    pub detection_fallback: Option<String>,
    /// The number of pool stalls that the [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported.
    pub stalls: u64,
    /// The executor's CPUs, as its topology numbers them.
    pub cpus: CpuSet,
    /// The CPUs that [unbound queues may use](crate::Executor::unbound_cpus).
    #[doc(alias = "wq_unbound_cpumask")]
    pub unbound_cpus: CpuSet,
    /// The affinity scopes, each with the pods into which it divides the executor's CPUs. Scopes with smaller pods come
    /// first.
    pub scopes: Vec<ScopeSnapshot>,
    /// The open pools, the closed pools that still finish their items, and the pools to which a queue leads, sorted by
    /// [`id`](PoolSnapshot::id).
    pub pools: Vec<PoolSnapshot>,
    /// The queues, in the order in which they were made.
    pub queues: Vec<QueueSnapshot>,
    /// The types of items that kept the CPU for too long, as [`Executor::hogs`](crate::Executor::hogs) returns them.
    pub hogs: Vec<Offender>,
    /// The types of items that blocked without a guard, as
    /// [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) returns them.
    pub undeclared_blockers: Vec<Offender>,
}

/// An affinity scope, and the pods into which it divides the executor's CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// The scope; never [`AffinityScope::Default`].
    pub scope: AffinityScope,
    /// Whether this scope applies to queues whose attributes specify no scope.
    pub is_default: bool,
    /// The pods of the scope, sorted by their lowest CPU. No CPU belongs to two pods.
    #[doc(alias = "nr_pods")]
    pub pods: Vec<PodSnapshot>,
}

/// A pod: a set of CPUs that an affinity scope keeps together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PodSnapshot {
    /// The CPUs of the pod.
    #[doc(alias = "pod_cpus")]
    pub cpus: CpuSet,
    /// The NUMA node of all CPUs of the pod; `None` if the CPUs belong to several nodes.
    #[doc(alias = "pod_node")]
    pub node: Option<usize>,
}

/// A worker pool at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The number of the pool in this snapshot, which is its index in [`Snapshot::pools`]. In another snapshot, the
    /// pool can have another number, but its name stays the same.
    pub id: usize,
    /// The pool's name, which is part of the thread names of its workers: `0`, `0H`, `bh0`, `u4`.
    pub name: String,
    /// The CPUs that the pool serves.
    pub cpus: CpuSet,
    /// The CPUs that the pool's workers are bound to at present, as the operating system numbers them. The binding
    /// differs from [`cpus`](Self::cpus) if some of the pool's CPUs are lost, if the topology is synthetic, or if
    /// workers may leave their pod.
    pub binding: CpuSet,
    /// Whether the pool serves only items that were queued on its one CPU.
    pub per_cpu: bool,
    /// Whether the pool is the bh context of its CPU.
    pub bh: bool,
    /// Whether the pool's items and workers stay on its CPUs as long as the pool has a CPU.
    pub strict: bool,
    /// The requested nice level of the pool's workers. If the system denied this level,
    /// [`nice_denied`](Snapshot::nice_denied) describes the level that the workers have instead.
    pub nice: i32,
    /// The number of [shards](ShardSnapshot) that lead to the pool.
    pub users: usize,
    /// The number of workers that count as running. In an unmanaged pool, each worker that executes an item counts as
    /// running.
    pub running: usize,
    /// The number of workers that are being made, or that were woken but have not begun to run.
    pub waking: usize,
    /// The number of runnable workers that the pool tries to keep. `None` if the pool is unmanaged. The target is
    /// doubled while many items sleep without a guard.
    pub target: Option<usize>,
    /// The number of workers that exist. Rescuers are not among them.
    pub workers: usize,
    /// The number of workers that are parked.
    pub idle: usize,
    /// The number of entries on the pool's worklist, including cancelled entries.
    pub pending: usize,
    /// Whether the manager has been asked to make a worker.
    pub creating: bool,
    /// The time for which the pool has had work but has started no item. `None` unless the pool is in a stall that the
    /// [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported.
    #[cfg_attr(feature = "serde", serde(rename = "stalled_for_ns", with = "crate::policy::nanos::option"))]
    pub stalled_for: Option<Duration>,
    /// The pool's workers, and the rescuers that serve the pool now.
    pub worker_details: Vec<WorkerSnapshot>,
}

/// A worker, or a rescuer that serves a pool, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// The name of the worker's thread.
    pub thread: String,
    /// The number of the thread, on systems that have such numbers. `None` if the thread has ended.
    pub thread_id: Option<u32>,
    /// The state of the worker.
    pub state: WorkerState,
    /// The number of items that the worker has begun. For a rescuer, the count starts when the rescuer begins to serve
    /// this pool.
    pub items: u64,
    /// The item that the worker executes, if there is one.
    pub item: Option<RunningItem>,
    /// Whether this is the rescuer of a queue, not a worker of the pool.
    pub is_rescuer: bool,
}

/// The state of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WorkerState {
    /// The worker is parked.
    Idle,
    /// The worker was woken, but has not begun to run.
    Waking,
    /// The worker is between two items.
    Between,
    /// The worker runs an item, and counts as running.
    Running,
    /// The worker's item is inside [`may_block`](crate::may_block), and the worker counts as running.
    MayBlock,
    /// The worker's item is inside a [`blocking`](crate::blocking()) guard, or has been inside `may_block` for so long
    /// that the worker no longer counts as running.
    Blocked,
    /// The detector has found that the worker's item blocks without a guard.
    Asleep,
    /// The worker runs an item but does not count as running, because the item is CPU-intensive, the pool does not
    /// count workers, or the worker is a rescuer.
    Uncounted,
    /// The detector has found that the worker's item kept the CPU for too long.
    #[doc(alias = "WORKER_CPU_INTENSIVE")]
    Hog,
    /// The worker was told to end.
    Exiting,
}

/// An item that is being executed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RunningItem {
    /// The name of the queue whose slot the item holds. `None` if that queue has ended.
    pub queue: Option<String>,
    /// The [number](QueueSnapshot::number) of the queue whose slot the item holds. `None` if that queue has ended.
    pub queue_number: Option<u64>,
    /// The type of the item's closure, as the compiler names it.
    pub item_type: String,
    /// The item's description, set by [`set_description`](crate::set_description).
    #[doc(alias = "set_worker_desc")]
    pub description: Option<String>,
    /// The time for which the item has run. `None` if the time is not known.
    #[cfg_attr(feature = "serde", serde(rename = "age_ns", with = "crate::policy::nanos::option"))]
    pub age: Option<Duration>,
}

/// A queue at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The queue's number, which no other queue of the executor ever has. Names need not be unique.
    pub number: u64,
    /// The name of the queue.
    pub name: String,
    /// The kind of the queue.
    pub kind: QueueKind,
    /// Whether the queue was built as [`high_priority`](crate::WorkQueueBuilder::high_priority).
    #[doc(alias = "WQ_HIGHPRI")]
    pub high_priority: bool,
    /// Whether the queue was built as [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive).
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub cpu_intensive: bool,
    /// Whether the queue was built as [`freezable`](crate::kernel::WorkQueueBuilderExt::freezable).
    #[doc(alias = "WQ_FREEZABLE")]
    pub freezable: bool,
    /// Whether clients may change the queue through the control socket.
    #[doc(alias = "WQ_SYSFS")]
    pub control: bool,
    /// Whether the queue is frozen at the moment. A frozen queue starts no items.
    pub frozen: bool,
    /// Whether the queue refuses submissions from outside, because it is being drained or destroyed, or its executor is
    /// being shut down. The queue's own items may still submit to the queue, unless it is [destroyed at
    /// once](crate::WorkQueue::destroy_now) or the shutdown has run out of time.
    #[doc(alias = "__WQ_DRAINING")]
    pub draining: bool,
    /// The number of items that may be active while the queue is not frozen, for each CPU or for the queue as a whole.
    /// `None` for bh queues, which have no limit.
    pub max_active: Option<usize>,
    /// Whether `max_active` limits the queue as a whole, not each CPU.
    pub limited_as_a_whole: bool,
    /// The number of items that may wait before the queue refuses submissions. `None` if no limit was set.
    pub max_pending: Option<usize>,
    /// The queue's weight, and the turns and the CPU time that the queue has used. `None` if the queue has no weight.
    #[cfg_attr(feature = "serde", serde(default))]
    pub share: Option<ShareSnapshot>,
    /// The queue's attributes in effect; `None` for per-CPU and bh queues, which have no attributes.
    pub attrs: Option<EffectiveAttrs>,
    /// The number of items that wait or run.
    pub len: usize,
    /// The number of items that have a slot. These items run, or are about to start.
    #[doc(alias = "nr_active")]
    pub active: usize,
    /// The number of items that wait for a slot, because [`max_active`](Self::max_active) items are active, or because
    /// the queue is frozen.
    #[doc(alias = "inactive_works")]
    pub inactive: usize,
    /// The counters of the queue's items.
    pub counters: Counters,
    /// How long the queue's items have waited and run, if the queue measures these durations.
    pub latency: Option<Latency>,
    /// The queue's shards, one for each CPU on which an item was queued so far, sorted by CPU.
    #[doc(alias = "pool_workqueue")]
    pub shards: Vec<ShardSnapshot>,
    /// The queue's rescuer, if it has one.
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub rescuer: Option<RescuerSnapshot>,
    /// The [`id`](PoolSnapshot::id) of the pool for items that belong to none of the queue's pods. If the queue has
    /// only one pod and each item belongs to that pod, the id is that of the pod's pool. `None` if the queue is not an
    /// unbound queue, or has not needed such a pool.
    #[doc(alias = "dfl_pwq")]
    pub default_pool: Option<usize>,
}

/// A shard: a queue's part on one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The CPU on which the shard's items were queued.
    pub cpu: usize,
    /// The [`id`](PoolSnapshot::id) of the pool that the shard leads to.
    pub pool: usize,
    /// The number of items that have a slot of this CPU. `None` if the queue is limited as a whole, because the slots
    /// of such a queue belong to no CPU.
    pub active: Option<usize>,
    /// The number of items that wait for a slot of this CPU. `None` if the queue is limited as a whole.
    pub inactive: Option<usize>,
    /// The counters of the shard's items.
    pub counters: Counters,
}

/// The rescuer of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RescuerSnapshot {
    /// The name of the rescuer's thread.
    pub thread: String,
    /// The number of the rescuer's thread, on systems that have such numbers. `None` before the thread begins and after
    /// it has ended.
    pub thread_id: Option<u32>,
    /// The CPUs that the rescuer may run on at present: the CPUs of the pool that the rescuer served last. Empty if
    /// these CPUs are not known.
    #[doc(alias = "rescuer_cpus")]
    pub cpus: CpuSet,
}

/// The kind of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum QueueKind {
    /// A queue made by [`WorkQueue::builder`](crate::WorkQueue::builder). A managed queue is unbound, and keeps at most
    /// as many items runnable as there are CPUs.
    Managed,
    /// A queue made by [`WorkQueue::per_cpu`](crate::WorkQueue::per_cpu).
    PerCpu,
    /// A queue made by [`WorkQueue::unbound`](crate::WorkQueue::unbound), or a power-efficient queue in an executor
    /// that makes such queues unbound.
    #[doc(alias = "WQ_UNBOUND")]
    Unbound,
    /// A queue made by [`WorkQueue::ordered`](crate::WorkQueue::ordered).
    Ordered,
    /// A queue made by [`kernel::bh`](crate::kernel::bh).
    #[doc(alias = "WQ_BH")]
    Bh,
}

impl Snapshot {
    /// The version of the snapshot format in this release: 1.
    pub const FORMAT: u32 = 1;

    /// Returns the first queue with this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&QueueSnapshot> {
        self.queues.iter().find(|queue| queue.name == name)
    }
}
