//! What a subscriber of [`tracing`](https://docs.rs/tracing) is told (feature `tracing`).
//!
//! Set a global subscriber, as usual; there is nothing to switch on here. Workers are threads of their own, so one that is
//! set for a thread sees what that thread queues, and no more. The target of everything is [`TARGET`].
//!
//! | event | level | when | the kernel's name |
//! |---|---|---|---|
//! | `queue_work` | TRACE | an item is queued: by its issuer, or when its timer fires | `workqueue_queue_work` |
//! | `activate_work` | TRACE | it has a slot (see [`max_active`](crate::WorkQueueBuilder::max_active)) and goes to a pool's worklist: at once, or when another one has ended | `workqueue_activate_work` |
//! | `execute_start` | TRACE | a worker is about to call its function | `workqueue_execute_start` |
//! | `execute_end` | TRACE | the function has returned, or panicked | `workqueue_execute_end` |
//! | `cpu_intensive` | DEBUG | an item was found to use its CPU for too long, and counts as running no more | `workqueue_cpu_intensive` |
//! | `blocked` | DEBUG | an item was found to block, and does not count meanwhile | |
//! | `mayday` | DEBUG | a pool that cannot have a worker has called a queue's [rescuer](crate::WorkQueueBuilder::rescuer) | `workqueue_mayday` |
//! | `rescued` | DEBUG | the rescuer is about to execute an item | `workqueue_rescued` |
//!
//! The fields, which an event has if they are known:
//!
//! | field | type | of | what it is |
//! |---|---|---|---|
//! | `work` | integer | the first four, `rescued` | the item's address: the same for the events of one item, and used again when that is gone |
//! | `function` | string | all but `mayday` | the type of the item's function, as the compiler names it |
//! | `workqueue` | string | all | the queue's name |
//! | `req_cpu` | integer | `queue_work` | the CPU that its issuer has named ([`queue_on`](crate::WorkQueue::queue_on)) |
//! | `cpu` | integer | all | the CPU that the pool serves; none if it serves several |
//! | `pool` | string | all | the pool, as threads are named after it: `0`, `0H`, `bh0`, `u4`. For the first two it is where the item is sent; it may be executed in another pod's |
//! | `panicked` | boolean | `execute_end` | has the function panicked? |
//! | `pending` | integer | `mayday` | how many entries wait in the pool |
//! | `thread` | string | `cpu_intensive`, `blocked` | the worker that has the item |
//! | `threshold_us` | integer | `cpu_intensive` | it has used more CPU time than that, in µs |
//! | `how` | string | `blocked` | `undeclared`: it sleeps, and no guard says so; `may_block`: it has been inside of [`may_block`](crate::may_block()) for long |
//!
//! Each item runs in a span `execute` (TRACE) with the fields `work`, `function`, `workqueue`, `cpu` and `pool`. So what it
//! logs lies in that span, and tools that draw spans show items as slices, on the threads that they ran on. The four events
//! lie outside of it.
//!
//! The events of one item come in the order of the table. Two exceptions: an item that was cancelled, and is queued again
//! while its entry still lies on its list, may have its `queue_work` told after it has begun, and is not activated anew; and
//! what is cancelled while it waits is activated and never executed.
//!
//! # What subscribers may do
//!
//! They are called by whoever causes the event: issuers, workers, rescuers, the manager (timers that fire, and what the
//! detector finds). No lock of this crate is held, and what a subscriber panics with is contained. It must not *wait* for
//! items, since it may be called by a thread that has just counted one, and not yet sent it on its way. A slow subscriber
//! delays what it is told of; one that blocks inside of a worker counts as part of the item.
//!
//! It may queue items. What it does is not told in turn by the thread that tells it; but such an item is executed like any
//! other, and told of then, so one that queues an item for each `execute_end` has work for ever. Look at the queue's name.
//!
//! # What it costs
//!
//! Nothing without the feature. With it, and without a subscriber that asks for this target and level, an item costs some
//! comparisons of a word (see the table of benchmarks in the README).
//!
//! # A picture of a run
//!
//! `examples/trace` writes a file for [Perfetto](https://ui.perfetto.dev), by the crate `tracing-chrome`:
//!
//! ```text
//! cargo run --release --example trace --features tracing -- trace.json
//! ```
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
//!
//! /// Counts what rescuers do.
//! struct Rescues;
//! static RESCUES: AtomicU64 = AtomicU64::new(0);
//!
//! impl<S: tracing::Subscriber> Layer<S> for Rescues {
//!     fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
//!         if event.metadata().target() == cmwq::trace::TARGET && event.metadata().name() == "rescued" {
//!             RESCUES.fetch_add(1, Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Rescues))?;
//! let queue = cmwq::WorkQueue::new("mail").rescuer().build()?;
//! queue.spawn(|| ())?.join()?;
//! assert_eq!(RESCUES.load(Ordering::Relaxed), 0, "it was not needed");
//! # Ok(())
//! # }
//! ```

pub use crate::engine::trace::TARGET;
