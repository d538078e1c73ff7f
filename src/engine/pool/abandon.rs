//! An abandoned pool, which runs nothing any more because its executor was shut down.
//!
//! Two marks tell other threads that the pool is abandoned. The first mark replaces the count of entries on the
//! sideline (the list whose entries come before the worklist's). A thread that takes an entry, or puts an entry back,
//! finds the first mark in the count of the sideline. The second mark is in the running word, which then always asks
//! for one more worker. A thread that pushes an entry finds the second mark in the running word. Threads read the
//! sideline's count and the running word anyway, so the marks cost nothing.
//!
//! Until the thread that abandons the pool has emptied the worklist, all other threads leave their entries to that
//! thread. If other threads gave up entries themselves, the shutdown could report an item as running although another
//! thread is about to give the item up.

use std::collections::VecDeque;

use crate::engine::executor::shutdown::give_up;
use crate::engine::item::entry::Entry;

use super::worker_pool::Pool;

impl Pool {
    /// Marks the pool as abandoned. From now on the pool runs nothing, and threads give up the entries that arrive at
    /// it. Returns the entries of the sideline. The caller gives up these entries first, and then
    /// [empties](Self::empty) the worklist.
    #[cold]
    #[must_use]
    pub(crate) fn abandon(&self) -> VecDeque<Entry> {
        let mut state = self.state.lock();
        let sideline = state.sideline.abandon(&self.aside);
        // The second mark is set under the same lock as the first. If a thread found only the first mark, a sibling
        // pool could offer its work to this pool again and again.
        self.running.abandon();
        sideline
    }

    /// Gives up the entries of the worklist, until the worklist is empty. After this call, a thread that pushes an
    /// entry gives up the entries of the worklist itself. The thread that has abandoned the pool calls this function.
    #[cold]
    pub(crate) fn empty(&self) {
        loop {
            self.give_up_worklist();
            let mut state = self.state.lock();
            if self.worklist.is_empty() && state.local() == 0 {
                return state.sideline.emptied();
            }
        }
    }

    #[cold]
    pub(crate) fn give_up_worklist(&self) {
        self.take_all_local();
        while let Some(entry) = self.worklist.take() {
            give_up(entry);
        }
    }
}
