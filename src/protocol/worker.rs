//! The cell of a worker's [`WorkerState`].
//!
//! Whoever takes the worker off the idle stack writes the word under the pool's mutex, and unparks after unlocking;
//! the parked owner reads it. Otherwise the owner alone writes. Blocking and returning are compare-and-swaps all
//! the same: a detector may move the same word from outside, and the one who moves it accounts for it.

use crate::policy::worker::{Phase, WorkerState};
use crate::sys::sync::{AtomicU64, Ordering};

/// What a worker is doing.
#[derive(Debug)]
pub(crate) struct WorkerCell(AtomicU64);

impl WorkerCell {
    pub(crate) fn new(phase: Phase) -> Self {
        Self(AtomicU64::new(WorkerState::new(phase).into_bits()))
    }

    /// Acquire: a woken worker sees what its waker wrote.
    #[inline]
    pub(crate) fn load(&self) -> WorkerState {
        WorkerState::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Owner, or whoever holds the pool's mutex and took the worker off the idle stack.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.update(|state| (state.with_phase(phase), ()));
    }

    /// Owner.
    #[inline]
    pub(crate) fn begin_item(&self, phase: Phase) {
        self.update(|state| (state.begin_item(phase), ()));
    }

    /// True if it falls to the caller to take the worker out of the count.
    #[inline]
    pub(crate) fn block(&self) -> bool {
        self.update(WorkerState::block)
    }

    /// True if it falls to the caller to put the worker back into the count.
    #[inline]
    pub(crate) fn unblock(&self) -> bool {
        self.update(WorkerState::unblock)
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(WorkerState) -> (WorkerState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, WorkerState::from_bits, WorkerState::into_bits, transition)
    }
}
