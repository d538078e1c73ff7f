//! An abandoned pool, which runs nothing any more because its executor was shut down.
//!
//! Two marks tell other threads that the pool is abandoned. The first mark replaces the sideline's count. A thread that
//! takes an entry, or puts an entry back, finds the mark in this count. The second mark is in the running word. A
//! thread that pushes an entry finds the mark in this word, and gives up the worklist. Threads read the count and the
//! word anyway, so the marks cost nothing.
//!
//! A thread that has pushed nothing leaves the entries to the thread that abandons the pool. That thread then counts
//! them before it reports what the shutdown has dropped.

use std::collections::VecDeque;

use crate::engine::executor::shutdown::give_up;
use crate::engine::item::entry::{Entry, steal};

use super::worker_pool::Pool;

impl Pool {
    /// Marks the pool as abandoned. From now on the pool runs nothing, and entries that arrive at it are given up.
    /// Returns the entries of the sideline. The caller gives up these entries first, and then [those of the
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
        self.take_all_local();
        while let Some(entry) = steal(&self.worklist) {
            self.give_up(entry);
        }
    }

    /// Gives up an entry that arrives at this pool after the pool was marked.
    #[cold]
    pub(super) fn give_up(&self, entry: Entry) {
        give_up(entry);
    }
}
