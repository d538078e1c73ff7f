//! Concurrency-managed workqueues for Rust services, without async.
//!
//! The Linux kernel runs the background work of a whole system through *workqueues*: cheap named queues in front of
//! worker pools that all queues share, with just enough workers that a CPU never idles while work is pending, and no
//! more. This crate is that design for a process.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::new("thumbnails").build()?;
//! let handle = queue.spawn(|| {
//!     let bytes = cmwq::blocking(|| std::fs::read("Cargo.toml"))?; // another item may use the CPU meanwhile
//!     Ok::<_, std::io::Error>(bytes.len())
//! })?;
//! assert!(handle.join()?? > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does for you
//!
//! * **Items may block.** A fixed pool loses a thread to each item that waits for a disk, a lock or another item, and
//!   deadlocks when all of them do. Here an item that blocks under a guard ([`blocking()`], [`BlockingGuard`]) stops
//!   counting, and another worker takes its place at once. Where a guard is missing, that is
//!   [noticed](#what-nobody-has-said), and takes a moment longer.
//! * **Threads do not multiply.** However many items there are, and however many queues of a class, CPU work runs on as
//!   many threads as there are CPUs (see [Classes](#classes) for what a class is). A thread more is made only when one
//!   blocks and work is pending, and leaves when it was idle for long.
//! * **Queues are cheap.** Each library, tenant or kind of work can have its own, with its own limit, order and flush;
//!   a queue costs no thread.
//! * **Items run near their issuer**: on its CPU, or on those that share its last-level cache, or its NUMA node; and
//!   elsewhere rather than not at all, while a CPU is free.
//!
//! # Queues
//!
//! [`WorkQueue::new`] is the kind to begin with: it runs as many items at a time as there are CPUs near the issuer, not
//! counting blocked ones. [`WorkQueue::per_cpu`], [`WorkQueue::unbound`], [`WorkQueue::ordered`] and [`WorkQueue::bh`]
//! are the kernel's own kinds. All of them share the pools of an [`Executor`], by default the process-wide one.
//!
//! What is said when a queue is built: [`high_priority`](WorkQueueBuilder::high_priority),
//! [`cpu_intensive`](WorkQueueBuilder::cpu_intensive), [`power_efficient`](WorkQueueBuilder::power_efficient),
//! [`freezable`](WorkQueueBuilder::freezable), where items run ([`attrs`](WorkQueueBuilder::attrs)), and how many:
//! [`max_active`](WorkQueueBuilder::max_active) and [`max_active_total`](WorkQueueBuilder::max_active_total) limit what
//! runs or blocks, [`max_pending`](WorkQueueBuilder::max_pending) what waits. A queue with a
//! [`rescuer`](WorkQueueBuilder::rescuer) has a thread of its own, for when no other one can be made.
//!
//! Each executor has some queues from the start, for items that need none of their own: see [`system`]. A
//! [bh](WorkQueue::bh) queue is for short items that must not block: each CPU runs them one after the other, in order.
//!
//! # Classes
//!
//! How many items run at once is decided for each class of pools by itself:
//!
//! * Per-CPU queues of normal priority are a class, those of [high priority](WorkQueueBuilder::high_priority) another:
//!   each lets one item per CPU run. [CPU-intensive](WorkQueueBuilder::cpu_intensive) items start by that rule and then
//!   do not count.
//! * Managed queues ([`WorkQueue::new`]) have a class for each nice level and each division of CPUs into pods: as many
//!   items run in a pod as it has CPUs. Queues that divide the same CPUs alike share it, and strict ones have another.
//!   Pods that only overlap, because of another affinity scope or other [`Attrs`], do not see each other.
//! * Plain [`unbound`](WorkQueue::unbound) and [`ordered`](WorkQueue::ordered) queues have no such number: what is
//!   active, up to `max_active` for each queue, has a thread, whatever else runs.
//! * [bh](WorkQueue::bh) queues run one item per CPU and priority, also while it blocks, which it should not.
//!
//! Classes do not see each other: a program that keeps three of them busy has three threads to run per CPU, between
//! which the system's scheduler divides it. An item that comes back from blocking while another took its place is one
//! more, until an item of its pool ends.
//!
//! CPUs may come and go. What the process may use (cpusets, hotplug, and the affinity of its main thread, which is what
//! `taskset` sets) and the CPU quota of its cgroups are looked at while anybody works. The workers of a CPU that was lost
//! go on elsewhere, and return with it; [managed](WorkQueue::new) queues run fewer items meanwhile. So a main thread that
//! pins itself takes all workers along: pin another one. An executor with nothing to do does not look.
//!
//! # Locality
//!
//! An [`AffinityScope`] divides the CPUs of a queue into pods, and an item belongs to the pod of the CPU that queued it.
//!
//! * A [managed](WorkQueue::new) queue's item starts there if one of the pod's CPUs is free for it. If all of them are
//!   busy, it starts at once in the nearest pod that has a free one. Sometimes a CPU seems free, but the worker that was
//!   woken does not get it, because the issuer goes on without a pause or another process has it. Then the item starts
//!   in another pod, too. While a CPU of its queue is free, an item waits for **3.2 ms at most**, and for the time that the
//!   system takes to make and run threads. If its pod had woken no worker for 6.4 ms, the 3.2 ms are 200 µs. Each other pod
//!   that is called for the item, and whose CPUs are taken as well, adds as much once.
//! * A [strict](Attrs::strict) queue's item starts in its pod, and waits if it must. It stays there while the pod has a CPU,
//!   with one exception. When the process loses a CPU, the system may move workers out of their pod, and the executor
//!   notices that **within 400 ms** of work. Until then strict items may start, and run, outside of their pod.
//! * Items that were queued on a CPU or node by name ([`queue_on`](WorkQueue::queue_on)) stay in its pod.
//! * Plain [`unbound`](WorkQueue::unbound) queues start what comes at once. Their workers begin in the pod; the system may
//!   move them.
//!
//! [`WorkQueue::counters`] tells how many items began where. [`WorkQueue::apply_attrs`], [`Executor::set_default_scope`] and
//! [`Executor::set_unbound_cpus`] change all of this while queues are in use.
//!
//! # Items
//!
//! [`WorkQueue::spawn`] queues a closure that runs once, and returns a [`JoinHandle`]; [`WorkQueue::spawn_detached`] is for
//! one that nobody waits for. A [`Work`] is queued again and again: while it is pending, queueing it does nothing, and one
//! worker executes it at a time, so any number of requests lead to one run now and one run after, which sees all of them.
//!
//! [`WorkQueue::scope`] runs closures that borrow, and returns when all of them are over. [`WorkQueue::spawn_batch`] and
//! [`WorkQueue::queue_batch`] queue many items for one wake-up, [`WorkQueue::spawn_batch_detached`] those that nobody waits
//! for. [`WorkQueue::queue_on`] and
//! [`WorkQueue::queue_on_node`] choose the CPU or the node, [`Executor::run_on_cpu`] and
//! [`Executor::schedule_on_each_cpu`] wait for the result. Inside an item, [`current_work`] and [`current_queue`] tell
//! which it is, and [`set_description`] tells others what it is doing.
//!
//! # Timers
//!
//! [`WorkQueue::queue_delayed`] and [`WorkQueue::spawn_after`] queue an item later, [`WorkQueue::mod_delayed`] moves it,
//! and [`WorkQueue::spawn_every`] queues one again and again. One thread of the executor sleeps until the next of all
//! timers is due; arming and cancelling one costs O(log n) for n that are armed. An item that is armed is pending, but
//! not queued: a flush of its queue does not wait for it, and one of the item itself queues it now.
//!
//! # Waiting and ending
//!
//! | to wait for | |
//! |---|---|
//! | one closure | [`JoinHandle::join`] |
//! | one item: its last queueing, or that nobody is inside | [`Work::flush`]; [`Work::cancel_sync`], [`Work::disable_sync`] |
//! | what was queued before | [`WorkQueue::flush`] |
//! | an empty queue, with outsiders refused meanwhile, or for ever | [`WorkQueue::drain`], [`WorkQueue::destroy`] |
//! | a moment at which nothing runs, with everything kept | [`Executor::freeze_begin`], [`freeze_busy`](Executor::freeze_busy) and [`thaw`](Executor::thaw) |
//! | the end, in a given time, with a report of what did not fit | [`Executor::shutdown`], [`GlobalExecutor::shutdown`] |
//!
//! Each wait has a form with a timeout, but for a scope, whose items hold borrows. Nobody has to wait: what was accepted
//! by a queue whose last handle is gone runs all the same.
//!
//! # Promises
//!
//! * Accepted work runs, or its owner is told. A queue that refuses hands the closure back.
//! * What happens before a queueing is seen by the run; what happens in the run is seen after the join or flush that
//!   waited for it. Where [`queue`](WorkQueue::queue) answers false, the pending run sees it too.
//! * A panic in an item ends that item only; its joiner and the panic handler learn of it.
//! * Dropping a queue or an executor never blocks and loses nothing.
//! * Work that no thread can be made for waits, and making one is tried again, once a second at most. Queues with a
//!   [rescuer](WorkQueueBuilder::rescuer) go on meanwhile.
//! * An idle executor does not wake up.
//! * The end of the process ends what is pending or running, like any thread, and nothing needs to be shut down for it.
//!   Exit handlers and thread-local destructors may still use queues.
//! * Waiting for oneself is an error, not a hang; so is waiting in a forked process for the parent's threads. In debug
//!   builds so is the wait that closes a cycle of items which wait for each other; the log names them
//!   ([`WaitError::WouldDeadlock`]).
//!
//! # Guards
//!
//! Put a guard around each call that may sleep: file and network I/O, locks that are held for long, channels, joins of
//! foreign threads. It costs some 30 to 45 ns, and whatever is queued behind starts at once. [`may_block()`] is for what is mostly
//! over in a moment. The waits of this crate bring their own, and so do the locks, channels, files, threads and processes
//! of the module [`mod@blocking`].
//!
//! # What nobody has said
//!
//! A guard that somebody forgot makes others wait for a while, but not for good. While items wait for a place, the
//! executor's manager looks at the threads of those who have one; an idle executor does not look.
//!
//! * Who sleeps outside of any guard is replaced after some milliseconds at most, on a machine with a CPU to spare; after a
//!   fraction of one where the system tells of it: [`Detection`] says how, and [`ExecutorBuilder::detection`] chooses.
//!   Preemption is no sleep. [`Executor::undeclared_blockers`] lists the types of such items: there a guard is missing.
//! * Who keeps the CPU of a per-CPU queue for 10 ms ([`ExecutorBuilder::hog_threshold`]) counts as
//!   [CPU intensive](WorkQueueBuilder::cpu_intensive) from then on. [`Executor::hogs`] lists them; they are logged, too.
//! * They cannot make a crowd of threads: as many of them as the pool has CPUs are replaced at once, and each further one
//!   after a longer gap. Blocks under a guard are not slowed down.
//! * A pool that has work and starts none of it for 30 s ([`ExecutorBuilder::watchdog_threshold`]) is reported once, with
//!   what its workers are at: in the log, or to a [`stall_handler`](ExecutorBuilder::stall_handler).
//!
//! So it is on Linux. Elsewhere, threads cannot be looked at: guards are all there is, and the watchdog.
//!
//! # Observation
//!
//! | to see | |
//! |---|---|
//! | what has become of a queue's items: started, completed, CPU time, away, cancelled, and what else the kernel counts | [`WorkQueue::counters`], a [`Counters`] |
//! | how long they waited and ran | [`WorkQueue::latency`], while [histograms](WorkQueueBuilder::histograms) are on |
//! | everything at one moment: scopes, pools, workers, queues, rescuers | [`Executor::dump`], a [`Snapshot`](observe::Snapshot), whose text is the kernel's `wq_dump` |
//! | what runs, for how long, and what waits | its [`busy`](observe::Snapshot::busy) report, as the kernel's `show_all_workqueues` |
//! | what queues do, again and again | [`Executor::monitor`], in `wq_monitor`'s columns |
//! | who needs a guard | [`Executor::undeclared_blockers`] and [`Executor::hogs`] |
//! | each item's way, in a log or a picture | the feature `tracing`, and the module `trace` |
//! | curves of a service, by Prometheus and others | the feature `metrics`, and the module `metrics` |
//! | all of this from outside, and change it | the feature `control`, the module `control`, and the tool `cmwqctl` |
//!
//! Counting costs a few plain stores for each item, and the CPU clock of a worker is read in batches. Histograms are off
//! unless asked for, and can be switched while items run. Nothing is stopped when somebody looks. With the feature `serde`,
//! what [`observe`] has serialises.
//!
//! # Fork
//!
//! A forked process has none of its parent's threads. There, everything that the parent made answers at once instead of
//! waiting for them: queueing is [`QueueError::Forked`], a wait [`WaitError::Forked`] or [`JoinError::Forked`] (what had
//! ended at the fork can still be joined), handles are dropped without effect, and a [`Work`] counts as neither pending
//! nor running. The parent notices nothing.
//!
//! A child may make executors, queues and items of its own, and [`Executor::global`] is a new one there, if the parent
//! was quiet at the fork: all queues flushed, nothing being queued or waited for. Otherwise a thread that is not there
//! may hold one of the few locks that all executors of a process share (those on which threads wait, and the numbers of
//! shards), or one of another library, and making an executor may wait for it for ever. If a thread of the parent is parked
//! in `parking_lot` at the fork, waits in the child may hang. Programs that are started by [`std::process::Command`] are not
//! concerned.
//!
//! An item that forks is, in the child, no item any more. A child that comes back from it ends there, without exit
//! handlers, with status 0, or 101 after a panic; what is pending is the parent's.
//!
//! # Departures from the kernel
//!
//! The documentation of each item has the kernel's names as aliases: search it for `queue_work_on`. What is different
//! here:
//!
//! * **Blocking is told, or seen later.** The kernel's scheduler tells a pool at once that a worker sleeps; here a
//!   [guard](#guards) does. Without one, the manager [finds out](#what-nobody-has-said), while work waits, and what it finds
//!   is replaced at a limited pace. An item that keeps its CPU busy is found in the same way.
//! * **Managed queues** ([`WorkQueue::new`]) are an addition: unbound, and yet no more runnable items than CPUs.
//! * **Refusals are typed errors, and change nothing.** The kernel warns, answers true, and drops an item that is queued to
//!   a queue being drained; here that is [`QueueError::Draining`], and the item or closure is as it was. A disabled item
//!   is [`QueueError::Disabled`], not false. Flags that contradict each other are a [`BuildQueueError`], and a limit that
//!   does not exist is not clamped.
//! * **Waiting for oneself is an error**, not a hang or a warning: [`WaitError::WouldDeadlock`].
//! * **An [`enable`](Work::enable) too many is an error** ([`EnableError::NotDisabled`]); in the kernel it takes a pending
//!   queueing away. An item may be disabled four billion times over, and not 65 535.
//! * **Timers are known to their queue.** [`destroy`](WorkQueue::destroy) cancels those that are armed and says how many,
//!   where the kernel's would use freed memory; one that fires during a drain is held until that ends. Timers with equal
//!   deadlines fire in the order in which they were armed, the kernel's in the reverse one.
//! * **There is one type of reusable items**, [`Work`], with or without a delay, and so one `flush`, `cancel` and
//!   `disable`. Items own what they use, and queues and executors live as long as they have work: nothing is to be
//!   destroyed in an order.
//! * **A cancelled item leaves its place in the queue behind**, empty, until that is reached: it counts in
//!   [`len`](WorkQueue::len) and for [`max_pending`](WorkQueueBuilder::max_pending). Queued again to the same place
//!   before that, the item has it back, but not in ordered and bh queues. While a flush waits, it has the place back only if it
//!   took it since that flush began.
//! * **`max_active` is as documented, not as implemented:** per CPU, for unbound queues too, 256 by default, 512 at most.
//!   Linux since 6.9 limits unbound queues as a whole, as
//!   [`max_active_total`](WorkQueueBuilder::max_active_total) does here. [`max_pending`](WorkQueueBuilder::max_pending)
//!   is an addition. There is no `min_active`.
//! * **bh** is a pinned thread for each CPU and priority, not a softirq. An item that blocks holds up those behind it and
//!   nothing else; in debug builds, a guard in one is reported.
//! * **A rescuer** helps where threads cannot be made, whatever the reason: a limit, no memory, the cap. It has the nice
//!   level that its queue's workers had when the queue was built, and keeps it when the attributes change.
//! * **Neighbours may swap** where several items of a queue may be active. An item that waited for a slot reaches its pool a
//!   moment after it got one. An item that is queued in that moment, and finds another slot free, may start first. Items of
//!   ordered and bh queues do not swap.
//! * **New attributes count for items that wait.** In the kernel, items that wait for a slot when the attributes change run
//!   with the old ones.
//! * **Freezing** twice is the same as once, and an executor that nobody can thaw any more thaws by itself.
//! * **Panics are contained**, and everything is accounted for as if the item had returned.
//! * **Scopes conserve work.** In the kernel, a worker of a scope that is not strict starts in its pod, and the scheduler
//!   may move it, late. Here, an item of a managed queue that its pod cannot take starts in another one that can, after
//!   3.2 ms at most: see [Locality](#locality). The default is `cache`; Linux since 7.1 divides large caches, as
//!   [`AffinityScope::CacheShard`] does.
//! * **What is seen** has the form of the kernel's tools, with CPU lists in place of masks, and columns more for what the
//!   kernel does not count. CPU time is measured, not counted in ticks. A queue's counters survive the pools that served it.
//! * **There is no** RCU work or `execute_in_process_context`, and in place of sysfs a socket: `cmwq::control`.
//!
//! # Platform
//!
//! Linux on x86-64 and aarch64. Since Linux 6.12, workers run for 0.7 ms at a time where another thread waits for their CPU.
//! Threads and programs that an item starts inherit this time slice, and the nice level and CPUs of its worker.
//! [`reset_scheduling`](blocking::process::reset_scheduling) gives a program those of the main thread instead. A worker takes
//! on the signal mask of the main thread when it is made, so what an item starts has that mask, too, and a signal handler may
//! run on a worker.
//!
//! On other systems, workers are not bound to CPUs and have no nice levels ([`portable`](observe::Snapshot::portable) in a
//! snapshot), and per-CPU queues spread what threads queue over the CPUs. On Linux, `RUSTFLAGS="--cfg cmwq_portable"` shows
//! how that is. The minimum supported Rust version is 1.85.
//!
//! # Features
//!
//! * `hwloc`, on by default: caches, cores and nodes are read by the C library hwloc, on every system that it knows, and
//!   [`TopologySource::Xml`] can be. Needs libhwloc 2 with its headers, and pkg-config. Without it, nothing but Rust is
//!   needed: Linux is asked through `/sys`, which leads to the same pods, and elsewhere all CPUs count as equals.
//! * `control`: a running process is looked at, and its queues are changed, through a Unix socket: the module `control`.
//!   Brings `serde`, `serde_json` and `rustix`.
//! * `metrics`: the numbers of queues and pools are told to the recorder of `metrics`, for Prometheus and others. The
//!   module `metrics` tells their names.
//! * `serde`: what can be seen of an executor serialises, and comes back; [`observe`] tells the form.
//! * `tracing`: what becomes of each item is told to subscribers of `tracing`, the kernel's four events and ours, with a
//!   span around each run. The module `trace` tells names, levels and fields.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "the models use a part of the crate"))]

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
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
#[cfg(test)]
mod sim;
#[cfg(not(cmwq_loom))]
pub mod system;
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub mod trace;
#[cfg(not(cmwq_loom))]
mod work;

