//! The cell of a one-shot's state, and its completion.
//!
//! Every transition is a read-modify-write with acquire and release: the party that frees the cell, or takes the
//! closure or the result, sees everything that the other one did before its last step. A detached cell has one
//! owner, so its state needs no read-modify-write any more: the acquire load that sees it detached pairs with the
//! release of the handle's last step.

use crate::policy::one_shot::{Finish, OneShotState, Take};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// Who owns the closure, the result and the cell itself.
#[derive(Debug)]
pub(crate) struct OneShotCell(AtomicU64);

impl OneShotCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(OneShotState::new().into_bits()))
    }

    /// Of one that never has a handle.
    pub(crate) fn detached() -> Self {
        Self(AtomicU64::new(OneShotState::detached().into_bits()))
    }

    #[inline]
    pub(crate) fn load(&self) -> OneShotState {
        OneShotState::from_bits(self.0.load(Ordering::Acquire))
    }

    /// A worker popped the entry.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        self.update(OneShotState::take)
    }

    /// The result is stored. After `Finish::Leave` and `Finish::Wake` the cell may be gone.
    #[inline]
    pub(crate) fn finish(&self) -> Finish {
        self.update(OneShotState::finish)
    }

    /// The closure was taken and dropped instead of run. The same as [`finish`](Self::finish) otherwise.
    pub(crate) fn abandon(&self) -> Finish {
        self.update(OneShotState::abandon)
    }

    /// What the handle sleeps on: the cell's address, good for [`wake`](Self::wake) also when the cell is gone.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Wakes who sleeps on this key.
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

    /// Sleeps until the item has ended. False if the time ran out first.
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
