//! A pool that runs nothing any more, because its executor was shut down and the time ran out.
//!
//! The mark is where every thread looks anyway before a cold path: what the sideline shows, for a thread that takes an entry
//! or puts one back; and the running word, which always wants one worker more, for a thread that pushes one.

use std::collections::VecDeque;

use super::super::entry::Entry;
use super::super::shard::steal;
use super::super::shutdown::give_up;
use super::Pool;

impl Pool {
    /// From here on the pool runs nothing, and what comes to it is given up. So is what lies on its lists, by the caller:
    /// first the sideline's entries, which it gets, then [the others](Self::give_up_worklist).
    #[cold]
    #[must_use]
    pub(crate) fn abandon(&self) -> VecDeque<Entry> {
        let sideline = self.state.lock().sideline.abandon(&self.aside);
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
