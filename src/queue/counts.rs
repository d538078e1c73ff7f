//! How much there is in a queue, and what has become of it.

use crate::{Counters, Latency, QueueError, WorkQueue};

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

    /// How long its items have waited and run, on all CPUs together. `None` unless they are timed:
    /// [`WorkQueueBuilder::histograms`](crate::WorkQueueBuilder::histograms), [`set_histograms`](Self::set_histograms).
    ///
    /// Each item that runs for microseconds or more is timed; of shorter ones a part that is drawn, each of which stands for
    /// up to 32. An item that is queued while it is pending has waited since the first time. Costs O(CPUs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails").build()?;
    /// assert!(queue.latency().is_none());
    /// queue.set_histograms(true);
    /// queue.spawn(|| ())?.join()?;
    /// let latency = queue.latency().expect("they are on");
    /// println!("99 of 100 began within {:?}", latency.queue_to_start.quantile(0.99));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn latency(&self) -> Option<Latency> {
        self.handle.queue().latency()
    }

    /// Times items from now on, or no more. What was measured before stays, and is told of again when they are timed again.
    /// Does nothing in a forked process.
    pub fn set_histograms(&self, yes: bool) {
        self.handle.queue().time_items(yes);
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
