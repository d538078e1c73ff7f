//! Concurrency-managed workqueues for Rust services, without async.
//!
//! The Linux kernel runs the background work of a whole system through *workqueues*. Queues are cheap and have names.
//! They share pools of workers. These pools have just enough threads to keep the CPUs busy while work is pending. This
//! crate brings that design to a process.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::new("thumbnails");
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
//!   all of its threads wait for items that have not begun, the pool deadlocks. In cmwq, an item that blocks under a
//!   guard ([`blocking()`], [`BlockingGuard`]) no longer counts as running, and another worker takes its place
//!   immediately. Where a guard is missing, the executor [detects the block](#missing-guards) shortly after it begins.
//! * **Threads do not multiply.** The CPU work of a class runs on as many threads as there are CPUs, no matter how many
//!   queues and items share the class (see [Classes](#classes)). A pool makes another thread only when a worker blocks
//!   while work is pending. Surplus idle threads end after [`idle_timeout`](ExecutorBuilder::idle_timeout).
//! * **Queues are cheap.** Each library, tenant or kind of work can have its own queue, with its own limit, order and
//!   flush. A queue costs no thread.
//! * **Items run near their issuer**: on the same CPU, on a CPU that shares its last-level cache, or on a CPU of the
//!   same NUMA node. If none of these CPUs is free, an item runs on another free CPU.
//!
//! # Queues
//!
//! Begin with the kind that [`WorkQueue::builder`] makes. Such a queue runs as many items at a time as there are CPUs
//! near the issuer, and blocked items do not count. [`WorkQueue::per_cpu`], [`WorkQueue::unbound`],
//! [`WorkQueue::ordered`] and [`kernel::bh`] are the kernel's own kinds. All of them share the pools of an
//! [`Executor`], by default the process-wide one.
//!
//! The builder of a queue sets its flags ([`high_priority`](WorkQueueBuilder::high_priority),
//! [`cpu_intensive`](WorkQueueBuilder::cpu_intensive)), the place where its items run
//! ([`attrs`](WorkQueueBuilder::attrs)), and its limits. [`max_active`](WorkQueueBuilder::max_active) and
//! [`max_active_total`](WorkQueueBuilder::max_active_total) limit the items that run or block, and
//! [`max_pending`](WorkQueueBuilder::max_pending) limits the items that wait. A queue with a
//! [`rescuer`](WorkQueueBuilder::rescuer) has a thread of its own, which runs the queue's items when no other thread
//! can be made.
//!
//! The module [`kernel`] has what only ports of kernel code need: the system queues, [bh](kernel::bh) queues, freezing
//! and power-efficient queues.
//!
//! # Classes
//!
//! Each class of pools has its own limit on how many items run at the same time:
//!
//! * Per-CPU queues of normal priority are one class, and per-CPU queues of [high
//!   priority](WorkQueueBuilder::high_priority) are another. Each class runs one item per CPU.
//!   [CPU-intensive](WorkQueueBuilder::cpu_intensive) items start under the same limit, but do not count once they have
//!   started.
//! * Managed queues ([`WorkQueue::builder`]) have a class for each nice level and each division of CPUs into pods. A
//!   pod runs as many items as it has CPUs. Queues that divide the same CPUs in the same way share a class. But if
//!   there are several pods, a strict queue shares a class only with other strict queues. Pods of different classes can
//!   overlap, because their queues differ in the affinity scope or in other [`Attrs`]. Such pods do not take each other
//!   into account.
//! * Plain [`unbound`](WorkQueue::unbound) and [`ordered`](WorkQueue::ordered) queues have no such limit. Each active
//!   item has a thread, regardless of the other items that run. Only the `max_active` of each queue limits the active
//!   items.
//! * [bh](kernel::bh) queues run one item per CPU and priority. Such an item should not block. If it blocks, no
//!   other item takes its place.
//!
//! Classes are independent of each other. A program that keeps three classes busy has three runnable threads per CPU,
//! and the system's scheduler divides the CPU among them. A blocked item continues as soon as its call returns, even if
//! another item has taken its place. Then the pool runs one item more than its limit, until one of its items ends.
//!
//! CPUs can come and go. While the executor has work, it watches which CPUs the process may use. Cpusets, hotplug and
//! the affinity of the main thread, which `taskset` sets, determine these CPUs. The executor also watches the CPU quota
//! of the process's cgroups. An idle executor watches neither the CPUs nor the quota. When a CPU is lost, its workers
//! move to other CPUs, and they return when the CPU comes back. Meanwhile, [managed](WorkQueue::builder) queues run
//! fewer items. If the main thread pins itself, all workers follow it to its CPUs. Pin another thread instead.
//!
//! # Locality
//!
//! An [`AffinityScope`] divides the CPUs of a queue into pods. An item belongs to the pod of the CPU on which it was
//! submitted.
//!
//! * An item of a [managed](WorkQueue::builder) queue starts in its pod if one of the pod's CPUs is free. If all of
//!   them are busy, the item starts immediately in the nearest pod that has a free CPU. Sometimes a CPU seems free, but
//!   the worker that was woken for the item does not get that CPU, because the issuer keeps running on it or another
//!   process uses it. In this case, too, the item starts in another pod. As long as a CPU of its queue is free, an item
//!   waits for **at most 3.2 ms**, plus the time that the system takes to make and run threads. This bound is 200 µs
//!   instead of 3.2 ms if the item's pod has woken no worker for 6.4 ms. If the item is offered to another pod and the
//!   CPUs of that pod are taken as well, the other pod adds the same bound once.
//! * An item of a [strict](Attrs::strict) queue starts in its pod, and waits if it must. The item stays in the pod as
//!   long as the pod has a CPU, with one exception. When the process loses a CPU, the system may move workers out of
//!   their pod. The executor notices this after **at most 400 ms** of running time. Until then, strict items can start
//!   and run outside of their pod.
//! * Items that were queued on a CPU or node by number ([`Submission::on_cpu`]) stay in the pod of that CPU or node.
//! * Plain [`unbound`](WorkQueue::unbound) queues start each item immediately. Their workers begin in the pod, but the
//!   system may move them.
//!
//! [`WorkQueue::counters`] counts the items that began inside and outside of their pod. [`WorkQueue::apply_attrs`],
//! [`Executor::set_default_scope`] and [`Executor::set_unbound_cpus`] change the pods while queues are in use.
//!
//! # Items
//!
//! | to submit | call |
//! |---|---|
//! | a closure, whose result is wanted | [`spawn`](WorkQueue::spawn), which returns a [`JoinHandle`] |
//! | a closure without a result | [`spawn_detached`](WorkQueue::spawn_detached) |
//! | a function again and again, once for all requests that come before it runs | a [`Work`], and [`enqueue`](WorkQueue::enqueue) |
//! | on a CPU or node, later, once per period, or with a name | [`item`](WorkQueue::item), which returns a [`Submission`] |
//! | many closures or many [`Work`]s, with one notification of the pool | [`items`](WorkQueue::items) |
//! | a function for many inputs, with the results in order | [`map`](WorkQueue::map) |
//! | a function for many inputs that borrow | [`for_each`](WorkQueue::for_each) |
//! | closures that borrow, and chunks of slices | [`scope`](WorkQueue::scope) |
//!
//! Queueing a [`Work`] while it is pending does nothing, and only one worker at a time executes it. So all submissions
//! during a run lead to only one more run, which sees everything that happened before each of these submissions.
//!
//! The options of a [`Submission`] can be combined:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Work, WorkQueue};
//! use std::time::Duration;
//!
//! let queue = WorkQueue::new("index");
//! let later = queue.item(|| "indexed").on_node(0).after(Duration::from_millis(1)).named("index 7").spawn()?;
//! let (mut ticks, compact) = (0, Work::new(|| println!("compacted")));
//! let every = queue.item(move || ticks += 1).spawn_every(Duration::from_millis(10))?;
//! queue.item(&compact).after(Duration::from_secs(60)).enqueue()?;
//! queue.item(&compact).reschedule()?; // Now, not in a minute.
//! assert_eq!(later.join()?, "indexed");
//! every.cancel_and_wait()?;
//! compact.flush()?;
//! # Ok(())
//! # }
//! ```
//!
//! Inside an item, [`current_work`] and [`current_queue`] return the item and its queue, and [`set_description`] sets
//! the description that snapshots show for the item.
//!
//! # Timers
//!
//! [`Submission::after`] delays an item, [`Submission::reschedule`] replaces a pending run, and
//! [`Submission::spawn_every`] calls a closure once per period. One thread of the executor sleeps until the next timer
//! is due. Arming or cancelling a timer costs O(log n) for n armed timers. An armed item is pending, but not queued. So
//! a flush of its queue does not wait for the item, and a flush of the item itself queues it immediately.
//!
//! # Waiting and ending
//!
//! | to wait for | |
//! |---|---|
//! | one closure | [`JoinHandle::join`] |
//! | one reusable item: the end of its last submission, or the end of its present run | [`Work::flush`]; [`Work::cancel_and_wait`], [`Work::disable_and_wait`] |
//! | all items that were queued before the call | [`WorkQueue::flush`] |
//! | a queue without items, while others may go on submitting | [`WorkQueue::wait_idle`] |
//! | an empty queue, which refuses submissions from outside until the wait ends (`drain`) or for ever (`destroy`) | [`WorkQueue::drain`], [`WorkQueue::destroy`] |
//! | a time when no item of a freezable queue runs, while all pending items are kept | [`freeze_begin`](kernel::ExecutorExt::freeze_begin), [`freeze_busy`](kernel::ExecutorExt::freeze_busy) and [`thaw`](kernel::ExecutorExt::thaw) |
//! | the end of an executor within a given time, with a report of the items that did not end | [`Executor::shutdown`], [`GlobalExecutor::shutdown`] |
//!
//! Each wait has a form with a timeout. Only the wait of a scope has none, because the scope's items hold borrows.
//! Waiting is optional: accepted items run even if the last handle to their queue is dropped.
//!
//! # Promises
//!
//! * Accepted work runs, or its owner learns that it does not. A queue that refuses a closure hands the closure back.
//! * Everything that happens before a submission is visible to the run. Everything that the run does is visible after
//!   the join or flush that waited for it. If [`enqueue`](WorkQueue::enqueue) returns false, everything that happened
//!   before the call is visible to the pending run.
//! * A panic in an item ends only that item. The item's joiner and the panic handler learn of the panic.
//! * Dropping a queue or an executor never blocks and loses nothing.
//! * If the system refuses a thread, the work waits, and the executor tries again, at most once a second. Meanwhile,
//!   the items of queues with a [rescuer](WorkQueueBuilder::rescuer) still run.
//! * An idle executor does not wake up.
//! * When the process ends, its pending and running items end, too. No shutdown is needed before the process ends. Exit
//!   handlers and thread-local destructors may still use queues.
//! * An item that waits for itself gets an error instead of a hang. A forked process that waits for its parent's
//!   threads gets an error, too. In debug builds, a wait that would close a cycle of items that wait for each other
//!   fails, and the log names these items ([`WaitError::WouldDeadlock`]).
//!
//! # Guards
//!
//! Put a guard around each call that may sleep: file and network I/O, locks that are held for long, channels, joins of
//! foreign threads. A guard costs about 20 ns, and lets the items that are queued behind the call start
//! immediately. [`may_block()`] is for calls that are usually short. The waits of this crate have guards of their own,
//! and so do the locks, channels, files, threads and processes of the module [`mod@blocking`].
//!
//! # Missing guards
//!
//! An item that blocks without a guard delays other items for a while, but not for ever. While items wait to start, the
//! executor's manager examines the threads that run items. In an idle executor, the manager examines nothing.
//!
//! * On a machine with a free CPU, the pool takes at most a few milliseconds to replace a worker that sleeps without a
//!   guard. If the system reports the sleep, the pool takes only a fraction of a millisecond. [`Detection`] describes
//!   the methods, and [`ExecutorBuilder::detection`] chooses one. Preemption is not a sleep.
//!   [`Executor::undeclared_blockers`] lists the types of the items that slept without a guard.
//! * An item of a per-CPU queue that uses its CPU for 10 ms ([`ExecutorBuilder::hog_threshold`]) counts as [CPU
//!   intensive](WorkQueueBuilder::cpu_intensive) from then on. [`Executor::hogs`] lists the types of such items, and
//!   the log names them.
//! * The number of threads stays bounded. A worker that is found sleeping without a guard or keeping its CPU is
//!   replaced without delay if its pool has fewer such workers than CPUs. Otherwise, the worker is replaced after a
//!   gap, which grows with the number of such workers. A worker that blocks under a guard is always replaced without
//!   delay.
//! * If a pool has work and starts none of it for 30 s ([`ExecutorBuilder::watchdog_threshold`]), the watchdog reports
//!   the pool once, and tells what its workers are doing. The report goes to the log or to a
//!   [`stall_handler`](ExecutorBuilder::stall_handler).
//!
//! All of this works on Linux. Other systems do not show the states of threads, so only guards and the watchdog work
//! there.
//!
//! # Observation
//!
//! | to see | |
//! |---|---|
//! | a queue's counters: items started, completed, cancelled, away from their pod, CPU time, and the kernel's other counters | [`WorkQueue::counters`], a [`Counters`] |
//! | how long items waited and ran | [`WorkQueue::latency`], while [histograms](WorkQueueBuilder::histograms) are on |
//! | everything at one moment: scopes, pools, workers, queues, rescuers | [`Executor::dump`], a [`Snapshot`](observe::Snapshot), whose text is the kernel's `wq_dump` |
//! | the running items with their age, and the number of waiting items | the snapshot's [`busy`](observe::Snapshot::busy) report, like the kernel's `show_all_workqueues` |
//! | the counters of queues, at each interval | [`Executor::monitor`], in `wq_monitor`'s columns |
//! | items that need a guard | [`Executor::undeclared_blockers`] and [`Executor::hogs`] |
//! | the events of each item, in a log or a timeline | the feature `tracing`, and the module `trace` |
//! | metrics of a service, for Prometheus and others | the feature `metrics`, and the module `metrics` |
//! | all of this from another process, which may also change queues | the feature `control`, the module `control`, and the tool `cmwqctl` |
//!
//! Counting costs a few plain stores for each item, and a worker reads its CPU clock only once for several short items.
//! Histograms are off by default, and can be switched on and off while items run. Observation stops no thread. With the
//! feature `serde`, the types of [`observe`] serialise.
//!
//! # Fork
//!
//! A forked process has none of its parent's threads. In the child, operations on the parent's objects return
//! immediately instead of waiting for these threads. A submission returns [`QueueError::Forked`]. A wait returns
//! [`WaitError::Forked`] or [`JoinError::Forked`]. An item that had ended before the fork can still be joined. Dropping
//! a handle has no effect, and a [`Work`] counts as neither pending nor running. The parent notices nothing.
//!
//! A child may make executors, queues and items of its own, and [`Executor::global`] returns a new executor there. At
//! the fork, the parent must be quiet: all its queues are flushed, and no submission or wait is in progress. Otherwise,
//! a thread that does not exist in the child may hold a lock of another library, or one of the few locks that all
//! executors of a process share (the locks on which threads wait, and the lock of the shard numbers). Then making an
//! executor in the child can hang. If a thread of the parent is parked in `parking_lot` at the fork, waits in the child
//! can hang. Programs started by [`std::process::Command`] are not affected.
//!
//! If an item forks a child process, the child is not inside an item. If the child returns from the item's function, it
//! exits immediately, without running exit handlers. Its status is 0 or, after a panic, 101. Pending items belong to
//! the parent.
//!
//! # Departures from the kernel
//!
//! The documentation has the kernel's names as search aliases: for example, search for `queue_work_on`. These are the
//! differences:
//!
//! * **Blocking is declared, or detected later.** When a worker goes to sleep, the kernel's scheduler immediately tells
//!   the worker's pool. In cmwq, a [guard](#guards) tells the pool. Without a guard, the manager [detects the
//!   sleep](#missing-guards) while work waits, and replaces such workers at a limited pace. In the same way, the
//!   manager detects an item that keeps its CPU busy.
//! * **Managed queues** ([`WorkQueue::builder`]) are an addition. They are unbound, but run no more items at a time
//!   than there are CPUs.
//! * **Refusals are typed errors, and change nothing.** If an item is queued while its queue is being drained, the
//!   kernel warns, drops the item, and returns true. Here the call returns [`QueueError::Draining`], and the item or
//!   closure stays as it was. Queueing a disabled item returns [`QueueError::Disabled`], not false. Flags that
//!   contradict each other cause a [`BuildQueueError`]. A limit that is out of range also causes an error, and is not
//!   clamped.
//! * **An item that waits for itself gets an error**, not a hang or a warning: [`WaitError::WouldDeadlock`].
//! * **A surplus call of [`enable`](Work::enable) is an error** ([`EnableError::NotDisabled`]); in the kernel, such a
//!   call cancels a pending submission. An item can be disabled four billion times over; in the kernel, 65 535 times.
//! * **A queue knows its timers.** [`destroy`](WorkQueue::destroy) cancels the queue's armed timers and returns their
//!   number; in the kernel, a timer that fires after the destruction uses freed memory. If a timer fires during a
//!   drain, its item waits until the drain ends. Timers with equal deadlines fire in the order in which they were
//!   armed; in the kernel, they fire in the reverse order.
//! * **There is one type of reusable item**, [`Work`], with or without a delay. So there is one `flush`, one `cancel`
//!   and one `disable`. Items own what they use, and queues and executors live as long as they have work. So items,
//!   queues and executors can be dropped in any order.
//! * **A cancelled item leaves an empty place in the queue** until a worker reaches that place. The place counts in
//!   [`len`](WorkQueue::len) and towards [`max_pending`](WorkQueueBuilder::max_pending). If the item is queued again on
//!   the same CPU before then, it gets its place back, except in ordered and bh queues. While a flush waits, the item
//!   gets back only the place that it took last, and only if it took this place after the flush began.
//! * **`max_active` follows the kernel's documentation, not its implementation.** The limit applies to each CPU, even
//!   for unbound queues. It is 256 by default and 512 at most. Since version 6.9, Linux limits unbound queues as a
//!   whole, as [`max_active_total`](WorkQueueBuilder::max_active_total) does here.
//!   [`max_pending`](WorkQueueBuilder::max_pending) is an addition. There is no `min_active`.
//! * **bh** is a pinned thread for each CPU and priority, not a softirq. An item that blocks holds up only the items
//!   behind it. In debug builds, a guard in such an item is reported.
//! * **A rescuer** runs items whenever threads cannot be made, for whatever reason: a limit of the system, a lack of
//!   memory, or `max_threads`. The rescuer has the nice level that its queue's workers had when the queue was built,
//!   and keeps that level when the attributes change.
//! * **Neighbours may swap** if several items of a queue can be active at the same time. An item that waited for a slot
//!   reaches its pool shortly after it gets the slot. If another item is queued in between, and finds another free
//!   slot, the other item can start first. Items of ordered and bh queues do not swap.
//! * **New attributes apply to items that wait.** In the kernel, items that already wait for a slot still run with the
//!   old attributes.
//! * **Freezing** twice is the same as freezing once. An executor thaws by itself when its last handle is dropped.
//! * **Panics are contained.** After a panic, an item counts as ended in every respect, as if it had returned.
//! * **Scopes conserve work.** In the kernel, a worker of a scope that is not strict starts in its pod. The scheduler
//!   may move the worker, but does so late. Here, an item of a managed queue waits for its pod for at most 3.2 ms while
//!   another pod could take the item. Then it starts in that other pod: see [Locality](#locality). The default scope is
//!   `cache`. Since version 7.1, Linux divides large caches by default, as [`AffinityScope::CacheShard`] does.
//! * **Snapshots** use the format of the kernel's tools, with CPU lists in place of masks. They have additional columns
//!   for counts that the kernel does not have. CPU time is measured, not counted in ticks. The counters of a queue
//!   survive the pools that served the queue.
//! * **There is no** RCU work or `execute_in_process_context`. A socket replaces sysfs: `cmwq::control`.
//!
//! # Platform
//!
//! The crate is made for Linux on x86-64 and aarch64. On Linux 6.12 and later, workers have a time slice of 0.7 ms,
//! which takes effect while another thread waits for their CPU. Threads and programs that an item starts inherit the
//! time slice, the nice level and the CPUs of its worker. [`reset_scheduling`](blocking::process::reset_scheduling)
//! gives a program the values of the main thread instead. When a worker is made, it takes on the signal mask of the
//! main thread. So the threads and programs that an item starts have that mask, too, and a signal handler can run on a
//! worker.
//!
//! On other systems, workers are not bound to CPUs and have no nice levels; a snapshot says so in
//! [`portable`](observe::Snapshot::portable). There, per-CPU queues spread the submitting threads over the CPUs. On
//! Linux, `RUSTFLAGS="--cfg cmwq_portable"` gives this behaviour. The minimum supported Rust version is 1.85.
//!
//! # Features
//!
//! * `hwloc`, on by default: the C library hwloc finds the caches, cores and nodes on every system that hwloc supports,
//!   and [`TopologySource::Xml`] is available. This feature needs libhwloc 2 with its headers, and pkg-config. Without
//!   this feature, the crate needs nothing but Rust. On Linux, the crate then reads `/sys`, which leads to the same
//!   pods. On other systems, it treats all CPUs as equals.
//! * `control`: a Unix socket through which a client inspects a running process and changes its queues: see the module
//!   `control`. This feature brings in `serde`, `serde_json` and `rustix`.
//! * `metrics`: passes the counters and gauges of queues and pools to the recorder of the crate `metrics`, for
//!   Prometheus and others. The module `metrics` lists their names.
//! * `serde`: snapshots and counters of an executor serialise and deserialise; [`observe`] describes the format.
//! * `tracing`: subscribers of `tracing` receive the events of each item: the kernel's four events, and further events
//!   that the crate adds. Each run has a span. The module `trace` lists names, levels and fields.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "the models use only a part of the crate"))]

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
mod id;
#[cfg(not(cmwq_loom))]
mod join;
#[cfg(not(cmwq_loom))]
pub mod kernel;
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
pub use self::error::batch::{EnqueueBatchError, RefusedBatch};
#[cfg(not(cmwq_loom))]
pub use self::error::join::{JoinError, PanicPayload};
#[cfg(not(cmwq_loom))]
pub use self::error::limit::SetMaxActiveError;
#[cfg(not(cmwq_loom))]
pub use self::error::refused::Refused;
#[cfg(not(cmwq_loom))]
pub use self::error::scope::ScopeError;
#[cfg(not(cmwq_loom))]
pub use self::error::{BuildExecutorError, BuildQueueError, EnableError, RunError};
#[cfg(not(cmwq_loom))]
pub use self::executor::Executor;
#[cfg(not(cmwq_loom))]
pub use self::executor::builder::ExecutorBuilder;
#[cfg(not(cmwq_loom))]
pub use self::executor::global::GlobalExecutor;
#[cfg(not(cmwq_loom))]
pub use self::executor::shutdown::{QueueReport, ShutdownReport};
#[cfg(not(cmwq_loom))]
pub use self::id::{QueueId, WorkId};
#[cfg(not(cmwq_loom))]
pub use self::join::JoinHandle;
#[cfg(not(cmwq_loom))]
pub use self::periodic::PeriodicHandle;
#[cfg(not(cmwq_loom))]
pub use self::queue::WorkQueue;
#[cfg(not(cmwq_loom))]
pub use self::queue::batch::Batch;
#[cfg(not(cmwq_loom))]
pub use self::queue::builder::WorkQueueBuilder;
#[cfg(not(cmwq_loom))]
pub use self::queue::map::Map;
#[cfg(not(cmwq_loom))]
pub use self::queue::scope::ScopedJoinHandle;
#[cfg(not(cmwq_loom))]
pub use self::queue::submission::Submission;
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
pub use policy::cpu_set::{CpuSet, CpuSetIter, ParseCpuSetError};
pub use policy::detection::Detection;
pub use policy::histogram::{Histogram, Latency};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
#[cfg(not(cmwq_loom))]
pub use sys::topology::{TopologyError, TopologySource};
