//! A pool that runs nothing any more: its executor was shut down, and the timeout of the shutdown has passed.
//!
//! Two marks show this to other threads. A thread that takes an entry, or puts one back, finds a mark in place of the
//! sideline's count. A thread that pushes an entry finds one in the running word, which then always wants one more
//! worker. Threads read the count and the word anyway, so the marks cost nothing.

use std::collections::VecDeque;

use crate::engine::executor::shutdown::give_up;
use crate::engine::item::entry::{Entry, steal};

use super::worker_pool::Pool;

impl Pool {
    /// Marks the pool: from now on it runs nothing, and entries that come to it are given up. The caller gives up the
    /// entries on its lists: first those returned, which are the sideline's, then [those of the
    /// worklist](Self::give_up_worklist).
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
            self.give_up(entry);
        }
    }

    /// Gives up an entry that comes to this pool, which is marked.
    #[cold]
    pub(super) fn give_up(&self, entry: Entry) {
        give_up(entry);
    }
}
