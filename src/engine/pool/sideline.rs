//! Entries that come before the worklist's: put back, or moved aside by who had to look through the worklist.

use std::collections::VecDeque;

use super::super::entry::Entry;

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
