//! The system queues of an executor.

use std::sync::OnceLock;

use crate::executor::Executor;
use crate::queue::WorkQueue;
use crate::queue::builder::WorkQueueBuilder;

/// The system queues that have been made. They are outside of the executor's shared state: a queue keeps that state
/// alive, so as a part of it they would keep themselves alive.
#[derive(Default)]
pub(super) struct SystemQueues {
    events: OnceLock<WorkQueue>,
    highpri: OnceLock<WorkQueue>,
    long: OnceLock<WorkQueue>,
    unbound: OnceLock<WorkQueue>,
    freezable: OnceLock<WorkQueue>,
    power_efficient: OnceLock<WorkQueue>,
    freezable_power_efficient: OnceLock<WorkQueue>,
    bh: OnceLock<WorkQueue>,
    bh_highpri: OnceLock<WorkQueue>,
}

/// The system queues, shared by all code that has the executor and needs no queue of its own. Each is made when it is
/// first used, and lives as long as the executor has a handle. Accepted items run even after that.
///
/// A separate queue costs as little, has its own slots, and can be flushed without waiting for items of other parts of
/// the program. What is asked of a system queue concerns all of these parts: to drain or destroy one, or to freeze the
/// freezable ones, is for the part that owns the program's life.
impl Executor {
    /// Returns the per-CPU queue for short items.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// let answer = executor.events().spawn(|| 6 * 7)?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "system_percpu_wq")]
    #[doc(alias = "system_wq")]
    #[must_use]
    pub fn events(&self) -> &WorkQueue {
        self.made(&self.handles.system.events, || WorkQueue::per_cpu("events"))
    }

    /// As [`events`](Self::events), with high priority.
    #[doc(alias = "system_highpri_wq")]
    #[must_use]
    pub fn events_highpri(&self) -> &WorkQueue {
        self.made(&self.handles.system.highpri, || WorkQueue::per_cpu("events_highpri").high_priority())
    }

    /// As [`events`](Self::events), for items that take long: a flush of `events` does not wait for them.
    #[doc(alias = "system_long_wq")]
    #[must_use]
    pub fn events_long(&self) -> &WorkQueue {
        self.made(&self.handles.system.long, || WorkQueue::per_cpu("events_long"))
    }

    /// Returns the unbound queue: items start as soon as possible, up to 512 per CPU that they were queued on.
    #[doc(alias = "system_dfl_wq")]
    #[doc(alias = "system_unbound_wq")]
    #[must_use]
    pub fn events_unbound(&self) -> &WorkQueue {
        self.made(&self.handles.system.unbound, || WorkQueue::unbound("events_unbound").max_active(512))
    }

    /// As [`events`](Self::events), freezable.
    #[doc(alias = "system_freezable_wq")]
    #[must_use]
    pub fn events_freezable(&self) -> &WorkQueue {
        self.made(&self.handles.system.freezable, || WorkQueue::per_cpu("events_freezable").freezable())
    }

    /// As [`events`](Self::events), but unbound if the executor was built as
    /// [`power_efficient`](crate::ExecutorBuilder::power_efficient).
    #[doc(alias = "system_power_efficient_wq")]
    #[must_use]
    pub fn events_power_efficient(&self) -> &WorkQueue {
        let builder = || WorkQueue::per_cpu("events_power_efficient").power_efficient();
        self.made(&self.handles.system.power_efficient, builder)
    }

    /// As [`events_power_efficient`](Self::events_power_efficient), freezable.
    #[doc(alias = "system_freezable_power_efficient_wq")]
    #[must_use]
    pub fn events_freezable_power_efficient(&self) -> &WorkQueue {
        let name = "events_freezable_power_efficient";
        let builder = || WorkQueue::per_cpu(name).power_efficient().freezable();
        self.made(&self.handles.system.freezable_power_efficient, builder)
    }

    /// Returns the queue for short items that must not block: see [`WorkQueue::bh`].
    #[doc(alias = "system_bh_wq")]
    #[must_use]
    pub fn events_bh(&self) -> &WorkQueue {
        self.made(&self.handles.system.bh, || WorkQueue::bh("events_bh"))
    }

    /// As [`events_bh`](Self::events_bh), with high priority.
    #[doc(alias = "system_bh_highpri_wq")]
    #[must_use]
    pub fn events_bh_highpri(&self) -> &WorkQueue {
        self.made(&self.handles.system.bh_highpri, || WorkQueue::bh("events_bh_highpri").high_priority())
    }

    fn made<'a>(
        &self,
        queue: &'a OnceLock<WorkQueue>,
        builder: impl FnOnce() -> WorkQueueBuilder,
    ) -> &'a WorkQueue {
        let make = || builder().make_on(self).expect("the system queues can be built").0;
        match queue.get() {
            Some(queue) => queue,
            // At the fork, a thread of the parent may have been making it. That thread does not exist here, so the
            // child must not wait for it: it makes a queue of its own.
            None if self.inner.origin.is_forked() => Box::leak(Box::new(make())),
            None => queue.get_or_init(make),
        }
    }
}
