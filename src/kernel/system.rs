//! The system queues of the global executor.

use crate::executor::Executor;
use crate::kernel::ExecutorExt;
use crate::queue::WorkQueue;

/// Returns [`ExecutorExt::events`] of the global executor.
#[doc(alias = "system_percpu_wq")]
#[doc(alias = "system_wq")]
#[doc(alias = "flush_scheduled_work")]
#[must_use]
pub fn events() -> &'static WorkQueue {
    Executor::global().events()
}

/// Returns [`ExecutorExt::events_highpri`] of the global executor.
#[doc(alias = "system_highpri_wq")]
#[must_use]
pub fn events_highpri() -> &'static WorkQueue {
    Executor::global().events_highpri()
}

/// Returns [`ExecutorExt::events_long`] of the global executor.
#[doc(alias = "system_long_wq")]
#[must_use]
pub fn events_long() -> &'static WorkQueue {
    Executor::global().events_long()
}

/// Returns [`ExecutorExt::events_unbound`] of the global executor.
#[doc(alias = "system_dfl_wq")]
#[doc(alias = "system_unbound_wq")]
#[must_use]
pub fn events_unbound() -> &'static WorkQueue {
    Executor::global().events_unbound()
}

/// Returns [`ExecutorExt::events_freezable`] of the global executor.
#[doc(alias = "system_freezable_wq")]
#[must_use]
pub fn events_freezable() -> &'static WorkQueue {
    Executor::global().events_freezable()
}

/// Returns [`ExecutorExt::events_power_efficient`] of the global executor.
#[doc(alias = "system_power_efficient_wq")]
#[must_use]
pub fn events_power_efficient() -> &'static WorkQueue {
    Executor::global().events_power_efficient()
}

/// Returns [`ExecutorExt::events_freezable_power_efficient`] of the global executor.
#[doc(alias = "system_freezable_power_efficient_wq")]
#[must_use]
pub fn events_freezable_power_efficient() -> &'static WorkQueue {
    Executor::global().events_freezable_power_efficient()
}

/// Returns [`ExecutorExt::events_bh`] of the global executor.
#[doc(alias = "system_bh_wq")]
#[must_use]
pub fn events_bh() -> &'static WorkQueue {
    Executor::global().events_bh()
}

/// Returns [`ExecutorExt::events_bh_highpri`] of the global executor.
#[doc(alias = "system_bh_highpri_wq")]
#[must_use]
pub fn events_bh_highpri() -> &'static WorkQueue {
    Executor::global().events_bh_highpri()
}
