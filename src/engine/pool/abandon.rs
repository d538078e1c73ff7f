//! A pool that runs nothing any more, because its executor was shut down and the time ran out.
//!
//! The mark is where everybody looks anyway before a cold path: in place of the sideline's length for who takes an
//! entry or puts one back, and by way of the running word, which always wants one worker more, for who pushes one.

use std::collections::VecDeque;

use crate::sys::sync::Ordering;

use super::super::entry::Entry;
use super::super::shard::steal;
use super::super::shutdown::give_up;
use super::Pool;

/// In place of how many entries the sideline holds: the pool runs nothing any more.
pub(super) const ABANDONED: usize = usize::MAX;

/// How many entries the sideline holds, by what stands in the place of that.
#[inline]
pub(super) const fn entries(sidelined: usize) -> usize {
    if sidelined == ABANDONED { 0 } else { sidelined }
}

impl Pool {
    /// Changes once, under the lock of `state`.
    pub(super) fn is_abandoned(&self) -> bool {
        self.sidelined.load(Ordering::Acquire) == ABANDONED
    }

    /// From here on the pool runs nothing, and what comes to it is given up. So is what lies on its lists, by the caller:
    /// first the sideline's entries, which it gets, then [the others](Self::give_up_worklist).
    #[cold]
    #[must_use]
    pub(crate) fn abandon(&self) -> VecDeque<Entry> {
        let mut state = self.state.lock();
        let sideline = state.sideline.take_all();
        self.bound.store(0, Ordering::Relaxed);
        self.sidelined.store(ABANDONED, Ordering::Release);
        drop(state);
        self.running.abandon();
        sideline
    }

    #[cold]
    pub(crate) fn give_up_worklist(&self) {
        while let Some(entry) = steal(&self.worklist) {
            give_up(entry);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// spec: E5.3: what comes to the worklist of a pool that was abandoned can still be counted.
    #[test]
    fn the_mark_is_no_number_of_entries() {
        assert_eq!(1 + entries(ABANDONED), 1);
        assert_eq!(1 + entries(2), 3);
    }
}
