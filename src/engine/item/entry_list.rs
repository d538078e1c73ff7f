//! A list of entries that any thread may add to and take from, without a lock.

use crossbeam_deque::{Injector, Steal};

use crate::sys::sync::touch;

use super::entry::Entry;

/// A list of entries. The entries leave the list in the order in which they were added.
///
/// On a made-up machine (a simulation) that models cache lines, each call reports which ends of the list it reads, and
/// which ends it changes. The report is an approximation: a real list avoids some reads of its last end, and has
/// further cache lines for its entries.
#[derive(Debug)]
pub(crate) struct EntryList(Injector<Entry>);

/// An end of a list.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

impl EntryList {
    pub(crate) fn new() -> Self {
        Self(Injector::new())
    }

    /// Adds an entry to the end of the list.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) {
        self.touch(End::Last, false);
        self.touch(End::Last, true);
        self.0.push(entry);
    }

    /// Takes the first entry of the list. Returns `None` only if the list was found empty.
    #[inline]
    pub(crate) fn take(&self) -> Option<Entry> {
        self.touch_both();
        loop {
            match self.0.steal() {
                Steal::Success(entry) => {
                    self.touch(End::First, true);
                    return Some(entry);
                }
                Steal::Empty => return None,
                // Another thread took an entry at the same time.
                Steal::Retry => {}
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.touch_both();
        self.0.is_empty()
    }

    /// Returns the number of entries. The number is only a hint.
    pub(crate) fn len(&self) -> usize {
        self.touch_both();
        self.0.len()
    }

    #[inline(always)]
    fn touch_both(&self) {
        self.touch(End::First, false);
        self.touch(End::Last, false);
    }

    #[inline(always)]
    fn touch(&self, end: End, writes: bool) {
        let line = match end {
            End::First => 0,
            End::Last => 128,
        };
        touch(std::ptr::from_ref(self).wrapping_byte_add(line), writes);
    }
}
