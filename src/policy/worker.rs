//! The state of a worker: its phase, and the sequence number of its item.
//!
//! Two parties move the word: the worker, through guards and the beginnings and ends of its items; and the
//! detector, which looks at the thread from outside. The party that moves a worker out of the pool's count, or back
//! into it, changes that count.
//!
//! The worker raises the sequence with every item. The returns are raised with every stretch of an item that a
//! guard or the detector ends. The detector reads the word *before* it looks at the thread, and changes it only if
//! it is still the same. So the change never meets another stretch than the one that it looked at. (Returns wrap
//! after 4096; a look takes microseconds.)
//!
//! | from | to | by |
//! |---|---|---|
//! | idle | waking, exiting | the thread that took it off the idle stack |
//! | waking | between, idle | the worker |
//! | between | running, uncounted, idle | the worker |
//! | running | uncounted (a CPU-intensive item) | the worker |
//! | running | blocked, may block | its guard |
//! | asleep | blocked | its guard |
//! | blocked | running, may block | its guard |
//! | may block | running, blocked | its guards |
//! | running | asleep, hog | the detector |
//! | asleep | running | the detector |
//! | may block | blocked | the detector |
//! | running, may block, blocked, asleep, uncounted, hog | between | the worker, at the end of the item |

#![forbid(unsafe_code)]

use std::fmt;

const PHASE: u64 = 0b1111;
const RETURNS: u32 = 4;
const ONE_RETURN: u64 = 1 << RETURNS;
const SEQUENCE: u32 = 16;
const ALL_RETURNS: u64 = (1 << SEQUENCE) - ONE_RETURN;

/// The phase of a worker, and the sequence number of its item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerState(u64);

/// The present activity of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// On the idle stack, parked or about to park.
    Idle = 0,
    /// Taken off the idle stack with a reservation.
    Waking = 1,
    /// Counted as running, with no item.
    Between = 2,
    /// Counted as running, with an item.
    Running = 3,
    /// Inside a `may_block` guard: still counted.
    MayBlock = 4,
    /// Inside a blocking guard: not counted.
    Blocked = 5,
    /// Seen asleep outside of a guard: not counted.
    Asleep = 6,
    /// Its item is declared to be CPU intensive, or its pool has no target: a block does not change the count.
    Uncounted = 7,
    /// Its item was found to be CPU intensive: not counted until it ends.
    Hog = 8,
    /// Told to leave.
    Exiting = 9,
}

/// What the detector has found about a stretch of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// The thread sleeps outside of a guard: the worker stops counting.
    Asleep,
    /// The worker has been in a `may_block` guard for so long that it does block: it stops counting.
    Blocks,
    /// The thread has used the CPU for so long that the item is CPU intensive: the worker stops counting.
    Hog,
    /// A thread that was seen asleep runs: the worker counts again.
    Runs,
}

impl Phase {
    /// Returns whether the worker counts as running, in a pool that counts.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Between | Self::Running | Self::MayBlock)
    }

    /// Returns whether the worker works on items, or is about to. `counts`: whether its pool counts running workers.
    pub(crate) const fn is_at_work(self, counts: bool) -> bool {
        match self {
            // The worker is waking also between taking its reservation and beginning.
            Self::Waking | Self::Between | Self::Running | Self::MayBlock => true,
            Self::Uncounted => !counts,
            Self::Idle | Self::Blocked | Self::Asleep | Self::Hog | Self::Exiting => false,
        }
    }

    /// Returns whether the worker has an item.
    pub(crate) const fn has_item(self) -> bool {
        matches!(
            self,
            Self::Running | Self::MayBlock | Self::Blocked | Self::Asleep | Self::Uncounted | Self::Hog
        )
    }
}

impl Finding {
    /// Returns whether the finding is that the item blocks.
    pub(crate) const fn blocks(self) -> bool {
        matches!(self, Self::Asleep | Self::Blocks)
    }

    /// Returns whether the finding takes the worker out of the count.
    pub(crate) const fn takes_out(self) -> bool {
        !matches!(self, Self::Runs)
    }
}

