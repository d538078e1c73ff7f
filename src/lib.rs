//! Concurrency-managed workqueues for Rust services, without async.
//!
//! The Linux kernel runs the background work of a whole system through *workqueues*. Queues are cheap and have names.
//! They share pools of workers, which have just enough threads that no CPU idles while work is pending. This crate
//! brings that design to a process.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::new("thumbnails").build()?;
//! let handle = queue.spawn(|| {
//!     let bytes = cmwq::blocking(|| std::fs::read("Cargo.toml"))?; // the CPU is free for another item meanwhile
//!     Ok::<_, std::io::Error>(bytes.len())
//! })?;
//! assert!(handle.join()?? > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does for you
//!
//! * **Items may block.** A fixed pool loses a thread to each item that waits for a disk, a lock or another item. When
//!   all of its threads wait for items that have not begun, it deadlocks. Here an item that blocks under a guard
//!   ([`blocking()`], [`BlockingGuard`]) stops counting, and another worker takes its place at once. Where a guard is
//!   missing, the executor [detects the block](#missing-guards) a moment later.
//! * **Threads do not multiply.** CPU work runs on as many threads as there are CPUs, however many items and queues
//!   share a class (see [Classes](#classes)). A pool makes another thread only when a worker blocks while work is
//!   pending. Surplus idle threads end after [`idle_timeout`](ExecutorBuilder::idle_timeout).
//! * **Queues are cheap.** Each library, tenant or kind of work can have its own queue, with its own limit, order and
//!   flush. A queue costs no thread.
//! * **Items run near their issuer**: on its CPU, on the CPUs that share its last-level cache, or on those of its NUMA
//!   node. If none of these is free, an item runs on another CPU that is.
//!
//! # Queues
//!
//! [`WorkQueue::new`] is the kind to begin with. It runs as many items at a time as there are CPUs near the issuer, and
//! blocked items do not count. [`WorkQueue::per_cpu`], [`WorkQueue::unbound`], [`WorkQueue::ordered`] and
//! [`WorkQueue::bh`] are the kernel's own kinds. All of them share the pools of an [`Executor`], by default the
//! process-wide one.
//!
//! The builder of a queue sets its flags ([`high_priority`](WorkQueueBuilder::high_priority),
//! [`cpu_intensive`](WorkQueueBuilder::cpu_intensive), [`power_efficient`](WorkQueueBuilder::power_efficient),
//! [`freezable`](WorkQueueBuilder::freezable)), where its items run ([`attrs`](WorkQueueBuilder::attrs)), and how many.
//! [`max_active`](WorkQueueBuilder::max_active) and [`max_active_total`](WorkQueueBuilder::max_active_total) limit the
//! items that run or block, [`max_pending`](WorkQueueBuilder::max_pending) those that wait. A queue with a
//! [`rescuer`](WorkQueueBuilder::rescuer) has a thread of its own, which runs its items when no other thread can be
//! made.
//!
//! Each executor has some system queues, for items that need no queue of their own: see [`system`]. A
//! [bh](WorkQueue::bh) queue is for short items that must not block: each CPU runs them one after the other, in order.
//!
//! # Classes
//!
//! Each class of pools has its own limit on how many items run at once:
//!
//! * Per-CPU queues of normal priority are one class, those of [high priority](WorkQueueBuilder::high_priority)
//!   another. Each class runs one item per CPU. [CPU-intensive](WorkQueueBuilder::cpu_intensive) items start by that
//!   rule, and do not count once they have started.
//! * Managed queues ([`WorkQueue::new`]) have a class for each nice level and each division of CPUs into pods. A pod
//!   runs as many items as it has CPUs. Queues that divide the same CPUs in the same way share a class; strict queues
//!   have one of their own. Pods of different classes may overlap, because of another affinity scope or other
//!   [`Attrs`]. They do not take each other into account.
//! * Plain [`unbound`](WorkQueue::unbound) and [`ordered`](WorkQueue::ordered) queues have no such limit. Each active
//!   item, up to `max_active` for each queue, has a thread, regardless of what else runs.
//! * [bh](WorkQueue::bh) queues run one item per CPU and priority. An item that blocks, which it should not, keeps its
//!   place.
//!
//! Classes are independent of each other. A program that keeps three classes busy has three threads to run per CPU, and
//! the system's scheduler divides the CPU among them. An item that returns from blocking after another item took its
//! place runs as one more, until an item of its pool ends.
//!
//! CPUs may come and go. While the executor has work, it watches which CPUs the process may use: cpusets, hotplug, and
//! the affinity of its main thread, which is what `taskset` sets. It also watches the CPU quota of the process's
//! cgroups. An idle executor does not look. When a CPU is lost, its workers move to other CPUs, and return when it
//! comes back; meanwhile [managed](WorkQueue::new) queues run fewer items. So a main thread that pins itself takes all
//! workers along: pin another thread instead.
//!
//! # Locality
//!
//! An [`AffinityScope`] divides the CPUs of a queue into pods. An item belongs to the pod of the CPU on which it was
//! submitted.
//!
//! * An item of a [managed](WorkQueue::new) queue starts in its pod if one of the pod's CPUs is free. If all of them
//!   are busy, it starts at once in the nearest pod that has a free CPU. Sometimes a CPU seems free, but the worker
//!   that was woken for it does not get it, because the issuer goes on without a pause or another process uses it. Then
//!   the item starts in another pod, too. While a CPU of its queue is free, an item waits for **3.2 ms at most**, plus
//!   the time that the system takes to make and run threads. If its pod has woken no worker for 6.4 ms, the 3.2 ms are
//!   200 µs. Each other pod that is called for the item, and whose CPUs are taken as well, adds the same time once.
//! * An item of a [strict](Attrs::strict) queue starts in its pod, and waits if it must. It stays there while the pod
//!   has a CPU, with one exception. When the process loses a CPU, the system may move workers out of their pod. The
//!   executor notices that **within 400 ms** of work. Until then strict items may start and run outside of their pod.
//! * Items that were queued on a CPU or node by number ([`queue_on`](WorkQueue::queue_on)) stay in its pod.
//! * Plain [`unbound`](WorkQueue::unbound) queues start each item at once. Their workers begin in the pod; the system
//!   may move them.
//!
//! [`WorkQueue::counters`] tells how many items began where. [`WorkQueue::apply_attrs`],
//! [`Executor::set_default_scope`] and [`Executor::set_unbound_cpus`] change all of this while queues are in use.
//!
//! # Items
//!
//! [`WorkQueue::spawn`] queues a closure that runs once, and returns a [`JoinHandle`]; [`WorkQueue::spawn_detached`]
//! returns no handle. A [`Work`] is an item that can be queued again and again. Queueing it while it is pending does
//! nothing, and one worker executes it at a time. So any number of requests lead to one run now and one run after it,
//! which sees all of them.
//!
//! [`WorkQueue::scope`] runs closures that borrow, and returns when all of them have ended. [`WorkQueue::spawn_batch`],
//! [`WorkQueue::spawn_batch_detached`] and [`WorkQueue::queue_batch`] queue many items for one wake-up.
//! [`WorkQueue::queue_on`] and [`WorkQueue::queue_on_node`] choose the CPU or the node; [`Executor::run_on_cpu`] and
//! [`Executor::schedule_on_each_cpu`] also wait for the result. Inside an item, [`current_work`] and [`current_queue`]
//! return the item and its queue, and [`set_description`] says in snapshots what the item is doing.
//!
//! # Timers
//!
//! [`WorkQueue::queue_delayed`] and [`WorkQueue::spawn_after`] queue an item after a delay, [`WorkQueue::mod_delayed`]
//! reschedules it, and [`WorkQueue::spawn_every`] queues one every period. One thread of the executor sleeps until the
//! next timer is due. Arming or cancelling a timer costs O(log n) for n armed timers. An armed item is pending, but not
//! queued: a flush of its queue does not wait for it, and a flush of the item itself queues it now.
//!
//! # Waiting and ending
//!
//! | to wait for | |
//! |---|---|
//! | one closure | [`JoinHandle::join`] |
//! | one item: its last submission, or that no worker executes it | [`Work::flush`]; [`Work::cancel_sync`], [`Work::disable_sync`] |
//! | all items that were queued before | [`WorkQueue::flush`] |
//! | an empty queue, which refuses submissions from outside meanwhile, or for ever | [`WorkQueue::drain`], [`WorkQueue::destroy`] |
//! | a moment at which nothing runs, while all pending items are kept | [`Executor::freeze_begin`], [`freeze_busy`](Executor::freeze_busy) and [`thaw`](Executor::thaw) |
//! | the end of an executor, in a given time, with a report of the items that did not end | [`Executor::shutdown`], [`GlobalExecutor::shutdown`] |
//!
//! Each wait has a form with a timeout, except for a scope, whose items hold borrows. Waiting is optional: accepted
//! items run even if the last handle of their queue is gone.
//!
//! # Promises
//!
//! * Accepted work runs, or its owner learns that it does not. A queue that refuses a closure hands it back.
//! * All that happens before a submission is visible to the run. All that happens in the run is visible after the join
//!   or flush that waited for it. If [`queue`](WorkQueue::queue) returns false, what happened before is visible to the
//!   run that is pending.
//! * A panic in an item ends only that item. Its joiner and the panic handler learn of it.
//! * Dropping a queue or an executor never blocks and loses nothing.
//! * If the system refuses a thread, the work waits, and the executor tries again, once a second at most. Queues with a
//!   [rescuer](WorkQueueBuilder::rescuer) go on meanwhile.
//! * An idle executor does not wake up.
//! * The end of the process ends pending and running items, as it ends any thread. No shutdown is needed before it.
//!   Exit handlers and thread-local destructors may still use queues.
//! * An item that waits for itself gets an error instead of a hang. So does a forked process that waits for its
//!   parent's threads. In debug builds so does the wait that would close a cycle of items that wait for each other, and
//!   the log names them ([`WaitError::WouldDeadlock`]).
//!
//! # Guards
//!
//! Put a guard around each call that may sleep: file and network I/O, locks that are held for long, channels, joins of
//! foreign threads. A guard costs some 30 to 45 ns, and items that are queued behind start at once. [`may_block()`] is
//! for calls that are usually short. The waits of this crate have guards of their own, and so do the locks, channels,
//! files, threads and processes of the module [`mod@blocking`].
//!
//! # Missing guards
//!
//! An item that blocks without a guard delays other items for a while, but not for good. While items wait to start, the
//! executor's manager examines the threads that run items. An idle executor does not look.
//!
//! * A worker that sleeps without a guard is replaced after some milliseconds at most, on a machine with a free CPU.
//!   Where the system reports the sleep, it takes a fraction of a millisecond: [`Detection`] describes the methods, and
//!   [`ExecutorBuilder::detection`] chooses one. Preemption is not a sleep. [`Executor::undeclared_blockers`] lists the
//!   types of such items, which lack a guard.
//! * An item that uses the CPU of a per-CPU queue for 10 ms ([`ExecutorBuilder::hog_threshold`]) counts as [CPU
//!   intensive](WorkQueueBuilder::cpu_intensive) from then on. [`Executor::hogs`] lists such items; the log names them,
//!   too.
//! * The number of threads stays bounded: the pool replaces as many such workers as it has CPUs at once, and each
//!   further one after a longer gap. Blocks under a guard are not slowed down.
//! * A pool that has work and starts none of it for 30 s ([`ExecutorBuilder::watchdog_threshold`]) is reported once,
//!   with what its workers are doing: in the log, or to a [`stall_handler`](ExecutorBuilder::stall_handler).
//!
//! All of this is for Linux. Other systems do not tell the state of threads: there, only guards and the watchdog work.
//!
//! # Observation
//!
//! | to see | |
//! |---|---|
//! | a queue's counters: items started, completed, cancelled, away from their pod, CPU time, and the others of the kernel | [`WorkQueue::counters`], a [`Counters`] |
//! | how long items waited and ran | [`WorkQueue::latency`], while [histograms](WorkQueueBuilder::histograms) are on |
//! | everything at one moment: scopes, pools, workers, queues, rescuers | [`Executor::dump`], a [`Snapshot`](observe::Snapshot), whose text is the kernel's `wq_dump` |
//! | what runs, for how long, and what waits | its [`busy`](observe::Snapshot::busy) report, like the kernel's `show_all_workqueues` |
//! | the counters of queues, at each interval | [`Executor::monitor`], in `wq_monitor`'s columns |
//! | items that need a guard | [`Executor::undeclared_blockers`] and [`Executor::hogs`] |
//! | the events of each item, in a log or a timeline | the feature `tracing`, and the module `trace` |
//! | metrics of a service, for Prometheus and others | the feature `metrics`, and the module `metrics` |
//! | all of this from another process, which may also change queues | the feature `control`, the module `control`, and the tool `cmwqctl` |
//!
//! Counting costs a few plain stores for each item, and the CPU clock of a worker is read in batches. Histograms are
//! off by default, and can be switched while items run. Observers stop no thread. With the feature `serde`, the types
//! of [`observe`] serialise.
//!
//! # Fork
//!
//! A forked process has none of its parent's threads. In the child, operations on the parent's objects return at once
//! instead of waiting for these threads. A submission returns [`QueueError::Forked`], a wait [`WaitError::Forked`] or
//! [`JoinError::Forked`]. An item that had ended at the fork can still be joined. Dropping a handle has no effect, and
//! a [`Work`] counts as neither pending nor running. The parent notices nothing.
//!
//! A child may make executors, queues and items of its own, and [`Executor::global`] returns a new executor there. The
//! parent must have been quiet at the fork: all queues flushed, no submission and no wait in progress. Otherwise a
//! thread that does not exist in the child may hold one of the few locks that all executors of a process share (those
//! on which threads wait, and the numbers of shards), or a lock of another library. Then making an executor in the
//! child may hang. If a thread of the parent is parked in `parking_lot` at the fork, waits in the child may hang.
//! Programs started by [`std::process::Command`] are not affected.
//!
//! A child that an item forks is not inside an item. If it returns from the item's function, it ends there, without
//! exit handlers, with status 0, or 101 after a panic. Pending items belong to the parent.
//!
//! # Departures from the kernel
//!
//! The documentation of each item has the kernel's names as aliases: search it for `queue_work_on`. The differences
//! are:
//!
//! * **Blocking is declared, or detected later.** The kernel's scheduler tells a pool at once that a worker sleeps;
//!   here a [guard](#guards) does. Without a guard, the manager [detects the sleep](#missing-guards) while work waits,
//!   and replaces such workers at a limited pace. It detects an item that keeps its CPU busy in the same way.
//! * **Managed queues** ([`WorkQueue::new`]) are an addition. They are unbound, but run no more items at a time than
//!   there are CPUs.
//! * **Refusals are typed errors, and change nothing.** The kernel warns, answers true, and drops an item that is
//!   queued on a queue being drained. Here the call returns [`QueueError::Draining`], and the item or closure stays as
//!   it was. Queueing a disabled item returns [`QueueError::Disabled`], not false. Flags that contradict each other are
//!   a [`BuildQueueError`]. A limit that is out of range is an error, too; it is not clamped.
//! * **An item that waits for itself gets an error**, not a hang or a warning: [`WaitError::WouldDeadlock`].
//! * **An [`enable`](Work::enable) too many is an error** ([`EnableError::NotDisabled`]); in the kernel it cancels a
//!   pending submission. An item may be disabled four billion times over; in the kernel, 65 535 times.
//! * **A queue knows its timers.** [`destroy`](WorkQueue::destroy) cancels those that are armed and returns how many;
//!   in the kernel such a timer would use freed memory. A timer that fires during a drain is held until the drain ends.
//!   Timers with equal deadlines fire in the order in which they were armed; the kernel's fire in the reverse order.
//! * **There is one type of reusable items**, [`Work`], with or without a delay. So there is one `flush`, one `cancel`
//!   and one `disable`. Items own what they use, and queues and executors live as long as they have work. So no order
//!   of destruction has to be observed.
//! * **A cancelled item leaves an empty place in the queue**, until a worker reaches that place. The place counts in
//!   [`len`](WorkQueue::len) and for [`max_pending`](WorkQueueBuilder::max_pending). An item that is queued again to
//!   the same place before that gets its place back, but not in ordered and bh queues. While a flush waits, the item
//!   gets back only the place that it took last, and only if it took that since the flush began.
//! * **`max_active` is as documented, not as implemented:** per CPU, for unbound queues too, 256 by default, 512 at
//!   most. Linux since 6.9 limits unbound queues as a whole, as
//!   [`max_active_total`](WorkQueueBuilder::max_active_total) does here. [`max_pending`](WorkQueueBuilder::max_pending)
//!   is an addition. There is no `min_active`.
//! * **bh** is a pinned thread for each CPU and priority, not a softirq. An item that blocks holds up those behind it
//!   and nothing else. In debug builds, a guard in such an item is reported.
//! * **A rescuer** runs items whenever threads cannot be made, for any reason: a limit of the system, no memory,
//!   `max_threads`. It has the nice level that its queue's workers had when the queue was built, and keeps it when the
//!   attributes change.
//! * **Neighbours may swap** where several items of a queue may be active. An item that waited for a slot reaches its
//!   pool a moment after it gets one. Another item that is queued in that moment, and finds another free slot, may
//!   start first. Items of ordered and bh queues do not swap.
//! * **New attributes apply to items that wait.** In the kernel, items that wait for a slot when the attributes change
//!   run with the old ones.
//! * **Freezing** twice is the same as freezing once. An executor whose last handle is gone thaws by itself.
//! * **Panics are contained**, and everything is accounted for as if the item had returned.
//! * **Scopes conserve work.** In the kernel, a worker of a scope that is not strict starts in its pod, and the
//!   scheduler may move it, late. Here, an item of a managed queue that its pod cannot take starts in another pod that
//!   can, after 3.2 ms at most: see [Locality](#locality). The default is `cache`; Linux since 7.1 divides large
//!   caches, as [`AffinityScope::CacheShard`] does.
//! * **Snapshots** use the format of the kernel's tools, with CPU lists in place of masks, and more columns for what
//!   the kernel does not count. CPU time is measured, not counted in ticks. A queue's counters survive the pools that
//!   served it.
//! * **There is no** RCU work or `execute_in_process_context`. A socket replaces sysfs: `cmwq::control`.
//!
//! # Platform
//!
//! Linux on x86-64 and aarch64. Since Linux 6.12, workers have a time slice of 0.7 ms where another thread waits for
//! their CPU. Threads and programs that an item starts inherit this time slice, and the nice level and CPUs of its
//! worker. [`reset_scheduling`](blocking::process::reset_scheduling) gives a program those of the main thread instead.
//! A worker takes on the signal mask of the main thread when it is made. So the threads and programs that an item
//! starts have that mask, too, and a signal handler may run on a worker.
//!
//! On other systems, workers are not bound to CPUs and have no nice levels (a snapshot says so:
//! [`portable`](observe::Snapshot::portable)), and per-CPU queues spread the submissions of each thread over the CPUs.
//! On Linux, `RUSTFLAGS="--cfg cmwq_portable"` gives this behaviour. The minimum supported Rust version is 1.85.
//!
//! # Features
//!
//! * `hwloc`, on by default: the C library hwloc reads caches, cores and nodes, on every system that it supports, and
//!   [`TopologySource::Xml`] is available. Needs libhwloc 2 with its headers, and pkg-config. Without this feature, the
//!   crate needs nothing but Rust: on Linux it reads `/sys`, which leads to the same pods, and on other systems all
//!   CPUs count as equals.
//! * `control`: a Unix socket through which a client inspects a running process and changes its queues: see the module
//!   `control`. Brings `serde`, `serde_json` and `rustix`.
//! * `metrics`: passes the counters and gauges of queues and pools to the recorder of the crate `metrics`, for
//!   Prometheus and others. The module `metrics` lists their names.
//! * `serde`: snapshots and counters of an executor serialise and deserialise; [`observe`] describes the format.
//! * `tracing`: subscribers of `tracing` receive the events of each item, the kernel's four and ours, with a span
//!   around each run. The module `trace` lists names, levels and fields.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "the models use a part of the crate"))]

