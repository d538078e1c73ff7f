//! The executor's bounds on the number and on the bytes of the pending items of all queues.

use crate::error::BuildExecutorError;
use crate::executor::builder::ExecutorBuilder;

impl ExecutorBuilder {
    /// Limits the number of items that are accepted and have not begun, in all queues together. So a program can bound
    /// the memory that its pending items need. The limit must be at least 1. By default, there is no limit.
    ///
    /// The queues share the room. A queue is full when it has eight times as many pending items as there is room left
    /// in the executor. So the queue with the longest backlog is refused first, and other queues still find room. A
    /// lone queue fills eight ninths of the room, and two queues fill eight seventeenths each. A queue without pending
    /// items always accepts one item. So the number of items can exceed the limit by one for each queue, and by a few
    /// more if threads submit at the same moment.
    ///
    /// A full queue refuses the item with [`QueueError::Full`](crate::QueueError::Full), makes the issuer wait, or
    /// makes the issuer run the item itself. The queue's [`WhenFull`](crate::WhenFull) says which of these three
    /// happens. The same setting applies if the queue has reached its own limit,
    /// [`max_pending`](crate::WorkQueueBuilder::max_pending). [Permits](crate::Permit) count as items, and armed timers
    /// do not. When a timer fires, its item is accepted in any case.
    ///
    /// With a limit, each submission and each start of an item changes one more counter, which all CPUs share. While
    /// issuers wait for room, each start of an item also checks the queues of these issuers for room.
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

    /// Limits the bytes of the items that are accepted and have not begun, in all queues together. A closure counts
    /// only if its submission [says how many bytes](crate::Submission::bytes) the closure keeps in memory. By default,
    /// there is no limit on these bytes. A limit must be at least 1.
    ///
    /// The queues share the room in the same way as for [`max_pending`](Self::max_pending). A queue is full when its
    /// pending items have eight times as many bytes as there is room left in the executor. A queue whose pending items
    /// have no bytes always accepts one item, of any size. So the bytes can exceed the limit by one item for each
    /// queue. A program can set this limit and `max_pending`, and both limits then apply.
    ///
    /// If there is no room, the submission is refused, the issuer waits, or the issuer runs the item itself
    /// ([`WhenFull`](crate::WhenFull)), as with `max_pending`. Issuers that wait get room one after the other. An
    /// issuer overtakes only issuers of other queues. [Delayed](crate::Submission::after) items count during the delay,
    /// because they keep their closures. With a limit, an item with bytes takes a lock of the executor when it is
    /// submitted, and again when it begins.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, WorkQueue};
    ///
    /// let executor = cmwq::Executor::builder().max_pending_bytes(90 << 20).build()?;
    /// let uploads = WorkQueue::ordered("uploads").build_on(&executor)?;
    /// let (open, door) = std::sync::mpsc::channel::<()>();
    /// uploads.spawn_detached(move || drop(cmwq::blocking(|| door.recv())))?;
    /// for _ in 0..8 {
    ///     uploads.item(|| ()).bytes(10 << 20).spawn_detached()?;
    /// }
    /// let refused = uploads.item(|| ()).bytes(10 << 20).spawn().unwrap_err();
    /// assert_eq!(refused.error, QueueError::Full);
    /// assert_eq!(executor.dump().pending_bytes, Some(80 << 20));
    /// # open.send(())?;
    /// # uploads.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If `bytes` is 0, [`build`](Self::build) returns
    /// [`BuildExecutorError::MaxPendingBytes`](crate::BuildExecutorError::MaxPendingBytes).
    pub fn max_pending_bytes(mut self, bytes: u64) -> Self {
        self.max_pending_bytes = Some(bytes);
        self
    }

    /// Checks that neither `max_pending` nor `max_pending_bytes` is 0.
    pub(super) fn check_backlog(&self) -> Result<(), BuildExecutorError> {
        if self.max_pending == Some(0) {
            return Err(BuildExecutorError::MaxPending);
        }
        if self.max_pending_bytes == Some(0) {
            return Err(BuildExecutorError::MaxPendingBytes);
        }
        Ok(())
    }
}
