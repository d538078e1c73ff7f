//! Queueing many items at once.

use crate::error::batch::{QueueBatchError, RefusedBatch, RefusedDetachedBatch};
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::work::Work;

/// These methods queue many items in one call, in order, on the caller's CPU. The pool is notified once for the whole
/// batch, or once for each 256 items of a longer batch, instead of once per item.
impl WorkQueue {
    /// Queues closures that each run once. Returns their handles. This first runs the iterator to its end, and then
    /// queues the closures. If the iterator panics, no closure is queued.
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
    /// If a closure is refused, the error contains the reason, as for [`spawn`](Self::spawn). It also contains the
    /// handles of the earlier closures, which stay accepted, and returns the refused closure and all later closures.
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

    /// Queues closures like [`spawn_batch`](Self::spawn_batch), but returns no handles, and costs less. The items
    /// cannot be joined or cancelled. The worker that runs a closure also drops the closure's result. To wait until all
    /// closures have run, flush the queue.
    ///
    /// This takes up to 256 closures from the iterator, queues them, and then continues with the next ones. If the
    /// iterator panics, the closures that are already queued run, and the others are dropped.
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
    /// If a closure is refused, the error contains the reason, as for [`spawn`](Self::spawn). It also contains the
    /// number of closures that were accepted earlier, and returns the refused closure and all later closures.
    pub fn spawn_batch_detached<I, F, T>(&self, closures: I) -> Result<(), RefusedDetachedBatch<F>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let spawned = self.handle.queue().spawn_batch_detached(closures.into_iter());
        spawned.map_err(|cut| RefusedDetachedBatch::new(cut.error, cut.accepted, cut.rest))
    }

    /// Queues reusable items, each as [`queue`](Self::queue) does. Returns the number of items that this call made
    /// pending. The other items were already pending.
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
    /// If an item is refused, the error contains the reason, as for [`queue`](Self::queue), and the item's index. The
    /// items before it stay queued, and the items after it were not tried.
    pub fn queue_batch(&self, works: &[Work]) -> Result<usize, QueueBatchError> {
        let works = works.iter().map(|work| &work.item);
        let queued = self.handle.queue().queue_batch(works);
        queued.map_err(|cut| QueueBatchError::new(cut.error, cut.index, cut.newly_pending))
    }
}
