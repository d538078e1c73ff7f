//! Concurrency-managed workqueues for Rust services, without async.
//!
//! The Linux kernel runs the background work of a whole system through *workqueues*. These queues are cheap and have
//! names. All of them share pools of workers, which have just enough threads to keep the CPUs busy while work is
//! pending. This crate brings the kernel's design to a process. An *item* is a closure or a [`Work`] that was submitted
//! to a queue. The thread that submitted an item is the item's *issuer*.
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
//! # Which queue
//!
//! | your items | the queue |
//! |---|---|
//! | compute, block under a [guard](#guards), or both, and can wait for items that were queued earlier | [`WorkQueue::new(name)`](WorkQueue::new): it runs as many items at a time as there are CPUs, and does not count blocked items; items run near their issuer while CPUs there are free |
//! | do next to nothing, and come from threads on many CPUs | [`WorkQueue::per_cpu(name)`](WorkQueue::per_cpu): each item runs on its issuer's CPU, so **a single issuer uses a single CPU** |
//! | compute for so long that items of other queues must not wait for them | for the long items, a queue with a [nice level](Attrs::nice) of its own: `WorkQueue::builder(name).attrs(Attrs::new().nice(10))` runs one long item on each CPU, and the system prefers the items of other queues |
//! | compute, and also block inside code that you cannot change (a guard around all of this code would hide that it uses the CPU) | [`WorkQueue::unbound(name)`](WorkQueue::unbound): each active item has a thread, so set [`max_active_total(16)`](WorkQueueBuilder::max_active_total) or another bound; without one, the queue can take all threads of the executor |
//! | run one at a time, in the order of submission | [`WorkQueue::ordered(name)`](WorkQueue::ordered): many such queues run side by side, each on a thread of its own while it has items |
//! | must stay near their data | [`WorkQueue::builder(name)`](WorkQueue::builder) with [`attrs`](WorkQueueBuilder::attrs): an [`AffinityScope`], [`strict`](Attrs::strict) |
//! | are urgent | one of the queues above without a nice level, with [`high_priority(true)`](WorkQueueBuilder::high_priority) |
//! | must run even if no thread can be made | one of the queues above, with [`rescuer(true)`](WorkQueueBuilder::rescuer): the queue has its own thread for this case |
//! | come from clients, without a bound | one of the queues above, with [`max_pending`](WorkQueueBuilder::max_pending): a full queue refuses an item with [`QueueError::Full`] and returns its closure, or makes the issuer [wait](WorkQueueBuilder::when_full) |
//!
//! `WorkQueue::new` returns a queue. The other functions of the table return a builder, and `build()?` makes the queue.
//! Without settings, `WorkQueue::builder(name)` makes the same queue as `new`. A queue made by `new` or `builder` is
//! *managed*, and a queue made by `unbound` is *plain unbound*. All queues of an [`Executor`] share its pools. By
//! default, queues use the process-wide executor. [`kernel`] has the functions that only ports of kernel code need.
//!
//! # Which call
//!
//! | to submit | call |
//! |---|---|
//! | a closure, whose result is wanted | [`spawn`](WorkQueue::spawn), which returns a [`JoinHandle`] to join, to await or to [cancel](JoinHandle::stop). Dropping the handle detaches the item, which still runs, unless the handle was made to [stop on drop](JoinHandle::stop_on_drop) |
//! | a closure without a result | [`spawn_detached`](WorkQueue::spawn_detached) |
//! | a function that is requested again and again; one run serves all requests that came before it, and runs never overlap | a [`Work`], which threads share by cloning it, and [`enqueue(&work)?`](WorkQueue::enqueue) |
//! | such a function, to run a while after the last request (debouncing) | `item(&work).after(delay)`, and [`reschedule()?`](Submission::reschedule) |
//! | a closure that is made only when there is room | [`reserve()?`](WorkQueue::reserve), and then `spawn` of the [`Permit`] |
//! | on a CPU or node, later, once per period, with a name, or until a deadline | [`item`](WorkQueue::item), which returns a [`Submission`] |
//! | many closures or many [`Work`]s, with one notification of the pool | [`items(closures).spawn()?`](WorkQueue::items), which returns the handles in order; `spawn_detached()?` returns none. If the queue becomes full half-way, the [error](RefusedBatch) has the handles of the accepted closures, and gives back the other closures |
//! | a function for many inputs, with the results in order | [`map(inputs, f).collect::<Result<Vec<_>, RunError>>()?`](WorkQueue::map), or any other use of this lazy iterator of `Result<T, RunError>`. At most 64 items are in flight, or 4 for each CPU if that is more; [`window(n)`](Map::window) sets another number. An item is in flight from the time when it is queued until its result is taken. Dropping the iterator cancels the items that have not begun |
//! | a function for many inputs, which may borrow, with one item for each input | [`for_each`](WorkQueue::for_each), which waits for all |
//! | closures that borrow, and the chunks of a slice | [`scope`](WorkQueue::scope), which waits for all, and in it [`s.spawn`](Scope::spawn) and [`s.chunks_mut`](Scope::chunks_mut); `scope` panics if an item panicked, or was dropped by a shutdown, and `try_scope` returns an error instead |
//! | a part of an item's work, for another CPU if one is free | [`join(a, b)`](join()), which returns both results |
//!
//! # Safe defaults
//!
//! | what | default | to change it |
//! |---|---|---|
//! | items that compute at the same time | as many as there are CPUs, for each [class](#classes) | the kind of the queue |
//! | *active* items: they run, block, or have a slot and are next in their pool | 256 for each queue and each CPU on which items were queued | [`max_active`](WorkQueueBuilder::max_active), [`max_active_total`](WorkQueueBuilder::max_active_total) |
//! | items that wait, and have not begun | a hundred million for each queue and each CPU on which items were queued; the number is this high because a queue cannot know which refusals its user can handle | [`max_pending`](WorkQueueBuilder::max_pending), for the whole queue |
//! | items that wait, in all queues together | no further limit, because only the program knows its memory | the executor's [`max_pending`](ExecutorBuilder::max_pending) |
//! | bytes of items that wait, in all queues together | no limit, because only the program knows its memory, and the bytes of its items | the executor's [`max_pending_bytes`](ExecutorBuilder::max_pending_bytes), with [`bytes`](Submission::bytes) |
//! | armed timers | no limit, because a timer needs no thread, and is removed when it fires or is cancelled | cancel them |
//! | threads | 512 workers, or 8 for each CPU if that is more; fewer if the system permits fewer | [`max_threads`](ExecutorBuilder::max_threads) |
//! | idle threads | each pool keeps 2 idle workers, and one more for each 4 busy ones; others end after 300 s | [`idle_timeout`](ExecutorBuilder::idle_timeout), [`min_idle`](ExecutorBuilder::min_idle), [`prestart`](ExecutorBuilder::prestart) |
//! | place of an item | a CPU that shares the issuer's last-level cache; if these CPUs are busy, a CPU of another cache | [`attrs`](WorkQueueBuilder::attrs) |
//! | missing guards | the executor finds them by the best method that the system permits | [`detection`](ExecutorBuilder::detection) |
//! | pools that have work and start none of it for 30 s | the log has a report of them | [`watchdog_threshold`](ExecutorBuilder::watchdog_threshold) |
//! | panics | end only their item; the joiner gets the payload; [`map`](WorkQueue::map) and [`for_each`](WorkQueue::for_each) return an error, and begin no further items | [`panic_handler(\|report\| …)`](ExecutorBuilder::panic_handler) |
//! | histograms, events, metrics, control socket | off | see [Observation](#observation) |
//!
//! # What it costs
//!
//! The following figures were measured as root, on a virtual machine with two CPUs (AMD EPYC, Linux 6.18). With `cargo
//! bench --bench queueing -- --quick` at commit 7747094d, the submission of a closure to a busy pool takes 40 to 78 ns,
//! and a guard takes 11 to 14 ns while no item waits. With `make rivals` at f5c4dc83, a thread repeatedly submits a
//! closure to the default queue and joins its result, which takes 1.1 µs each time (p99: 11.5 µs). For the same steps,
//! `threadpool` takes 11.5 µs (p99: 80.5 µs), and rayon 21.4 µs (p99: 29.1 µs). Rayon is faster if items queue many
//! short items: it runs 12.8 million short items per second, and cmwq 9.5 million. All figures are in `docs/costs.md`
//! and `docs/benchmarks.md` of the repository.
//!
//! # What it cannot do
//!
//! * cmwq interrupts no item. A running item stops early only if it [asks whether to stop](mod@guide::cancellation).
//! * cmwq polls no futures by itself. An item that waits holds its thread, even in [`block_on`](blocking::block_on).
//!   Tasks of a runtime can await items.
//! * cmwq does not store items. Pending items end with the process.
//! * cmwq does not resolve cycles of waiting items. Items that wait for each other wait for ever if they form a cycle,
//!   or if they hold all of the `max_threads` threads. Only debug builds find cycles.
//! * cmwq does not divide the CPUs between executors or [classes](#classes). Each class counts only its own items.
//! * cmwq does not order the items of a queue by priority. Urgent items need a queue of their own.
//!
//! The [guide](mod@guide) shows how to port programs from `threadpool`, rayon, tokio's blocking pool and the kernel,
//! how to choose limits, how to shut a service down, and how to find out what a worker is doing.
//!
//! # What it does for you
//!
//! * **Items may block.** A fixed pool loses a thread to each item that waits for a disk, a lock or another item. When
//!   all threads of a fixed pool wait for items that have not begun, the pool deadlocks. In cmwq, an item that blocks
//!   under a guard ([`blocking()`], [`BlockingGuard`]) no longer counts as running, and another worker takes its place
//!   immediately. Where a guard is missing, the executor [detects the block](#missing-guards) shortly after it begins.
//! * **Threads do not multiply.** The CPU work of a [class](#classes) runs on as many threads as there are CPUs,
//!   however many queues share the class. A pool makes another thread only when a worker blocks while work is pending.
//! * **Queues are cheap.** Each library, tenant or kind of work can have its own queue, with its own limit, order and
//!   flush. A queue costs no thread.
//! * **Items run near their issuer**: on the issuer's CPU, on a CPU that shares its last-level cache, or on a CPU of
//!   its NUMA node. If none of these CPUs is free, an item runs on another free CPU.
//!
//! # Classes
//!
//! A class is a group of pools. Each class has its own limit on how many items run at the same time:
//!
//! * Per-CPU queues of normal priority are one class, and per-CPU queues of [high
//!   priority](WorkQueueBuilder::high_priority) are another. Each of these two classes runs one item per CPU.
//!   [CPU-intensive](WorkQueueBuilder::cpu_intensive) items start under this limit, but do not count towards it once
//!   they have started. So up to `max_active` CPU-intensive items run at a time.
//! * Managed queues ([`WorkQueue::new`] and [`builder`](WorkQueue::builder)) have a class for each nice level and each
//!   division of CPUs into pods. A pod is a group of CPUs that are near each other (see [Locality](#locality)). A pod
//!   runs as many items at a time as it has CPUs. Queues of one nice level share a class if they divide the same CPUs
//!   in the same way. But if there are several pods, strict queues have classes of their own. Pods of different classes
//!   can have CPUs in common, and ignore each other.
//! * Plain [`unbound`](WorkQueue::unbound) and [`ordered`](WorkQueue::ordered) queues have no limit per class. Each of
//!   their active items has a thread of the shared pools, regardless of the other items that run. Only the `max_active`
//!   of each queue limits its active items. The `max_active` of an ordered queue is 1.
//!
//! Classes are independent of each other. A program that keeps three classes busy has three runnable threads per CPU,
//! and the system's scheduler divides the CPU among them.
//!
//! The number of threads follows from the limits of the classes. An executor that has had no item has one thread, its
//! manager. A program with default queues has one pool for each last-level cache. A pool whose CPUs all compute has a
//! worker for each of these CPUs, and a spare worker. Each item that blocks under a guard adds a worker, up to 256 for
//! each queue and each CPU on which items were queued. When the pool is idle again, two workers stay. Each further
//! class has pools of its own. A class of per-CPU queues has a pool for each CPU.
//!
//! A blocked item continues as soon as its call returns, even if another item has taken its place. The pool then runs
//! one item more than its limit, until one of its items ends.
//!
//! CPUs can come and go. While the executor has work, it watches which CPUs the process may use. Cpusets, hotplug and
//! the affinity of the main thread, which `taskset` sets, determine these CPUs. The executor also watches the CPU quota
//! of the process's cgroups. An idle executor watches neither the CPUs nor the quota. When a CPU is lost, its workers
//! move to other CPUs, and return when the CPU comes back. While CPUs are lost, [managed](WorkQueue::builder) queues
//! run fewer items. If the main thread pins itself, all workers follow it to its CPUs. So pin only other threads.
//!
//! # Locality
//!
//! An [`AffinityScope`] divides a queue's CPUs into pods. An item belongs to the pod of its issuer's CPU.
//!
//! * An item of a [managed](WorkQueue::builder) queue starts in its pod if one of the pod's CPUs is free. If no CPU of
//!   its pod is free, the item starts in the nearest pod that has a free CPU. If items of a pod often sleep [without a
//!   guard](#missing-guards), an item can also start in this pod while no CPU of the pod is free. If the items before
//!   an item are short, a running worker may be ready sooner than a woken one. So the item waits for the items before
//!   it, but for **at most 3.2 ms** if they turn out to be long. If another process or the issuer uses a CPU that seems
//!   free, an item waits for **at most 3.2 ms** (0.2 ms in a quiet pod). Then the item starts in another pod or waits
//!   once more. These bounds exclude the time to make and run threads.
//! * An item of a [strict](Attrs::strict) queue starts only in its pod, even if it must wait there for a CPU. The item
//!   stays in the pod as long as the pod has a CPU, with one exception. When the process loses a CPU, the system may
//!   move workers out of their pod. While workers run items, the executor notices this move after **at most 400 ms**.
//!   Until then, strict items can start and run outside of their pod.
//! * Items that were queued on a CPU or node by number ([`Submission::on_cpu`]) stay in the pod of that CPU or node.
//! * A plain [`unbound`](WorkQueue::unbound) queue starts each item immediately. The item's worker begins in the item's
//!   pod, but the system may move it.
//!
//! [`WorkQueue::counters`] counts the items that began inside and outside of their pod. [`WorkQueue::apply_attrs`],
//! [`Executor::set_default_scope`] and [`Executor::set_unbound_cpus`] change the pods while queues are in use.
//!
//! # Items
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
//! Inside an item, [`current_work`] returns the item if it is a [`Work`], and [`current_queue`] returns its queue.
//! [`set_description`] describes the item in snapshots.
//!
//! # Timers
//!
//! [`Submission::after`] delays an item, [`Submission::reschedule`] replaces a pending run, and
//! [`Submission::spawn_every`] calls a closure once per period. The manager, a thread of the executor, sleeps until the
//! next timer is due. Arming or cancelling a timer costs O(log n) for n armed timers. An item with an armed timer is
//! pending, but not queued. So a flush of its queue does not wait for the item, but a flush of the item itself queues
//! the item immediately. An armed timer holds its item and its queue in memory, so the timer fires even if all handles
//! to both are dropped. Only a [`PeriodicHandle`] and a [`StopOnDrop`] cancel their item when they are dropped.
//!
//! # Waiting and ending
//!
//! | to wait for | |
//! |---|---|
//! | one closure | [`JoinHandle::join`] |
//! | a reusable item that is pending or runs | [`Work::flush`] |
//! | the end of a reusable item's present run; the call first cancels the pending run | [`Work::cancel_and_wait`], [`Work::disable_and_wait`] |
//! | all items that were queued before the call | [`WorkQueue::flush`] |
//! | a moment when the queue has no items, although other threads may still submit | [`WorkQueue::wait_idle`] |
//! | an empty queue; the queue refuses submissions from outside until the wait ends (`drain`) or for ever (`destroy`) | [`WorkQueue::drain`], [`WorkQueue::destroy`] |
//! | an empty queue; the call drops the pending items | [`WorkQueue::destroy_now`] |
//! | the end of an executor, for at most a given time; a report lists the queues whose items did not end, with the number of these items | [`GlobalExecutor::shutdown`] for the process-wide executor, on the value that [`build_global`](ExecutorBuilder::build_global) returns; [`Executor::shutdown`] for any other |
//!
//! Each wait except `map`, `scope` and `for_each` has a form with a timeout: `join_timeout`, `flush_timeout`,
//! `cancel_and_wait_timeout`, `drain_timeout` and so on. Waiting is optional: accepted items run even if the last
//! handle to their queue is dropped.
//!
//! An item that has begun can be [asked to stop](is_cancelled), through its handle, through a [`CancelToken`], or at a
//! [deadline](Submission::deadline). The guide has a [page](mod@guide::cancellation) about stopping items.
//!
//! # Promises
//!
//! * As long as the process lives, accepted work runs, or the owner of the work learns that it does not run. A queue
//!   that refuses a closure hands the closure back.
//! * Everything that happens before a submission is visible to the run. Everything that the run does is visible after
//!   a join or flush that waited for the run. If [`enqueue`](WorkQueue::enqueue) returns false, everything that
//!   happened before the call is visible to the pending run.
//! * A panic in an item ends only that run. The worker takes further items, and a [`Work`] can be queued again. The
//!   joiner gets [`JoinError::Panicked`]. The process's panic hook and the
//!   [`panic_handler`](ExecutorBuilder::panic_handler) learn of the panic, even if the item has no handle. In a program
//!   that is built with `panic = "abort"`, any panic ends the process.
//! * Dropping a queue or an executor never blocks, and loses no accepted items.
//! * If the system refuses a thread, the work waits, and the executor tries again, at most once a second. Meanwhile,
//!   the items of queues with a [rescuer](WorkQueueBuilder::rescuer) still run.
//! * An idle executor does not wake up.
//! * When the process ends (`main` returns), its pending and running items end, too. A program that needs the results
//!   of its items first waits for the items, or shuts its executor down. Any other program needs no shutdown. Exit
//!   handlers and thread-local destructors may still use queues.
//! * An item that waits for itself gets an error instead of a hang. A forked process that waits for its parent's
//!   threads gets an error, too. In debug builds, a wait fails if it would close a cycle of items that wait for each
//!   other ([`WaitError::WouldDeadlock`]), and the log names the items of the cycle.
//!
//! # Guards
//!
//! Put a guard around each call that may sleep: file and network I/O, locks that are held for long, channels, joins of
//! foreign threads. While an item is inside a guard, items that are queued behind it can start immediately. A guard
//! costs 10 to 30 ns while no item waits. If items wait, a guard may also wake a worker. [`may_block()`] is for calls
//! that are usually short. The waits of this crate have guards of their own. The module [`mod@blocking`], which has the
//! name of the function [`blocking()`], contains locks, channels, files, threads and processes with guards.
//!
//! # Missing guards
//!
//! An item that blocks without a guard delays other items for a while, but not for ever. While items wait to start, the
//! executor's manager examines the threads that run items. In an idle executor, the manager examines nothing.
//!
//! * If a CPU is free, the pool takes at most a few milliseconds to replace a worker that sleeps without a guard. If
//!   the system reports the sleep, the replacement takes a fraction of a millisecond. [`Detection`] describes the
//!   methods of detection, and [`ExecutorBuilder::detection`] chooses one. A preempted worker does not count as asleep.
//!   [`Executor::undeclared_blockers`] lists the types of items that slept without a guard while others waited.
//! * An item of a per-CPU queue that uses its CPU for 10 ms ([`ExecutorBuilder::hog_threshold`]) counts as [CPU
//!   intensive](WorkQueueBuilder::cpu_intensive) from then on. [`Executor::hogs`] lists the types of such items. The
//!   log names a type of item at its 4th offence, and then ever more rarely. Other queues treat such an item like any
//!   other: [run times](Latency::run) show whether a queue has long items, and `tracing` events show which.
//! * The number of threads stays bounded. A pool replaces workers that were found asleep without a guard (*sleepers*)
//!   or that keep their CPU. A pool with n CPUs replaces the first n of these workers without delay. For each sleeper
//!   that wakes up, the pool replaces one more sleeper without delay. So the number of sleepers may double in the time
//!   of one sleep. The pool replaces all other such workers after pauses that grow. For sleepers, the pauses grow from
//!   0.2 ms (about 30 replacements per second if no sleeper wakes up). For workers that keep their CPU, the pauses grow
//!   from 10 ms (about 10 per second). A worker that blocks under a guard is always replaced without delay.
//! * If a pool has work and starts none of it for 30 s ([`ExecutorBuilder::watchdog_threshold`]), the watchdog reports
//!   the pool once, and tells what its workers are doing. The report goes to the log or to a
//!   [`stall_handler`](ExecutorBuilder::stall_handler).
//!
//! Everything in this section works on Linux. On other systems, only guards, [`may_block()`] and the watchdog work.
//!
//! # Observation
//!
//! | to see | |
//! |---|---|
//! | a queue's counters: items started, completed, cancelled, away from their pod, CPU time, and the kernel's other counters | [`WorkQueue::counters`], a [`Counters`] |
//! | how long items waited and ran | [`WorkQueue::latency`], while [histograms](WorkQueueBuilder::histograms) are on |
//! | everything at one moment: scopes, pools, workers, queues, rescuers | [`Executor::dump`], a [`Snapshot`](observe::Snapshot), whose text has the format of the kernel's `wq_dump` |
//! | the running items with their age, and the number of waiting items | the snapshot's [`busy`](observe::Snapshot::busy) report, like the kernel's `show_all_workqueues` |
//! | the counters of queues, at each interval | [`Executor::monitor`], with the columns of the kernel's `wq_monitor` |
//! | types of items that need a guard; types of items of per-CPU queues that keep their CPU | [`Executor::undeclared_blockers`]; [`Executor::hogs`] |
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
//! immediately instead of waiting for the parent's threads. A submission returns [`QueueError::Forked`]. A wait returns
//! [`WaitError::Forked`] or [`JoinError::Forked`]. An item that had ended before the fork can still be joined. Dropping
//! a handle has no effect, and a [`Work`] counts as neither pending nor running. The parent notices nothing.
//!
//! A child may make executors, queues and items of its own, and [`Executor::global`] returns a new executor there. At
//! the fork, the parent must be quiet: all its queues are flushed, and no submission or wait is in progress. Otherwise,
//! a thread that does not exist in the child may hold a lock of another library, or a lock that all executors share.
//! Executors share the locks on which threads wait, and the lock of the table of shards, the parts of queues. If such a
//! lock is held, making an executor in the child can hang. If a thread of the parent is parked in `parking_lot` at the
//! fork, waits in the child can hang. Programs started by [`std::process::Command`] are not affected.
//!
//! If an item forks a child process, the child is not inside an item. If the item's function returns in the child, the
//! child exits immediately, without running exit handlers. The child's exit status is 0 or, after a panic, 101. Pending
//! items belong to the parent.
//!
//! # Platform
//!
//! The crate is made for Linux on x86-64 and aarch64. On Linux 6.12 and later, workers have a time slice of 0.7 ms,
//! which takes effect while another thread waits for their CPU. Threads and programs that an item starts inherit the
//! time slice, the nice level and the CPUs of its worker. [`reset_scheduling`](blocking::process::reset_scheduling)
//! gives a program these settings of the main thread instead. A new worker takes on the signal mask of the main thread.
//! So the threads and programs that an item starts have that mask, too, and a signal handler can run on a worker.
//!
//! cmwq needs no privilege. Without privilege, workers of [high-priority](WorkQueueBuilder::high_priority) queues have
//! the normal nice level, which a snapshot shows. These queues still have pools and a [class](#classes) of their own.
//! The system reports sleeps only if `kernel.perf_event_paranoid` is 2 or less, or if the process is privileged. The
//! cgroups of a container limit its threads and CPU time: see [the guide](guide::containers). On other systems, workers
//! are not bound to CPUs and have no nice levels; a snapshot says so in [`portable`](observe::Snapshot::portable).
//! Per-CPU queues then spread the submitting threads over the CPUs. On Linux, `RUSTFLAGS="--cfg cmwq_portable"` makes
//! the crate behave as on other systems. The minimum supported Rust version is 1.85.
//!
//! # Features
//!
//! * `hwloc`, on by default: the C library hwloc finds the caches, cores and nodes on every system that hwloc supports,
//!   and [`TopologySource::Xml`] is available. The build needs libhwloc 2, libudev, their headers, and pkg-config; the
//!   program needs [both libraries](guide::containers). Without this feature, the crate needs nothing but Rust. On
//!   Linux, it then reads `/sys`, which leads to the same pods. On other systems, it treats all CPUs as equals.
//! * `control`: a Unix socket through which a client inspects a running process and changes its queues: see the module
//!   `control`. The feature `control` brings in `serde`, `serde_json` and `rustix`.
//! * `metrics`: passes the counters and gauges of queues and pools to the recorder of the crate `metrics`, for
//!   Prometheus and others. The module `metrics` lists their names.
//! * `serde`: snapshots and counters of an executor serialise and deserialise; [`observe`] describes the format. A
//!   configuration can contain the settings of both builders, and [`Attrs`].
//! * `testing`: a kit for tests of code that uses this crate, in virtual time and with schedules that a seed
//!   determines: see the module `testing`. Enable it in `dev-dependencies` only.
//! * `tracing`: subscribers of `tracing` receive the events of each item: the kernel's four events, and further events
//!   that the crate adds. Each run has a span. The module `trace` lists names, levels and fields.

