//! An abandoned pool, which runs nothing any more because its executor was shut down.
//!
//! Two marks tell other threads that the pool is abandoned. The first mark replaces the sideline's count. A thread that
//! takes an entry, or puts an entry back, finds the mark in this count. The second mark is in the running word, which
//! then always asks for one more worker. A thread that pushes an entry finds the mark in this word. Threads read the
//! count and the word anyway, so the marks cost nothing.
//!
//! Until the thread that abandons the pool has emptied the worklist, all other threads leave their entries to that
//! thread. Otherwise, the shutdown could report an item as running that another thread is about to give up.

use std::collections::VecDeque;

use crate::engine::executor::shutdown::give_up;
use crate::engine::item::entry::{Entry, steal};

use super::worker_pool::Pool;

impl Pool {
    /// Marks the pool as abandoned. From now on the pool runs nothing, and entries that arrive at it are given up.
    /// Returns the entries of the sideline. The caller gives up these entries first, and then [empties](Self::empty)
    /// the worklist.
    #[cold]
    #[must_use]
    pub(crate) fn abandon(&self) -> VecDeque<Entry> {
        let sideline = self.state.lock().sideline.abandon(&self.aside);
        self.running.abandon();
        sideline
    }

    /// Gives up the entries of the worklist. The thread that has abandoned the pool calls this.
    #[cold]
    pub(crate) fn empty(&self) {
        self.give_up_worklist();
        self.state.lock().sideline.emptied();
        // Until now, other threads have left the entries that they pushed to this thread.
        self.give_up_worklist();
    }

    #[cold]
    pub(super) fn give_up_worklist(&self) {
        self.take_all_local();
        while let Some(entry) = steal(&self.worklist) {
            give_up(entry);
        }
    }
}
