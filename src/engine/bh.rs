//! Bh contexts: pools of one worker that runs items one after the other, blocked or not.

use std::collections::BTreeSet;

use crate::policy::budget::{Budget, Pace};
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};

use super::context;
use super::pool::Pool;
use super::user_code::report;

/// The budget of the present run; only bh contexts have one.
pub(super) struct Run(Option<Budget>);

impl Run {
    /// The worker of this pool begins.
    pub(super) fn begin(pool: &Pool) -> Self {
        Self(pool.spec.is_bh().then(|| Budget::begin(clock::now(), pool.pending())))
    }

    /// An item has ended. `in_hand`: has the worker the next one already?
    #[inline]
    pub(super) fn item_ended(&mut self, pool: &Pool, in_hand: impl FnOnce() -> bool) {
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

/// An item of a bh queue enters a blocking guard: says so, once for each type of items.
#[cold]
pub(super) fn report_guard(item_type: &'static str) {
    if REPORTED.lock().insert(item_type) {
        let queue = context::current_queue_name().unwrap_or_default();
        report!(
            error,
            "an item of the bh queue {queue:?} blocks, and keeps all bh items of its CPU waiting: \
            {item_type}; queue what blocks to another kind of queue"
        );
    }
}
