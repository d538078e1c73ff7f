//! The limit of a queue's active items, which can change while the queue is in use.

use crate::engine::queue::workqueue::Queue;
use crate::error::limit::SetMaxActiveError;
use crate::policy::admission::NO_LIMIT;
use crate::queue::WorkQueue;

impl WorkQueue {
    /// Returns the limit of active items. The limit applies separately to the items that were queued on each CPU, or to
    /// the whole queue if the queue was built with [`max_active_total`](crate::WorkQueueBuilder::max_active_total).
    /// Returns 1 for an ordered queue, and `None` for a [bh](crate::kernel::bh) queue, which has no such limit. In a
    /// forked child, returns the limit that the queue was built with.
    #[must_use]
    pub fn max_active(&self) -> Option<usize> {
        Some(self.handle.queue().max_active()).filter(|items| *items != NO_LIMIT)
    }

    /// Sets the limit of the queue's active items. The limit must be 1 to 512, or 1 to 2000 for a plain
    /// [unbound](Self::unbound) queue.
    ///
    /// Raising the limit immediately starts waiting items, in order. But while a preempted thread is handing a slot to
    /// an item, later items can overtake this item. Lowering the limit does not stop active items, so the new limit
    /// holds only once enough of these items have ended. In a forked child, the call checks the value, but has no other
    /// effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("uploads").max_active(2).build()?;
    /// queue.set_max_active(8)?;
    /// assert_eq!(queue.max_active(), Some(8));
    /// let error = queue.set_max_active(513).unwrap_err();
    /// assert_eq!(error.to_string(), "max_active is 513; it must be 1 to 512");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the queue is an ordered or a bh queue, or if the value is out of
    /// range.
    #[doc(alias = "workqueue_set_max_active")]
    pub fn set_max_active(&self, items: usize) -> Result<(), SetMaxActiveError> {
        set_max_active(self.handle.queue(), items)
    }
}

/// Sets the limit of active items, if the queue has a limit that can be set. The caller holds a reference to the queue.
pub(crate) fn set_max_active(queue: &Queue, items: usize) -> Result<(), SetMaxActiveError> {
    if queue.spec.is_bh {
        return Err(SetMaxActiveError::Bh);
    }
    if queue.spec.ordered {
        return Err(SetMaxActiveError::Ordered);
    }
    let limit = queue.spec.most_active;
    if !(1..=limit).contains(&items) {
        return Err(SetMaxActiveError::MaxActive { value: items, limit });
    }
    queue.set_max_active(items);
    Ok(())
}
