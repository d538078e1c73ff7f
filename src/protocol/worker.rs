//! The cell of a worker's [`WorkerState`].
//!
//! One thread writes at a time, so a change is a load and a store and costs next to nothing: the owner, except that
//! a worker on the idle stack is written to by whoever takes it off, under the pool's mutex. The owner enters the
//! idle stack under that mutex too, and is unparked after the write. Release and acquire: a woken worker sees what
//! its waker wrote, and an onlooker who sees a phase sees what the owner did before.

use crate::policy::worker::{Phase, WorkerState};
use crate::sys::sync::{AtomicU64, Ordering};

/// What a worker is doing.
#[derive(Debug)]
pub(crate) struct WorkerCell(AtomicU64);

impl WorkerCell {
    pub(crate) fn new(phase: Phase) -> Self {
        Self(AtomicU64::new(WorkerState::new(phase).into_bits()))
    }

    #[inline]
    pub(crate) fn load(&self) -> WorkerState {
        WorkerState::from_bits(self.0.load(Ordering::Acquire))
    }

    /// By the owner, or by whoever takes the worker off the idle stack.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.change(|state| (state.with_phase(phase), ()));
    }

    /// By the owner.
    #[inline]
    pub(crate) fn begin_item(&self, phase: Phase) {
        self.change(|state| (state.begin_item(phase), ()));
    }

    /// By the owner. True if it must leave the count.
    #[inline]
    pub(crate) fn block(&self) -> bool {
        self.change(WorkerState::block)
    }

    /// By the owner. True if it must come back into the count.
    #[inline]
    pub(crate) fn unblock(&self) -> bool {
        self.change(WorkerState::unblock)
    }

    #[inline]
    fn change<A>(&self, transition: impl FnOnce(WorkerState) -> (WorkerState, A)) -> A {
        let state = WorkerState::from_bits(self.0.load(Ordering::Relaxed));
        let (next, answer) = transition(state);
        self.0.store(next.into_bits(), Ordering::Release);
        answer
    }
}
