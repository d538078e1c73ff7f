//! The state of a worker: its phase, and the sequence number of its item.
//!
//! Two parties change the word of a worker that is not idle: the worker and the detector. The worker changes the word
//! when it begins or ends an item, and when it enters or leaves a guard. The detector inspects the worker's thread from
//! outside, and changes the word when it records a finding. If the change takes the worker out of the pool's count of
//! running workers, or puts the worker back, the party that changes the word also changes that count.
//!
//! The worker raises the sequence number when it begins an item. The word also contains a count of *returns*. The count
//! of returns rises when the item leaves a guard, and when the detector finds that a sleeping thread runs again. The
//! detector reads the word *before* it inspects the thread, and then changes the word only if the word still has the
//! value that was read. So the detector never applies a finding about one item to another item, nor to the same item
//! after a return. The count of returns wraps around after 4096 returns. The wrap-around does no harm, because a check
//! by the detector takes only microseconds.
//!
//! | from | to | changed by |
//! |---|---|---|
//! | idle | waking, exiting | the thread that took the worker off the idle stack |
//! | waking | between, idle | the worker |
//! | between | running, uncounted, idle, exiting | the worker |
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
    /// The worker is on the idle stack, and is parked or about to park.
    Idle = 0,
    /// The worker has a reservation, but has not begun to work. The worker is new, or was taken off the idle stack.
    Waking = 1,
    /// The worker counts as running, and has no item.
    Between = 2,
    /// The worker counts as running, and has an item.
    Running = 3,
    /// The worker is inside a `may_block` guard, and still counts as running.
    MayBlock = 4,
    /// The worker is inside a blocking guard or a `may_block` guard, and does not count as running.
    Blocked = 5,
    /// The detector has found the worker asleep outside of all guards. The worker does not count as running.
    Asleep = 6,
    /// The worker has an item, but the pool's count of running workers does not change if the item blocks. There are
    /// three possible reasons: the item is declared CPU intensive, the pool manages no concurrency, or the worker is a
    /// rescuer.
    Uncounted = 7,
    /// The detector has found that the worker's item is CPU intensive. The worker does not count as running until the
    /// item ends.
    Hog = 8,
    /// The worker was told to leave the pool, or gives its thread to another pool.
    Exiting = 9,
}

/// A finding of the detector about the item that a worker is executing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// The thread sleeps outside of all guards, so the worker no longer counts as running.
    Asleep,
    /// The worker has been inside a `may_block` guard for so long that the item is assumed to block. So the worker no
    /// longer counts as running.
    Blocks,
    /// The thread has used the CPU for so long that the item is CPU intensive. So the worker no longer counts as
    /// running.
    Hog,
    /// A thread that was seen asleep runs again, so the worker counts as running again.
    Runs,
}

