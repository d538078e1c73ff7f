//! Shutting an executor down, and the report of what remains.

use std::fmt;
use std::time::Duration;

use crate::blocking;
use crate::engine::executor::shutdown::Remains;
use crate::engine::refusal::ShutdownError;
use crate::executor::Executor;
use crate::sys::wait::Until;

/// The report of a shutdown: items and threads that did not end in time. Empty if all ended.
///
/// Returned by [`Executor::shutdown`]. Its `Display` is meant for logs.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = cmwq::Executor::builder().build()?;
/// let report = executor.shutdown(std::time::Duration::from_secs(5))?;
/// assert!(report.is_complete());
/// assert_eq!(report.to_string(), "everything has run, and all threads have ended");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The queues that have remaining items or had armed timers, in the order in which they were made.
    pub queues: Vec<QueueReport>,
    /// Threads that had not ended when the time was up. A thread whose thread-local destructors run has not ended.
    pub threads: usize,
}

/// The items and timers of one queue that a shutdown did not finish.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let executor = cmwq::Executor::builder().build()?;
/// let queue = cmwq::WorkQueue::new("reminders").build_on(&executor)?;
/// drop(queue.spawn_after(Duration::from_secs(3600), || println!("time for tea"))?);
/// let report = executor.shutdown(Duration::from_secs(5))?;
/// assert!(report.is_complete(), "a timer that is not due is no unfinished work");
/// assert_eq!((report.queues[0].name.as_str(), report.queues[0].timers), ("reminders", 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueReport {
    /// The queue's name; two queues may have the same name.
    pub name: String,
    /// Items that had not begun when the time was up, and were dropped. A join returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled), and reusable items are pending no more.
    pub dropped: usize,
    /// Items that had begun, and go on. An item that a thread was just queueing when the time was up counts here, too,
    /// and is dropped.
    pub running: usize,
    /// Armed timers, which were cancelled.
    pub timers: usize,
}

impl ShutdownReport {
    fn new(remains: Remains) -> Self {
        let queues = remains.queues.into_iter().map(|queue| QueueReport {
            name: queue.name,
            dropped: queue.dropped,
            running: queue.running,
            timers: queue.timers,
        });
        Self { queues: queues.collect(), threads: remains.threads }
    }

    /// Returns whether all accepted items have run and every thread has ended. Armed timers do not count, since they
    /// were not due.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.threads == 0 && self.queues.iter().all(|queue| queue.dropped + queue.running == 0)
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_complete(), self.threads) {
            (true, _) => write!(f, "everything has run, and all threads have ended")?,
            (false, threads) => write!(f, "the time ran out with {threads} threads left")?,
        }
        for queue in &self.queues {
            let QueueReport { name, dropped, running, timers } = queue;
            write!(f, "; {name}: {dropped} dropped, {running} running, {timers} timers cancelled")?;
        }
        Ok(())
    }
}

impl Executor {
    /// Ends the executor: refuses new work, runs the accepted items, and ends the threads. Waits for that under a
    /// blocking guard, for `timeout` at most. Returns a report of what did not end.
    ///
    /// From the call on, only items of this executor may submit, to any of its queues, until all items have run. Other
    /// submissions are refused with [`QueueError::ShutDown`](crate::QueueError::ShutDown), and no queue can be built
    /// any more. Frozen queues thaw. Armed timers are cancelled.
    ///
    /// If the time runs out, items that have not begun are dropped, on the calling thread. Their owners learn of it:
    /// joins and scopes return. Items that have begun go on, and their threads end after them. The closures'
    /// destructors should not wait for work of this executor.
    ///
    /// A thread has ended when its thread-local destructors have run, and it runs no code any more. That also holds for
    /// threads that ended earlier.
    ///
    /// After the call, each accepted item has run, was cancelled, or is in the report. A second shutdown returns at
    /// once, with an empty report, even while the first is in progress.
    ///
    /// To give up an executor without waiting, drop its handles; nothing is lost by that, while the process lives.
    ///
    /// The [global](Self::global) executor belongs to the whole process, so this refuses to end it. Use the
    /// [`GlobalExecutor`](crate::GlobalExecutor) that [`build_global`](crate::ExecutorBuilder::build_global) has
    /// returned.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, QueueError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let executor = Executor::builder().build()?;
    /// let queue = WorkQueue::ordered("journal").build_on(&executor)?;
    /// let line = queue.spawn(|| "written")?;
    /// let report = executor.shutdown(Duration::from_secs(10))?;
    /// assert!(report.is_complete(), "{report}");
    /// assert_eq!(line.join()?, "written");
    /// assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::ShutDown);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`ShutdownError::Global`] if this is the global executor.
    /// * [`ShutdownError::WouldDeadlock`] if the caller is a thread of this executor (in an item, a hook or a
    ///   destructor), or an item of another executor that is pending on a queue of this one.
    /// * [`ShutdownError::Forked`] in a forked process.
    ///
    /// After an error, nothing was changed.
    pub fn shutdown(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        if self.is_global() { Err(ShutdownError::Global) } else { self.end(timeout) }
    }

    /// As [`shutdown`](Self::shutdown), also for the global executor: the caller has the right to end it.
    pub(super) fn end(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        blocking(|| self.inner.shutdown(Until::after(timeout))).map(ShutdownReport::new)
    }
}
