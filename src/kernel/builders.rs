//! The kernel's settings of queues and executors.

use crate::executor::builder::ExecutorBuilder;
use crate::queue::builder::WorkQueueBuilder;

use super::Sealed;

/// The kernel's settings of a queue.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::WorkQueue;
/// use cmwq::kernel::WorkQueueBuilderExt;
///
/// let writes = WorkQueue::ordered("writes").freezable(true).build()?;
/// let housekeeping = WorkQueue::per_cpu("housekeeping").power_efficient(true).build()?;
/// # drop((writes, housekeeping));
/// # Ok(())
/// # }
/// ```
pub trait WorkQueueBuilderExt: Sealed + Sized {
    /// Sets whether the queue is freezable. A freezable queue starts no item while the executor is
    /// [frozen](super::ExecutorExt::freeze_begin). A bh queue cannot be freezable. Default: false.
    #[doc(alias = "WQ_FREEZABLE")]
    #[doc(alias = "create_freezable_workqueue")]
    #[must_use]
    fn freezable(self, yes: bool) -> Self;

    /// Sets whether the queue is unbound on an executor that was built as
    /// [`power_efficient`](ExecutorBuilderExt::power_efficient). On other executors, the queue stays per-CPU. Only
    /// per-CPU queues can have this setting. Default: false.
    #[doc(alias = "WQ_POWER_EFFICIENT")]
    #[must_use]
    fn power_efficient(self, yes: bool) -> Self;
}

/// The kernel's settings of an executor.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::kernel::ExecutorBuilderExt;
///
/// let executor = cmwq::Executor::builder().power_efficient(true).build()?;
/// # drop(executor);
/// # Ok(())
/// # }
/// ```
pub trait ExecutorBuilderExt: Sealed + Sized {
    /// Sets whether queues that are built as [`power_efficient`](WorkQueueBuilderExt::power_efficient) are unbound, so
    /// that idle CPUs stay asleep. Default: false.
    #[doc(alias = "workqueue.power_efficient")]
    #[must_use]
    fn power_efficient(self, yes: bool) -> Self;
}

impl Sealed for WorkQueueBuilder {}

impl WorkQueueBuilderExt for WorkQueueBuilder {
    fn freezable(mut self, yes: bool) -> Self {
        self.freezable = yes;
        self
    }

    fn power_efficient(mut self, yes: bool) -> Self {
        self.power_efficient = yes;
        self
    }
}

impl Sealed for ExecutorBuilder {}

impl ExecutorBuilderExt for ExecutorBuilder {
    fn power_efficient(mut self, yes: bool) -> Self {
        self.power_efficient = yes;
        self
    }
}
