//! Request ids, tenants and spans: how to carry an issuer's thread-local values into its items.
//!
//! A service often stores facts about the present request in thread-local values: an id for the log, a tenant, a
//! tracing span. An item runs on another thread, where these values are absent. With
//! [`ExecutorBuilder::carry`](crate::ExecutorBuilder::carry) or
//! [`WorkQueueBuilder::carry`](crate::WorkQueueBuilder::carry), each submission carries the values to the item's run.
//! The code that submits items needs no change.
//!
//! # An id for the log
//!
//! The hook has two parts. The outer function runs on the issuer's thread, and reads the value. The inner function runs
//! on the worker's thread directly before the item, and sets the value. The inner function returns a guard, which is
//! dropped directly after the item and then restores the former value.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::cell::Cell;
//!
//! thread_local!(static REQUEST: Cell<u64> = const { Cell::new(0) });
//!
//! struct Former(u64);
//!
//! impl Drop for Former {
//!     fn drop(&mut self) {
//!         REQUEST.set(self.0);
//!     }
//! }
//!
//! fn request() -> impl FnOnce() -> Former + Send {
//!     let id = REQUEST.get();
//!     move || Former(REQUEST.replace(id))
//! }
//!
//! cmwq::Executor::builder().carry(request).build_global()?;
//! let queue = cmwq::WorkQueue::new("mails");
//! REQUEST.set(17);
//! let mail = queue.spawn(|| println!("[{}] sent", REQUEST.get()))?;
//! # mail.join()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Spans of `tracing`
//!
//! With the feature `tracing` and a subscriber that asks for level TRACE, each run has a span `execute`. The parent of
//! `execute` is the span that was current for the issuer. So one trace connects a request, the items of its handler,
//! and the items that these items submit, without a hook. For a subscriber that asks for fewer levels, such as a log of
//! level INFO, the hook `cmwq::trace::current_span` makes the issuer's span current in the item:
//!
//! ```
//! # #[cfg(feature = "tracing")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::builder("mails").carry(cmwq::trace::current_span).build()?;
//! let _request = tracing::info_span!("request", id = 17).entered();
//! let mail = queue.spawn(|| tracing::info!("sent"))?; // INFO request{id=17}: sent
//! # mail.join()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tracing"))]
//! # fn main() {}
//! ```
//!
//! # The context of OpenTelemetry
//!
//! `opentelemetry::Context::attach` returns a guard. So the hook is one line:
//!
//! ```text
//! builder.carry(|| { let context = Context::current(); move || context.attach() })
//! ```
//!
//! # Which submission counts
//!
//! If several submissions of a reusable item coalesce, the item runs once, with the values of the submission that made
//! it pending. A delayed item has the values of its submission. If one run of a reusable item does the work of several
//! requests, store the ids of the requests with the work instead.
