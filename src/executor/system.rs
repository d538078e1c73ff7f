//! The queues that every executor has.

use std::sync::OnceLock;

use crate::{Executor, WorkQueue, WorkQueueBuilder};

/// The queues that have been asked for. Beside the executor's insides, not in them: queues keep those in place, and
/// would keep themselves.
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

/// The system queues: shared by everybody who has an executor and wants no queue of his own. Each is made when it is
/// first asked for, and lives as long as the executor has a handle; what was accepted runs also after that.
///
/// A queue of one's own costs as little, can be flushed without waiting for other people's items, and has its slots for
/// itself.
impl Executor {
    /// The per-CPU queue for short items.
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
        self.made(&self.system.events, || WorkQueue::per_cpu("events"))
    }

    /// As [`events`](Self::events), with high priority.
    #[doc(alias = "system_highpri_wq")]
    #[must_use]
    pub fn events_highpri(&self) -> &WorkQueue {
        self.made(&self.system.highpri, || WorkQueue::per_cpu("events_highpri").high_priority())
    }

    /// As [`events`](Self::events), for items that take long: a flush of `events` does not wait for them.
    #[doc(alias = "system_long_wq")]
    #[must_use]
    pub fn events_long(&self) -> &WorkQueue {
        self.made(&self.system.long, || WorkQueue::per_cpu("events_long"))
    }

    /// The unbound queue: items start as soon as possible, up to 512 per CPU that they were queued on.
    #[doc(alias = "system_dfl_wq")]
    #[doc(alias = "system_unbound_wq")]
    #[must_use]
    pub fn events_unbound(&self) -> &WorkQueue {
        self.made(&self.system.unbound, || WorkQueue::unbound("events_unbound").max_active(512))
    }

    /// As [`events`](Self::events), freezable.
    #[doc(alias = "system_freezable_wq")]
    #[must_use]
    pub fn events_freezable(&self) -> &WorkQueue {
        self.made(&self.system.freezable, || freezable(WorkQueue::per_cpu("events_freezable")))
    }

    /// As [`events`](Self::events), unless the executor was built as
    /// [`power_efficient`](crate::ExecutorBuilder::power_efficient): then unbound.
    #[doc(alias = "system_power_efficient_wq")]
    #[must_use]
    pub fn events_power_efficient(&self) -> &WorkQueue {
        let builder = || WorkQueue::per_cpu("events_power_efficient").power_efficient();
        self.made(&self.system.power_efficient, builder)
    }

    /// As [`events_power_efficient`](Self::events_power_efficient), freezable.
    #[doc(alias = "system_freezable_power_efficient_wq")]
    #[must_use]
    pub fn events_freezable_power_efficient(&self) -> &WorkQueue {
        let name = "events_freezable_power_efficient";
        let builder = || freezable(WorkQueue::per_cpu(name).power_efficient());
        self.made(&self.system.freezable_power_efficient, builder)
    }

    /// For short items that must not block: [`WorkQueue::bh`].
    #[doc(alias = "system_bh_wq")]
    #[must_use]
    pub fn events_bh(&self) -> &WorkQueue {
        self.made(&self.system.bh, || WorkQueue::bh("events_bh"))
    }

    /// As [`events_bh`](Self::events_bh), with high priority.
    #[doc(alias = "system_bh_highpri_wq")]
    #[must_use]
    pub fn events_bh_highpri(&self) -> &WorkQueue {
        self.made(&self.system.bh_highpri, || WorkQueue::bh("events_bh_highpri").high_priority())
    }

    fn made<'a>(
        &self,
        queue: &'a OnceLock<WorkQueue>,
        builder: impl FnOnce() -> WorkQueueBuilder,
    ) -> &'a WorkQueue {
        queue.get_or_init(|| builder().build_on(self).expect("the system queues can be built"))
    }
}

fn freezable(builder: WorkQueueBuilder) -> WorkQueueBuilder {
    builder
}
