//! The system queues of the global executor.

use crate::executor::Executor;
use crate::kernel::ExecutorExt;
use crate::queue::WorkQueue;

/// [`ExecutorExt::events`] of the global executor.
#[doc(alias = "system_percpu_wq")]
#[doc(alias = "system_wq")]
#[doc(alias = "flush_scheduled_work")]
#[must_use]
pub fn events() -> &'static WorkQueue {
    Executor::global().events()
}

/// [`ExecutorExt::events_highpri`] of the global executor.
#[doc(alias = "system_highpri_wq")]
#[must_use]
pub fn events_highpri() -> &'static WorkQueue {
    Executor::global().events_highpri()
}

/// [`ExecutorExt::events_long`] of the global executor.
#[doc(alias = "system_long_wq")]
#[must_use]
pub fn events_long() -> &'static WorkQueue {
    Executor::global().events_long()
}

/// [`ExecutorExt::events_unbound`] of the global executor.
#[doc(alias = "system_dfl_wq")]
#[doc(alias = "system_unbound_wq")]
#[must_use]
pub fn events_unbound() -> &'static WorkQueue {
    Executor::global().events_unbound()
}

/// [`ExecutorExt::events_freezable`] of the global executor.
#[doc(alias = "system_freezable_wq")]
#[must_use]
pub fn events_freezable() -> &'static WorkQueue {
    Executor::global().events_freezable()
}

/// [`ExecutorExt::events_power_efficient`] of the global executor.
#[doc(alias = "system_power_efficient_wq")]
#[must_use]
pub fn events_power_efficient() -> &'static WorkQueue {
    Executor::global().events_power_efficient()
}

/// [`ExecutorExt::events_freezable_power_efficient`] of the global executor.
#[doc(alias = "system_freezable_power_efficient_wq")]
#[must_use]
pub fn events_freezable_power_efficient() -> &'static WorkQueue {
    Executor::global().events_freezable_power_efficient()
}

/// [`ExecutorExt::events_bh`] of the global executor.
#[doc(alias = "system_bh_wq")]
#[must_use]
pub fn events_bh() -> &'static WorkQueue {
    Executor::global().events_bh()
}

/// [`ExecutorExt::events_bh_highpri`] of the global executor.
#[doc(alias = "system_bh_highpri_wq")]
#[must_use]
pub fn events_bh_highpri() -> &'static WorkQueue {
    Executor::global().events_bh_highpri()
}
