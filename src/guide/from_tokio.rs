//! Coming from tokio's blocking pool.
//!
//! `spawn_blocking` becomes [`spawn`](crate::WorkQueue::spawn). The queue runs as many items at a time as there are
//! CPUs. A call that sleeps gets a guard, so that another item can run during the call. After the port, the following
//! program does without async. Four lines change:
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
//! A [`JoinHandle`](crate::JoinHandle) is a future, which any runtime can poll. So only the lines that spawn change:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::builder("thumbnails").max_pending(64).build()?;
//! # let (image, other) = (vec![0; 8], vec![0; 6]);
//! let task = async {
//!     let size = queue.spawn(move || image.len() / 2)?.await?; // An error, if 64 items wait.
//!     let permit = queue.reserve_async().await?; // Waits while 64 items wait.
//!     let other = permit.spawn(move || other.len() / 2)?.await?;
//!     Ok::<_, Box<dyn std::error::Error>>(size + other)
//! };
//! # assert_eq!(cmwq::blocking::block_on(task)?, 7);
//! # Ok(())
//! # }
//! ```
//!
//! All other waits of this crate block the calling thread, and so does a plain `spawn` on a full queue with
//! [`WhenFull::Wait`](crate::WhenFull::Wait). In place of these waits, a task awaits the following functions:
//! [`flush_async`](crate::WorkQueue::flush_async), [`wait_idle_async`](crate::WorkQueue::wait_idle_async),
//! [`drain_async`](crate::WorkQueue::drain_async), [`destroy_async`](crate::WorkQueue::destroy_async),
//! [`destroy_now_async`](crate::WorkQueue::destroy_now_async), [`reserve_async`](crate::WorkQueue::reserve_async),
//! [`Work::flush_async`](crate::Work::flush_async),
//! [`GlobalExecutor::shutdown_async`](crate::GlobalExecutor::shutdown_async) for the process-wide executor, and
//! [`Executor::shutdown_async`](crate::Executor::shutdown_async) for any other. On the process-wide executor,
//! `Executor::shutdown_async` returns [`ShutdownError::Global`](crate::ShutdownError::Global). Dropping the future of
//! one of these functions ends only the wait. The futures are `Send` and borrow nothing, and a `JoinHandle<T>` is
//! `Send` if `T` is.
//!
//! If you write a runtime of your own, its wakers should not wait for items or for room in a queue. The thread that
//! calls a waker may hold an item that it is about to start or to complete, and a waker that waits for this item waits
//! for ever. The wakers of the known runtimes never wait.
//!
//! An item that has to wait for a future calls tokio's `Handle::block_on` under a guard:
//! `cmwq::blocking(|| handle.block_on(future))`. This call has two conditions. First, the runtime must be
//! multi-threaded, because `Handle::block_on` does not drive the timers and sockets of a `current_thread` runtime.
//! Second, the item must not run on a thread of the runtime, where `Handle::block_on` panics. So a queue to which tasks
//! submit must not have [`WhenFull::CallerRuns`](crate::WhenFull::CallerRuns). If the future needs no runtime, such as
//! a join handle, [`blocking::block_on(future)`](crate::blocking::block_on) suffices. But `blocking::block_on` polls
//! the future outside of the runtime. Outside of the runtime, tokio's timers and sockets panic, and so do clients that
//! use them, such as `reqwest`.
//!
//! # Names
//!
//! | tokio | cmwq |
//! |---|---|
//! | `spawn_blocking(f)` | [`spawn(f)`](crate::WorkQueue::spawn), or [`spawn_detached(f)`](crate::WorkQueue::spawn_detached) |
//! | `handle.await` | `handle.await` in a task, [`join`](crate::JoinHandle::join) on a thread |
//! | `handle.abort()` | [`stop`](crate::JoinHandle::stop), which also asks a closure that has begun to stop; the closure ends if it [checks](crate::is_cancelled) this |
//! | `AbortOnDropHandle` of `tokio_util` | [`stop_on_drop`](crate::JoinHandle::stop_on_drop) |
//! | `CancellationToken` of `tokio_util` | [`CancelToken`](crate::CancelToken), which also cancels items that have not begun |
//! | `JoinError::is_panic` | [`JoinError::Panicked`](crate::JoinError::Panicked) |
//! | `block_in_place(f)` | [`cmwq::blocking(f)`](crate::blocking()) in an item |
//! | a semaphore around `spawn_blocking` | [`max_active_total`](crate::WorkQueueBuilder::max_active_total) bounds active items, and [`max_pending`](crate::WorkQueueBuilder::max_pending) waiting ones, for which [`reserve_async`](crate::WorkQueue::reserve_async) waits |
//! | `Handle::block_on(future)` in a closure | `cmwq::blocking(\|\| handle.block_on(future))` in an item; for a future that needs no runtime, also [`blocking::block_on(future)`](crate::blocking::block_on) |
//! | `max_blocking_threads(n)` | [`ExecutorBuilder::max_threads(n)`](crate::ExecutorBuilder::max_threads) |
//! | `thread_keep_alive` | [`ExecutorBuilder::idle_timeout`](crate::ExecutorBuilder::idle_timeout) |
//! | `shutdown_timeout` | [`Executor::shutdown`](crate::Executor::shutdown), [`GlobalExecutor::shutdown`](crate::GlobalExecutor::shutdown) |
//! | `tokio::time::sleep`, then `spawn_blocking` | [`item(f).after(delay).spawn()`](crate::Submission::after) |
//! | `tokio::time::interval`, with `spawn_blocking` | [`item(f).spawn_every(period)`](crate::Submission::spawn_every) |
//!
//! # What changes
//!
//! * **Computing needs no semaphore.** tokio makes a thread for each pending closure, up to 512. A queue of
//!   [`WorkQueue::new`](crate::WorkQueue::new) runs as many items at a time as there are CPUs. While an item blocks,
//!   another item runs in its place.
//! * **Guards are needed** around calls that sleep. Without a guard, the executor finds the sleep a little later: see
//!   [`guide::blocking`](crate::guide::blocking). For code in which no guard can be placed, `WorkQueue::unbound(name)`
//!   gives each active item a thread, as tokio does. [`max_active_total`](crate::WorkQueueBuilder::max_active_total)
//!   limits the number of active items.
//! * **Each kind of work has its own limit and its own flush**, because each can have its own queue, which costs no
//!   thread.
//! * **If the system refuses a thread**, work waits, and the executor tries again. Nothing panics.
//! * **The end of the process** ends all items, whether they have begun or not. A service [shuts the executor
//!   down](crate::guide::shutdown) first.
