//! The shutdown of an executor, and the report of what remains after it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking;
use crate::engine::executor::awaited;
use crate::engine::executor::shutdown::Remains;
use crate::engine::refusal::ShutdownError;
use crate::executor::Executor;
use crate::sys::wait::Until;

/// The report of a shutdown. The report counts the items and threads that did not end in time, and the timers that were
/// cancelled.
///
/// [`Executor::shutdown`] returns this report. The report's `Display` form is meant for logs.
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
    /// The queues with remaining items or cancelled timers, in the order in which the queues were made.
    pub queues: Vec<QueueReport>,
    /// The number of threads that had not ended when the time ran out. A thread whose thread-local destructors still
    /// run has not ended.
    pub threads: usize,
}

/// The items of one queue that a shutdown did not finish, and the queue's timers that the shutdown cancelled.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let executor = cmwq::Executor::builder().build()?;
/// let queue = cmwq::WorkQueue::builder("reminders").build_on(&executor)?;
/// drop(queue.item(|| println!("time for tea")).after(Duration::from_secs(3600)).spawn()?);
/// let report = executor.shutdown(Duration::from_secs(5))?;
/// assert!(report.is_complete(), "a timer that is not due is no unfinished work");
/// assert_eq!((report.queues[0].name.as_str(), report.queues[0].timers), ("reminders", 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueReport {
    /// The queue's name. Two queues can have the same name.
    pub name: String,
    /// The number of items that had not begun when the time ran out, and were dropped. A join of a dropped item returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled). A dropped reusable item is not pending any more.
    pub dropped: usize,
    /// The number of items that had begun and had not ended when the time ran out. If a thread was just queueing,
    /// passing on or dropping an item when the time ran out, this item may count here, although it does not run. If a
    /// reusable item is running, its next run may also count here.
    pub running: usize,
    /// The number of the queue's armed timers, which the shutdown cancelled.
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

    /// Returns whether all accepted items have run and every thread has ended. Armed timers do not count, because they
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
    /// Ends the executor: refuses new work, runs the accepted items, and ends the threads. Waits under a blocking guard
    /// until all threads have ended, for `timeout` at most. Returns a report of the items and threads that did not end.
    ///
    /// From the start of the call until all items have run, only items of this executor may submit to its queues. Other
    /// submissions are refused with [`QueueError::ShutDown`](crate::QueueError::ShutDown), and no queue can be built
    /// any more. Frozen queues thaw. Armed timers are cancelled.
    ///
    /// If the time runs out, the calling thread drops the items that have not begun. Joins of dropped items then
    /// return, and so do scopes that contain dropped items. Items that have begun are [asked to
    /// stop](crate::is_cancelled). Items that have begun run until they return, and their threads end afterwards. The
    /// destructors of dropped closures should not wait for work of this executor.
    ///
    /// If the caller is an item that runs on another executor, an item of this executor may queue the calling item to a
    /// queue of this executor during the call. The call cannot wait for the calling item, so it drops the items that
    /// have not begun as if the time had run out.
    ///
    /// A thread has ended when its thread-local destructors have run and it runs no more code. The shutdown also waits
    /// for threads that left the executor earlier and still run thread-local destructors.
    ///
    /// After the call, each accepted item has run, was cancelled, or is in the report. A second shutdown immediately
    /// returns an empty report, even while the first shutdown is in progress.
    ///
    /// To give up an executor without waiting, drop its handles. Dropping the handles loses no accepted item while the
    /// process lives.
    ///
    /// The [global](Self::global) executor belongs to the whole process, so this method refuses to end it. To end it,
    /// use the [`GlobalExecutor`](crate::GlobalExecutor) that [`build_global`](crate::ExecutorBuilder::build_global)
    /// has returned.
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
    ///   destructor). The call also returns this error if the caller is an item that runs on another executor and is
    ///   pending on a queue of this executor.
    /// * [`ShutdownError::Forked`] in a forked process.
    ///
    /// If the call returns an error, it has changed nothing.
    pub fn shutdown(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        if self.is_global() { Err(ShutdownError::Global) } else { self.end(timeout) }
    }

    /// Begins a [`shutdown`](Self::shutdown). The returned future is ready when the shutdown is over. If the future is
    /// dropped, the shutdown continues.
    ///
    /// A thread that is made for this call performs the shutdown. If the system can make no thread, the call itself
    /// performs the shutdown, and waits under a blocking guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::Executor;
    /// use std::time::Duration;
    ///
    /// let executor = Executor::builder().build()?;
    /// let end = async {
    ///     let report = executor.shutdown_async(Duration::from_secs(10)).await?;
    ///     assert!(report.is_complete(), "{report}");
    ///     Ok::<_, cmwq::ShutdownError>(())
    /// };
    /// # cmwq::blocking::block_on(end)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns [`ShutdownError::Global`] or [`ShutdownError::Forked`] as `shutdown` does. With either error,
    /// nothing has changed. If an item awaits the shutdown of its own executor under
    /// [`block_on`](crate::blocking::block_on), the future returns [`ShutdownError::WouldDeadlock`], and the shutdown
    /// continues. If the system can make no thread, the future returns `WouldDeadlock` whenever `shutdown` would, and
    /// nothing has changed.
    pub fn shutdown_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<ShutdownReport, ShutdownError>> + Send + Sync + use<> {
        let begun = if self.is_global() { Err(ShutdownError::Global) } else { Ok(self.end_async(timeout)) };
        async { begun?.await }
    }

    /// Does the same as [`shutdown_async`](Self::shutdown_async), but also ends the global executor.
    pub(super) fn end_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<ShutdownReport, ShutdownError>> + Send + Sync + use<> {
        let ends = awaited::shutdown(Arc::clone(&self.inner), Until::after(timeout));
        async { ends.await.map(ShutdownReport::new) }
    }

    /// Does the same as [`shutdown`](Self::shutdown), but also ends the global executor. The caller has the right to
    /// end the executor.
    pub(super) fn end(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        blocking(|| self.inner.shutdown(Until::after(timeout))).map(ShutdownReport::new)
    }
}