#[cfg(not(cmwq_loom))]
pub use self::{
    blocking::guard::{BlockingGuard, MayBlockGuard, blocking, may_block},
    current::{current_queue, current_queue_name, current_work, is_rescuer, set_description},
    engine::core::PanicReport,
    engine::offenders::Offender,
    engine::refusal::{QueueError, ShutdownError, WaitError},
    engine::scope::Scope,
    engine::watchdog::{StallReport, StalledWorker},
    error::{
        ApplyAttrsError, BuildExecutorError, BuildQueueError, EnableError, JoinError, PanicPayload,
        QueueBatchError, Refused, RefusedBatch, RefusedDetachedBatch, RunOnCpuError, ScopeError,
        SetDefaultScopeError, SetMaxActiveError, SetUnboundCpusError,
    },
    executor::{Executor, ExecutorBuilder, GlobalExecutor, QueueReport, ShutdownReport},
    join::JoinHandle,
    periodic::PeriodicHandle,
    queue::{ScopedJoinHandle, WorkQueue, WorkQueueBuilder},
    work::Work,
};
pub use policy::attrs::{Attrs, EffectiveAttrs};
pub use policy::counters::Counters;
pub use policy::cpu_set::{CpuSet, ParseCpuSetError};
pub use policy::detection::Detection;
pub use policy::histogram::{Histogram, Latency};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
#[cfg(not(cmwq_loom))]
pub use sys::topology::{TopologyError, TopologySource};
