//! The cell of a one-shot's state, and the wait for its end.
//!
//! Every transition is a read-modify-write that acquires and releases:
//!
//! * first owner: uses the closure, the result or the cell, then makes its last transition;
//! * second owner: makes a transition after that, then takes the closure or the result, or frees the cell. It sees
//!   all that the first owner did.
//!
//! A detached cell has one owner left, the worker, which needs no read-modify-write. Its `load` acquires, and pairs
//! with the release of the handle's last step:
//!
//! * handle: uses the cell, then `detach`;
//! * worker: `load` finds the cell detached; it frees the cell after the handle's last use.

use crate::policy::one_shot::{Finish, OneShotState, Take};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// Says which of the two owners has the closure, the result and the cell itself.
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

    /// Finishes the item, whose result is stored. After `Finish::Leave` and `Finish::Wake` the cell may be freed.
    #[inline]
    pub(crate) fn finish(&self) -> Finish {
        self.update(OneShotState::finish)
    }

    /// Finishes the item as cancelled: its closure was taken, and dropped instead of run. Otherwise as
    /// [`finish`](Self::finish).
    pub(crate) fn abandon(&self) -> Finish {
        self.update(OneShotState::abandon)
    }

    /// Returns the key that the handle sleeps on. It is the cell's address, and [`wake`](Self::wake) may use it after
    /// the cell was freed.
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

    /// Sleeps until the item has ended. Returns false if the time ran out first.
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
