//! The events for subscribers of [`tracing`](https://docs.rs/tracing) (feature `tracing`).
//!
//! Set a global subscriber, as usual. Nothing else needs to be switched on. Workers are separate threads, so a
//! subscriber that is set for one thread sees only the submissions of that thread, and no runs on workers. The target
//! of all events is [`TARGET`].
//!
//! | event | level | when | the kernel's name |
//! |---|---|---|---|
//! | `queue_work` | TRACE | an issuer queues an item, or the item's timer fires | `workqueue_queue_work` |
//! | `activate_work` | TRACE | the item gets a slot (see [`max_active`](crate::WorkQueueBuilder::max_active)) and goes to a pool's worklist, either immediately or when a slot becomes free | `workqueue_activate_work` |
//! | `execute_start` | TRACE | a worker is about to call the item's function | `workqueue_execute_start` |
//! | `execute_end` | TRACE | the function has returned, or panicked | `workqueue_execute_end` |
//! | `cpu_intensive` | DEBUG | an item was found to use its CPU for too long, and no longer counts as running | `workqueue_cpu_intensive` |
//! | `blocked` | DEBUG | an item was found to block, and does not count as running while it blocks | |
//! | `mayday` | DEBUG | a pool that can get no worker has called a queue's [rescuer](crate::WorkQueueBuilder::rescuer) | `workqueue_mayday` |
//! | `rescued` | DEBUG | the rescuer is about to execute an item | `workqueue_rescued` |
//!
//! An event carries each of these fields whose value is known:
//!
//! | field | type | of | what it is |
//! |---|---|---|---|
//! | `work` | integer | the first four, `rescued` | the item's address, which is the same for all events of one item and may be reused after the item is freed |
//! | `function` | string | all but `mayday` | the type of the item's function, as the compiler names it |
//! | `workqueue` | string | all | the queue's name |
//! | `req_cpu` | integer | `queue_work` | the CPU that the issuer has named ([`on_cpu`](crate::Submission::on_cpu)) |
//! | `cpu` | integer | all | the CPU that the pool serves, unless it serves several |
//! | `pool` | string | all | the pool's name, as in the names of its threads: `0`, `0H`, `bh0`, `u4`. In the first two events, this is the pool to which the item goes, but a pool of another pod may execute the item |
//! | `panicked` | boolean | `execute_end` | whether the function has panicked |
//! | `pending` | integer | `mayday` | the number of entries that wait in the pool |
//! | `thread` | string | `cpu_intensive`, `blocked` | the worker that executes the item |
//! | `threshold_us` | integer | `cpu_intensive` | the threshold, in µs, that the item's CPU time has exceeded |
//! | `how` | string | `blocked` | `undeclared`: the item sleeps without a guard; `may_block`: the item has been inside [`may_block`](crate::may_block()) for a long time |
//!
//! Each item runs in a span `execute` (TRACE) with the fields `work`, `function`, `workqueue`, `cpu` and `pool`. So the
//! log events that the item emits lie in this span, and tools that draw spans show each item as a slice on the thread
//! that ran it. The events of an item's submission lie outside the span of the item's own run.
//!
//! The span's parent is the span that was current for the issuer at the submission. So one trace connects the span of a
//! request, the spans of the items that its handler submits, and the spans of the items that these items submit. If
//! several submissions of a reusable item coalesce, the submission that made the item pending determines the parent. If
//! a subscriber does not ask for TRACE, there is no span `execute`, and [`current_span`] makes the issuer's span
//! current in the item. A subscriber that is set for a single thread may not know the spans of the issuer's thread. If
//! the subscriber does not know the issuer's span, the span `execute` has no parent.
//!
//! Each submission causes the first four events of the table, in this order. If a rescuer executes the item, `rescued`
//! comes directly before `execute_start`. There are two exceptions. If an item was cancelled and is queued again while
//! its old entry is still on a list, `queue_work` may come after the run has begun, and there is no second
//! `activate_work`. If an item is cancelled while it waits, it has an `activate_work` (and a `rescued`, if a rescuer
//! finds it) but is never executed.
//!
//! # What subscribers may do
//!
//! The thread that causes an event calls the subscribers. The calling thread is an issuer, a worker, a rescuer, or the
//! manager (which fires timers, and finds the items that block or use the CPU for too long). The thread that calls a
//! subscriber holds no lock of the crate during the call, and catches a panic of the subscriber. A subscriber must not
//! *wait* for items, because the calling thread may have counted an item that it has not yet passed to a pool. A slow
//! subscriber delays the thread that calls it. If a subscriber blocks on a worker's thread, the block counts as part of
//! the item.
//!
//! A subscriber may queue items. The subscriber's submissions cause no events. But the submitted items are executed
//! like any other items, and their runs cause events. So a subscriber that queues an item for each `execute_end` would
//! never stop doing so, unless it checks the queue's name first.
//!
//! # What it costs
//!
//! Without the feature `tracing`, the events cost nothing. With the feature, each item costs a few comparisons of one
//! word as long as no subscriber of the process asks for level TRACE of any target. These comparisons check only the
//! one level that `tracing` keeps for all targets. If a subscriber asks for TRACE of another target, each event costs
//! the time that `tracing` needs to reject it, and each submission of a closure makes one more allocation.
//! `cargo bench --bench tracing` measures the cost without a subscriber.
//!
//! # A timeline of a run
//!
//! `examples/trace` uses the crate `tracing-chrome` to write a file for [Perfetto](https://ui.perfetto.dev):
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
//! let queue = cmwq::WorkQueue::builder("mail").rescuer(true).build()?;
//! queue.spawn(|| ())?.join()?;
//! assert_eq!(RESCUES.load(Ordering::Relaxed), 0, "it was not needed");
//! # Ok(())
//! # }
//! ```

pub use crate::engine::trace::{TARGET, current_span};
