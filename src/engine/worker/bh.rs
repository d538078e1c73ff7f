//! Bh contexts: pools with one worker, which runs items one after the other, even if one blocks.

use std::collections::BTreeSet;

use crate::policy::budget::{Budget, Pace};
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};

use crate::engine::item::context;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::user_code::report;

/// The budget of the present run; `None` if the pool is no bh context.
pub(crate) struct Run(Option<Budget>);

impl Run {
    /// Begins a run of this pool's worker.
    pub(crate) fn begin(pool: &Pool) -> Self {
        Self(pool.spec.is_bh().then(|| Budget::begin(clock::now(), pool.pending())))
    }

    /// Notes that an item has ended. If the run is over, yields the CPU and begins a new run. `in_hand` returns
    /// whether the worker has the next item already.
    #[inline]
    pub(crate) fn item_ended(&mut self, pool: &Pool, in_hand: impl FnOnce() -> bool) {
        if let Some(budget) = &mut self.0 {
            match budget.item_ended(clock::now(), pool.pending() + usize::from(in_hand())) {
                Pace::GoOn(rest) => *budget = rest,
                Pace::Yield => {
                    thread::yield_now();
                    *self = Self::begin(pool);
                }
            }
        }
    }
}

/// The types of items that were reported.
static REPORTED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Logs that an item of a bh queue enters a blocking guard, once for each type of items.
#[cold]
pub(crate) fn report_guard(item_type: &'static str) {
    if REPORTED.lock().insert(item_type) {
        let queue = context::current_queue_name().unwrap_or_default();
        report!(
            error,
            "an item of the bh queue {queue:?} blocks, and keeps all bh items of its CPU waiting: \
            {item_type}; use another kind of queue for items that block"
        );
    }
}
