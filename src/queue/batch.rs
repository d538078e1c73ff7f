//! Queueing many items at once.

use crate::error::batch::{QueueBatchError, RefusedBatch, RefusedDetachedBatch};
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::work::Work;

/// Many items at once, on the CPU of the caller, in their order. The pool is notified once for all of them, or once for
/// each 256 of a longer batch, instead of once per item.
impl WorkQueue {
    /// Queues closures that run once each. Returns their handles. Runs the iterator to its end first: nothing is queued
    /// before it has ended, and nothing at all if it panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares").build()?;
    /// let squares = queue.spawn_batch((1..=3).map(|n| move || n * n))?;
    /// let sum: i32 = squares.into_iter().map(|square| square.join()).sum::<Result<_, _>>()?;
    /// assert_eq!(sum, 14);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If a closure is refused: the reason, as for [`spawn`](Self::spawn); the handles of the closures before it, which
    /// stay accepted; and the refused closure with those behind it.
    pub fn spawn_batch<I, F, T>(&self, closures: I) -> Result<Vec<JoinHandle<T>>, RefusedBatch<F, T>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let handles = |raw: Vec<_>| raw.into_iter().map(JoinHandle::new).collect();
        match self.handle.queue().spawn_batch(closures.into_iter().collect()) {
            Ok(accepted) => Ok(handles(accepted)),
            Err(cut) => Err(RefusedBatch::new(cut.error, handles(cut.accepted), cut.rest)),
        }
    }

    /// As [`spawn_batch`](Self::spawn_batch), but without handles, and cheaper: the items cannot be joined or
    /// cancelled. The worker that runs a closure drops its result. To wait until all have run, flush the queue.
    ///
    /// Takes closures from the iterator, and queues them, 256 at a time. If the iterator panics, the closures that were
    /// queued run, and the others are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares").build()?;
    /// let (send, squares) = std::sync::mpsc::channel();
    /// queue.spawn_batch_detached((1..=3).map(|n| {
    ///     let send = send.clone();
    ///     move || send.send(n * n)
    /// }))?;
    /// drop(send);
    /// assert_eq!(squares.iter().sum::<i32>(), 14);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If a closure is refused: the reason, as for [`spawn`](Self::spawn); how many were accepted before it; and the
    /// refused closure with those behind it.
    pub fn spawn_batch_detached<I, F, T>(&self, closures: I) -> Result<(), RefusedDetachedBatch<F>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let spawned = self.handle.queue().spawn_batch_detached(closures.into_iter());
        spawned.map_err(|cut| RefusedDetachedBatch::new(cut.error, cut.accepted, cut.rest))
    }

    /// Queues reusable items, each as [`queue`](Self::queue) does. Returns how many of them this call made pending; the
    /// others were pending already.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("caches").build()?;
    /// let refreshes = [Work::new(|| println!("users")), Work::new(|| println!("groups"))];
    /// assert_eq!(queue.queue_batch(&refreshes)?, 2);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If an item is refused: the reason, as for [`queue`](Self::queue), and its index. Items before it stay queued,
    /// those behind it were not tried.
    pub fn queue_batch(&self, works: &[Work]) -> Result<usize, QueueBatchError> {
        let works = works.iter().map(|work| &work.item);
        let queued = self.handle.queue().queue_batch(works);
        queued.map_err(|cut| QueueBatchError::new(cut.error, cut.index, cut.newly_pending))
    }
}
