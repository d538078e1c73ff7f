//! Entries that come before the worklist's: put back, or moved aside by a thread that had to look through the worklist.

use crate::protocol::sideline::Bound;

use super::super::entry::Entry;
use super::super::route;
use super::super::shard::steal;
use super::Pool;

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        Self::is_bound(self)
    }
}

impl Pool {
    /// Takes the first entry. `None` as well if the pool is abandoned.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Entry> {
        if self.aside.comes_first() {
            let (first, is_abandoned) = self.pop_sideline();
            if first.is_some() || is_abandoned {
                return first;
            }
        }
        let entry = steal(&self.worklist)?;
        if route::is_marker(&entry) { Some(self.before_marker(entry)) } else { Some(entry) }
    }

    /// A marker was taken off the worklist. It stays behind what was moved from there to the sideline meanwhile: what comes
    /// first of these.
    #[cold]
    fn before_marker(&self, marker: Entry) -> Entry {
        self.state.lock().sideline.swap_front(marker, &self.aside)
    }

    /// The first entry, and whether the pool is abandoned.
    #[cold]
    fn pop_sideline(&self) -> (Option<Entry>, bool) {
        let mut state = self.state.lock();
        (state.sideline.pop_front(&self.aside), state.sideline.is_abandoned())
    }
}
