//! The counters, latencies and length of a queue.

use crate::engine::refusal::QueueError;
use crate::policy::counters::Counters;
use crate::policy::histogram::Latency;
use crate::queue::WorkQueue;

impl WorkQueue {
    /// Returns the counters of the queue's items so far, on all CPUs together. Reading them stops no thread. All zeros
    /// in a forked process. Costs O(CPUs · threads).
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

    /// Returns how long the queue's items have waited and run, on all CPUs together. `None` unless they are measured:
    /// [`WorkQueueBuilder::histograms`](crate::WorkQueueBuilder::histograms), [`set_histograms`](Self::set_histograms).
    ///
    /// Each item that runs for microseconds or more is measured. Of shorter items, a random sample is measured, each of
    /// which stands for up to 32. An item that is queued while it is pending has waited since it was queued first.
    /// Costs O(CPUs).
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

    /// Turns the measuring of items on or off. The measurements so far are kept, and are visible again once it is on
    /// again. Does nothing in a forked process.
    pub fn set_histograms(&self, yes: bool) {
        self.handle.queue().time_items(yes);
    }

    /// Returns how many items wait or run: they are accepted, and have not ended. A cancelled item counts until a
    /// worker reaches its place in the queue, and an item that has just ended counts for a moment longer. A hint: it
    /// may have changed when this returns. Costs O(CPUs).
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

    /// Returns whether no item waits or runs. A hint, as [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether items that were queued on this CPU wait because `max_active` of them are active. A hint: it may
    /// have changed when this returns. In a queue that is limited as a whole, every CPU gives the same answer.
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