impl WorkerState {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self(phase as u64)
    }

    pub(crate) const fn phase(self) -> Phase {
        match self.0 & PHASE {
            0 => Phase::Idle,
            1 => Phase::Waking,
            2 => Phase::Between,
            3 => Phase::Running,
            4 => Phase::MayBlock,
            5 => Phase::Blocked,
            6 => Phase::Asleep,
            7 => Phase::Uncounted,
            8 => Phase::Hog,
            _ => Phase::Exiting,
        }
    }

    /// Returns how many items the worker has begun.
    pub(crate) const fn sequence(self) -> u64 {
        self.0 >> SEQUENCE
    }

    /// Returns whether the present item was seen to block, or the detector has found something about it.
    pub(crate) const fn was_interrupted(self) -> bool {
        self.0 & ALL_RETURNS != 0 || !matches!(self.phase(), Phase::Running | Phase::Uncounted)
    }

    /// The same item in another phase.
    pub(crate) const fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE | phase as u64)
    }

    /// Begins the worker's next item.
    pub(crate) const fn begin_item(self, phase: Phase) -> Self {
        Self((self.0 & !PHASE & !ALL_RETURNS).wrapping_add(1 << SEQUENCE) | phase as u64)
    }

    /// Ends the item. Returns true if the worker did not count: it must come back.
    pub(crate) const fn end_item(self) -> (Self, bool) {
        (self.with_phase(Phase::Between), self.phase().has_item() && !self.phase().is_counted())
    }

    /// Declares the item CPU intensive. Returns true if the worker counted: it must leave the count.
    pub(crate) const fn uncount(self) -> (Self, bool) {
        (self.with_phase(Phase::Uncounted), self.phase().is_counted())
    }

    /// Enters a blocking guard. Returns true if the worker counted: it must leave the count.
    pub(crate) const fn block(self) -> (Self, bool) {
        match self.phase() {
            Phase::Running | Phase::MayBlock => (self.with_phase(Phase::Blocked), true),
            Phase::Asleep => (self.with_phase(Phase::Blocked), false),
            _ => (self, false),
        }
    }

    /// Leaves a blocking guard. `outer`: the guard is inside of a `may_block` guard. Returns true if the worker
    /// must come back.
    pub(crate) const fn unblock(self, outer: bool) -> (Self, bool) {
        match self.phase() {
            Phase::Blocked if outer => (self.returned(Phase::MayBlock), true),
            Phase::Blocked => (self.returned(Phase::Running), true),
            _ => (self, false),
        }
    }

    /// Enters a `may_block` guard. A worker that was just found asleep counts again when it leaves the guard.
    pub(crate) const fn enter_may_block(self) -> Self {
        match self.phase() {
            Phase::Running => self.with_phase(Phase::MayBlock),
            Phase::Asleep => self.with_phase(Phase::Blocked),
            _ => self,
        }
    }

    /// Leaves a `may_block` guard. Returns true if it took so long that the detector took the worker out of the
    /// count: it must come back.
    pub(crate) const fn leave_may_block(self) -> (Self, bool) {
        match self.phase() {
            Phase::MayBlock => (self.returned(Phase::Running), false),
            Phase::Blocked => (self.returned(Phase::Running), true),
            _ => (self, false),
        }
    }

    /// Returns the word after a finding about it; `None` if the finding does not apply to this phase.
    pub(crate) const fn found(self, finding: Finding) -> Option<Self> {
        match (self.phase(), finding) {
            (Phase::Running, Finding::Asleep) => Some(self.with_phase(Phase::Asleep)),
            (Phase::Running, Finding::Hog) => Some(self.with_phase(Phase::Hog)),
            (Phase::MayBlock, Finding::Blocks) => Some(self.with_phase(Phase::Blocked)),
            (Phase::Asleep, Finding::Runs) => Some(self.returned(Phase::Running)),
            _ => None,
        }
    }

    const fn returned(self, phase: Phase) -> Self {
        let returns = self.0.wrapping_add(ONE_RETURN) & ALL_RETURNS;
        Self(self.0 & !PHASE & !ALL_RETURNS | returns | phase as u64)
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

    fn running() -> WorkerState {
        WorkerState::new(Phase::Between).begin_item(Phase::Running)
    }

    /// spec: C2.2
    #[test]
    fn a_block_and_its_return_are_counted_once() {
        let (blocked, leaves) = running().block();
        assert!(leaves);
        assert_eq!(blocked.block(), (blocked, false));
        let (returned, comes_back) = blocked.unblock(false);
        assert!(comes_back);
        assert_eq!((returned.phase(), returned.sequence()), (Phase::Running, 1));
        assert_eq!(returned.unblock(false), (returned, false));
    }

    #[test]
    fn an_uncounted_item_stays_so_whatever_it_does() {
        let state = WorkerState::new(Phase::Between).begin_item(Phase::Uncounted);
        assert_eq!(state.block(), (state, false));
        assert_eq!(state.unblock(false), (state, false));
        assert_eq!(state.enter_may_block(), state);
        assert_eq!(state.leave_may_block(), (state, false));
    }

    /// spec: C2.4 (`may_block`)
    #[test]
    fn a_worker_that_may_block_counts_until_it_is_found_blocking() {
        let inside = running().enter_may_block();
        assert!(inside.phase().is_counted());
        let (left, comes_back) = inside.leave_may_block();
        assert_eq!((left.phase(), comes_back), (Phase::Running, false));

        let found = inside.found(Finding::Blocks).unwrap();
        assert_eq!(found.phase(), Phase::Blocked);
        let (left, comes_back) = found.leave_may_block();
        assert_eq!((left.phase(), comes_back), (Phase::Running, true));
    }

    #[test]
    fn a_blocking_guard_inside_of_a_may_block_guard_counts_by_itself() {
        let (blocked, leaves) = running().enter_may_block().block();
        assert!(leaves);
        let (inside, comes_back) = blocked.unblock(true);
        assert_eq!((inside.phase(), comes_back), (Phase::MayBlock, true));
    }

    /// Every way out of the count and back: the count ends as it began.
    ///
    /// spec: S1.7
    #[test]
    fn a_worker_counts_after_its_item_whatever_happened_to_it() {
        type Step = (&'static str, fn(WorkerState) -> (WorkerState, i32));
        let steps: [Step; 8] = [
            ("block", |word| (word.block().0, -i32::from(word.block().1))),
            ("unblock", |word| (word.unblock(false).0, i32::from(word.unblock(false).1))),
            ("unblock, outer", |word| (word.unblock(true).0, i32::from(word.unblock(true).1))),
            ("may block", |word| (word.enter_may_block(), 0)),
            ("leave", |word| (word.leave_may_block().0, i32::from(word.leave_may_block().1))),
            ("uncount", |word| (word.uncount().0, -i32::from(word.uncount().1))),
            ("found", |word| {
                let finding = match word.phase() {
                    Phase::Running => Finding::Asleep,
                    Phase::MayBlock => Finding::Blocks,
                    _ => Finding::Runs,
                };
                let change = if finding.takes_out() { -1 } else { 1 };
                word.found(finding).map_or((word, 0), |next| (next, change))
            }),
            ("hog", |word| word.found(Finding::Hog).map_or((word, 0), |next| (next, -1))),
        ];
        let mut reached = vec![(running(), 1)];
        let mut at = 0;
        while let Some((word, count)) = reached.get(at).copied() {
            at += 1;
            assert_eq!(i32::from(word.phase().is_counted()), count, "{word:?}");
            let (ended, comes_back) = word.end_item();
            assert_eq!((ended.phase(), count + i32::from(comes_back)), (Phase::Between, 1), "{word:?}");
            for (name, step) in steps {
                let (next, change) = step(word);
                let next_count = count + change;
                assert!((0..=1).contains(&next_count), "{word:?} {name}");
                let known = |(other, _): &(WorkerState, i32)| other.phase() == next.phase();
                if !reached.iter().any(known) {
                    reached.push((next, next_count));
                }
            }
        }
        assert_eq!(reached.len(), 6, "{reached:?}");
    }

    /// spec: S1 (a stale look never hits the next item, nor the next stretch of the same one)
    #[test]
    fn a_stale_word_never_equals_a_later_one() {
        let first = running();
        let second = first.end_item().0.begin_item(Phase::Running);
        assert_eq!((first.sequence(), second.sequence()), (1, 2));
        let mut seen = vec![first, second];
        for next in [
            first.block().0.unblock(false).0,
            first.found(Finding::Asleep).unwrap().found(Finding::Runs).unwrap().block().0.unblock(false).0,
            first
                .enter_may_block()
                .leave_may_block()
                .0
                .enter_may_block()
                .leave_may_block()
                .0
                .block()
                .0
                .unblock(false)
                .0,
        ] {
            assert_eq!((next.phase(), next.sequence()), (Phase::Running, 1));
            assert!(!seen.contains(&next), "{next:?}");
            seen.push(next);
        }
    }

    #[test]
    fn the_count_of_returns_never_overflows_into_the_sequence() {
        let mut word = running();
        for _ in 0..10_000 {
            word = word.block().0.unblock(false).0;
            assert_eq!((word.phase(), word.sequence()), (Phase::Running, 1));
        }
    }
}
