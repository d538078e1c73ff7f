//! The events for subscribers of [`tracing`](https://docs.rs/tracing) (feature `tracing`).
//!
//! Set a global subscriber, as usual; no other switch is needed. Workers are separate threads, so a subscriber that is
//! set for one thread sees only the submissions of that thread. The target of all events is [`TARGET`].
//!
//! | event | level | when | the kernel's name |
//! |---|---|---|---|
//! | `queue_work` | TRACE | an item is queued: by its issuer, or when its timer fires | `workqueue_queue_work` |
//! | `activate_work` | TRACE | it has a slot (see [`max_active`](crate::WorkQueueBuilder::max_active)) and goes to a pool's worklist: at once, or when another one has ended | `workqueue_activate_work` |
//! | `execute_start` | TRACE | a worker is about to call its function | `workqueue_execute_start` |
//! | `execute_end` | TRACE | the function has returned, or panicked | `workqueue_execute_end` |
//! | `cpu_intensive` | DEBUG | an item was found to use its CPU for too long, and no longer counts as running | `workqueue_cpu_intensive` |
//! | `blocked` | DEBUG | an item was found to block, and does not count while it does | |
//! | `mayday` | DEBUG | a pool that cannot have a worker has called a queue's [rescuer](crate::WorkQueueBuilder::rescuer) | `workqueue_mayday` |
//! | `rescued` | DEBUG | the rescuer is about to execute an item | `workqueue_rescued` |
//!
//! The fields, which an event has if their values are known:
//!
//! | field | type | of | what it is |
//! |---|---|---|---|
//! | `work` | integer | the first four, `rescued` | the item's address: the same for the events of one item, and used again when that is gone |
//! | `function` | string | all but `mayday` | the type of the item's function, as the compiler names it |
//! | `workqueue` | string | all | the queue's name |
//! | `req_cpu` | integer | `queue_work` | the CPU that its issuer has named ([`queue_on`](crate::WorkQueue::queue_on)) |
//! | `cpu` | integer | all | the CPU that the pool serves; none if it serves several |
//! | `pool` | string | all | the pool, by its part of thread names: `0`, `0H`, `bh0`, `u4`. In the first two events it is the pool to which the item goes; a pool of another pod may execute it |
//! | `panicked` | boolean | `execute_end` | whether the function has panicked |
//! | `pending` | integer | `mayday` | how many entries wait in the pool |
//! | `thread` | string | `cpu_intensive`, `blocked` | the worker that has the item |
//! | `threshold_us` | integer | `cpu_intensive` | it has used more CPU time than that, in µs |
//! | `how` | string | `blocked` | `undeclared`: it sleeps, and no guard says so; `may_block`: it has been inside of [`may_block`](crate::may_block()) for long |
//!
//! Each item runs in a span `execute` (TRACE) with the fields `work`, `function`, `workqueue`, `cpu` and `pool`. So log
//! events of the item lie in that span, and tools that draw spans show items as slices, on the threads that ran them.
//! The four events lie outside of the span.
//!
//! Each submission has the first four events in this order, and `rescued` right before `execute_start`. There are two
//! exceptions. If an item was cancelled, and is queued again while its entry still lies on its list, its `queue_work`
//! may come after it has begun, and it has no second `activate_work`. An item that is cancelled while it waits has an
//! `activate_work` (and a `rescued`, if a rescuer finds it) but is never executed.
//!
//! # What subscribers may do
//!
//! The thread that causes an event calls the subscribers: an issuer, a worker, a rescuer, or the manager (for timers
//! that fire, and for what the detector finds). It holds no lock of this crate, and contains a panic of a subscriber. A
//! subscriber must not *wait* for items, since its thread may have counted an item that it has not yet passed on. A
//! slow subscriber delays the thread that calls it. If it blocks inside of a worker, the block counts as part of the
//! item.
//!
//! A subscriber may queue items. The calling thread reports no events for that submission. But such an item is executed
//! like any other, and that run has events. So a subscriber that queues an item for each `execute_end` has work for
//! ever: check the queue's name.
//!
//! # What it costs
//!
//! Without the feature, nothing. With it, an item costs some comparisons of a word as long as no subscriber of the
//! process asks for level TRACE of any target: `tracing` keeps one level for all targets, and only that is checked.
//! With a subscriber that asks for TRACE of another target, each event costs the time in which `tracing` finds that
//! out. `cargo bench --bench tracing` measures the former.
//!
//! # A timeline of a run
//!
//! `examples/trace` writes a file for [Perfetto](https://ui.perfetto.dev), with the crate `tracing-chrome`:
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
