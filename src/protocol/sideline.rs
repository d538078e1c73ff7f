//! The entries of a pool that come before those on its worklist, and the mark that the pool is *abandoned*: its executor
//! was shut down, and it runs nothing any more.
//!
//! [`Sideline`] lies under the pool's lock. [`Shown`] lies beside it, for threads that ask without the lock: how many
//! entries there are, or the mark. Each change of the sideline shows itself before the lock is released.
//!
//! * **Put back against leave.** A thread puts an entry back, shows the count, and then looks at the running word, with the
//!   fence of [`RunningCell::pushed`](super::running::RunningCell::pushed). A worker that stops counting lowers that word,
//!   fences, and reads the count. At least one of the two sees what the other one wrote.
//! * **Put back against abandon.** Both happen under the lock. If the entry is first, the thread that abandons the pool
//!   takes it. If the mark is first, the entry comes back to the thread that puts it.
//! * **Pop against abandon.** A worker that finds the sideline empty shows nothing, and a change after the mark shows the
//!   mark again. So no count takes its place.

use std::collections::VecDeque;

use crate::sys::sync::{AtomicU64, Ordering};

/// An entry that may have to stay in its pool.
pub(crate) trait Bound {
    fn is_bound(&self) -> bool;
}

/// See the module. Inside of the pool's lock.
#[derive(Debug)]
pub(crate) struct Sideline<E> {
    entries: VecDeque<E>,
    /// How many of them no sibling may take.
    bound: usize,
    /// Set once, and then there are no entries any more.
    is_abandoned: bool,
}

/// What the sideline shows. Written under the pool's lock.
#[derive(Debug)]
pub(crate) struct Shown {
    /// How many entries there are, or [`ABANDONED`].
    entries: AtomicU64,
    bound: AtomicU64,
}

/// In place of how many entries there are.
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

    /// Adds an entry before all others. It comes back if the pool is abandoned.
    pub(crate) fn put_back(&mut self, entry: E, shown: &Shown) -> Result<(), E> {
        if self.is_abandoned {
            return Err(entry);
        }
        self.bound += usize::from(entry.is_bound());
        self.entries.push_front(entry);
        self.show(shown);
        Ok(())
    }

    /// Adds an entry behind the others. The caller owes a [`show`](Self::show), and has seen that the pool is not
    /// abandoned.
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

    /// Takes the first entry, and adds another one behind the others. It comes back if there is no first one.
    pub(crate) fn swap_front(&mut self, entry: E, shown: &Shown) -> E {
        if self.entries.is_empty() {
            return entry;
        }
        self.push_back(entry);
        self.pop_front(shown).expect("one was there already")
    }

    /// Takes the first entry of which this is true.
    pub(crate) fn take_first(&mut self, shown: &Shown, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let at = self.entries.iter().position(wanted)?;
        let entry = self.entries.remove(at)?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Marks the pool. Returns the entries, which the caller gives up.
    #[must_use]
    pub(crate) fn abandon(&mut self, shown: &Shown) -> VecDeque<E> {
        self.is_abandoned = true;
        self.bound = 0;
        let entries = std::mem::take(&mut self.entries);
        self.show(shown);
        entries
    }

    /// Shows others what there is.
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

    /// Whether a worker has to look at the sideline before the worklist: it has entries, or the pool is abandoned. A hint.
    #[inline]
    pub(crate) fn comes_first(&self) -> bool {
        self.entries.load(Ordering::Relaxed) > 0
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self.entries.load(Ordering::Acquire) {
            ABANDONED => 0,
            entries => entries,
        }
    }

    /// How many entries siblings may take. The two numbers are of one moment only under the lock. `None`: the pool is
    /// abandoned.
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

    /// spec: E5.3: what comes to the worklist of a pool that was abandoned can still be counted.
    #[test]
    fn the_mark_is_no_number_of_entries() {
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
    fn what_is_shown_follows_each_change() {
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
