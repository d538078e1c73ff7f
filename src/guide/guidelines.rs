//! Guidelines.
//!
//! # A queue of its own, or a shared one
//!
//! A queue costs no thread. A group of items needs its own queue if it needs its own limit, order, priority, attributes
//! or rescuer. A group also needs its own queue if a thread flushes, drains or destroys the group. Each queue has its
//! own counters, so a queue for each kind of work shows which kind queues too many items. If none of these reasons
//! applies, share one queue in the program:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::WorkQueue;
//! use std::sync::LazyLock;
//!
//! static BACKGROUND: LazyLock<WorkQueue> = LazyLock::new(|| WorkQueue::new("background"));
//!
//! assert_eq!(BACKGROUND.spawn(|| 6 * 7)?.join()?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! Code that is tested with [`cmwq::testing`](crate::guide::testing) takes its queue as an argument instead of using a
//! `static`, because a queue in a `static` belongs to the first run that uses it.
//!
//! Ports of kernel code find the nine system queues in [`kernel`](crate::kernel). Draining, destroying or freezing a
//! system queue affects every part of the program that uses the queue.
//!
//! A library takes a `&WorkQueue` or an [`Executor`](crate::Executor) from its caller, or makes a queue of the global
//! executor. A library makes no executor of its own, because executors do not take each other into account: each runs
//! as many items as there are CPUs.
//!
//! # Strict order
//!
//! Use [`WorkQueue::ordered`](crate::WorkQueue::ordered) only if items must not overlap or overtake each other. For one
//! job that must not overlap itself, a [`Work`](crate::Work) on any queue suffices, because only one worker at a time
//! executes it.
//!
//! # One rescuer for each dependency
//!
//! A [rescuer](crate::WorkQueueBuilder::rescuer) runs a queue's items when no thread can be made. A queue needs a
//! rescuer if the threads that wait for its items hold the resource without which no thread can be made: memory, an
//! entry in a table, or other threads.
//!
//! A rescuer is one thread, and runs one item at a time. So an item that a rescuer runs must not wait for another item
//! of the same queue. If items wait for other items, put the awaited items into a queue of their own, with its own
//! rescuer. Debug builds log a warning if an item of a queue with a rescuer waits for a queue without one.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{QueueError, RunError, WorkQueue};
//!
//! let pages = WorkQueue::builder("pages").rescuer(true).build()?;
//! let blocks = WorkQueue::builder("blocks").rescuer(true).build()?; // Items of `pages` wait for these.
//! let page = pages.spawn(move || {
//!     let block = blocks.spawn(|| "a block").map_err(QueueError::from)?;
//!     Ok::<_, RunError>(block.join()?)
//! })?;
//! assert_eq!(page.join()??, "a block");
//! # Ok(())
//! # }
//! ```
//!
//! # Near the data
//!
//! * The default scope, [`Cache`](crate::AffinityScope::Cache), is the best choice for most work: items start near the
//!   data that their issuer has just touched, and no CPU idles.
//! * [`strict`](crate::Attrs::strict) keeps items in their pod even if other CPUs idle. Use `strict` if an item must
//!   not run elsewhere, but do not use it to gain speed.
//! * A strict [`Numa`](crate::AffinityScope::Numa) scope on a plain unbound queue behaves like the unbound queues of
//!   Linux before 6.5, which had workers for each node.
//! * A strict [`Cpu`](crate::AffinityScope::Cpu) scope on a plain unbound queue has much the same effect as a per-CPU
//!   queue with [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive): items stay on their CPU, and the system
//!   shares the CPU among them. In contrast to the per-CPU queue, the unbound queue can get other attributes at run
//!   time.
//! * On a machine where one cache serves very many CPUs, [`CacheShard`](crate::AffinityScope::CacheShard) divides these
//!   CPUs into several pods.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{AffinityScope, Attrs, WorkQueue};
//!
//! let attrs = Attrs::new().scope(AffinityScope::Numa).strict(true);
//! let like_before_6_5 = WorkQueue::unbound("reindex").attrs(attrs).build()?;
//! assert!(like_before_6_5.attrs().unwrap().strict);
//! # Ok(())
//! # }
//! ```
//!
//! # Small rules
//!
//! * If an item must wait for something, block in the item, under a guard. Do not start a thread for the wait.
//! * Do not hold a lock across a call that waits for items, unless these items never take the lock.
//! * Give an item at least a few microseconds of work, because queueing and running an item costs a fraction of a
//!   microsecond. Use [`items`](crate::WorkQueue::items) for many short items at once, and
//!   [`spawn_detached`](crate::WorkQueue::spawn_detached) if no handle is needed.
//! * Do not spin in an item until another item has run. Wait for that item instead, for example by a join.
//! * Programs that an item starts inherit the CPUs, the nice level and the time slice of the worker.
//!   [`reset_scheduling`](crate::blocking::process::reset_scheduling) gives such a program the settings of the main
//!   thread instead.
