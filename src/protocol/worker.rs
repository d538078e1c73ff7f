//! The cell of a worker's [`WorkerState`].
//!
//! **Outside of items** one thread writes at a time, so a change is a load and a store. That thread is the
//! owner, except while the worker is on the idle stack: then it is the thread that takes the worker off, under the
//! pool's mutex. The owner enters the idle stack under that mutex too, and the other thread unparks it after the
//! write. Stores release and loads acquire:
//!
//! * waker: writes, then stores the phase *waking*;
//! * woken worker: loads *waking*, then sees what the waker wrote.
//!
//! The same holds for a reader on another thread: if it sees a phase, it sees what the owner did before.
//!
//! **Inside of an item** the detector writes, too. So the owner's change is a read-modify-write in each phase that
//! the detector may end: one at the end of each item, and one when it enters a guard. Leaving a blocking guard is a
//! store, since only the owner changes the word of a blocked worker. A store at the end of an item could lose a
//! change:
//!
//! * owner: loads *running*;
//! * detector: stores *asleep*, lowers the count;
//! * owner: stores *between*, and does not know that it has left the count.
//!
//! **The count.** The thread that takes the worker out of the pool's count lowers the count after it changed the
//! word, fences, and looks at the work. The thread that puts the worker back raises the count before it changes the
//! word. So the count may be one too high for a moment, which the look makes up for, and it is never too low. The
//! other order:
//!
//! * detector: changes the word to *running*;
//! * owner: ends its item, and leaves the count, which falls below zero;
//! * detector: raises the count.
//!
//! Only between two items, where the detector changes nothing, the owner raises the count after the word.

use crate::policy::worker::{Finding, Phase, WorkerState};
use crate::sys::sync::{AtomicU64, Ordering};

use super::running::RunningCell;

/// What became of a finding of the detector.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    /// The finding was about the present word, and was carried out.
    pub(crate) holds: bool,
    /// The count was lowered: the caller owes a [`look`](RunningCell::look).
    pub(crate) owes_look: bool,
}

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

    /// Sets the phase. Called by the owner outside of items, or by the thread that takes the worker off the idle
    /// stack.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.write(|state| (state.with_phase(phase), ()));
    }

    /// Begins an item. Called by the owner, between two items.
    #[inline]
    pub(crate) fn begin_item(&self, phase: Phase) {
        self.write(|state| (state.begin_item(phase), ()));
    }

    /// Ends the item. Called by the owner. Returns whether it must come back into the count.
    #[inline]
    pub(crate) fn end_item(&self) -> bool {
        self.change(WorkerState::end_item)
    }

    /// Declares the item CPU intensive. Called by the owner. Returns whether it must leave the count.
    #[inline]
    pub(crate) fn uncount(&self) -> bool {
        self.change(WorkerState::uncount)
    }

    /// Enters a blocking guard. Called by the owner. Returns whether it must leave the count.
    #[inline]
    pub(crate) fn block(&self) -> bool {
        self.change(WorkerState::block)
    }

    /// Leaves a blocking guard. Called by the owner. Returns whether it was blocked; then it is back in the count.
    /// `outer`: the guard is inside of a `may_block` guard.
    #[inline]
    pub(crate) fn unblock(&self, outer: bool, count: &RunningCell) -> bool {
        let (next, comes_back) = self.load().unblock(outer);
        if comes_back {
            count.come_back();
            // Only the owner changes the word of a blocked worker.
            self.write(|_blocked| (next, ()));
        }
        comes_back
    }

    /// Enters a `may_block` guard. Called by the owner.
    #[inline]
    pub(crate) fn enter_may_block(&self) {
        self.change(|state| (state.enter_may_block(), ()));
    }

    /// Leaves a `may_block` guard. Called by the owner. Returns whether it did block; then it is back in the count.
    #[inline]
    pub(crate) fn leave_may_block(&self, count: &RunningCell) -> bool {
        let seen = self.load();
        let (next, comes_back) = seen.leave_may_block();
        if !comes_back && self.replace(seen, next) {
            return false;
        }
        // If the word was replaced meanwhile, the worker is blocked: the detector makes no other change in this
        // phase.
        self.unblock(false, count)
    }

    /// Carries out a finding, if the word is still the one that was `seen`. Called by the detector, which has read
    /// `seen` and then looked at the thread.
    pub(crate) fn carry_out(&self, seen: WorkerState, finding: Finding, count: &RunningCell) -> Carried {
        let puts_back = !finding.takes_out();
        if puts_back {
            count.come_back();
        }
        let holds = self.found(seen, finding);
        let owes_look = puts_back != holds;
        if owes_look {
            count.leave();
        }
        Carried { holds, owes_look }
    }

    fn found(&self, seen: WorkerState, finding: Finding) -> bool {
        seen.found(finding).is_some_and(|next| self.replace(seen, next))
    }

    /// Returns false if the word has changed since it was `seen`.
    #[inline]
    fn replace(&self, seen: WorkerState, next: WorkerState) -> bool {
        let (seen, next) = (seen.into_bits(), next.into_bits());
        self.0.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the word where only the caller writes.
    #[inline]
    fn write<A>(&self, transition: impl FnOnce(WorkerState) -> (WorkerState, A)) -> A {
        let state = WorkerState::from_bits(self.0.load(Ordering::Relaxed));
        let (next, answer) = transition(state);
        self.0.store(next.into_bits(), Ordering::Release);
        answer
    }

    /// Changes the word where the detector may write, too.
    #[inline]
    fn change<A>(&self, transition: impl FnMut(WorkerState) -> (WorkerState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, WorkerState::from_bits, WorkerState::into_bits, transition)
    }
}
