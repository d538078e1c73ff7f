//! The weight of a queue, which can change while the queue is in use.

use std::sync::Arc;

use crate::error::BuildQueueError;
use crate::error::limit::SetWeightError;
use crate::policy::fairness::{MAX_WEIGHT, is_weight};
use crate::protocol::turns::FairShare;
use crate::queue::WorkQueue;

use super::builder::{Kind, WorkQueueBuilder};

impl WorkQueueBuilder {
    /// Sets the queue's weight, from 1 to 10 000. In each pool that the queue uses together with other queues, the
    /// weight determines the queue's share of the CPU time. The lengths of the queues' backlogs and items do not change
    /// this share. A queue without this setting has no share of its own. The items of all queues without weights start
    /// about in the order in which they were queued, so an item of one queue may wait behind the backlogs of the
    /// others.
    ///
    /// While several queues have items that wait in a pool, each of these queues gets CPU time in proportion to its
    /// weight. All queues without weights count as one queue with the weight 100. If only one queue has waiting items,
    /// it gets all of the pool's workers. If a queue uses less than its share, its first waiting item starts as soon as
    /// a worker of the pool has ended an item. Only the first waiting item of another queue that also uses less than
    /// its share may start before this item. There is an exception: several workers run, and the items of the other
    /// queues have suddenly become much shorter. Then one item of this queue may wait until the other queues have used
    /// some 100 ms of CPU time. A queue cannot save up time: it loses the share that it does not use while it has no
    /// items.
    ///
    /// Weights change neither the order of a queue's items nor the queue's limits. While an item waits for a slot of
    /// `max_active`, it does not compete for a worker. The pool charges items for the CPU time that they use, but not
    /// for the time for which they sleep. An item that moves to another pod, or that a rescuer takes, is charged for
    /// the length that the pool expects, and for 100 ms at most. The pool charges no CPU time for an item that its
    /// issuer runs ([`WhenFull::CallerRuns`](crate::WhenFull::CallerRuns)). It also charges none for the parts of
    /// [forks](crate::join) that other threads than the forking one run.
    ///
    /// High-priority queues use other pools than normal queues, with or without weights. Each pool divides only its own
    /// workers. So a queue whose items are queued in one [pod](crate::AffinityScope), a group of CPUs that share a
    /// pool, competes with the queues of that pod.
    ///
    /// An item of a weighted queue takes the pool's lock when it is queued and when it starts. While weighted queues
    /// have waiting items, or have used more than their share, the pool's workers take the lock for each item. The pool
    /// remembers what a queue has used, even if the queue is gone, until the other queues have caught up or a worker
    /// finds no item. A pool remembers at most 4096 queues without waiting items, and forgets those that have used the
    /// least beyond their share. If several queues share the pool during this time, the workers also read their CPU
    /// clocks for each item, so items should run for several microseconds. At all other times, weights do not change
    /// the cost of queues without weights. [`WorkQueue::set_weight`](crate::WorkQueue::set_weight) can change the
    /// weight later. A bh queue cannot have a weight.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::WorkQueue;
    ///
    /// let bulk = WorkQueue::builder("tenant 1").weight(100).build()?;
    /// let paying = WorkQueue::builder("tenant 2").weight(400).build()?;
    /// assert_eq!((bulk.weight(), paying.weight()), (Some(100), Some(400)));
    /// let error = WorkQueue::builder("tenant 3").weight(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "weight is 0; it must be 1 to 10000");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cpu.weight")]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Makes the [`FairShare`] that holds the queue's weight, if the queue has a weight.
    pub(super) fn share(&self) -> Result<Option<Arc<FairShare>>, BuildQueueError> {
        let Some(value) = self.weight else { return Ok(None) };
        if self.kind == Kind::Bh {
            let because =
                "the items of all bh queues run in the order in which they were queued on their CPU";
            return Err(BuildQueueError::Contradiction { this: "weight", with: "a bh queue", because });
        }
        if !is_weight(value) {
            return Err(BuildQueueError::Weight { value, limit: MAX_WEIGHT });
        }
        Ok(Some(Arc::new(FairShare::new(value))))
    }
}

impl WorkQueue {
    /// Returns the queue's [weight](crate::WorkQueueBuilder::weight), or `None` if the queue was built without one.
    #[must_use]
    pub fn weight(&self) -> Option<u32> {
        self.handle.queue().spec.share.as_ref().map(|share| share.weight())
    }

    /// Sets the queue's [weight](crate::WorkQueueBuilder::weight), from 1 to 10 000. The new weight counts for the
    /// items that start from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("tenant").weight(100).build()?;
    /// queue.set_weight(400)?;
    /// assert_eq!(queue.weight(), Some(400));
    /// let error = queue.set_weight(1_000_000).unwrap_err();
    /// assert_eq!(error.to_string(), "weight is 1000000; it must be 1 to 10000");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the queue was built without a weight, or if the value is out of range.
    #[doc(alias = "cpu.weight")]
    pub fn set_weight(&self, weight: u32) -> Result<(), SetWeightError> {
        let share = self.handle.queue().spec.share.as_ref().ok_or(SetWeightError::Unweighted)?;
        if !is_weight(weight) {
            return Err(SetWeightError::Weight { value: weight, limit: MAX_WEIGHT });
        }
        share.set_weight(weight);
        Ok(())
    }
}
