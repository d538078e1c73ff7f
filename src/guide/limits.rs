//! Choosing limits.
//!
//! Most queues need at most one limit: [`max_pending`](crate::WorkQueueBuilder::max_pending). A queue needs this limit
//! if a client or another program decides how many items come. The number of threads follows from the CPUs and from the
//! items that block.
//!
//! # Which limit does what
//!
//! | to bound | limit | default |
//! |---|---|---|
//! | items that compute at the same time | the kind of the queue: [`new`](crate::WorkQueue::new) and [`per_cpu`](crate::WorkQueue::per_cpu) run as many as there are CPUs, for each [class](crate#classes); `per_cpu` runs the items of one issuer on one CPU | on |
//! | *active* items (they run, block, or have a slot and are next in their pool), for each CPU on which they were queued | [`max_active`](crate::WorkQueueBuilder::max_active), from 1 to 512, or from 1 to 2000 for `unbound` | 256 |
//! | active items in the whole queue | [`max_active_total`](crate::WorkQueueBuilder::max_active_total), as above; a queue has only one of the two | unset: `max_active` applies |
//! | items that wait and have not begun, in the whole queue | [`max_pending`](crate::WorkQueueBuilder::max_pending) | a hundred million, for each CPU on which they were queued |
//! | items that wait in all queues together | [`max_pending`](crate::ExecutorBuilder::max_pending) of the executor | unset |
//! | bytes of the items that wait in all queues together, as their submissions [state](crate::Submission::bytes) them | [`max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes) of the executor | unset |
//! | the share of the CPUs that a queue gets while other queues also have items | [`weight`](crate::WorkQueueBuilder::weight), 1 to 10 000 | unset: items start roughly in the order in which they were queued |
//! | worker threads of the executor; the manager, the thread that drops values for the manager, and rescuers do not count | [`max_threads`](crate::ExecutorBuilder::max_threads), as in `Executor::builder().max_threads(64).build_global()?` before any queue is made | 512, or 8 for each CPU if that is more; fewer where the system permits fewer |
//! | items of one `map` or `for_each` that are in flight | [`window`](crate::Map::window) of `map` | 64, or 4 for each CPU if that is more |
//!
//! If a limit is out of range, the builder returns an error, which names the value and the range.
//!
//! # What happens at the limit
//!
//! * At `max_active`, further items wait in order. Waiting items cost no thread.
//! * At `max_pending`, the queue refuses items with [`QueueError::Full`](crate::QueueError::Full), and returns the
//!   closure. The caller then answers its client with "busy". To wait for room instead, the caller can
//!   [reserve](crate::WorkQueue::reserve) a place before it makes the item. A queue can also be built with
//!   [`WhenFull::Wait`](crate::WhenFull::Wait). While such a queue is full, a submission blocks its thread. But the
//!   full queue refuses a submission by one of its own items, because there may be no room before that item ends. With
//!   [`WhenFull::CallerRuns`](crate::WhenFull::CallerRuns), the submitting thread runs the item itself if a slot is
//!   free. If no slot is free, the thread waits. Per-CPU, ordered, bh and [strict](crate::Attrs::strict) queues cannot
//!   have `CallerRuns`. Armed timers do not count towards `max_pending`. When a timer fires, its item is accepted even
//!   if the queue is full.
//! * A cancelled item leaves an empty place in the queue, which counts towards `max_pending` until a worker reaches
//!   this place.
//! * When all queues together come near the executor's `max_pending`, the queues with the longest backlogs are the
//!   first to refuse items. A queue without pending items still accepts one item. Near the executor's
//!   `max_pending_bytes`, the queues whose items have the most bytes are the first to refuse items. No queue has its
//!   own limit on bytes.
//! * At `max_threads`, items wait until another item ends. If a pool starves, a worker of another pool ends between two
//!   items, so that a worker of the starving pool can be made. Blocked items keep their threads. So if items hold all
//!   threads and wait for items that have not begun, they wait for ever. To prevent this, raise `max_threads`, lower
//!   `max_active`, or give the queue of the awaited items a [rescuer](crate::WorkQueueBuilder::rescuer).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{QueueError, WorkQueue};
//!
//! let uploads = WorkQueue::builder("uploads").max_active_total(16).max_pending(1000).build()?;
//! match uploads.spawn_detached(|| println!("uploaded")) {
//!     Ok(()) => {}
//!     Err(refused) if refused.error == QueueError::Full => (refused.into_closure())(), // Or answer 503.
//!     Err(refused) => return Err(refused.into()),
//! }
//!
//! let waits = WorkQueue::builder("waits").max_pending(1000).when_full(cmwq::WhenFull::Wait).build()?;
//! waits.spawn_detached(|| println!("its issuer has waited for room"))?;
//!
//! let helps = WorkQueue::builder("helps").max_pending(1000).when_full(cmwq::WhenFull::CallerRuns).build()?;
//! helps.spawn_detached(|| println!("a worker runs this, or its issuer"))?;
//!
//! let permit = uploads.reserve()?; // Waits for room. A permit that is dropped gives its place back.
//! permit.spawn_detached(|| println!("uploaded, too"))?;
//! # uploads.flush()?;
//! # waits.flush()?;
//! # helps.flush()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Tenants
//!
//! A limit bounds the items of one queue, but promises nothing to the other queues. For example, the first item of one
//! tenant may wait behind 256 active items of another tenant. With a [`weight`](crate::WorkQueueBuilder::weight) for
//! each tenant's queue, the queues take turns. The first item of a tenant then starts as soon as any worker of the pool
//! has ended its present item. Before the first item of a tenant, only the first items of other tenants may start,
//! however long the backlogs of these tenants are. Queues with backlogs share the CPUs by their weights. If only one
//! queue has items, this queue gets all CPUs, and takes no turns.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::WorkQueue;
//!
//! let free = WorkQueue::builder("tenant: free").weight(100).max_pending(10_000).build()?;
//! let paying = WorkQueue::builder("tenant: paying").weight(400).max_pending(10_000).build()?;
//! for _ in 0..1000 {
//!     free.spawn_detached(|| ())?;
//! }
//! paying.spawn(|| println!("did not wait for the others"))?.join()?;
//! let share = cmwq::Executor::global().dump().queue("tenant: paying").unwrap().share.unwrap();
//! println!("{} items wait; {:?} of CPU time used in turns", share.waiting, share.cpu_time);
//! # free.flush()?;
//! # Ok(())
//! # }
//! ```
//!
//! * All queues without weights count as one tenant of weight 100. Give a weight to each queue that other queues must
//!   not delay. If all load comes from queues with weights, a queue of weight 1 runs in the background.
//! * Weights divide CPU time. An item that sleeps uses no CPU time, and a managed pool starts other items meanwhile.
//! * Queues of different [classes](crate#classes) do not take turns, because their pools do not share workers. The
//!   system's scheduler shares the CPUs between the pools.
//! * An item that starts in a turn costs about a microsecond more. If items are shorter than a few microseconds, let
//!   one closure do the work of several items.
//!
//! # Rules of thumb
//!
//! * Keep the default of `max_active`. The pools of a managed queue, not its `max_active`, limit how many of its items
//!   compute at a time. A `max_active` of 1 does not make a queue ordered: for an order, use
//!   [`WorkQueue::ordered`](crate::WorkQueue::ordered).
//! * If the items of a queue call another service, set `max_active_total` to the number of requests that this service
//!   serves at a time, such as the number of a database's connections.
//! * Set `max_pending` to the number of items that can run within the time that a client waits. For example, two CPUs
//!   run 500 items of 2 ms in the 500 ms of a client's patience. If items block for 20 ms each, and 16 items are active
//!   at a time, 400 items run in these 500 ms.
//! * If an item computes for longer than the items of other queues can wait, it holds up all queues in its
//!   [class](crate#classes). To give long items a class of their own, give their queue another nice level:
//!   `WorkQueue::builder(name).attrs(Attrs::new().nice(10))`. The class then runs one long item on each CPU, and the
//!   system prefers the items of other queues. A nice level above 0 needs no privilege. If long items are as urgent as
//!   other items, and each long item should run on the CPU of its issuer, use a queue of another kind:
//!   [`per_cpu`](crate::WorkQueue::per_cpu) with [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive) and
//!   `max_active(2)`. Then up to two long items share a CPU with the short items. But a single issuer uses a single
//!   CPU.
//! * Each [ordered](crate::WorkQueue::ordered) queue that has items keeps a thread busy. If a thousand such queues
//!   have items that compute, there are more runnable threads than CPUs, up to `max_threads`.
//! * Set `max_active_total` of an [`unbound`](crate::WorkQueue::unbound) queue. Each of its active items has a thread,
//!   so without that limit, 256 items for each CPU can take all threads of the executor.
//! * [`set_max_active`](crate::WorkQueue::set_max_active) changes the limit of a queue that is in use. Raising it
//!   starts waiting items at once. Lowering it stops no item.
//! * [`waiting`](crate::WorkQueue::waiting), [`running`](crate::WorkQueue::running) and the
//!   [metrics](crate::guide::observing) show how near the limits are.
