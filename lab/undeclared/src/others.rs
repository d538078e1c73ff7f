//! The load by other programs during the measurement.

use rustix::time::{ClockId, clock_gettime};

use crate::procfs;

pub(crate) struct Others {
    /// The time of all CPUs, the idle part of it, and the part of this process, in seconds.
    since: Option<(f64, f64, f64)>,
}

impl Others {
    pub(crate) fn watch() -> Self {
        Self { since: now() }
    }

    /// Returns the percentage of all CPU time that other programs used, or `None` if the system does not report it.
    pub(crate) fn share(&self) -> Option<f64> {
        let (since, now) = self.since.zip(now())?;
        let (all, idle, ours) = (now.0 - since.0, now.1 - since.1, now.2 - since.2);
        (all > 0.0).then(|| (100.0 * (all - idle - ours) / all).max(0.0))
    }
}

fn now() -> Option<(f64, f64, f64)> {
    let (all, idle) = procfs::machine()?;
    let ours = clock_gettime(ClockId::ProcessCPUTime);
    Some((all, idle, ours.tv_sec as f64 + ours.tv_nsec as f64 / 1e9))
}
