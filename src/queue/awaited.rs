//! Functions by which tasks wait for a queue.

use std::sync::Arc;

use crate::engine::queue::awaited;
use crate::engine::refusal::WaitError;
use crate::queue::WorkQueue;

/// These calls are for tasks of an async runtime. Their futures need no runtime of a particular kind. Each call except
/// `wait_idle_async` begins its work at once, before its future is polled. The future only waits until this work has
/// ended.
impl WorkQueue {
    /// Begins a [`flush`](Self::flush). The returned future is ready when every item that was queued before this call
    /// has ended. An item that is queued later can itself wait for the flush without a deadlock, except in the case
    /// that the documentation of `flush` describes. Dropping the future ends only the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("mails");
    /// queue.spawn_detached(|| println!("sent"))?;
    /// let flushed = async { queue.flush_async().await };
    /// # cmwq::blocking::block_on(flushed)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns [`WaitError::Forked`] in a forked process. Under [`block_on`](crate::blocking::block_on), it
    /// returns [`WaitError::WouldDeadlock`] if `flush` would return this error.
    pub fn flush_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + use<> {
        awaited::flush(Arc::clone(&self.handle))
    }

    /// Waits until the queue has no items, as [`wait_idle`](Self::wait_idle) does. During the wait, other tasks and
    /// threads may submit items.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("mails");
    /// queue.spawn_detached(|| println!("sent"))?;
    /// let idle = async { queue.wait_idle_async().await };
    /// # cmwq::blocking::block_on(idle)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`flush_async`](Self::flush_async).
    pub fn wait_idle_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + use<> {
        awaited::idle(Arc::clone(&self.handle))
    }

    /// Begins a [`drain`](Self::drain). From this call on, the queue accepts only submissions by its own items. The
    /// returned future is ready when the queue is empty. When the future is ready or is dropped, the queue accepts all
    /// submissions again, unless another drain is still in progress.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("walk");
    /// let again = queue.clone();
    /// queue.spawn_detached(move || again.spawn_detached(|| println!("a later step")).unwrap())?;
    /// let drained = async { queue.drain_async().await };
    /// # cmwq::blocking::block_on(drained)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`flush_async`](Self::flush_async).
    pub fn drain_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + use<> {
        awaited::drain(Arc::clone(&self.handle))
    }

    /// Begins to [`destroy`](Self::destroy) the queue. From this call on, the queue accepts only submissions by its own
    /// items. The returned future is ready when the queue is empty, and returns the number of timers that were
    /// cancelled. If the future is dropped, the queue still refuses all submissions except those by its own items, and
    /// a later `destroy` continues the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("plugin");
    /// queue.spawn_detached(|| println!("still runs"))?;
    /// let destroyed = async { queue.destroy_async().await };
    /// # assert_eq!(cmwq::blocking::block_on(destroyed)?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`flush_async`](Self::flush_async). Even after [`WaitError::WouldDeadlock`], the queue
    /// accepts only submissions by its own items, because the call itself has begun to end the queue.
    pub fn destroy_async(&self) -> impl Future<Output = Result<usize, WaitError>> + Send + Sync + use<> {
        awaited::destroy(Arc::clone(&self.handle))
    }

    /// Begins to end the queue without running the items that have not begun, as [`destroy_now`](Self::destroy_now)
    /// does. From this call on, the items that have not begun are cancelled, and the running items are asked to stop.
    /// The returned future is ready when the queue is empty, and returns the number of timers that were cancelled. If
    /// the future is dropped, no further item begins, and a later `destroy` or `destroy_now` continues the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("plugin");
    /// queue.spawn_detached(|| while !cmwq::is_cancelled() {})?;
    /// let ended = async { queue.destroy_now_async().await };
    /// # assert_eq!(cmwq::blocking::block_on(ended)?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`destroy_async`](Self::destroy_async). Even after [`WaitError::WouldDeadlock`], the
    /// queue's items are given up: those that have not begun do not run, and the running items are asked to stop.
    pub fn destroy_now_async(&self) -> impl Future<Output = Result<usize, WaitError>> + Send + Sync + use<> {
        awaited::destroy_now(Arc::clone(&self.handle))
    }
}
