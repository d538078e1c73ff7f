//! The system queues of an executor.

use std::sync::OnceLock;

use crate::executor::Executor;
use crate::queue::WorkQueue;
use crate::queue::builder::WorkQueueBuilder;

/// The system queues that have been made. They are kept outside of the executor's shared state. Because a queue keeps
/// that state alive, queues inside the state would keep themselves alive.
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

/// The system queues. Any code that holds a handle to the executor can share them if it needs no queue of its own. A
/// system queue is made when it is first used, and lives as long as a handle to the executor exists. Accepted items run
/// even after that.
///
/// A separate queue costs no more than a system queue, has its own slots, and can be flushed without waiting for items
/// of other parts of the program. Draining, destroying or freezing a system queue affects every part of the program
/// that uses the queue. So only the part that controls the whole program should do so.
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

    /// Returns a queue like [`events`](Self::events), but with high priority.
    #[doc(alias = "system_highpri_wq")]
    #[must_use]
    pub fn events_highpri(&self) -> &WorkQueue {
        self.made(&self.handles.system.highpri, || WorkQueue::per_cpu("events_highpri").high_priority())
    }

    /// Returns a queue like [`events`](Self::events), but for long items. A flush of `events` does not wait for these
    /// items.
    #[doc(alias = "system_long_wq")]
    #[must_use]
    pub fn events_long(&self) -> &WorkQueue {
        self.made(&self.handles.system.long, || WorkQueue::per_cpu("events_long"))
    }

    /// Returns the unbound queue, whose items start as soon as possible. For each CPU, up to 512 of the items that were
    /// queued on that CPU can be active.
    #[doc(alias = "system_dfl_wq")]
    #[doc(alias = "system_unbound_wq")]
    #[must_use]
    pub fn events_unbound(&self) -> &WorkQueue {
        self.made(&self.handles.system.unbound, || WorkQueue::unbound("events_unbound").max_active(512))
    }

    /// Returns a queue like [`events`](Self::events), but freezable.
    #[doc(alias = "system_freezable_wq")]
    #[must_use]
    pub fn events_freezable(&self) -> &WorkQueue {
        self.made(&self.handles.system.freezable, || WorkQueue::per_cpu("events_freezable").freezable())
    }

    /// Returns a queue like [`events`](Self::events), but unbound if the executor was built as
    /// [`power_efficient`](crate::ExecutorBuilder::power_efficient).
    #[doc(alias = "system_power_efficient_wq")]
    #[must_use]
    pub fn events_power_efficient(&self) -> &WorkQueue {
        let builder = || WorkQueue::per_cpu("events_power_efficient").power_efficient();
        self.made(&self.handles.system.power_efficient, builder)
    }

    /// Returns a queue like [`events_power_efficient`](Self::events_power_efficient), but freezable.
    #[doc(alias = "system_freezable_power_efficient_wq")]
    #[must_use]
    pub fn events_freezable_power_efficient(&self) -> &WorkQueue {
        let name = "events_freezable_power_efficient";
        let builder = || WorkQueue::per_cpu(name).power_efficient().freezable();
        self.made(&self.handles.system.freezable_power_efficient, builder)
    }

    /// Returns the bh queue, for short items that must not block. See [`WorkQueue::bh`].
    #[doc(alias = "system_bh_wq")]
    #[must_use]
    pub fn events_bh(&self) -> &WorkQueue {
        self.made(&self.handles.system.bh, || WorkQueue::bh("events_bh"))
    }

    /// Returns a queue like [`events_bh`](Self::events_bh), but with high priority.
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
            // When the process forked, a thread of the parent may have been making the queue. That thread does not
            // exist in the child. So the child makes a queue of its own instead of waiting for the parent's queue.
            None if self.inner.origin.is_forked() => Box::leak(Box::new(make())),
            None => queue.get_or_init(make),
        }
    }
}
