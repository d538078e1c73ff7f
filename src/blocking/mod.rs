//! Locks, channels, files, threads and processes that have their own [guard](crate#guards).
//!
//! Each of these is a thin wrapper around the original of the same name. An operation that succeeds at once works as
//! before. If the thread has to wait, it waits under a [`BlockingGuard`](crate::BlockingGuard), so that another item of
//! the same queue may use the CPU meanwhile. On a thread that is not a worker, nothing is added.
//!
//! | instead of | write | the guard is entered |
//! |---|---|---|
//! | `parking_lot`'s `Mutex`, `RwLock` | [`sync::Mutex`], [`sync::RwLock`] | if the lock is not free in a moment |
//! | `parking_lot`'s `Condvar` | [`sync::Condvar`] | in each wait |
//! | `crossbeam_channel`, `std::sync::mpsc` | [`channel`] | if the channel is full, or empty |
//! | reading and writing files, pipes, sockets | [`io::Blocking`] around them | in each call |
//! | `thread::sleep`, `park`, `JoinHandle::join` | [`thread::sleep`], [`thread::park`], [`thread::JoinHandle`] | in each call |
//! | `Child::wait`, `Command::output` | [`process::Child`], [`process::output`] | in each call |
//!
//! For all other calls there is the function of the same name: [`blocking(|| …)`](crate::blocking()).
//! `use cmwq::blocking;` imports both.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking;
//! use std::sync::Arc;
//!
//! let queue = cmwq::WorkQueue::new("sums").build()?;
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
pub(crate) mod guard;
pub mod io;
pub mod process;
pub mod sync;
pub mod thread;
