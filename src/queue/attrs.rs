//! The attributes of a queue that is in use.

use crate::engine::queue::workqueue::Queue;
use crate::error::attrs::ApplyAttrsError;
use crate::policy::attrs::Attrs;
use crate::policy::attrs::EffectiveAttrs;
use crate::queue::WorkQueue;

impl WorkQueue {
    /// Replaces all attributes of the queue. The call does not wait, so it is also allowed inside an item.
    ///
    /// Items that are active (running, blocked, or on a pool's worklist) finish where they are. Items that wait for a
    /// slot of `max_active`, and items that are queued later, go to workers with the new attributes. During the change,
    /// all limits hold, and items keep their order. An ordered queue still runs one item at a time, in queueing order.
    /// In other queues, the change does not cause a new item to overtake an item that was queued before it on the same
    /// CPU. If the attributes specify no nice level, a [`high_priority`](crate::WorkQueueBuilder::high_priority) queue
    /// keeps the nice level of high-priority pools. The call costs O(CPUs).
    ///
    /// The former attributes still apply in two cases. First, a [`Work`](crate::Work) that was cancelled while active
    /// leaves its former place behind until a worker reaches that place. If the `Work` is queued again before a worker
    /// has reached its former place, it may get this place back, and then runs once more with the former attributes.
    /// Second, the queue's [rescuer](crate::WorkQueueBuilder::rescuer) keeps its nice level, because a thread that has
    /// lowered its priority needs a privilege to raise the priority again.
    ///
    /// For each different set of attributes that a queue has had, its pools stay in memory until the queue is gone.
    /// Each pool occupies a few KiB. There is at most one pool for each pod, and one for all pods together.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Attrs, WorkQueue};
    ///
    /// let queue = WorkQueue::new("reindex");
    /// queue.apply_attrs(Attrs::new().scope(AffinityScope::System).nice(19))?;
    /// let niced = queue.spawn(|| "at the lowest priority")?;
    /// # niced.join()?;
    /// let error = queue.apply_attrs(Attrs::new().nice(20)).unwrap_err();
    /// assert_eq!(error.to_string(), "nice level 20 does not exist; levels go from -20 to 19");
    /// assert_eq!(queue.attrs().unwrap().nice, 19, "as before");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the attributes are invalid, if the queue cannot have attributes, if its executor is shut
    /// down, or in a forked process. The error says which of these is the case. After an error, the attributes are the
    /// same as before.
    #[doc(alias = "apply_workqueue_attrs")]
    pub fn apply_attrs(&self, attrs: Attrs) -> Result<(), ApplyAttrsError> {
        change_attrs(self.handle.queue(), &attrs, |_| attrs.clone())
    }

    /// Returns the attributes in effect. Returns `None` for per-CPU and bh queues, which have no attributes, and in a
    /// forked process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Executor, WorkQueue};
    ///
    /// let queue = WorkQueue::new("reindex");
    /// let attrs = queue.attrs().unwrap();
    /// assert_eq!(attrs.scope, AffinityScope::Cache);
    /// assert_eq!(&attrs.cpus, Executor::global().cpus());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn attrs(&self) -> Option<EffectiveAttrs> {
        self.handle.queue().pool_attrs().map(EffectiveAttrs::of)
    }
}

/// Changes the requested attributes, if the queue can have attributes and `new` is valid. `change` gets the attributes
/// that were requested last, and returns the attributes that are requested from now on. `new` contains only the
/// attributes that `change` sets. The caller holds a reference to the queue.
pub(crate) fn change_attrs(
    queue: &Queue,
    new: &Attrs,
    change: impl FnOnce(Attrs) -> Attrs,
) -> Result<(), ApplyAttrsError> {
    if queue.spec.is_bh {
        return Err(ApplyAttrsError::Bh);
    }
    if queue.spec.unbound.is_none() {
        return Err(ApplyAttrsError::PerCpu);
    }
    let known = &queue.executor.cpus;
    if let Some(fault) = new.fault(known) {
        return Err(ApplyAttrsError::of_attrs(fault, known));
    }
    queue.change_attrs(change).map_err(ApplyAttrsError::of_refusal)
}
