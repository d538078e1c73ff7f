//! Choosing limits.
//!
//! Most queues need one limit: [`max_pending`](crate::WorkQueueBuilder::max_pending), if a client or another program
//! decides how many items come. The number of threads follows from the CPUs and from the items that block.
//!
//! # Which limit does what
//!
//! | to bound | limit | default |
//! |---|---|---|
//! | items that compute at the same time | the kind of the queue: [`new`](crate::WorkQueue::new) and [`per_cpu`](crate::WorkQueue::per_cpu) run as many as there are CPUs, for each [class](crate#classes); `per_cpu` runs the items of one issuer on one CPU | on |
//! | items that run or block, for each CPU on which they were queued | [`max_active`](crate::WorkQueueBuilder::max_active), 1 to 512, or 2000 for `unbound` | 256 |
//! | items that run or block, in the whole queue | [`max_active_total`](crate::WorkQueueBuilder::max_active_total), as above | unset: `max_active` applies |
//! | items that wait (an item that has begun does not count), in the whole queue | [`max_pending`](crate::WorkQueueBuilder::max_pending) | a hundred million, for each CPU on which they were queued |
//! | items that wait in all queues together | [`max_pending`](crate::ExecutorBuilder::max_pending) of the executor | unset |
//! | bytes of the items that wait in all queues together, if their submissions [name these](crate::Submission::bytes) | [`max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes) of the executor | unset |
//! | the part of the CPUs that a queue gets while others have items, too | [`weight`](crate::WorkQueueBuilder::weight), 1 to 10 000 | unset: items start about in the order in which they were queued |
//! | worker threads of the executor; the manager, the thread that drops values for it, and rescuers come in addition | [`max_threads`](crate::ExecutorBuilder::max_threads), as in `Executor::builder().max_threads(64).build_global()?` before any queue is made | 512, or 8 for each CPU if that is more; fewer where the system permits fewer |
//! | items of one `map` that are in flight | [`window`](crate::Map::window) | 64, or 4 for each CPU if that is more |
//!
//! If a limit is out of range, the builder returns an error, which names the value and the range.
//!
//! # What happens at the limit
//!
//! * At `max_active`, further items wait in order. They cost no thread.
//! * At `max_pending`, the queue refuses items with [`QueueError::Full`](crate::QueueError::Full), and returns the
//!   closure. The caller answers "busy". To wait for room instead, the caller [reserves](crate::WorkQueue::reserve) a
//!   place before it makes the item, or the queue is built with [`WhenFull::Wait`](crate::WhenFull::Wait). In the
//!   second case, a submission blocks its thread, and the queue refuses only an item that submits to its own full
//!   queue. With [`WhenFull::CallerRuns`](crate::WhenFull::CallerRuns), the submitting thread runs the item itself
//!   instead of waiting, if a slot is free. Armed timers do not count. When a timer fires, its item is accepted even if
//!   the queue is full.
//! * A cancelled item leaves an empty place in the queue, which counts towards `max_pending` until a worker reaches it.
//! * At the executor's `max_pending`, the queues with the longest backlogs are full first. Queues without pending items
//!   still accept one. At its `max_pending_bytes`, the queues whose items have the most bytes are full first. A queue
//!   has no limit on bytes of its own.
//! * At `max_threads`, items wait, but not for ever: workers give way between items. Blocked items keep their threads.
//!   So if the items that hold all threads wait for items that have not begun, they deadlock. Then raise the limit,
//!   lower `max_active`, or give the queue of the later items a [rescuer](crate::WorkQueueBuilder::rescuer).
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
//! Limits bound what one queue takes, but not what it leaves to others: 256 active items of one tenant stand in front
//! of the first item of another. With a [`weight`](crate::WorkQueueBuilder::weight) for each tenant's queue, the queues
//! take turns. The first item of a tenant then starts as soon as a worker has ended its item, behind the first items of
//! other tenants at most, whatever the lengths of their backlogs are. Queues with backlogs share the CPUs by their
//! weights. A queue alone gets all CPUs, and takes no turns.
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
//! * All queues without weights count as one tenant of weight 100. Give a weight to each queue that others must not
//!   delay. If all load comes from queues with weights, one of them with the weight 1 is background work.
//! * What counts is CPU time. Items that sleep use none, and a managed pool starts others meanwhile.
//! * Queues of different [classes](crate#classes) do not take turns, because their pools do not share workers. The
//!   system's scheduler shares the CPUs between the pools.
//! * An item in a turn costs about a microsecond more. If items are shorter than a few microseconds, let one closure do
//!   the work of several.
//!
//! # Why a queue accepts so many items by default
//!
//! A queue cannot know which refusal its user can handle. So without `max_pending`, it refuses items only when a
//! hundred million of them wait on one CPU. Each item that waits takes memory for its closure. A queue that is fed from
//! outside the program needs `max_pending`.
//!
//! # Rules of thumb
//!
//! * Keep the default of `max_active`. It does not limit the use of the CPU, and a limit of 1 does not make a queue
//!   ordered: use [`WorkQueue::ordered`](crate::WorkQueue::ordered).
//! * Set `max_active_total` to the number of requests that the other side serves at a time, such as the connections of
//!   a database.
//! * Set `max_pending` to the number of items that can run within the time that a client waits.
//! * Items that compute for longer than the items of other queues may wait hold up all queues in their
//!   [class](crate#classes). Give them a class of their own by another nice level:
//!   `WorkQueue::builder(name).attrs(Attrs::new().nice(10))` runs one such item on each CPU, and the system prefers the
//!   other items. This needs no privilege. If long items are as urgent as the others, and each should run on the CPU of
//!   its issuer, use [`per_cpu`](crate::WorkQueue::per_cpu) with
//!   [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive) and `max_active(2)`: up to two of them share that CPU
//!   with the short items. A single issuer uses a single CPU.
//! * Each [ordered](crate::WorkQueue::ordered) queue that has items keeps a thread busy. A thousand of them with work
//!   that computes are more runnable threads than CPUs, up to `max_threads`.
//! * Set `max_active_total` of an [`unbound`](crate::WorkQueue::unbound) queue. Each of its active items has a thread,
//!   so without that limit, 256 items for each CPU can take all threads of the executor.
//! * [`set_max_active`](crate::WorkQueue::set_max_active) changes the limit of a queue that is in use. Raising it
//!   starts waiting items at once. Lowering it stops no item.
//! * [`waiting`](crate::WorkQueue::waiting) and [`running`](crate::WorkQueue::running) show how near the limits are,
//!   and so do the [metrics](crate::guide::observing).
