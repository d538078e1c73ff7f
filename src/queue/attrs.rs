//! Attributes of a queue that is in use.

use crate::engine::queue::Queue;
use crate::policy::attrs::EffectiveAttrs;
use crate::{ApplyAttrsError, Attrs, WorkQueue};

impl WorkQueue {
    /// Gives the queue other attributes, in place of all that it has. Does not wait, so an item may call it, too.
    ///
    /// Items that are active (running, blocked, or on a worklist) finish where they are; what waits, and what comes, goes
    /// to workers with the new attributes. All limits hold meanwhile, and items keep their order: an ordered queue runs
    /// one at a time in queueing order, and no new item of another overtakes what was queued before on the same CPU. A
    /// [`high_priority`](crate::WorkQueueBuilder::high_priority) queue keeps the high nice level if the attributes name
    /// none. Costs O(CPUs).
    ///
    /// Two things keep the former attributes. A [`Work`](crate::Work) that was cancelled while active, and is queued again
    /// before its former place was reached, may have that place back, and then runs once more with the attributes of that
    /// place. The queue's [rescuer](crate::WorkQueueBuilder::rescuer) keeps its nice level: a level that was lowered cannot be
    /// raised again without a privilege.
    ///
    /// For each different set of attributes that a queue has had, some KiB of memory stay until the queue is gone.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Attrs, WorkQueue};
    ///
    /// let queue = WorkQueue::new("reindex").build()?;
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
    /// If the attributes mean nothing, the queue can have none, or its executor is at its end: the error says which, and
    /// nothing was changed.
    #[doc(alias = "apply_workqueue_attrs")]
    pub fn apply_attrs(&self, attrs: Attrs) -> Result<(), ApplyAttrsError> {
        change_attrs(self.handle.queue(), &attrs, |_| attrs.clone())
    }

    /// The attributes that hold at the moment. `None` for per-CPU and bh queues, which have none, and in a forked child.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Executor, WorkQueue};
    ///
    /// let queue = WorkQueue::new("reindex").build()?;
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

/// Changes what was asked for, if the queue has attributes, and these, which name what is new in the others, are without
/// fault. The caller keeps the queue in place.
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
