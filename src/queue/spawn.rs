//! The submissions without options: a closure with a handle, a closure without a handle, and a reusable item.

use crate::engine::item::place::Place;
use crate::engine::refusal::QueueError;
use crate::error::refused::Refused;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::work::Work;

impl WorkQueue {
    /// Queues a closure that runs once. Returns a handle with which to join the item. For the item, the call makes one
    /// allocation at most, and none if it can reuse the memory of an earlier item. The lists of pending items take one
    /// more allocation for each block of 63 entries. While the pool is busy, the call makes no system call and waits
    /// for no lock.
    ///
    /// Everything that happens before this call happens before the closure runs. Dropping the handle detaches the item.
    /// If you do not need the handle, [`spawn_detached`](Self::spawn_detached) is cheaper. [`item`](Self::item) submits
    /// a closure with options, such as a CPU or a delay.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("sums");
    /// let sum = queue.spawn(|| (1..=100).sum::<u32>())?;
    /// assert_eq!(sum.join()?, 5050);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// All errors return the closure.
    ///
    /// * [`QueueError::Full`] if `max_pending` items are pending in the queue, or if a hundred million items wait.
    /// * [`QueueError::Draining`] if the queue is being drained, [`QueueError::Destroyed`] if the queue was destroyed,
    ///   and [`QueueError::ShutDown`] if the executor is being shut down.
    /// * [`QueueError::Forked`] in a process that was forked after the executor was made.
    #[doc(alias = "spawn_blocking")]
    #[inline]
    pub fn spawn<F, T>(&self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle.queue().spawn::<F, T>(Place::Here, closure) {
            Ok(handle) => Ok(JoinHandle::new(handle)),
            Err((error, closure)) => Err(Refused::new(self.handle.queue().count_refusal(error), closure)),
        }
    }

    pub(crate) fn spawn_at<F, T>(&self, place: Place, closure: F) -> Result<JoinHandle<T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.queue().spawn::<F, T>(place, closure).map(JoinHandle::new)
    }

    /// Queues a closure that runs once, without a handle to join or cancel it. This call is cheaper than calling
    /// [`spawn`](Self::spawn) and dropping the handle. A [`flush`](Self::flush) waits for the item as for any other
    /// item.
    ///
    /// The worker that runs the closure drops the closure's result, which may be of any type. If the closure panics,
    /// only the executor's [`panic_handler`](crate::ExecutorBuilder::panic_handler) learns of the panic.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::mpsc;
    ///
    /// let queue = cmwq::WorkQueue::new("squares");
    /// let (send, receive) = mpsc::channel();
    /// for n in 1..=3 {
    ///     let send = send.clone();
    ///     queue.spawn_detached(move || send.send(n * n))?;
    /// }
    /// drop(send);
    /// assert_eq!(receive.iter().sum::<i32>(), 14);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn), with the closure.
    #[doc(alias = "execute")]
    #[doc(alias = "queue_work")]
    #[doc(alias = "schedule_work")]
    #[inline]
    pub fn spawn_detached<F, T>(&self, closure: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let queued = self.handle.queue().spawn_detached::<F, T>(Place::Here, closure);
        queued.map_err(|(error, closure)| Refused::new(self.handle.queue().count_refusal(error), closure))
    }

    /// Queues a reusable item. Returns true if this call made the item pending. Returns false if the item was pending
    /// already. A run that was already pending sees everything that was written before this call. After the last
    /// submission, the item always runs at least once more, unless it is cancelled.
    ///
    /// At most one worker executes the item at a time. If the item is queued while it runs, it runs again afterwards.
    /// It also runs again if it queues itself, or if it is queued on another queue while it runs. The new run takes a
    /// slot of the queue on which the item was queued for this run, and follows the order of that queue.
    ///
    /// [`item`](Self::item) submits the item with options, such as a CPU or a delay.
    ///
    /// The call makes no allocation for the item. The lists of pending items take one allocation for each block of 63
    /// entries. While the pool is busy, the call takes no lock and makes no system call.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("refresh");
    /// let refresh = Work::new(|| println!("refreshed"));
    /// assert!(queue.enqueue(&refresh)?);
    /// queue.enqueue(&refresh)?; // A second run, or the same one, if that has not begun.
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`QueueError::Full`] if the item is not pending yet, and either `max_pending` items are pending in the queue
    ///   or a hundred million items wait.
    /// * [`QueueError::Disabled`] if the item is [disabled](Work::disable), or if another thread is cancelling it and
    ///   waits for its run to end.
    /// * [`QueueError::Draining`] if the queue is being drained, [`QueueError::Destroyed`] if the queue was destroyed,
    ///   and [`QueueError::ShutDown`] if the executor is being shut down.
    /// * [`QueueError::Forked`] in a process that was forked after the executor or the item was made.
    #[doc(alias = "queue")]
    #[doc(alias = "queue_work")]
    #[doc(alias = "schedule_work")]
    #[inline]
    pub fn enqueue(&self, work: &Work) -> Result<bool, QueueError> {
        self.handle.queue().queue(Place::Here, &work.item)
    }
}
