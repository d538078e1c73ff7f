//! The cell of a one-shot's state, and the wait for its end.
//!
//! Every transition is a read-modify-write that acquires and releases:
//!
//! * first owner: uses the closure, the result or the cell, then makes its last transition;
//! * second owner: makes a later transition, then takes the closure or the result, or frees the cell. The second owner
//!   sees everything that the first owner did.
//!
//! The only owner of a detached cell is the worker, which needs no read-modify-write. The worker's `load` acquires, and
//! pairs with the release of the handle's last step:
//!
//! * handle: uses the cell, then `detach`;
//! * worker: sees in `load` that the cell is detached; frees the cell, after the handle's last use.

use crate::policy::one_shot::{Finish, OneShotState, Take};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// The word that says to which of the two owners the closure, the result and the cell itself belong.
#[derive(Debug)]
pub(crate) struct OneShotCell(AtomicU64);

impl OneShotCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(OneShotState::new().into_bits()))
    }

    /// Makes the cell of a one-shot that never has a handle.
    pub(crate) fn detached() -> Self {
        Self(AtomicU64::new(OneShotState::detached().into_bits()))
    }

    #[inline]
    pub(crate) fn load(&self) -> OneShotState {
        OneShotState::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Takes the item for a worker that popped its entry.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        self.update(OneShotState::take)
    }

    /// Finishes the item. The caller has already stored the item's result. After `Finish::Leave` or `Finish::Wake`, the
    /// handle may free the cell at any moment.
    #[inline]
    pub(crate) fn finish(&self) -> Finish {
        self.update(OneShotState::finish)
    }

    /// Finishes the item as cancelled. The caller has taken the closure, and has dropped it instead of running it.
    /// Otherwise this is like [`finish`](Self::finish).
    pub(crate) fn abandon(&self) -> Finish {
        self.update(OneShotState::abandon)
    }

    /// Returns the key on which the handle's thread sleeps. The key is the cell's address. [`wake`](Self::wake) may use
    /// the key even after the cell has been freed.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Wakes the thread that sleeps on this key.
    pub(crate) fn wake(key: usize) {
        wait::wake_all(key);
    }

    pub(crate) fn cancel(&self) -> bool {
        self.update(OneShotState::cancel)
    }

    #[inline]
    pub(crate) fn detach(&self) -> bool {
        self.update(OneShotState::detach)
    }

    /// Sleeps until the item has ended, or until the deadline `until`. Returns false if the deadline came first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        while self.update(OneShotState::wait) {
            if !wait::sleep(self.key(), || !self.load().is_finished(), until) {
                return !self.update(OneShotState::stop_waiting);
            }
        }
        true
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(OneShotState) -> (OneShotState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, OneShotState::from_bits, OneShotState::into_bits, transition)
    }
}
