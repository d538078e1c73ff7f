//! How much there is in a queue, and what has become of it.

use crate::{Counters, QueueError, WorkQueue};

impl WorkQueue {
    /// What has become of its items so far, on all CPUs together. Nothing is stopped, and nobody waits for that. All
    /// zeros in a forked process. Costs O(CPUs · threads).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails").build()?;
    /// queue.spawn(|| ())?.join()?;
    /// let counters = queue.counters();
    /// assert_eq!((counters.started, counters.in_flight()), (1, 0));
    /// assert_eq!(counters.home() + counters.stolen, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "pool_workqueue_stats")]
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.handle.queue().counters()
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
