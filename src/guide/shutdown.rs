//! Shutdown of a service.
//!
//! When the process ends, its pending and running items end, too. A service that must finish the accepted work shuts
//! its executor down first. Queues are made on the process-wide executor by default. Only the value that
//! [`build_global`](crate::ExecutorBuilder::build_global) returns can shut that executor down, so `main` makes the
//! executor and keeps this value:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Executor, QueueError, WorkQueue};
//! use std::time::Duration;
//!
//! let executor = Executor::builder().build_global()?; // Before any queue is made.
//! let mail = WorkQueue::builder("mail").max_pending(1000).build()?;
//! let housekeeping = WorkQueue::new("housekeeping");
//! let clean = housekeeping.item(|| println!("cleaned")).spawn_every(Duration::from_secs(60))?;
//! mail.spawn_detached(|| println!("sent"))?;
//!
//! // On SIGTERM: stop accepting requests, stop what repeats, and let the accepted items run.
//! drop(clean);
//! let report = executor.shutdown(Duration::from_secs(20))?;
//! println!("{report}");
//! assert!(report.is_complete());
//! assert_eq!(mail.spawn(|| ()).unwrap_err().error, QueueError::ShutDown);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/service` is a program that ends in this way, with HTTP and signals. For a service on tokio, see
//! [`guide::services`](crate::guide::services).
//!
//! # What a shutdown does
//!
//! 1. From the call on, only items of this executor may submit to its queues. Other submissions return
//!    [`QueueError::ShutDown`](crate::QueueError::ShutDown), with the closure.
//! 2. Armed timers are cancelled. Frozen queues thaw. To run a delayed item nevertheless, call
//!    [`Work::flush`](crate::Work::flush) before the shutdown. This call queues the item at once.
//! 3. Accepted items run. The caller waits under a guard, until all threads have ended or the time runs out.
//! 4. If the time runs out, items that have not begun are dropped, and their joins return
//!    [`JoinError::Cancelled`](crate::JoinError::Cancelled). An item that has begun runs until it ends or the process
//!    ends. Nothing interrupts the item, but the shutdown [asks it to stop](#a-long-item-that-should-stop-early).
//! 5. The [report](crate::ShutdownReport) lists the queues that have dropped items, running items or cancelled timers,
//!    and gives these three numbers for each queue. To learn which items did not run, keep their handles. An item that
//!    still runs is not [finished](crate::JoinHandle::is_finished). For an item that did not begin,
//!    [`join`](crate::JoinHandle::join) returns [`JoinError::Cancelled`](crate::JoinError::Cancelled).
//!
//! With a table of its jobs, a service can log those that it did not finish:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Executor, JoinError, JoinHandle};
//! use std::time::Duration;
//!
//! let executor = Executor::builder().build_global()?;
//! let queue = cmwq::WorkQueue::new("jobs");
//! let mut jobs: Vec<(String, JoinHandle<()>)> = Vec::new();
//! for number in 0..3 {
//!     jobs.retain(|(_, job)| !job.is_finished());
//!     jobs.push((format!("job {number}"), queue.spawn(|| println!("worked"))?));
//! }
//!
//! let report = executor.shutdown(Duration::from_secs(20))?;
//! for (name, job) in jobs {
//!     if !job.is_finished() {
//!         println!("{name} still runs");
//!     } else if let Err(JoinError::Cancelled) = job.join() {
//!         println!("{name} did not run");
//!     }
//! }
//! # assert!(report.is_complete());
//! # Ok(())
//! # }
//! ```
//!
//! A service can also end without running its pending items. Before the shutdown, it calls
//! [`destroy_now_timeout(Duration::ZERO)`](crate::WorkQueue::destroy_now_timeout) for each of its queues. The call
//! cancels the pending items of a queue, asks its running items to stop, and does not wait. The call returns
//! [`WaitError::TimedOut`](crate::WaitError::TimedOut) if the queue still has items. The shutdown then waits for the
//! running items until its time runs out. An item that does not [ask whether it should
//! stop](crate::guide::cancellation) runs to its end. [`destroy_now`](crate::WorkQueue::destroy_now) would wait for an
//! item that does not ask, however long the item takes.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Executor, WaitError, WorkQueue};
//! use std::time::Duration;
//!
//! let executor = Executor::builder().build_global()?;
//! let (mail, search) = (WorkQueue::new("mail"), WorkQueue::new("search"));
//! search.spawn_detached(|| while !cmwq::is_cancelled() {})?;
//!
//! for queue in [&mail, &search] {
//!     match queue.destroy_now_timeout(Duration::ZERO) {
//!         Ok(_) | Err(WaitError::TimedOut) => {} // The shutdown waits for items that still run.
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! let report = executor.shutdown(Duration::from_secs(20))?;
//! assert!(report.is_complete(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! Give the shutdown less time than the supervisor gives the process: systemd waits for 90 s by default, and Kubernetes
//! for 30 s.
//!
//! # The end of a part of a program
//!
//! | the part | call |
//! |---|---|
//! | no longer needs its queue, and need not wait for its items | drop the handles: accepted items still run |
//! | frees something that its items use | [`destroy`](crate::WorkQueue::destroy): waits, cancels timers, and refuses all submissions afterwards |
//! | must end soon | [`destroy_now`](crate::WorkQueue::destroy_now): as `destroy`, but pending items do not run, and running items are asked to stop; it waits for them, and [`destroy_now_timeout`](crate::WorkQueue::destroy_now_timeout) waits for a given time at most |
//! | pauses until all of its items have run | [`drain`](crate::WorkQueue::drain): refuses submissions from outside meanwhile |
//! | frees something that one reusable item uses | [`disable_and_wait`](crate::Work::disable_and_wait) |
//! | stops a periodic item | drop its handle (dropping the handle of any other item detaches the item), or [`cancel_and_wait`](crate::PeriodicHandle::cancel_and_wait) |
//!
//! Each wait has a form with a timeout. An item cannot drain or destroy its own queue: the call returns
//! [`WaitError::WouldDeadlock`](crate::WaitError::WouldDeadlock).
//!
//! # A long item that should stop early
//!
//! An item that has begun runs to its end, unless it asks from time to time whether it should stop. When the time of a
//! shutdown runs out, [`is_cancelled`](crate::is_cancelled) becomes true in each running item. The shutdown then
//! returns at once, and a second shutdown would not wait for these items, either. The page
//! [cancellation](super::cancellation) has all ways to ask an item to stop.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Executor, WorkQueue};
//! use std::time::Duration;
//!
//! let executor = Executor::builder().build()?;
//! let search = WorkQueue::builder("search").build_on(&executor)?;
//! let endless = search.spawn(|| (0u64..).find(|_| cmwq::is_cancelled()))?;
//! let report = executor.shutdown(Duration::from_millis(10))?;
//! println!("{report}");
//! println!("stopped: {:?}", endless.join());
//! # Ok(())
//! # }
//! ```
//!
//! If `main` then returns, the items that still run end with the process. Instead, a service can ask its items to stop
//! before the shutdown, and give them a little more time to end. To stop the items before the shutdown, give all items
//! of the service one token, and divide the time between a drain and the shutdown:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{CancelToken, Executor, WorkQueue};
//! use std::time::Duration;
//!
//! let executor = Executor::builder().build_global()?;
//! let (search, service) = (WorkQueue::new("search"), CancelToken::new());
//! search.item(|| (0u64..).find(|_| cmwq::is_cancelled())).token(&service).spawn_detached()?;
//!
//! // Wait for SIGTERM, for example by `signal_hook::iterator::Signals::new([SIGTERM])?.forever().next()`.
//! if search.drain_timeout(Duration::from_millis(15)).is_err() { // In a service, 15 s.
//!     service.cancel(); // Running items are asked to stop, and the others do not begin.
//! }
//! let report = executor.shutdown(Duration::from_secs(5))?;
//! assert!(report.is_complete(), "{report}");
//! # Ok(())
//! # }
//! ```
