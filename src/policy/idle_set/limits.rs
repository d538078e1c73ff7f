//! The rules by which idle workers leave, and by which workers are made before a pool needs them.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::{IdleSet, Prepare};

/// The least number of idle workers that each pool keeps: one takes the next item, and the other is the spare.
pub(crate) const MIN_IDLE: usize = 2;

/// The rules by which idle workers leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleLimits {
    /// The time for which a worker must be idle before it can leave.
    pub(crate) idle_timeout: Duration,
    /// The ratio of busy workers to idle workers. `min_idle + n` idle workers are kept only while more than
    /// `n * idle_ratio` workers are busy.
    pub(crate) idle_ratio: usize,
    /// The number of idle workers that are never culled, which is at least [`MIN_IDLE`].
    pub(crate) min_idle: usize,
}

impl IdleSet {
    /// Asks for workers although there is no item for them yet. The pool gets `min_idle` workers, or one worker if it
    /// keeps no spare. The manager makes these workers one after the other. If a worker cannot be made now, the
    /// remaining workers are not made until the pool needs a worker.
    pub(crate) fn prestart(&mut self) -> Prepare {
        self.ahead = if self.keeps_spare { self.limits.min_idle } else { 1 };
        self.next_ahead()
    }

    /// Asks for the next worker that is made in advance, before the pool needs it. The pool calls this function when a
    /// worker has arrived.
    pub(crate) fn next_ahead(&mut self) -> Prepare {
        if self.alive >= self.ahead {
            self.ahead = 0;
            Prepare::Ready
        } else if self.creating || self.closing {
            Prepare::Ready
        } else {
            self.creating = true;
            Prepare::CreateSpare
        }
    }
}
