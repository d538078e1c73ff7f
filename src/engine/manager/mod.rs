//! The manager: the one thread of an executor that makes threads and keeps deadlines.

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
