//! Entries that come before the worklist's: put back, or moved aside by who had to look through the worklist.

use std::collections::VecDeque;

use crate::sys::sync::Ordering;

use super::super::entry::Entry;
use super::super::route;
use super::super::shard::steal;
use super::{Pool, State};

/// Inside of the pool's lock.
#[derive(Default)]
pub(super) struct Sideline {
    entries: VecDeque<Entry>,
    /// How many of them no sibling may take.
    bound: usize,
}

impl Sideline {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bound(&self) -> usize {
        self.bound
    }

    pub(super) fn push_front(&mut self, entry: Entry) {
        self.bound += usize::from(entry.is_bound());
        self.entries.push_front(entry);
    }

    pub(super) fn push_back(&mut self, entry: Entry) {
        self.bound += usize::from(entry.is_bound());
        self.entries.push_back(entry);
    }

    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bound -= usize::from(entry.is_bound());
        Some(entry)
    }

    /// Takes the first entry of which this is true.
    pub(super) fn take_first(&mut self, wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let at = self.entries.iter().position(wanted)?;
        let entry = self.entries.remove(at)?;
        self.bound -= usize::from(entry.is_bound());
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Entry> {
        self.bound = 0;
        std::mem::take(&mut self.entries)
    }
}

impl Pool {
    /// Takes the first entry.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Entry> {
        if self.sidelined.load(Ordering::Relaxed) > 0 {
            match self.pop_sideline() {
                Some(entry) => return Some(entry),
                None if self.is_abandoned() => return None,
                None => {}
            }
        }
        let entry = steal(&self.worklist)?;
        if route::is_marker(&entry) { Some(self.before_marker(entry)) } else { Some(entry) }
    }

    /// A marker was taken off the worklist. It stays behind what was moved from there to the sideline meanwhile: what comes
    /// first of these.
    #[cold]
    fn before_marker(&self, marker: Entry) -> Entry {
        let mut state = self.state.lock();
        let Some(first) = state.sideline.pop_front() else { return marker };
        state.sideline.push_back(marker);
        self.note_sideline(&state);
        first
    }

    #[cold]
    fn pop_sideline(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        if self.is_abandoned() {
            return None;
        }
        let entry = state.sideline.pop_front();
        self.note_sideline(&state);
        entry
    }

    /// Lets others know what the sideline holds.
    pub(super) fn note_sideline(&self, state: &State) {
        self.bound.store(state.sideline.bound(), Ordering::Relaxed);
        self.sidelined.store(state.sideline.len(), Ordering::Release);
    }
}
