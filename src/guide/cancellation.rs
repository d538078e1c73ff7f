//! Items that stop early, and items that are too late.
//!
//! Nothing interrupts an item that has begun. An item stops early only if it asks whether it should stop. These calls
//! ask an item to stop:
//!
//! | to stop | call | an item that has not begun |
//! |---|---|---|
//! | one item | [`JoinHandle::stop`](crate::JoinHandle::stop) | is cancelled, and its closure is dropped |
//! | one item, when its handle or a future that awaits it is dropped | [`JoinHandle::stop_on_drop`](crate::JoinHandle::stop_on_drop) | is cancelled |
//! | all items of a request, a session, a connection | [`CancelToken::cancel`](crate::CancelToken::cancel) of the [token](crate::Submission::token) with which they were submitted | does not run |
//! | the present run of a reusable item | [`Work::stop`](crate::Work::stop) | is cancelled |
//! | a periodic item and its present call | [`PeriodicHandle::stop`](crate::PeriodicHandle::stop), or a token | does not run |
//! | the items of a scope | [`Scope::item`](crate::Scope::item) with a [token](crate::ScopedSubmission::token), or their handles | does not run |
//! | all items of a queue | [`WorkQueue::destroy_now`](crate::WorkQueue::destroy_now) | is cancelled |
//! | all items of an executor, after a time | [`Executor::shutdown`](crate::Executor::shutdown), when its time runs out | is dropped and reported |
//! | an item after a time | [`Submission::within`](crate::Submission::within), [`deadline`](crate::Submission::deadline) | does not run if it is too late |
//!
//! # How an item asks
//!
//! Any item may call [`is_cancelled`](crate::is_cancelled), however it was submitted. An item that never calls
//! `is_cancelled` pays nothing for it. To end the item with `?`, take the [token](crate::cancel_token) once, and
//! [check](crate::CancelToken::check) it:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{Cancelled, WorkQueue};
//!
//! fn checksum(pages: &[Vec<u8>]) -> Result<u64, Cancelled> {
//!     let token = cmwq::cancel_token();
//!     pages.iter().map(|page| token.check().map(|()| page.iter().map(|byte| u64::from(*byte)).sum::<u64>())).sum()
//! }
//!
//! let pages = vec![vec![1; 4096]; 8];
//! let sum = WorkQueue::new("sums").spawn(move || checksum(&pages))?;
//! assert_eq!(sum.join()??, 8 * 4096);
//! # Ok(())
//! # }
//! ```
//!
//! # Waits that end early
//!
//! A wait that a cancel can end early has a name of its own, because the usual wait has no error for this case:
//!
//! | wait | form that ends early |
//! |---|---|
//! | [`blocking::thread::sleep`](crate::blocking::thread::sleep) | [`sleep_cancellable`](crate::blocking::thread::sleep_cancellable) |
//! | [`Receiver::recv`](crate::blocking::channel::Receiver::recv) | [`recv_cancellable`](crate::blocking::channel::Receiver::recv_cancellable) |
//! | [`Sender::send`](crate::blocking::channel::Sender::send) | [`send_cancellable`](crate::blocking::channel::Sender::send_cancellable) |
//! | [`Condvar::wait`](crate::blocking::sync::Condvar::wait), `wait_while` | [`wait_cancellable`](crate::blocking::sync::Condvar::wait_cancellable), [`wait_while_cancellable`](crate::blocking::sync::Condvar::wait_while_cancellable) |
//! | [`JoinHandle::join`](crate::JoinHandle::join) | [`join_cancellable`](crate::JoinHandle::join_cancellable) |
//! | [`WorkQueue::reserve`](crate::WorkQueue::reserve) | [`reserve_cancellable`](crate::WorkQueue::reserve_cancellable) |
//!
//! Outside of items and of [`CancelToken::enter`](crate::CancelToken::enter), the forms that end early behave like the
//! usual waits. To end any other wait of an item, such as a read of a socket, let another thread or a task
//! [wait](crate::CancelToken::wait) until the item's token is cancelled. That thread or task then ends the item's wait,
//! for example by a shutdown of the socket.
//!
//! # Requests with parts
//!
//! Give each request a token. Cancel the token to end all parts of the request when the client has gone, when one part
//! fails, or when the time is over. If a part has parts of its own, give these parts children of its token:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking::thread;
//! use cmwq::{CancelToken, JoinError, QueueError, WorkQueue};
//! use std::time::Duration;
//!
//! let queue = WorkQueue::new("requests");
//! let service = CancelToken::new();
//! let request = service.child_within(Duration::from_secs(30));
//!
//! let parts = queue.clone();
//! let page = queue.item(move || {
//!     let own = cmwq::cancel_token(); // A child of `request`.
//!     let part = parts.item(|| thread::sleep_cancellable(Duration::from_secs(3600)).is_ok());
//!     Ok::<_, QueueError>(part.token(&own).spawn()?.join().unwrap_or(false))
//! });
//! let page = page.token(&request).spawn()?;
//! request.cancel(); // The client has gone.
//! match page.join() {
//!     Ok(is_complete) => assert!(!is_complete?, "the part stopped early"),
//!     Err(JoinError::Cancelled) => println!("the page did not begin"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Work that is too late
//!
//! Under overload, items wait longer than their clients do. With a deadline, the queue does not run items that no
//! client waits for any more, so it catches up. [`Counters::expired`](crate::Counters::expired) counts the items that
//! did not run because their deadline had passed.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{JoinError, WorkQueue};
//! use std::time::Duration;
//!
//! let queue = WorkQueue::builder("quotes").max_pending(1000).build()?;
//! let quote = queue.item(|| 42).within(Duration::from_millis(500)).spawn()?;
//! match quote.join() {
//!     Ok(price) => println!("{price}"),
//!     Err(JoinError::DeadlinePassed) => println!("too busy, try again later"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! * If the token of an item is cancelled, either the item runs, or its owner learns that it does not run. The item
//!   does not run if the cancel comes before a worker takes the item.
//! * A submission with a cancelled token, or with a deadline in the past, is accepted if there is room. A delayed
//!   submission without bytes needs no room. The item's owner learns that the item does not run, just as if the cancel
//!   or the deadline had come after the submission. So a caller handles one case instead of two.
//! * A cancel never waits for an item. The thread that cancels calls the wakers of tasks that wait, and drops the
//!   closures of delayed items. Do not cancel a token while you hold a lock that a waker or a destructor needs.
//! * If all handles of a parent token are dropped, a cancel of one of the parent's ancestors still cancels the parent's
//!   children. A token takes no memory once it and the tokens below it are no longer used.
//! * A deadline wakes the threads that wait for the token, and the threads and tasks that wait for the item.
