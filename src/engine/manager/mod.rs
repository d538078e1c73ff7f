//! The manager: the executor's thread that makes the other threads, keeps the deadlines, and watches the pools.
//!
//! | file | contents |
//! |---|---|
//! | `inbox` | the manager as other threads see it: its requests, and whether it exists |
//! | `bell` | how the manager sleeps and is woken |
//! | `manager_thread` | the manager's main loop, which handles requests, deadlines and timers, and makes workers |
//! | `supervision` | how the manager goes on after a panic of its own code, and how it ends |
//! | `room` | which pool gets a thread, and which pool gives one up, when `max_threads` is reached |
//! | `lookout` | how the manager follows changes of the CPUs that the process may use |
//! | `detector`, `detection` | which workers sleep, which mode detects that, and why no better mode is used |
//! | `watchdog`, `offenders` | the reports of pools that stall, and of items that keep others waiting |
//! | `cleaner` | the threads that destroy what the manager must not destroy, and call wakers that are due |
//!
//! This module owns the schedule, the lookout and the detector, which belong to the manager's thread (`O`). The inbox,
//! the list of offenders and the cleaner's list have locks of their own (`K`).
//!
//! Any thread may send a request through the inbox, make a missing manager, and read the list of offenders. While an
//! executor runs, all other code of this module runs on the manager's thread or on the cleaner's thread.

pub(crate) mod bell;
pub(crate) mod cleaner;
pub(crate) mod detection;
pub(crate) mod detector;
pub(crate) mod inbox;
pub(crate) mod lookout;
pub(crate) mod manager_thread;
pub(crate) mod offenders;
pub(crate) mod room;
pub(crate) mod supervision;
#[cfg(test)]
mod tests;
pub(crate) mod watchdog;
