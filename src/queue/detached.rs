//! Queueing what nobody will wait for.

use crate::engine::placement::Place;
use crate::{Refused, WorkQueue};

/// Items without a handle.
impl WorkQueue {
    /// Queues a closure that runs once, and that nobody will join or cancel: as [`spawn`](Self::spawn) whose handle is
    /// dropped at once, for less. For what is told to go and forgotten; a [`flush`](Self::flush) waits for it all the same.
    ///
    /// What it returns is dropped by the worker that ran it, so that may be of any type. If it panics, the executor's
    /// [`panic_handler`](crate::ExecutorBuilder::panic_handler) is told, and nobody else.
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
    /// Those of [`spawn`](Self::spawn), with the closure.
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
