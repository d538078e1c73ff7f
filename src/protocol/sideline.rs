//! The sideline of a pool. The sideline holds the entries that come before the entries on the pool's worklist. The
//! sideline also holds the mark that the pool is *abandoned*. An abandoned pool runs nothing any more, because the
//! pool's executor was shut down.
//!
//! [`Sideline`] is inside the pool's lock. [`Shown`] is outside the lock, for threads that do not take the lock.
//! `Shown` holds the number of entries, or the mark. A thread that changes the sideline updates `Shown` before it
//! releases the lock.
//!
//! * **Put back against leave.** The fences of [`RunningCell::pushed`](super::running::RunningCell::pushed) and
//!   [`RunningCell::look`](super::running::RunningCell::look) forbid this:
//!   * issuer: puts an entry back, and shows the number of entries; reads the running word: a worker runs;
//!   * worker: lowers the running word; reads the number of entries: it is zero. So the entry waits, and no worker is
//!     woken for it.
//! * **Put back against abandon.** Both steps happen under the lock. If the entry is put back first, the thread that
//!   abandons the pool takes the entry. If the mark is set first, `put_back` returns the entry to its caller.
//! * **Pop against abandon.** A number never replaces the mark. A worker that finds the sideline empty does not update
//!   `Shown`, and a thread that changes the sideline after the mark was set shows the mark again.

use std::collections::VecDeque;

use crate::sys::sync::{AtomicU64, Ordering};

/// An entry that tells whether it is bound to its pool.
pub(crate) trait Bound {
    fn is_bound(&self) -> bool;
}

/// The entries and the mark, which are inside the pool's lock. See the module.
#[derive(Debug)]
pub(crate) struct Sideline<E> {
    entries: VecDeque<E>,
    /// The number of bound entries, which siblings may not take.
    bound: usize,
    /// Whether the pool is abandoned. If so, the sideline stays empty.
    is_abandoned: bool,
}

/// The numbers that the sideline shows to threads without the lock. Threads write these numbers under the lock.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The number of entries, or [`ABANDONED`].
    entries: AtomicU64,
    bound: AtomicU64,
}

/// The mark, which takes the place of the number of entries.
const ABANDONED: u64 = u64::MAX;

impl<E: Bound> Sideline<E> {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), bound: 0, is_abandoned: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    /// Adds an entry before all others. Returns the entry if the pool is abandoned.
    pub(crate) fn put_back(&mut self, entry: E, shown: &Shown) -> Result<(), E> {
        if self.is_abandoned {
            return Err(entry);
        }
        self.bound += usize::from(entry.is_bound());
        self.entries.push_front(entry);
        self.show(shown);
        Ok(())
    }

    /// Adds an entry behind all others. The caller has seen that the pool is not abandoned, and calls
    /// [`show`](Self::show) afterwards.
    pub(crate) fn push_back(&mut self, entry: E) {
        debug_assert!(!self.is_abandoned, "an entry was moved to the sideline of a pool that is abandoned");
        self.bound += usize::from(entry.is_bound());
        self.entries.push_back(entry);
    }

    pub(crate) fn pop_front(&mut self, shown: &Shown) -> Option<E> {
        let entry = self.entries.pop_front()?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Takes the first entry, and adds `entry` behind all others. If the sideline is empty, returns `entry`, and adds
    /// nothing.
    pub(crate) fn swap_front(&mut self, entry: E, shown: &Shown) -> E {
        if self.entries.is_empty() {
            return entry;
        }
        self.push_back(entry);
        self.pop_front(shown).expect("the sideline was not empty")
    }

    /// Takes the first entry for which `wanted` returns true.
    pub(crate) fn take_first(&mut self, shown: &Shown, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let at = self.entries.iter().position(wanted)?;
        let entry = self.entries.remove(at)?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Marks the pool as abandoned. Returns the entries. The caller gives up these entries.
    #[must_use]
    pub(crate) fn abandon(&mut self, shown: &Shown) -> VecDeque<E> {
        self.is_abandoned = true;
        self.bound = 0;
        let entries = std::mem::take(&mut self.entries);
        self.show(shown);
        entries
    }

    /// Writes the number of entries, or the mark, to `shown`.
    pub(crate) fn show(&self, shown: &Shown) {
        let entries = if self.is_abandoned { ABANDONED } else { self.entries.len() as u64 };
        shown.bound.store(self.bound as u64, Ordering::Relaxed);
        shown.entries.store(entries, Ordering::Release);
    }
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { entries: AtomicU64::new(0), bound: AtomicU64::new(0) }
    }

    /// Returns whether a worker has to check the sideline before the worklist, because the sideline has entries or the
    /// pool is abandoned. The answer is a hint.
    #[inline]
    pub(crate) fn comes_first(&self) -> bool {
        self.entries.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of entries.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self.entries.load(Ordering::Acquire) {
            ABANDONED => 0,
            entries => entries,
        }
    }

    /// Returns the number of entries that siblings may take, or `None` if the pool is abandoned. The answer is exact
    /// only if the caller holds the lock, because it is computed from two loads.
    pub(crate) fn movable(&self) -> Option<u64> {
        match self.entries.load(Ordering::Acquire) {
            ABANDONED => None,
            entries => Some(entries.saturating_sub(self.bound.load(Ordering::Relaxed))),
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    impl Bound for bool {
        fn is_bound(&self) -> bool {
            *self
        }
    }

    /// spec: E5.3: the number of entries can still be read after the pool was abandoned.
    #[test]
    fn an_abandoned_sideline_shows_no_entries_but_comes_first() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        assert!(!shown.comes_first());
        assert_eq!(sideline.put_back(true, &shown), Ok(()));
        sideline.push_back(false);
        sideline.show(&shown);
        assert_eq!((shown.len(), shown.movable(), shown.comes_first()), (2, Some(1), true));
        assert_eq!(sideline.abandon(&shown), [true, false]);
        assert_eq!((shown.len(), shown.movable(), shown.comes_first()), (0, None, true));
        assert_eq!(sideline.put_back(true, &shown), Err(true));
    }

    #[test]
    fn each_change_shows_the_number_of_entries() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        for entry in [false, true, true] {
            sideline.put_back(entry, &shown).unwrap();
        }
        assert_eq!(sideline.take_first(&shown, |entry| !entry), Some(false));
        assert_eq!((shown.len(), shown.movable()), (2, Some(0)));
        assert_eq!(sideline.pop_front(&shown), Some(true));
        assert_eq!((shown.len(), shown.movable()), (1, Some(0)));
        assert_eq!(sideline.pop_front(&shown), Some(true));
        assert_eq!((shown.len(), sideline.pop_front(&shown)), (0, None));
    }
}
