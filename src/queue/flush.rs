//! Waiting for the items of a queue.

use std::time::Duration;

use crate::engine::refusal::WaitError;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl WorkQueue {
    /// Waits under a [blocking guard](crate#guards) until every item that was queued before this call has ended.
    ///
    /// The call does not wait for items that are queued later, even if other threads flush the same queue. Each flush
    /// waits only for the items that were queued before its own call. So an item that is queued after the call may
    /// itself wait until the flush has ended, with one exception. If another thread is still queueing a
    /// [`Work`](crate::Work) when the flush begins, the flush may wait for a later run of this `Work`. This later run
    /// must not wait for the flush.
    ///
    /// The call costs O(CPUs) for a queue that is used on all CPUs. Until the items that were queued before the call
    /// have ended, each submission to the same queue takes one more lock and makes one more allocation. A flush that
    /// times out earlier does not end this extra cost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let queue = cmwq::WorkQueue::new("counts");
    /// let count = Arc::new(AtomicU32::new(0));
    /// for _ in 0..10 {
    ///     let count = Arc::clone(&count);
    ///     queue.spawn(move || count.fetch_add(1, Ordering::Relaxed))?;
    /// }
    /// queue.flush()?;
    /// assert_eq!(count.load(Ordering::Relaxed), 10);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the calling item belongs to this queue, is pending on this queue, or
    /// occupies a bh thread that the queue's items need. Returns [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::FOREVER)
    }

    /// Flushes the queue as [`flush`](Self::flush) does, but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("counts");
    /// drop(queue.spawn(|| ())?);
    /// queue.flush_timeout(Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`flush`](Self::flush). Returns [`WaitError::TimedOut`] if the items have not ended
    /// in time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::after(timeout))
    }

    /// Waits under a blocking guard until the queue is idle, which means that no item waits or runs. During the call,
    /// other threads may continue to submit items, and items may submit further items. The call returns at a moment
    /// when all items have ended, so it may wait for ever if items arrive without a pause. The queue can be idle while
    /// timers of its items are armed. In contrast, a [`flush`](Self::flush) waits only for the items that were queued
    /// before the call. A [`drain`](Self::drain) lets only the queue's own items submit while it waits.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("walk");
    /// let again = queue.clone();
    /// queue.spawn_detached(move || again.spawn_detached(|| println!("a later step")).is_ok())?;
    /// queue.wait_idle()?;
    /// assert!(queue.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`flush`](Self::flush).
    #[doc(alias = "join")]
    pub fn wait_idle(&self) -> Result<(), WaitError> {
        self.handle.queue().wait_idle(Until::FOREVER)
    }

    /// Waits as [`wait_idle`](Self::wait_idle) does, but for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::WaitError;
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("slow");
    /// let (go, door) = std::sync::mpsc::channel::<()>();
    /// let slow = queue.spawn(move || cmwq::blocking(|| door.recv()))?;
    /// assert_eq!(queue.wait_idle_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// go.send(())?;
    /// queue.wait_idle_timeout(Duration::from_secs(60))?;
    /// # slow.join()??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait_idle`](Self::wait_idle). Returns [`WaitError::TimedOut`] if the queue was not
    /// idle in time.
    pub fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.handle.queue().wait_idle(Until::after(timeout))
    }
}