impl Phase {
    /// Returns whether the worker counts as running. The answer applies only to a pool that counts running workers.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Between | Self::Running | Self::MayBlock)
    }

    /// Returns whether the worker works on items, or is about to work on them. `counts` says whether the worker's pool
    /// counts running workers.
    pub(crate) const fn is_at_work(self, counts: bool) -> bool {
        match self {
            // After a worker has taken its reservation, it stays in the phase `Waking` until it begins to work.
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
    /// Returns whether the detector has found that the item blocks.
    pub(crate) const fn blocks(self) -> bool {
        matches!(self, Self::Asleep | Self::Blocks)
    }

    /// Returns whether the finding takes the worker out of the pool's count of running workers.
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

    /// Returns the number of items that the worker has begun.
    pub(crate) const fn sequence(self) -> u64 {
        self.0 >> SEQUENCE
    }

    /// Returns the same word with this sequence number, which has 48 bits.
    pub(crate) const fn with_sequence(self, sequence: u64) -> Self {
        Self(self.0 & (PHASE | ALL_RETURNS) | sequence << SEQUENCE)
    }

    /// Returns whether the worker has been in [`Phase::Running`] ever since the present item began. If so, no guard and
    /// no finding of the detector has changed the word.
    pub(crate) const fn runs_straight(self) -> bool {
        self.0 & (ALL_RETURNS | PHASE) == Phase::Running as u64
    }

    /// Returns the word for the same item in another phase.
    pub(crate) const fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE | phase as u64)
    }

    /// Begins the worker's next item.
    pub(crate) const fn begin_item(self, phase: Phase) -> Self {
        Self((self.0 & !PHASE & !ALL_RETURNS).wrapping_add(1 << SEQUENCE) | phase as u64)
    }

    /// Ends the item. Also returns whether the worker must come back into the pool's count of running workers.
    pub(crate) const fn end_item(self) -> (Self, bool) {
        (self.with_phase(Phase::Between), self.phase().has_item() && !self.phase().is_counted())
    }

    /// Declares the item CPU intensive. Also returns whether the worker must leave the pool's count of running workers.
    pub(crate) const fn uncount(self) -> (Self, bool) {
        (self.with_phase(Phase::Uncounted), self.phase().is_counted())
    }

    /// Enters a blocking guard. Also returns whether the worker must leave the pool's count of running workers.
    pub(crate) const fn block(self) -> (Self, bool) {
        match self.phase() {
            Phase::Running | Phase::MayBlock => (self.with_phase(Phase::Blocked), true),
            Phase::Asleep => (self.with_phase(Phase::Blocked), false),
            _ => (self, false),
        }
    }

    /// Leaves a blocking guard. `outer` says whether the guard is inside a `may_block` guard. Also returns whether the
    /// worker must come back into the pool's count of running workers.
    pub(crate) const fn unblock(self, outer: bool) -> (Self, bool) {
        match self.phase() {
            Phase::Blocked if outer => (self.returned(Phase::MayBlock), true),
            Phase::Blocked => (self.returned(Phase::Running), true),
            _ => (self, false),
        }
    }

    /// Enters a `may_block` guard. If the detector has just found the worker asleep, the worker comes back into the
    /// count when it leaves the guard.
    pub(crate) const fn enter_may_block(self) -> Self {
        match self.phase() {
            Phase::Running => self.with_phase(Phase::MayBlock),
            Phase::Asleep => self.with_phase(Phase::Blocked),
            _ => self,
        }
    }

    /// Leaves a `may_block` guard. Also returns whether the worker must come back into the pool's count of running
    /// workers. The worker must come back if the detector has taken it out of the count.
    pub(crate) const fn leave_may_block(self) -> (Self, bool) {
        match self.phase() {
            Phase::MayBlock => (self.returned(Phase::Running), false),
            Phase::Blocked => (self.returned(Phase::Running), true),
            _ => (self, false),
        }
    }

    /// Returns the word that records the finding, or `None` if the finding does not apply to the present phase.
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

    /// spec: O1.4 (CPU time): each guard and each finding of the detector shows in the worker's word until the item
    /// ends.
    #[test]
    fn only_an_item_that_nothing_has_changed_runs_straight() {
        let straight = running();
        assert!(straight.runs_straight());
        let (blocked, _) = straight.block();
        let (returned, _) = blocked.unblock(false);
        assert_eq!((blocked.runs_straight(), returned.runs_straight()), (false, false));
        assert!(returned.begin_item(Phase::Running).runs_straight(), "the next item");
        for phase in [Phase::Between, Phase::MayBlock, Phase::Asleep, Phase::Uncounted, Phase::Hog] {
            assert!(!straight.with_phase(phase).runs_straight(), "{phase:?}");
        }
    }

    /// spec: C2.4 (a worker in a `may_block` guard counts as running until the detector finds that it blocks)
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

    /// Exercises every way in which a worker leaves the count and comes back into it. After the item has ended, the
    /// worker is always counted exactly once.
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

    /// spec: S1 (a stale finding never applies to the next item, nor to a later stretch of the same item)
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
    fn another_sequence_number_changes_nothing_else() {
        let returned = running().block().0.unblock(false).0;
        let other = returned.with_sequence((1 << 48) - 7);
        assert_eq!((other.phase(), other.sequence()), (Phase::Running, (1 << 48) - 7));
        assert!(!other.runs_straight());
        assert_eq!(other.with_sequence(1), returned);
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
