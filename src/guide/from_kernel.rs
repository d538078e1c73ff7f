//! Coming from the Linux kernel's workqueues.
//!
//! The terms are the kernel's: workqueue, work item, worker pool, pod, affinity scope, rescuer. The search of this
//! documentation finds the kernel's names: for example, search for `queue_work_on`. The module
//! [`kernel`](crate::kernel) has the functions that only ports of kernel code need.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::kernel::ExecutorExt;
//! use cmwq::{Executor, Work, WorkQueue};
//! use std::time::Duration;
//!
//! // alloc_workqueue(.., WQ_UNBOUND | WQ_MEM_RECLAIM, 0)
//! let wq = WorkQueue::unbound("writeback").rescuer(true).build()?;
//! let work = Work::new(|| println!("written")); // INIT_DELAYED_WORK
//! wq.enqueue(&work)?; // queue_work
//! wq.item(&work).after(Duration::from_millis(5)).enqueue()?; // queue_delayed_work
//! wq.item(&work).after(Duration::from_millis(1)).reschedule()?; // mod_delayed_work
//! work.flush()?; // flush_delayed_work
//! work.cancel_and_wait()?; // cancel_delayed_work_sync
//! Executor::global().run_on_each_cpu(|cpu| println!("CPU {cpu}"))?; // schedule_on_each_cpu
//! wq.destroy()?; // destroy_workqueue
//! # Ok(())
//! # }
//! ```
//!
//! # Names
//!
//! | kernel | cmwq |
//! |---|---|
//! | `alloc_workqueue` with `WQ_PERCPU`, `WQ_UNBOUND`, `WQ_BH` | [`WorkQueue::per_cpu`](crate::WorkQueue::per_cpu), [`unbound`](crate::WorkQueue::unbound), [`kernel::bh`](crate::kernel::bh()) |
//! | `alloc_ordered_workqueue` | [`WorkQueue::ordered`](crate::WorkQueue::ordered) |
//! | (no such queue) | [`WorkQueue::new`](crate::WorkQueue::new): an unbound queue that is *managed*, which means that as many items run at a time as there are CPUs. A queue of `unbound` works like the kernel's unbound queues, and is called *plain unbound* |
//! | `system_wq`, `schedule_work` and the other system queues | [`kernel::events()`](crate::kernel::events()) and similar functions; for an executor, [`executor.events()`](crate::kernel::ExecutorExt::events) |
//! | `WQ_HIGHPRI`, `WQ_CPU_INTENSIVE`, `WQ_MEM_RECLAIM` | [`high_priority(true)`](crate::WorkQueueBuilder::high_priority), [`cpu_intensive(true)`](crate::WorkQueueBuilder::cpu_intensive), [`rescuer(true)`](crate::WorkQueueBuilder::rescuer) |
//! | `WQ_FREEZABLE`, `WQ_POWER_EFFICIENT` | `freezable(true)`, `power_efficient(true)` of [`WorkQueueBuilderExt`](crate::kernel::WorkQueueBuilderExt) |
//! | `INIT_WORK`, `INIT_DELAYED_WORK` | [`Work::new`](crate::Work::new); an item that runs once is a closure |
//! | `queue_work`, `queue_delayed_work`, `mod_delayed_work` | [`enqueue(&work)`](crate::WorkQueue::enqueue), [`item(&work).after(delay)`](crate::Submission::after) with [`enqueue()`](crate::Submission::enqueue) or [`reschedule()`](crate::Submission::reschedule) |
//! | `queue_work_on`, `queue_work_node` | [`item(&work).on_cpu(cpu)`](crate::Submission::on_cpu), [`on_node(node)`](crate::Submission::on_node); the same for closures |
//! | `flush_work`, `cancel_work_sync`, `disable_work`, `enable_work` | [`Work::flush`](crate::Work::flush), [`cancel_and_wait`](crate::Work::cancel_and_wait), [`disable`](crate::Work::disable), [`enable`](crate::Work::enable) |
//! | `flush_workqueue`, `drain_workqueue`, `destroy_workqueue` | [`flush`](crate::WorkQueue::flush), [`drain`](crate::WorkQueue::drain), [`destroy`](crate::WorkQueue::destroy); a queue may also be dropped |
//! | `workqueue_set_max_active`, `workqueue_congested` | [`set_max_active`](crate::WorkQueue::set_max_active), [`is_congested`](crate::WorkQueue::is_congested) |
//! | `freeze_workqueues_begin`, `freeze_workqueues_busy`, `thaw_workqueues` | [`freeze_begin`](crate::kernel::ExecutorExt::freeze_begin), [`freeze_busy`](crate::kernel::ExecutorExt::freeze_busy), [`thaw`](crate::kernel::ExecutorExt::thaw) |
//! | `apply_workqueue_attrs`, affinity scopes, `affinity_strict` | [`apply_attrs`](crate::WorkQueue::apply_attrs), [`Attrs::scope`](crate::Attrs::scope), [`Attrs::strict`](crate::Attrs::strict) |
//! | `unbound_cpumask`, `default_affinity_scope` | [`set_unbound_cpus`](crate::Executor::set_unbound_cpus), [`set_default_scope`](crate::Executor::set_default_scope) |
//! | `schedule_on_each_cpu`, `work_on_cpu` | [`run_on_each_cpu`](crate::kernel::ExecutorExt::run_on_each_cpu), [`run_on_cpu`](crate::kernel::ExecutorExt::run_on_cpu) |
//! | `current_work`, `current_is_workqueue_rescuer`, `set_worker_desc` | [`current_work`](crate::current_work), [`is_rescuer`](crate::is_rescuer), [`set_description`](crate::set_description) |
//! | `wq_dump.py`, `wq_monitor.py`, `show_all_workqueues` | [`Executor::dump`](crate::Executor::dump), [`Executor::monitor`](crate::Executor::monitor), [`Snapshot::busy`](crate::observe::Snapshot::busy); `cmwqctl dump`, `monitor`, `dump --busy` |
//! | `WQ_SYSFS` | [`control(true)`](crate::WorkQueueBuilder::control), and `cmwqctl get`, `set` |
//! | the tracepoint `workqueue_queue_work` and the others | the feature `tracing`: events of target `cmwq`, and a span for each item |
//!
//! Instead of a softirq, the bh queues have one thread per CPU and priority, which runs their items in order.
//!
//! # Departures from the kernel
//!
//! * **Blocking is declared, or detected later.** When a worker goes to sleep, the kernel's scheduler immediately tells
//!   the worker's pool. In cmwq, a [guard](crate#guards) tells the pool. Without a guard, the manager [detects the
//!   sleep](crate#missing-guards) while work waits, and replaces sleeping workers at a limited pace. In the same way,
//!   the manager detects an item that keeps its CPU busy.
//! * **Managed queues** ([`WorkQueue::builder`](crate::WorkQueue::builder)) are an addition. Managed queues are unbound
//!   queues that run no more items at a time than there are CPUs.
//! * **Refusals are typed errors, and change nothing.** If an item is queued while its queue is being drained, the
//!   kernel warns, drops the item, and returns true. In cmwq, the call returns
//!   [`QueueError::Draining`](crate::QueueError::Draining), and the item or closure stays as it was. Queueing a
//!   disabled item returns [`QueueError::Disabled`](crate::QueueError::Disabled), not false. Flags that contradict each
//!   other cause a [`BuildQueueError`](crate::BuildQueueError). A limit that is out of range also causes an error, and
//!   is not clamped.
//! * **An item that waits for itself gets an error**, not a hang or a warning:
//!   [`WaitError::WouldDeadlock`](crate::WaitError::WouldDeadlock).
//! * **A surplus call of [`enable`](crate::Work::enable) is an error**
//!   ([`EnableError::NotDisabled`](crate::EnableError::NotDisabled)). In the kernel, a surplus call cancels a pending
//!   submission. In cmwq, an item can be disabled four billion times over, and in the kernel 65 535 times.
//! * **A queue knows its timers.** [`destroy`](crate::WorkQueue::destroy) cancels the queue's armed timers and returns
//!   their number. In the kernel, a timer that fires after its queue was destroyed uses freed memory. If a timer fires
//!   during a drain, its item waits until the drain ends. Timers with equal deadlines fire in the order in which they
//!   were armed. In the kernel, timers with equal deadlines fire in the reverse order.
//! * **There is one type of reusable item**, [`Work`](crate::Work), with or without a delay. So there is one `flush`,
//!   one `cancel` and one `disable`. Items own what they use, and queues and executors live as long as they have work.
//!   So items, queues and executors can be dropped in any order.
//! * **A cancelled item leaves an empty place in the queue** until a worker reaches that place. The place counts in
//!   [`len`](crate::WorkQueue::len) and towards [`max_pending`](crate::WorkQueueBuilder::max_pending). If the item is
//!   queued again on the same CPU before a worker reaches the place, it gets its place back, except in ordered and bh
//!   queues. While a flush waits, the item gets back only the place that it took last, and only if it took this place
//!   after the beginning of the flush.
//! * **`max_active` follows the kernel's documentation, not its implementation.** The limit applies to each CPU, even
//!   for unbound queues. The limit is 256 by default, and at most 512. For plain unbound queues, the limit is at most
//!   2000, because their items are meant to block. Since version 6.9, Linux limits unbound queues as a whole, as
//!   [`max_active_total`](crate::WorkQueueBuilder::max_active_total) does here.
//!   [`max_pending`](crate::WorkQueueBuilder::max_pending) is an addition. There is no `min_active`.
//! * **bh** is a pinned thread for each CPU and priority, not a softirq. A bh item that blocks holds up only the items
//!   behind it. Debug builds report a bh item that enters a guard.
//! * **A flush counts submissions** instead of giving them colours. An item that is queued after the flush began can
//!   wait for the flush, with one exception. If another thread is still queueing a [`Work`](crate::Work) when the flush
//!   begins, the flush may count a later run of this item. If that run waits for the flush, both wait for ever.
//! * **A rescuer** runs items whenever threads cannot be made. The reason may be a limit of the system, a lack of
//!   memory, or `max_threads`. The rescuer has the nice level that its queue's workers had when the queue was built,
//!   and keeps that level when the attributes change.
//! * **Neighbours may swap** if several items of a queue can be active at the same time. An item that waited for a slot
//!   reaches its pool shortly after it gets the slot. If a second item is queued between these two moments, and finds
//!   another free slot, the second item can start first. Items of ordered and bh queues do not swap.
//! * **New attributes apply to items that wait.** In the kernel, items that already wait for a slot still run with the
//!   old attributes.
//! * **Freezing** an executor twice is the same as freezing it once. An executor thaws by itself when its last handle
//!   is dropped.
//! * **Panics are contained.** After a panic, an item counts as ended in every respect, as if it had returned.
//! * **Scopes conserve work.** In the kernel, a worker of a scope that is not strict starts in its pod. The scheduler
//!   may move the worker to a free CPU, but does so late. In cmwq, an item of a managed queue waits for its pod for at
//!   most 3.2 ms if another pod could take the item. After that time, it starts in the other pod: see
//!   [Locality](crate#locality). The default scope is `cache`. Since version 7.1, Linux divides large caches by
//!   default, as [`AffinityScope::CacheShard`](crate::AffinityScope::CacheShard) does.
//! * **Snapshots** use the format of the kernel's tools, with CPU lists in place of masks. The snapshots have
//!   additional columns for counts that the kernel does not have. CPU time is measured, not counted in ticks. The
//!   counters of a queue survive the pools that served the queue.
//! * **The crate has no** RCU work and no `execute_in_process_context`. A socket replaces sysfs: `cmwq::control`.
