//! What a worker is doing: its phase, and which of its items it is doing it for.
//!
//! The owner raises the sequence with every item, so that whoever looks at the thread from outside can tell whether
//! a second look still finds the same item.
//!
//! | from | to | by |
//! |---|---|---|
//! | idle | waking, exiting | whoever takes it off the idle stack, under the pool's mutex |
//! | waking | running, uncounted, idle | the worker |
//! | running | blocked | its guard |
//! | blocked | running | its guard, or the end of its item |
//! | running, uncounted | idle | the worker |

#![forbid(unsafe_code)]

use std::fmt;

const PHASE: u64 = 0b111;
const SEQUENCE: u32 = 3;

/// The phase of a worker, and the sequence number of its item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerState(u64);

/// What a worker is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// On the idle stack, parked or about to.
    Idle = 0,
    /// Taken off the idle stack with a reservation.
    Waking = 1,
    /// Counted as running.
    Running = 2,
    /// Inside a blocking guard: not counted.
    Blocked = 3,
    /// Its item is CPU intensive, or its pool has no target: a block changes no count.
    Uncounted = 4,
    /// Told to leave.
    Exiting = 5,
}

impl WorkerState {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self(phase as u64)
    }

    pub(crate) fn phase(self) -> Phase {
        match self.0 & PHASE {
            0 => Phase::Idle,
            1 => Phase::Waking,
            2 => Phase::Running,
            3 => Phase::Blocked,
            4 => Phase::Uncounted,
            _ => Phase::Exiting,
        }
    }

    /// How many items the worker has begun.
    pub(crate) const fn sequence(self) -> u64 {
        self.0 >> SEQUENCE
    }

    /// The same item, another phase.
    pub(crate) const fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE | phase as u64)
    }

    /// The worker begins its next item.
    pub(crate) const fn begin_item(self, phase: Phase) -> Self {
        Self((self.0 & !PHASE).wrapping_add(1 << SEQUENCE) | phase as u64)
    }

    /// A guard is entered. True if the worker was counted: it must leave the count.
    pub(crate) fn block(self) -> (Self, bool) {
        match self.phase() {
            Phase::Running => (self.with_phase(Phase::Blocked), true),
            _ => (self, false),
        }
    }

    /// A guard is left, or the item has ended. True if the worker did not count: it must come back.
    pub(crate) fn unblock(self) -> (Self, bool) {
        match self.phase() {
            Phase::Blocked => (self.with_phase(Phase::Running), true),
            _ => (self, false),
        }
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}#{}", self.phase(), self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_and_its_return_are_counted_once() {
        let running = WorkerState::new(Phase::Waking).begin_item(Phase::Running);
        let (blocked, leaves) = running.block();
        assert!(leaves);
        assert_eq!(blocked.block(), (blocked, false));
        assert_eq!(blocked.unblock(), (running, true));
        assert_eq!(running.unblock(), (running, false));
    }

    #[test]
    fn an_uncounted_item_stays_so_whatever_it_does() {
        let state = WorkerState::new(Phase::Waking).begin_item(Phase::Uncounted);
        assert_eq!(state.block(), (state, false));
        assert_eq!(state.unblock(), (state, false));
    }

    #[test]
    fn a_stale_look_never_equals_the_next_item() {
        let first = WorkerState::new(Phase::Idle).begin_item(Phase::Running);
        let second = first.begin_item(Phase::Running);
        assert_ne!(first, second);
        assert_eq!((first.sequence(), second.sequence()), (1, 2));
    }
}
