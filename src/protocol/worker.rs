//! The cell of a worker's [`WorkerState`].
//!
//! Outside of items one thread writes at a time, so a change is a load and a store and costs next to nothing: the
//! owner, except that a worker on the idle stack is written to by whoever takes it off, which is done under the pool's
//! mutex. The owner enters the idle stack under that mutex too, and is unparked after the write. Release and acquire: a woken
//! worker sees what its waker wrote, and did before; and an onlooker who sees a phase sees what the owner did before.
//!
//! Inside of an item the detector writes as well, so what the owner changes in a phase that the detector may move it from
//! is a read-modify-write: one at the end of each item, and one on the way into a guard. On the way out of a blocking guard it is
//! a store, since nobody else moves a worker that is blocked.
//!
//! Whoever moves the worker out of the pool's count then lowers that, fences, and looks at the work; who moves it back
//! raises it. The count may be one too high in between, which is made up for by the look, and never too low: whoever
//! counts, by the word, may be taken out of the count at any time, by the owner or by the detector. So it is raised before
//! the word says so. Only between two items, where the detector moves nobody, the owner raises it after the word.

use crate::policy::worker::{Finding, Phase, WorkerState};
use crate::sys::sync::{AtomicU64, Ordering};

use super::running::RunningCell;

/// What became of a finding.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    /// It was about the present word still, and was carried out.
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

    /// By the owner outside of items, or by whoever takes the worker off the idle stack.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.write(|state| (state.with_phase(phase), ()));
    }

    /// By the owner, between two items.
    #[inline]
    pub(crate) fn begin_item(&self, phase: Phase) {
        self.write(|state| (state.begin_item(phase), ()));
    }

    /// By the owner. True if it must come back into the count.
    #[inline]
    pub(crate) fn end_item(&self) -> bool {
        self.change(WorkerState::end_item)
    }

    /// By the owner. True if it must leave the count.
    #[inline]
    pub(crate) fn uncount(&self) -> bool {
        self.change(WorkerState::uncount)
    }

    /// By the owner. True if it must leave the count.
    #[inline]
    pub(crate) fn block(&self) -> bool {
        self.change(WorkerState::block)
    }

    /// By the owner. True if it was blocked, and has come back into the count.
    #[inline]
    pub(crate) fn unblock(&self, outer: bool, count: &RunningCell) -> bool {
        let (next, comes_back) = self.load().unblock(outer);
        if comes_back {
            count.come_back();
            // Nobody else moves it from there.
            self.write(|_blocked| (next, ()));
        }
        comes_back
    }

    /// By the owner.
    #[inline]
    pub(crate) fn enter_may_block(&self) {
        self.change(|state| (state.enter_may_block(), ()));
    }

    /// By the owner. True if it did block, and has come back into the count.
    #[inline]
    pub(crate) fn leave_may_block(&self, count: &RunningCell) -> bool {
        let seen = self.load();
        let (next, comes_back) = seen.leave_may_block();
        if !comes_back && self.replace(seen, next) {
            return false;
        }
        // If it was not, it is blocked now: that is all that the detector says of it there.
        self.unblock(false, count)
    }

    /// By the detector, which has read `seen`, then looked at the thread. It is carried out only if nothing has happened
    /// since.
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

    /// False if the word is another one by now.
    #[inline]
    fn replace(&self, seen: WorkerState, next: WorkerState) -> bool {
        let (seen, next) = (seen.into_bits(), next.into_bits());
        self.0.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Where nobody else writes.
    #[inline]
    fn write<A>(&self, transition: impl FnOnce(WorkerState) -> (WorkerState, A)) -> A {
        let state = WorkerState::from_bits(self.0.load(Ordering::Relaxed));
        let (next, answer) = transition(state);
        self.0.store(next.into_bits(), Ordering::Release);
        answer
    }

    /// Where the detector may write, too.
    #[inline]
    fn change<A>(&self, transition: impl FnMut(WorkerState) -> (WorkerState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, WorkerState::from_bits, WorkerState::into_bits, transition)
    }
}
