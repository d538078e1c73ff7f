//! The cell of a worker's [`WorkerState`].
//!
//! **Outside items**, only one thread at a time writes the word, so a change is a load and a store. Usually the writing
//! thread is the *owner*, which is the worker itself. While the worker is on the idle stack, the writing thread is the
//! *waker*, which takes the worker off the stack under the pool's mutex. The owner enters the idle stack under the same
//! mutex, and the waker first writes the word and then unparks the owner. Stores release and loads acquire:
//!
//! * waker: writes, then stores the phase *waking*;
//! * woken worker: loads *waking*, then sees what the waker wrote.
//!
//! These orderings also serve readers on all other threads. A reader that sees a phase also sees everything that was
//! written before that phase was stored.
//!
//! **Inside an item**, the detector, which inspects workers from another thread, also writes the word. So in each phase
//! that the detector can end, the owner changes the word with a read-modify-write. For example, the owner uses a
//! read-modify-write at the end of each item, and when it enters a guard. When the owner leaves a blocking guard, a
//! store is enough, because only the owner changes the word of a blocked worker. A store at the end of an item could
//! overwrite a change:
//!
//! * owner: loads *running*;
//! * detector: stores *asleep*, lowers the count;
//! * owner: stores *between*, and does not know that the detector has taken the worker out of the count.
//!
//! **The count.** A thread that takes the worker out of the pool's count first changes the word, then lowers the count,
//! issues a fence, and checks for work. A thread that puts the worker back raises the count before it changes the word.
//! So the count can be one too high for a short time, but it is never too low. The check for work makes up for a count
//! that is too high. If the detector changed the word first and raised the count afterwards, this could happen:
//!
//! * detector: changes the word to *running*;
//! * owner: ends its item, and leaves the count, so that the count falls below zero;
//! * detector: raises the count.
//!
//! There is one exception to the rule that the count rises first. At the end of an item, the owner changes the word
//! first and then raises the count. The exception does no harm, because the detector changes nothing between two items.

use crate::policy::worker::{Finding, Phase, WorkerState};
use crate::sys::sync::{AtomicU64, Ordering};

use super::running::RunningCell;

/// The outcome of an attempt to apply a finding of the detector to a worker's word.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    /// Whether the finding still fitted the worker's word, and was applied.
    pub(crate) holds: bool,
    /// Whether the count was lowered. If the count was lowered, the caller must call [`look`](RunningCell::look).
    pub(crate) owes_look: bool,
}

/// The state word of one worker. See the module.
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

    /// Sets the phase. The caller is either the owner, outside items, or the thread that takes the worker off the idle
    /// stack.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.write(|state| (state.with_phase(phase), ()));
    }

    /// Sets the sequence number. The caller is the owner, which has begun no item yet.
    pub(crate) fn set_sequence(&self, sequence: u64) {
        self.write(|state| (state.with_sequence(sequence), ()));
    }

    /// Begins an item. The caller is the owner, which is between two items.
    #[inline]
    pub(crate) fn begin_item(&self, phase: Phase) {
        self.write(|state| (state.begin_item(phase), ()));
    }

    /// Ends the item. The caller is the owner. Returns whether the owner must come back into the count.
    #[inline]
    pub(crate) fn end_item(&self) -> bool {
        self.change(WorkerState::end_item)
    }

    /// Declares the item CPU intensive. The caller is the owner. Returns whether the owner must leave the count.
    #[inline]
    pub(crate) fn uncount(&self) -> bool {
        self.change(WorkerState::uncount)
    }

    /// Enters a blocking guard. The caller is the owner. Returns whether the owner must leave the count.
    #[inline]
    pub(crate) fn block(&self) -> bool {
        self.change(WorkerState::block)
    }

    /// Leaves a blocking guard. The caller is the owner. Returns whether the owner was blocked. An owner that was
    /// blocked is in the count again when the call returns. `outer` says whether the guard is inside a `may_block`
    /// guard.
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

    /// Enters a `may_block` guard. The caller is the owner.
    #[inline]
    pub(crate) fn enter_may_block(&self) {
        self.change(|state| (state.enter_may_block(), ()));
    }

    /// Leaves a `may_block` guard. The caller is the owner. Returns whether the owner was blocked. An owner that was
    /// blocked is in the count again when the call returns.
    #[inline]
    pub(crate) fn leave_may_block(&self, count: &RunningCell) -> bool {
        let seen = self.load();
        let (next, comes_back) = seen.leave_may_block();
        if !comes_back && self.replace(seen, next) {
            return false;
        }
        // In a `may_block` guard, the detector can only mark the worker as blocked. So if the word has changed in the
        // meantime, the worker is blocked.
        self.unblock(false, count)
    }

    /// Applies a finding to the word, if the word is still equal to `seen`. The caller is the detector, which has read
    /// `seen` and then inspected the thread.
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

    /// Replaces the word. Returns false, and changes nothing, if the word is no longer equal to `seen`.
    #[inline]
    fn replace(&self, seen: WorkerState, next: WorkerState) -> bool {
        let (seen, next) = (seen.into_bits(), next.into_bits());
        self.0.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the word while no other thread can change it.
    #[inline]
    fn write<A>(&self, transition: impl FnOnce(WorkerState) -> (WorkerState, A)) -> A {
        let state = WorkerState::from_bits(self.0.load(Ordering::Relaxed));
        let (next, answer) = transition(state);
        self.0.store(next.into_bits(), Ordering::Release);
        answer
    }

    /// Changes the word while the detector might change it, too.
    #[inline]
    fn change<A>(&self, transition: impl FnMut(WorkerState) -> (WorkerState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, WorkerState::from_bits, WorkerState::into_bits, transition)
    }
}