mod policy;
mod protocol;
mod sys;

#[cfg(not(cmwq_loom))]
pub mod blocking;
#[cfg(all(unix, feature = "control", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(all(unix, feature = "control"))))]
pub mod control;
#[cfg(not(cmwq_loom))]
mod current;
#[cfg(not(cmwq_loom))]
mod engine;
#[cfg(not(cmwq_loom))]
mod error;
#[cfg(not(cmwq_loom))]
mod executor;
#[cfg(not(cmwq_loom))]
mod join;
#[cfg(all(feature = "metrics", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub mod metrics;
#[cfg(not(cmwq_loom))]
pub mod observe;
#[cfg(not(cmwq_loom))]
mod periodic;
#[cfg(not(cmwq_loom))]
mod queue;
#[cfg(all(test, not(cmwq_loom)))]
mod runs;
#[cfg(not(cmwq_loom))]
pub mod system;
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub mod trace;
#[cfg(not(cmwq_loom))]
mod work;

#[cfg(not(cmwq_loom))]
pub use self::blocking::guard::{BlockingGuard, MayBlockGuard, blocking, may_block};
#[cfg(not(cmwq_loom))]
pub use self::current::{current_queue, current_queue_name, current_work, is_rescuer, set_description};
#[cfg(not(cmwq_loom))]
pub use self::error::attrs::{ApplyAttrsError, SetDefaultScopeError, SetUnboundCpusError};
#[cfg(not(cmwq_loom))]
pub use self::error::batch::{QueueBatchError, RefusedBatch, RefusedDetachedBatch};
#[cfg(not(cmwq_loom))]
pub use self::error::join::{JoinError, PanicPayload};
#[cfg(not(cmwq_loom))]
pub use self::error::limit::SetMaxActiveError;
#[cfg(not(cmwq_loom))]
pub use self::error::scope::ScopeError;
#[cfg(not(cmwq_loom))]
pub use self::error::{BuildExecutorError, BuildQueueError, EnableError, Refused, RunOnCpuError};
#[cfg(not(cmwq_loom))]
pub use self::executor::Executor;
#[cfg(not(cmwq_loom))]
pub use self::executor::builder::ExecutorBuilder;
#[cfg(not(cmwq_loom))]
pub use self::executor::global::GlobalExecutor;
#[cfg(not(cmwq_loom))]
pub use self::executor::shutdown::{QueueReport, ShutdownReport};
#[cfg(not(cmwq_loom))]
pub use self::join::JoinHandle;
#[cfg(not(cmwq_loom))]
pub use self::periodic::PeriodicHandle;
#[cfg(not(cmwq_loom))]
pub use self::queue::WorkQueue;
#[cfg(not(cmwq_loom))]
pub use self::queue::builder::WorkQueueBuilder;
#[cfg(not(cmwq_loom))]
pub use self::queue::scope::ScopedJoinHandle;
#[cfg(not(cmwq_loom))]
pub use self::work::Work;
#[cfg(not(cmwq_loom))]
pub use crate::engine::executor::reports::{PanicReport, StallReport, StalledWorker};
#[cfg(not(cmwq_loom))]
pub use crate::engine::item::scope::Scope;
#[cfg(not(cmwq_loom))]
pub use crate::engine::manager::offenders::Offender;
#[cfg(not(cmwq_loom))]
pub use crate::engine::refusal::{QueueError, ShutdownError, WaitError};
pub use policy::attrs::{Attrs, EffectiveAttrs};
pub use policy::counters::Counters;
pub use policy::cpu_set::{CpuSet, ParseCpuSetError};
pub use policy::detection::Detection;
pub use policy::histogram::{Histogram, Latency};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
#[cfg(not(cmwq_loom))]
pub use sys::topology::{TopologyError, TopologySource};
