//! The amount of measurement.

use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) quick: bool,
    /// The number of measured blocks. `warm_up` further blocks come first and are not measured, because they make all
    /// threads.
    pub(crate) blocks: usize,
    pub(crate) warm_up: usize,
    /// The number of items of the mixed load, and of the load that only computes.
    pub(crate) items: usize,
    /// The number of items that only sleep.
    pub(crate) sleepers: usize,
    /// The number of runs of the mixed load, and of the items that only sleep. The median of the runs counts.
    pub(crate) runs: usize,
    /// How often items wait for a later item.
    pub(crate) dependencies: usize,
    /// How long an idle executor is watched.
    pub(crate) idle: Duration,
    /// The number of crowds of spinning items.
    pub(crate) crowds: usize,
    pub(crate) hogs: usize,
    /// The number of requests to the service.
    pub(crate) requests: usize,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        quick: false,
        blocks: 400,
        warm_up: 10,
        items: 4000,
        sleepers: 2000,
        runs: 3,
        dependencies: 200,
        idle: Duration::from_secs(10),
        crowds: 5,
        hogs: 40,
        requests: 2000,
    };

    pub(crate) const QUICK: Self = Self {
        quick: true,
        blocks: 40,
        warm_up: 3,
        items: 400,
        sleepers: 2000,
        runs: 1,
        dependencies: 20,
        idle: Duration::from_millis(500),
        crowds: 1,
        hogs: 4,
        requests: 200,
    };
}