// The documentation says which feature an item needs, and does not mention the settings of test builds.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(cmwq_loom, doc, doctest))))]
#![cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "the models use only a part of the crate"))]

mod policy;
mod protocol;
mod sys;

#[cfg(not(cmwq_loom))]
pub mod blocking;
#[cfg(not(cmwq_loom))]
mod cancel;
#[cfg(not(cmwq_loom))]
pub mod clock;
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
// The guide is compiled only for the documentation and its tests.
#[cfg(all(any(doc, doctest), not(cmwq_loom)))]
pub mod guide;
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
#[cfg(all(feature = "testing", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub mod trace;
#[cfg(not(cmwq_loom))]
mod work;

#[cfg(not(cmwq_loom))]
pub use self::blocking::guard::{BlockingGuard, MayBlockGuard, blocking, may_block};
#[cfg(not(cmwq_loom))]
pub use self::cancel::{CancelToken, cancel_token, is_cancelled};
#[cfg(not(cmwq_loom))]
pub use self::current::{current_queue, current_queue_name, current_work, is_rescuer, set_description};
#[cfg(not(cmwq_loom))]
pub use self::error::{
    BuildExecutorError, BuildQueueError, EnableError, RunError, attrs::ApplyAttrsError,
    attrs::SetDefaultScopeError, attrs::SetUnboundCpusError, batch::EnqueueBatchError, batch::RefusedBatch,
    join::JoinError, join::PanicPayload, limit::SetMaxActiveError, limit::SetWeightError, refused::Refused,
    scope::ScopeError,
};
#[cfg(not(cmwq_loom))]
pub use self::executor::{
    Executor, builder::ExecutorBuilder, global::GlobalExecutor, shutdown::QueueReport,
    shutdown::ShutdownReport,
};
#[cfg(not(cmwq_loom))]
pub use self::id::{QueueId, WorkId};
#[cfg(not(cmwq_loom))]
pub use self::join::{JoinHandle, fork::join, stop_on_drop::StopOnDrop};
#[cfg(not(cmwq_loom))]
pub use self::periodic::PeriodicHandle;
#[cfg(not(cmwq_loom))]
pub use self::queue::{
    WorkQueue, batch::Batch, builder::WorkQueueBuilder, map::Map, permits::Permit, scope::ScopedJoinHandle,
    scoped::ScopedSubmission, submission::Submission,
};
#[cfg(not(cmwq_loom))]
pub use self::work::Work;
#[cfg(not(cmwq_loom))]
pub use crate::engine::executor::reports::{PanicReport, StallReport, StalledWorker};
#[cfg(not(cmwq_loom))]
pub use crate::engine::item::scope::Scope;
#[cfg(not(cmwq_loom))]
pub use crate::engine::manager::offenders::Offender;
#[cfg(not(cmwq_loom))]
pub use crate::engine::refusal::{Cancelled, QueueError, ShutdownError, WaitError};
pub use policy::attrs::{Attrs, EffectiveAttrs};
pub use policy::counters::Counters;
pub use policy::cpu_set::{CpuSet, CpuSetIter, ParseCpuSetError};
pub use policy::detection::Detection;
pub use policy::histogram::{Histogram, Latency};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
pub use policy::when_full::WhenFull;
#[cfg(not(cmwq_loom))]
pub use sys::topology::{TopologyError, TopologySource};
