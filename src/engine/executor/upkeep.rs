//! The data that the manager of one executor keeps about all pools.

use std::sync::Arc;
use std::time::Duration;

use crate::sys::switches::Readiness;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering};

use crate::engine::item::timers::Timers;
use crate::engine::manager::cleaner::Cleaner;
use crate::engine::manager::detection::Shortfall;
use crate::engine::manager::offenders::Offenders;
use crate::engine::pool::pools::Pools;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::user_code::report;

use super::core::Core;

/// The data that the manager of one executor keeps about all pools.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) core: Arc<Core>,     // I
    pub(crate) pools: Arc<Pools>,   // P
    pub(crate) timers: Arc<Timers>, // K
    /// Destroys the values that the manager must not destroy.
    pub(crate) cleaner: Arc<Cleaner>, // K
    /// Calls the wakers that are due. The `cleaner` does not call wakers, because a destructor on the cleaner's thread
    /// may wait until a waker is called.
    pub(crate) ringer: Arc<Cleaner>, // K
    pub(crate) shortfall: Shortfall, // K
    /// Keeps the system ready to record context switches of threads.
    _ready: Option<Readiness>, // I
    pub(crate) offenders: Offenders, // K
    /// The function that the manager's thread calls when the progress check finds a stuck pool. In a stuck pool, work
    /// waits, but no worker is at work or on its way.
    pub(crate) stuck: Stuck, // I
    /// The number of stalls that the watchdog has reported.
    pub(crate) stalls: AtomicU64, // A
    /// Whether work had to wait because there were as many workers as `max_threads` permits. Only the first such wait
    /// is logged.
    limit_reached: AtomicBool, // A
}

/// A function that is called with a stuck pool, and with the time for which the pool has been stuck.
pub(crate) type Stuck = fn(&Upkeep, &Pool, Duration);

impl Drop for Upkeep {
    fn drop(&mut self) {
        // A waker may own a handle, and a handle keeps the timers in memory. So a waker that stayed with the timers
        // could keep the timers in memory for ever.
        self.timers.forget_wakers();
    }
}

impl Upkeep {
    /// Makes the upkeep of an executor. The first unbound pool gets the number `first_unbound_id`, because all lower
    /// numbers belong to per-CPU pools.
    pub(crate) fn new(
        core: Core,
        first_unbound_id: usize,
        (shortfall, ready): (Shortfall, Option<Readiness>),
        stuck: Stuck,
    ) -> Self {
        let core = Arc::new(core);
        Self {
            pools: Arc::new(Pools::new(Arc::clone(&core), first_unbound_id)),
            timers: Arc::new(Timers::new(Arc::clone(&core.manager))),
            cleaner: Arc::new(Cleaner::default()),
            ringer: Arc::new(Cleaner::default()),
            shortfall,
            _ready: ready,
            offenders: Offenders::new(core.settings.hog_threshold.unwrap_or_default()),
            stuck,
            stalls: AtomicU64::new(0),
            limit_reached: AtomicBool::new(false),
            core,
        }
    }

    /// Notes that work waits for a thread because there are as many workers as `max_threads` permits. Only the first
    /// call logs a warning.
    pub(crate) fn thread_limit_reached(&self) {
        if !self.limit_reached.swap(true, Ordering::Relaxed) {
            let (prefix, most) = (&self.core.settings.name_prefix, self.core.settings.max_threads);
            report!(
                warn,
                "work waits for a thread: the executor {prefix:?} has as many workers as max_threads permits: {most}"
            );
        }
    }

    /// Returns whether work had to wait because of `max_threads`.
    pub(crate) fn was_thread_limit_reached(&self) -> bool {
        self.limit_reached.load(Ordering::Relaxed)
    }
}
