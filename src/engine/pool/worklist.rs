//! The lists of a pool: how entries come, are taken by its workers, and are given to siblings.
//!
//! Issuers push to the worklist. The *sideline* comes before it: entries that were put back, or moved aside by a thread
//! that had to search the worklist, which can be neither scanned nor unlinked from.

use crate::policy::concurrency::Kick;
use crate::protocol::sideline::Bound;

use crate::engine::item::entry::{Entry, steal};

use super::binding::Near;
use super::worker_pool::{Pool, State};

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        Self::is_bound(self)
    }
}

impl Pool {
    /// Adds an entry at the end of the worklist. Wakes or makes a worker for it if one is needed.
    #[inline]
    pub(crate) fn submit(&self, entry: Entry) {
        let is_bound = entry.is_bound();
        self.push(entry);
        match self.running.pushed() {
            // No sibling may take a bound entry. Entries that siblings may take were offered when they came.
            Kick::Offer if is_bound => {}
            Kick::Watch if is_bound => self.ask_to_watch(),
            kick => self.perform(kick, Near::Anywhere),
        }
    }

    /// The first half of [`submit`](Self::submit): pushes the entry. Until the second half, perhaps no worker comes
    /// for it.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) {
        self.worklist.push(entry);
    }

    /// The second half, for an entry that this thread has pushed.
    #[inline]
    pub(crate) fn pushed(&self) {
        self.perform(self.running.pushed(), Near::Anywhere);
    }

    /// The second half, for several entries. Wakes workers for all of them: if each worker woke the next one, the
    /// last one would come late.
    pub(crate) fn pushed_many(&self, entries: usize) {
        self.pushed();
        for _ in 1..entries {
            if !self.running.load().need_more_worker() {
                break;
            }
            self.pushed();
        }
        self.offer();
    }

    /// Adds an entry before all others.
    #[cold]
    pub(crate) fn put_back(&self, entry: Entry) {
        let put = self.state.lock().sideline.put_back(entry, &self.aside);
        if let Err(entry) = put {
            return self.give_up(entry);
        }
        self.perform(self.running.pushed(), Near::Anywhere);
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.aside.len() > 0 || !self.worklist.is_empty()
    }

    /// As [`has_work`](Self::has_work), but right even while entries are moved from one list to the other.
    #[cold]
    pub(crate) fn has_entries(&self) -> bool {
        let _state = self.state.lock();
        self.has_work()
    }

    /// Returns how many entries wait on the worklist and the sideline. A hint.
    pub(crate) fn pending(&self) -> usize {
        self.worklist.len() + self.aside.len() as usize
    }

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

    /// The first entry that may leave. Under the lock: what must not leave is in nobody's hands, where whoever turns a route
    /// away from here would miss it, and close the pool.
    pub(super) fn give(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            return None;
        }
        let mut set_aside = false;
        let given = state.sideline.take_first(&self.aside, |entry| !entry.is_bound()).or_else(|| {
            loop {
                let entry = steal(&self.worklist)?;
                // Nothing that must not leave lies before the marker: it would wait for nobody but this pool's workers.
                let is_first_marker = state.sideline.len() == 0 && entry.is_marker();
                if !entry.is_bound() || is_first_marker {
                    return Some(entry);
                }
                state.sideline.push_back(entry);
                set_aside = true;
            }
        });
        if set_aside {
            state.sideline.show(&self.aside);
        }
        state.given += u64::from(given.is_some());
        drop(state);
        if set_aside {
            self.moved_aside();
        }
        given
    }

    /// Moves the worklist to the end of the sideline. The caller calls [`moved_aside`](Self::moved_aside) once it has
    /// released the lock.
    pub(super) fn move_aside(&self, state: &mut State) {
        // Entries that are pushed from now on stay, so a stream of pushes does not keep this thread under the lock.
        for _ in 0..self.worklist.len() {
            let Some(entry) = steal(&self.worklist) else { break };
            state.sideline.push_back(entry);
        }
        state.sideline.show(&self.aside);
    }

    /// Checks for work again, because a thread that looked while entries moved from one list to the other may have
    /// seen none.
    pub(super) fn moved_aside(&self) {
        if self.has_work() {
            self.perform(self.running.pushed(), Near::Anywhere);
        }
    }
}
