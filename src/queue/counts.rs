//! How much there is in a queue, and what has become of it.

use crate::engine::starts::StartCounts;
use crate::{QueueError, WorkQueue};

impl WorkQueue {
    /// Where its items have started so far: at home, that is in the pod of the CPU that they were queued on, or
    /// elsewhere. Costs O(CPUs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails").build()?;
    /// queue.spawn(|| ())?.join()?;
    /// let starts = queue.starts();
    /// assert_eq!(starts.home + starts.stolen, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn starts(&self) -> StartCounts {
        self.handle.queue().starts()
    }

    /// How often a pool that could not have a worker has called this queue's [rescuer](crate::WorkQueueBuilder::rescuer). 0
    /// without one.
    #[doc(alias = "PWQ_STAT_MAYDAY")]
    #[must_use]
    pub fn maydays(&self) -> u64 {
        self.handle.queue().rescuer().map_or(0, |rescuer| rescuer.maydays())
    }

    /// How many of its items the [rescuer](crate::WorkQueueBuilder::rescuer) has begun. 0 without one.
    #[doc(alias = "PWQ_STAT_RESCUED")]
    #[must_use]
    pub fn rescued(&self) -> u64 {
        self.handle.queue().rescuer().map_or(0, |rescuer| rescuer.rescued())
    }

    /// How many items wait or run: accepted, and not done. A cancelled one counts until its place in the queue is
    /// reached, and one that has just ended for a moment longer. A hint: it may have changed when this returns. Costs
    /// O(CPUs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("mail").build()?;
    /// assert!(queue.is_empty());
    /// drop(queue.spawn(|| ())?);
    /// assert!(queue.len() <= 1);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.queue().len()
    }

    /// Does nothing wait or run? A hint, as [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Do items that were queued on this CPU wait because `max_active` of them are active? A hint: it may have changed
    /// when this returns. Of a queue that is limited as a whole, every CPU says the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::per_cpu("acks").build()?;
    /// for cpu in cmwq::Executor::global().cpus().iter() {
    ///     assert!(!queue.is_congested(cpu)?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`QueueError::UnknownCpu`] if the executor does not use this CPU.
    #[doc(alias = "workqueue_congested")]
    pub fn is_congested(&self, cpu: usize) -> Result<bool, QueueError> {
        let queue = self.handle.queue();
        let slot = queue.executor.placement.slot_on(cpu).ok_or(QueueError::UnknownCpu { cpu })?;
        Ok(queue.is_congested(slot))
    }
}
