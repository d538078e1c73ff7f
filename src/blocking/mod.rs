//! Locks, channels, files, threads and processes that enter a [guard](crate#guards) by themselves.
//!
//! Each type and function here is a thin wrapper around the original of the same name. A lock or channel operation that
//! succeeds immediately works like the original. A thread that has to wait holds a
//! [`BlockingGuard`](crate::BlockingGuard) during the wait, so that another item can use the CPU. On a thread that is
//! not a worker, the wrappers add nothing.
//!
//! | instead of | write | the guard is entered |
//! |---|---|---|
//! | `parking_lot`'s `Mutex`, `RwLock` | [`sync::Mutex`], [`sync::RwLock`] | if the lock is still held after 20 µs |
//! | `parking_lot`'s `Condvar` | [`sync::Condvar`] | in each wait |
//! | `crossbeam_channel`, `std::sync::mpsc` | [`channel`] | if the channel is full, or empty |
//! | reading and writing files, pipes, sockets | [`io::Blocking`] around the file, pipe or socket | in each call |
//! | `sleep`, `park`, `JoinHandle::join` | [`thread::sleep`], [`thread::park`], [`thread::JoinHandle`] | in each call |
//! | `Child::wait`, `Command::output` | [`process::Child`], [`process::output`] | in each call |
//! | `block_on` of `futures` or `pollster`, for futures that need no runtime | [`block_on`] | while the future is not ready |
//!
//! Sleeps, channels and condition variables also have waits that end early when the calling item is
//! [asked to stop](crate::is_cancelled). The names of these waits end in `_cancellable`.
//!
//! # Types of other crates
//!
//! The locks are those of `lock_api` 0.4 with raw locks of this crate, and [`channel`] re-exports types of
//! `crossbeam_channel` 0.5, such as its errors. These versions of `lock_api` and `crossbeam_channel` are part of this
//! crate's interface. A release of this crate that needs an incompatible version of one of these two crates is itself
//! incompatible.
//!
//! # Other calls
//!
//! For all other calls, use the function that has the same name as this module: [`blocking(|| …)`](crate::blocking()).
//! `use cmwq::blocking;` imports both the module and the function. For a future that needs tokio's runtime, such as a
//! timer or a socket, call `blocking(|| handle.block_on(future))`. `handle` is the `Handle` of a multi-threaded
//! runtime, and the calling item must not run on a thread of this runtime.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking;
//! use std::sync::Arc;
//!
//! let queue = cmwq::WorkQueue::new("sums");
//! let sum = Arc::new(blocking::sync::Mutex::new(0));
//! let (send, receive) = blocking::channel::unbounded();
//! let adds = {
//!     let sum = Arc::clone(&sum);
//!     queue.spawn(move || receive.iter().for_each(|n: u32| *sum.lock() += n))?
//! };
//! let sends = queue.spawn(move || {
//!     let text = blocking(|| std::fs::read_to_string("Cargo.toml"))?;
//!     text.lines().for_each(|_| send.send(1).expect("it is received"));
//!     Ok::<_, std::io::Error>(())
//! })?;
//! sends.join()??;
//! adds.join()?;
//! assert!(*sum.lock() > 10);
//! # Ok(())
//! # }
//! ```

pub mod channel;
mod future;
pub(crate) mod guard;
pub mod io;
pub mod process;
pub mod sync;
pub mod thread;

pub use self::future::block_on;
