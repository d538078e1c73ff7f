//! The counters, latencies and length of a queue.

use crate::engine::refusal::QueueError;
use crate::policy::counters::Counters;
use crate::policy::histogram::Latency;
use crate::queue::WorkQueue;

impl WorkQueue {
    /// Returns the counters of the queue's items so far, on all CPUs together. Reading the counters stops no thread. In
    /// a forked process, all counters are zero. Costs O(CPUs · threads).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails");
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

    /// Returns how long the queue's items have waited and run, on all CPUs together. Returns `None` unless
    /// [`WorkQueueBuilder::histograms`](crate::WorkQueueBuilder::histograms) or
    /// [`set_histograms`](Self::set_histograms) has turned the measurement on.
    ///
    /// If the items run for more than 2 µs on average, every item is measured. If the items are shorter on average, a
    /// random sample of the items is measured, and each measured item stands for up to 32 items. If an item is queued
    /// again while it is pending, its wait is measured from the first submission. Costs O(CPUs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails");
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

    /// Turns on or off the measurement of how long items wait and run. If the measurement is turned off, the results so
    /// far are kept. [`latency`](Self::latency) returns these results again once the measurement is turned on again. In
    /// a forked process, the call does nothing.
    pub fn set_histograms(&self, yes: bool) {
        self.handle.queue().time_items(yes);
    }

    /// Returns the number of items that were accepted and have not ended. A cancelled item counts until a worker
    /// reaches its place in the queue. An item that has just ended may count for a short time longer. The number is a
    /// hint, because it may have changed by the time this call returns. Costs O(CPUs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("mail");
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

    /// Returns the number of items that have begun and not ended, including those that are blocked. The number is a
    /// hint, like that of [`len`](Self::len). Costs O(CPUs · threads).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::ordered("mail").build()?;
    /// let ((begin, begun), (go, door)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    /// queue.spawn(move || {
    ///     begin.send(()).unwrap();
    ///     cmwq::blocking(|| door.recv())
    /// })?;
    /// queue.spawn(|| ())?;
    /// begun.recv()?;
    /// assert_eq!((queue.running(), queue.waiting()), (1, 1));
    /// go.send(())?;
    /// # queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "active_count")]
    #[must_use]
    pub fn running(&self) -> usize {
        self.handle.queue().running()
    }

    /// Returns the number of items that were accepted and have not begun. The number is a hint, like that of
    /// [`len`](Self::len). Costs O(CPUs · threads).
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = cmwq::WorkQueue::new("mail");
    /// assert_eq!(queue.waiting(), 0);
    /// ```
    #[doc(alias = "queued_count")]
    #[must_use]
    pub fn waiting(&self) -> usize {
        // The running items are counted first. So an item that ends between the two counts does not count as waiting.
        let running = self.running();
        self.len().saturating_sub(running)
    }

    /// Returns whether no item waits or runs. The answer is a hint, like that of [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether items that were queued on this CPU wait because `max_active` other items are active. The answer
    /// is a hint, because it may have changed by the time this call returns. If `max_active` limits the queue as a
    /// whole, the answer is the same for every CPU.
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
    /// Returns [`QueueError::UnknownCpu`] if the executor does not use this CPU.
    #[doc(alias = "workqueue_congested")]
    pub fn is_congested(&self, cpu: usize) -> Result<bool, QueueError> {
        let queue = self.handle.queue();
        let index = queue.executor.placement.index_of(cpu).ok_or(QueueError::UnknownCpu { cpu })?;
        Ok(queue.is_congested(index))
    }
}
