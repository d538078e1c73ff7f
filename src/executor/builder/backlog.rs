//! The bound on the pending items of all queues.

use crate::executor::builder::ExecutorBuilder;

impl ExecutorBuilder {
    /// Limits the number of items that are accepted and have not begun, in all queues together. So the executor's items
    /// never need more memory than the program can spare. It must be at least 1. By default, there is no such limit.
    ///
    /// The queues share the room. A queue is full when it has eight times as many pending items as there is room left
    /// in the executor. So the queue with the longest backlog is refused first, and other queues still find room: a
    /// lone queue fills eight ninths of it, and two queues fill eight seventeenths each. A queue without pending items
    /// always accepts one. So the number of items can exceed the limit by one for each queue, and by a few more if
    /// threads submit at the same moment.
    ///
    /// A full queue refuses the item with [`QueueError::Full`](crate::QueueError::Full), or lets the issuer wait or run
    /// the item ([`WhenFull`](crate::WhenFull)), as at its own
    /// [`max_pending`](crate::WorkQueueBuilder::max_pending). That limit applies, too. [Permits](crate::Permit) count
    /// as items, and armed timers do not. When a timer fires, its item is accepted in any case.
    ///
    /// With a limit, each submission and each start of an item changes one more number, which all CPUs share. While
    /// issuers wait for room, each start of an item also checks their queues for room.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, WorkQueue};
    ///
    /// let executor = cmwq::Executor::builder().max_pending(90).build()?;
    /// let busy = WorkQueue::ordered("busy").build_on(&executor)?;
    /// let (open, door) = std::sync::mpsc::channel::<()>();
    /// busy.spawn_detached(move || drop(cmwq::blocking(|| door.recv())))?;
    /// let refused = loop {
    ///     if let Err(refused) = busy.spawn_detached(|| ()) {
    ///         break refused;
    ///     }
    /// };
    /// assert_eq!(refused.error, QueueError::Full);
    /// // Another queue still finds room.
    /// let other = WorkQueue::builder("other").build_on(&executor)?;
    /// assert_eq!(other.spawn(|| 1 + 1)?.join()?, 2);
    /// # open.send(())?;
    /// # busy.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If `items` is 0, [`build`](Self::build) returns
    /// [`BuildExecutorError::MaxPending`](crate::BuildExecutorError::MaxPending).
    pub fn max_pending(mut self, items: usize) -> Self {
        self.max_pending = Some(items);
        self
    }
}
