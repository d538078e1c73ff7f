//! The system queues of the [global executor](crate::Executor::global), for programs that need neither an executor nor
//! a queue of their own.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let answer = cmwq::system::events_unbound().spawn(|| 6 * 7)?;
//! assert_eq!(answer.join()?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! | queue | its items run |
//! |---|---|
//! | [`events()`] | on the issuer's CPU |
//! | [`events_highpri()`] | on the issuer's CPU, with high priority |
//! | [`events_long()`] | on the issuer's CPU, and may take a long time |
//! | [`events_unbound()`] | near the issuer, as soon as possible |
//! | [`events_freezable()`] | as those of `events`, unless frozen |
//! | [`events_power_efficient()`] | as those of `events`; unbound if the executor is power efficient |
//! | [`events_freezable_power_efficient()`] | as those of `events_power_efficient`, unless frozen |
//! | [`events_bh()`], [`events_bh_highpri()`] | on the issuer's CPU, one after the other, and must not block |

use crate::executor::Executor;
use crate::queue::WorkQueue;

/// [`Executor::events`] of the global executor.
#[doc(alias = "system_percpu_wq")]
#[doc(alias = "system_wq")]
#[doc(alias = "flush_scheduled_work")]
#[must_use]
pub fn events() -> &'static WorkQueue {
    Executor::global().events()
}

/// [`Executor::events_highpri`] of the global executor.
#[doc(alias = "system_highpri_wq")]
#[must_use]
pub fn events_highpri() -> &'static WorkQueue {
    Executor::global().events_highpri()
}

/// [`Executor::events_long`] of the global executor.
#[doc(alias = "system_long_wq")]
#[must_use]
pub fn events_long() -> &'static WorkQueue {
    Executor::global().events_long()
}

/// [`Executor::events_unbound`] of the global executor.
#[doc(alias = "system_dfl_wq")]
#[doc(alias = "system_unbound_wq")]
#[must_use]
pub fn events_unbound() -> &'static WorkQueue {
    Executor::global().events_unbound()
}

/// [`Executor::events_freezable`] of the global executor.
#[doc(alias = "system_freezable_wq")]
#[must_use]
pub fn events_freezable() -> &'static WorkQueue {
    Executor::global().events_freezable()
}

/// [`Executor::events_power_efficient`] of the global executor.
#[doc(alias = "system_power_efficient_wq")]
#[must_use]
pub fn events_power_efficient() -> &'static WorkQueue {
    Executor::global().events_power_efficient()
}

/// [`Executor::events_freezable_power_efficient`] of the global executor.
#[doc(alias = "system_freezable_power_efficient_wq")]
#[must_use]
pub fn events_freezable_power_efficient() -> &'static WorkQueue {
    Executor::global().events_freezable_power_efficient()
}

/// [`Executor::events_bh`] of the global executor.
#[doc(alias = "system_bh_wq")]
#[must_use]
pub fn events_bh() -> &'static WorkQueue {
    Executor::global().events_bh()
}

/// [`Executor::events_bh_highpri`] of the global executor.
#[doc(alias = "system_bh_highpri_wq")]
#[must_use]
pub fn events_bh_highpri() -> &'static WorkQueue {
    Executor::global().events_bh_highpri()
}
