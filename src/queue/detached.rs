//! Queueing without a handle.

use crate::engine::item::place::Place;
use crate::error::Refused;
use crate::queue::WorkQueue;

/// Items without a handle.
impl WorkQueue {
    /// Queues a closure that runs once, without a handle to join or cancel it. This is cheaper than calling
    /// [`spawn`](Self::spawn) and dropping the handle. A [`flush`](Self::flush) waits for the item as for any other
    /// item.
    ///
    /// The worker that runs the closure drops its result, which may be of any type. If the closure panics, only the
    /// executor's [`panic_handler`](crate::ExecutorBuilder::panic_handler) learns of the panic.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::mpsc;
    ///
    /// let queue = cmwq::WorkQueue::new("squares").build()?;
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
    #[doc(alias = "queue_work")]
    #[doc(alias = "schedule_work")]
    #[inline]
    pub fn spawn_detached<F, T>(&self, closure: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let queued = self.handle.queue().spawn_detached(Place::Here, closure);
        queued.map_err(|(error, closure)| Refused::new(error, closure))
    }
}
