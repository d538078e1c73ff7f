//! The manager: the one thread of an executor that makes its threads, keeps its deadlines, and watches its pools.
//!
//! | file | contents |
//! |---|---|
//! | `inbox` | the manager as other threads see it: requests, and whether it exists |
//! | `bell` | how the manager sleeps, and is woken |
//! | `manager_thread` | its main loop: requests, deadlines, timers; it makes workers |
//! | `supervision` | how it goes on after a panic of its own code, and how it ends |
//! | `room` | which pool gets a thread, and which gives one up, when there are as many as may be |
//! | `lookout` | how it follows the CPUs that the process may use |
//! | `detector`, `detection` | which workers sleep, how that is seen, and why not better |
//! | `watchdog`, `offenders` | the reports of pools that stall, and of items that keep others waiting |
//! | `cleaner` | the thread that destroys what the manager must not destroy |
//!
//! The room owns the schedule, the lookout and the detector: they belong to the manager's thread (`O`). The inbox, the
//! list of offenders and the cleaner's list have locks of their own (`K`).
//!
//! Any thread enters the inbox, to ask for something or to make a manager that is missing. Everything else is the
//! manager's thread, and the cleaner's.

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
