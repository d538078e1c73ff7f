//! Entries that come before those of the worklist. They were put back, or moved aside by a thread that had to search
//! the worklist.

use crate::protocol::sideline::Bound;

use crate::engine::item::entry::{Entry, steal};

use super::worker_pool::Pool;

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        Self::is_bound(self)
    }
}

impl Pool {
    /// Takes the first entry. Returns `None` if there is none, or if the pool is abandoned.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Entry> {
        if self.aside.comes_first() {
            let (first, is_abandoned) = self.pop_sideline();
            if first.is_some() || is_abandoned {
                return first;
            }
        }
        let entry = steal(&self.worklist)?;
        if entry.is_marker() { Some(self.before_marker(entry)) } else { Some(entry) }
    }

    /// Called with a marker that was taken off the worklist. If entries were moved from there to the sideline
    /// meanwhile, returns the first of them, and puts the marker behind the others. Otherwise returns the marker.
    #[cold]
    fn before_marker(&self, marker: Entry) -> Entry {
        self.state.lock().sideline.swap_front(marker, &self.aside)
    }

    /// Takes the first entry. Returns it, and whether the pool is abandoned.
    #[cold]
    fn pop_sideline(&self) -> (Option<Entry>, bool) {
        let mut state = self.state.lock();
        (state.sideline.pop_front(&self.aside), state.sideline.is_abandoned())
    }
}
