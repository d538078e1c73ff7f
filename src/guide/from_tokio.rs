//! Coming from tokio's blocking pool.
//!
//! `spawn_blocking` becomes [`spawn`](crate::WorkQueue::spawn). A call that sleeps gets a guard, so that computing
//! items do not outnumber the CPUs. This program leaves async. Four lines change:
//!
//! ```diff
//! -#[tokio::main]
//! -async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! +fn main() -> Result<(), Box<dyn std::error::Error>> {
//! +    let queue = cmwq::WorkQueue::new("reads");
//!      let mut reads = Vec::new();
//!      for path in ["Cargo.toml", "LICENSE-MIT"] {
//! -        reads.push(tokio::task::spawn_blocking(move || std::fs::read_to_string(path)));
//! +        reads.push(queue.spawn(move || cmwq::blocking(|| std::fs::read_to_string(path)))?);
//!      }
//!      for read in reads {
//! -        println!("{} bytes", read.await??.len());
//! +        println!("{} bytes", read.join()??.len());
//!      }
//!      Ok(())
//!  }
//! ```
//!
//! Afterwards:
//!
//! ```
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let queue = cmwq::WorkQueue::new("reads");
//!     let mut reads = Vec::new();
//!     for path in ["Cargo.toml", "LICENSE-MIT"] {
//!         reads.push(queue.spawn(move || cmwq::blocking(|| std::fs::read_to_string(path)))?);
//!     }
//!     for read in reads {
//!         println!("{} bytes", read.join()??.len());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # In a program that stays async
//!
//! [`JoinHandle::join`](crate::JoinHandle::join) blocks its thread, so a task must not call it. Let the item send its
//! result to the task. If the item panics, or a shutdown drops it, then the sender is dropped, and the task gets an
//! error:
//!
//! ```text
//! let (tell, told) = tokio::sync::oneshot::channel();
//! queue.spawn_detached(move || tell.send(shrink(&image)))?;
//! let thumbnail = told.await?;
//! ```
//!
//! # Names
//!
//! | tokio | cmwq |
//! |---|---|
//! | `spawn_blocking(f)` | [`spawn(f)`](crate::WorkQueue::spawn), or [`spawn_detached(f)`](crate::WorkQueue::spawn_detached) |
//! | `handle.await` | [`join`](crate::JoinHandle::join) on a thread; a channel in a task |
//! | `handle.abort()` | [`cancel`](crate::JoinHandle::cancel); neither stops a closure that has begun |
//! | `JoinError::is_panic` | [`JoinError::Panicked`](crate::JoinError::Panicked) |
//! | `block_in_place(f)` | [`cmwq::blocking(f)`](crate::blocking()) in an item |
//! | a semaphore around `spawn_blocking` | [`max_active_total`](crate::WorkQueueBuilder::max_active_total) bounds active items, and [`max_pending`](crate::WorkQueueBuilder::max_pending) waiting ones |
//! | `max_blocking_threads(n)` | [`ExecutorBuilder::max_threads(n)`](crate::ExecutorBuilder::max_threads) |
//! | `thread_keep_alive` | [`ExecutorBuilder::idle_timeout`](crate::ExecutorBuilder::idle_timeout) |
//! | `shutdown_timeout` | [`Executor::shutdown`](crate::Executor::shutdown), [`GlobalExecutor::shutdown`](crate::GlobalExecutor::shutdown) |
//! | `tokio::time::sleep`, then `spawn_blocking` | [`item(f).after(delay).spawn()`](crate::Submission::after) |
//! | `tokio::time::interval`, with `spawn_blocking` | [`item(f).spawn_every(period)`](crate::Submission::spawn_every) |
//!
//! # What changes
//!
//! * **Computing needs no semaphore.** tokio makes a thread for each pending closure, up to 512. A queue of
//!   [`WorkQueue::new`](crate::WorkQueue::new) runs as many items as there are CPUs near the issuer, and replaces those
//!   that block.
//! * **Guards are needed** around calls that sleep. Without a guard, the executor finds the sleep a little later: see
//!   [`guide::blocking`](crate::guide::blocking). If no guard can be placed, `WorkQueue::unbound(name)` gives each
//!   active item a thread, as tokio does. [`max_active_total`](crate::WorkQueueBuilder::max_active_total) sets its
//!   limit.
//! * **Each kind of work has its limit and its flush**, because a queue costs no thread.
//! * **If the system refuses a thread**, work waits, and the executor tries again. Nothing panics.
//! * **The end of the process** ends all items, whether they have begun or not. A service [shuts the executor
//!   down](crate::guide::shutdown) first.
