//! The sideline of a pool. The sideline holds the entries that come before the entries on the pool's worklist: entries
//! that were *put back*, and behind these, entries that were *moved aside* from the worklist. The sideline also holds
//! the mark that the pool is *abandoned*. An abandoned pool runs nothing any more, because the pool's executor was shut
//! down.
//!
//! The sideline also contains the [lines](super::turns) of the queues that take turns. The entries in these lines come
//! after the entries that were put back, and take turns with the entries of the worklist. The entries that were moved
//! aside are the front of the worklist, so they wait for the worklist's turn.
//!
//! The pool's lock protects [`Sideline`]. [`Shown`] is outside the lock, for threads that do not take the lock. `Shown`
//! holds either the mark, or two values: the number of entries, and whether *turns are in force*. (While turns are in
//! force, each worker takes the entry whose turn it is, from a line or from the worklist.) A thread that changes the
//! sideline updates `Shown` before it releases the lock.
//!
//! * **Put back against leave.** The fences of [`RunningCell::pushed`](super::running::RunningCell::pushed) and
//!   [`RunningCell::look`](super::running::RunningCell::look) forbid these steps, also for an entry that an issuer puts
//!   into the line of its queue:
//!   * issuer: puts an entry back, and shows the number of entries; reads the running word: a worker runs;
//!   * worker: lowers the running word; reads the number of entries: it is zero. So the entry waits, and no worker is
//!     woken for it.
//! * **Put back against abandon.** Both steps happen under the lock. If the entry is put back first, the thread that
//!   abandons the pool takes the entry. If the mark is set first, `put_back` returns the entry to its caller.
//! * **Push against empty.** The thread that abandons the pool empties the worklist. Then this thread takes the lock,
//!   and makes a note if the worklist is still empty. After its push, a thread may find the mark in the running word.
//!   This pushing thread then takes the lock, too, and gives up the worklist's entries itself if it finds the note. If
//!   there is no note, it leaves its entry to the abandoning thread, which will find the entry. So the abandoning
//!   thread gives up all entries that arrive before the note, and counts them before the shutdown reports their number.
//! * **Pop against abandon.** In `Shown`, the number of entries never replaces the mark that the pool is abandoned. A
//!   worker that finds the sideline empty does not update `Shown`, and a thread that changes the sideline after the
//!   mark was set writes the mark again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::fairness::FlowId;
use crate::sys::sync::{AtomicU64, Ordering};

use super::turns::{FairShare, OwnedTurn, TurnList};

/// An entry that tells whether it is *bound* to its pool, which means that siblings may not take it.
pub(crate) trait Bound {
    fn is_bound(&self) -> bool;

    /// Returns whether the entry is the marker of a route, which stands for no item.
    fn is_marker(&self) -> bool {
        false
    }
}

/// The entries and the mark, which the pool's lock protects. See the module.
#[derive(Debug)]
pub(crate) struct Sideline<E> {
    /// The entries that were put back.
    entries: VecDeque<E>,
    /// The entries that were moved aside, which come behind the entries that were put back.
    moved: VecDeque<E>,
    /// The number of bound entries, which siblings may not take.
    bound: usize,
    /// Whether the pool is abandoned. The sideline of an abandoned pool stays empty.
    is_abandoned: bool,
    /// Whether the thread that abandons the pool has emptied the worklist.
    is_emptied: bool,
    /// The entries that take turns. `bound` does not include these entries.
    turns: TurnList<E>,
}

/// The numbers of the sideline that threads may read without the lock. Threads write these numbers under the lock.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Either [`ABANDONED`], or twice the number of all entries, plus [`IN_FORCE`] while turns are in force.
    word: AtomicU64,
    /// The number of bound entries.
    bound: AtomicU64,
}

/// The bit which says that turns are in force. While this bit is set, workers take all entries under the lock, even
/// those of the worklist.
const IN_FORCE: u64 = 1;
/// The amount that one entry adds to the word of [`Shown`].
const ENTRY: u64 = 2;
/// The mark that the pool is abandoned. The mark takes the place of the other values of the word.
const ABANDONED: u64 = u64::MAX;

impl<E: Bound> Sideline<E> {
    pub(crate) fn new() -> Self {
        let turns = TurnList::new();
        let (entries, moved) = (VecDeque::new(), VecDeque::new());
        Self { entries, moved, bound: 0, is_abandoned: false, is_emptied: false, turns }
    }

    /// Returns the number of all entries of the sideline.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.moved.len() + self.turns.len()
    }

    /// Returns whether the sideline contains no entry that was put back or moved aside.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty() && self.moved.is_empty()
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Notes that the thread that abandons the pool has emptied the worklist. The caller has seen under the lock that
    /// the worklist is empty.
    pub(crate) fn emptied(&mut self) {
        self.is_emptied = true;
    }

    /// Returns whether a thread that has pushed an entry to the abandoned pool must itself give up the worklist's
    /// entries.
    pub(crate) fn is_emptied(&self) -> bool {
        self.is_emptied
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().chain(&self.moved).chain(self.turns.iter())
    }

    /// Adds an entry before all other entries. Returns the entry if the pool is abandoned.
    pub(crate) fn put_back(&mut self, entry: E, shown: &Shown) -> Result<(), E> {
        if self.is_abandoned {
            return Err(entry);
        }
        self.bound += usize::from(entry.is_bound());
        self.entries.push_front(entry);
        self.show(shown);
        Ok(())
    }

    /// Adds an entry that is moved aside, behind all entries that were put back or moved aside. The caller has seen
    /// that the pool is not abandoned, and calls [`show`](Self::show) afterwards.
    pub(crate) fn push_back(&mut self, entry: E) {
        debug_assert!(!self.is_abandoned, "an entry was moved to the sideline of a pool that is abandoned");
        self.bound += usize::from(entry.is_bound());
        self.moved.push_back(entry);
    }

    /// Takes the first entry that was put back.
    pub(crate) fn pop_front(&mut self, shown: &Shown) -> Option<E> {
        let entry = self.entries.pop_front()?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Adds an entry to the end of its queue's line. Returns the entry if the pool is abandoned.
    pub(crate) fn push_in_line(
        &mut self,
        (flow, share): (FlowId, &Arc<FairShare>),
        entry: E,
        shown: &Shown,
    ) -> Result<(), E> {
        if self.is_abandoned {
            return Err(entry);
        }
        self.turns.push(flow, share, entry);
        self.show(shown);
        Ok(())
    }

    /// Takes the entry whose turn it is. The caller has seen that the sideline contains no entry that was put back.
    /// `worklist_waits` returns whether the worklist has entries, and `pop_worklist` takes its first entry. Entries
    /// that were moved aside come before those of the worklist. If no entry waits, forgives the debts of all queues.
    pub(crate) fn pop_by_turn(
        &mut self,
        shown: &Shown,
        worklist_waits: impl Fn() -> bool,
        pop_worklist: impl Fn() -> Option<E>,
    ) -> Option<E> {
        if !self.turns.is_in_force() {
            return self.pop_moved(shown).or_else(pop_worklist);
        }
        if let Some(marker) = self.turns.take_marker() {
            self.show(shown);
            return Some(marker);
        }
        while let Some(flow) = self.turns.next(!self.moved.is_empty() || worklist_waits()) {
            let entry = if flow == FlowId::WORKLIST {
                self.pop_moved(shown).or_else(&pop_worklist)
            } else {
                self.turns.take(flow, |_| true)
            };
            if entry.is_some() {
                self.show(shown);
                return entry;
            }
            // Other workers have emptied the worklist in the meantime.
        }
        self.turns.forgive();
        self.show(shown);
        None
    }

    /// Takes the first entry that was moved aside.
    fn pop_moved(&mut self, shown: &Shown) -> Option<E> {
        let entry = self.moved.pop_front()?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Notes that a thread begins to run an entry that it has taken. `of` is the flow and the share of the entry's
    /// queue if the queue has a weight. Returns the turn, if the entry's item is to be measured.
    pub(crate) fn begins(
        &mut self,
        of: Option<(FlowId, &Arc<FairShare>)>,
        shown: &Shown,
    ) -> Option<OwnedTurn> {
        let turn = self.turns.begins(of);
        self.show(shown);
        turn
    }

    /// Notes the end of a turn. `used` is the CPU time of the turn's item, or `None` if the item did not run.
    pub(crate) fn ends(&mut self, turn: OwnedTurn, used: Option<Duration>, shown: &Shown) {
        self.turns.ends(turn, used);
        self.show(shown);
    }

    /// Returns the flow (a line or the worklist) from which a sibling gets the next entry. Returns `None` if no entry
    /// may leave the pool. The result may be the worklist even if no entry of the worklist may leave the pool. If
    /// `worklist_gives` is false, the result is never the worklist. While entries that were moved aside wait, the
    /// worklist keeps its place in the order of turns, and the CPU time that it is due.
    pub(crate) fn next_movable(&mut self, worklist_gives: bool) -> Option<FlowId> {
        if self.turns.is_in_force() {
            self.turns.next_movable(worklist_gives || !self.moved.is_empty(), worklist_gives)
        } else {
            worklist_gives.then_some(FlowId::WORKLIST)
        }
    }

    /// Takes from the line of this flow the first entry that may leave the pool.
    pub(crate) fn take_movable(&mut self, flow: FlowId, shown: &Shown) -> Option<E> {
        let entry = self.turns.take(flow, |entry| !entry.is_bound());
        self.show(shown);
        entry
    }

    /// Takes the first entry that was put back or moved aside, and adds `entry` behind the last of these entries. If
    /// there are no such entries, returns `entry`, and adds nothing.
    pub(crate) fn swap_front(&mut self, entry: E, shown: &Shown) -> E {
        if self.is_clear() {
            return entry;
        }
        self.push_back(entry);
        self.pop_front(shown).or_else(|| self.pop_moved(shown)).expect("the sideline was not empty")
    }

    /// Takes the first entry for which `wanted` returns true, even if this entry waits for its turn. `wanted` gives
    /// the same answer for all entries of a line.
    pub(crate) fn take_any(&mut self, shown: &Shown, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let first = self.take_first(shown, &wanted);
        first.or_else(|| {
            let first = self.turns.take_first(&wanted);
            self.show(shown);
            first
        })
    }

    /// Takes the first entry that was put back or moved aside and for which `wanted` returns true.
    pub(crate) fn take_first(&mut self, shown: &Shown, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let lists = [&mut self.entries, &mut self.moved];
        let entry = lists.into_iter().find_map(|list| list.remove(list.iter().position(&wanted)?))?;
        self.bound -= usize::from(entry.is_bound());
        self.show(shown);
        Some(entry)
    }

    /// Marks the pool as abandoned. Returns all entries of the sideline, which the caller gives up.
    #[must_use]
    pub(crate) fn abandon(&mut self, shown: &Shown) -> VecDeque<E> {
        self.is_abandoned = true;
        self.bound = 0;
        let mut entries = std::mem::take(&mut self.entries);
        entries.append(&mut self.moved);
        entries.extend(self.turns.take_all());
        self.show(shown);
        entries
    }

    /// Writes the number of entries, or the mark that the pool is abandoned, to `shown`.
    pub(crate) fn show(&self, shown: &Shown) {
        let entries = ENTRY * self.len() as u64;
        let in_force = if self.turns.is_in_force() { IN_FORCE } else { 0 };
        let word = if self.is_abandoned { ABANDONED } else { entries | in_force };
        shown.bound.store((self.bound + self.turns.bound()) as u64, Ordering::Relaxed);
        shown.word.store(word, Ordering::Release);
    }
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), bound: AtomicU64::new(0) }
    }

    /// Returns whether a worker has to check the sideline before the worklist, because the sideline has entries, turns
    /// are in force, or the pool is abandoned. The answer is a hint.
    #[inline]
    pub(crate) fn comes_first(&self) -> bool {
        self.word.load(Ordering::Relaxed) > 0
    }

    /// Returns whether turns are in force. The answer is a hint.
    pub(crate) fn takes_turns(&self) -> bool {
        match self.word.load(Ordering::Relaxed) {
            ABANDONED => false,
            word => word & IN_FORCE != 0,
        }
    }

    /// Returns whether the sideline has entries.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        // This one comparison checks both `word >= ENTRY` and `word != ABANDONED`.
        self.word.load(Ordering::Acquire).wrapping_sub(ENTRY) < ABANDONED - ENTRY
    }

    /// Returns the number of entries of the sideline.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self.word.load(Ordering::Acquire) {
            ABANDONED => 0,
            word => word / ENTRY,
        }
    }

    /// Returns the number of entries that siblings may take, or `None` if the pool is abandoned. The answer is exact
    /// only if the caller holds the lock, because it is computed from two loads.
    pub(crate) fn movable(&self) -> Option<u64> {
        match self.word.load(Ordering::Acquire) {
            ABANDONED => None,
            word => Some((word / ENTRY).saturating_sub(self.bound.load(Ordering::Relaxed))),
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    impl Bound for bool {
        fn is_bound(&self) -> bool {
            *self
        }
    }

    /// spec: E5.3: the number of entries can still be read after the pool was abandoned.
    #[test]
    fn an_abandoned_sideline_shows_no_entries_but_comes_first() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        assert!(!shown.comes_first());
        assert_eq!(sideline.put_back(true, &shown), Ok(()));
        sideline.push_back(false);
        sideline.show(&shown);
        assert_eq!((shown.len(), shown.movable(), shown.comes_first()), (2, Some(1), true));
        assert_eq!(sideline.abandon(&shown), [true, false]);
        assert_eq!((shown.len(), shown.movable(), shown.comes_first()), (0, None, true));
        assert_eq!(sideline.put_back(true, &shown), Err(true));
    }

    /// spec: B3.2: a sibling searches the pool, and finds that no entry of the worklist may leave the pool. So the
    /// worklist keeps the CPU time that it is due.
    #[test]
    fn a_search_by_a_sibling_leaves_the_worklist_its_turns() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        let share = Arc::new(FairShare::new(100));
        let of = (FlowId::of_queue(1), &share);
        for _ in 0..3 {
            assert_eq!(sideline.push_in_line(of, false, &shown), Ok(()));
            sideline.push_back(true);
        }
        sideline.show(&shown);
        assert_eq!(sideline.pop_by_turn(&shown, || false, || None), Some(false));
        let of_queue = sideline.begins(Some(of), &shown).unwrap();
        let worklist_runs = |sideline: &mut Sideline<bool>| {
            assert_eq!(sideline.pop_by_turn(&shown, || false, || None), Some(true));
            let turn = sideline.begins(None, &shown).unwrap();
            sideline.ends(turn, Some(Duration::from_micros(100)), &shown);
        };
        worklist_runs(&mut sideline);
        sideline.ends(of_queue, Some(Duration::from_millis(10)), &shown);
        for _ in 0..2 {
            assert_eq!(sideline.next_movable(false), Some(of.0));
            worklist_runs(&mut sideline);
        }
    }

    /// spec: B3.5 (abandoned pools), B3.8: turns are in force from the first entry of a line until no entry waits.
    #[test]
    fn lines_are_shown_like_other_entries() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        let share = Arc::new(FairShare::new(100));
        let of = |number| (FlowId::of_queue(number), &share);
        assert!(sideline.begins(Some(of(1)), &shown).is_none() && !shown.comes_first());
        for (number, is_bound) in [(1, true), (2, false), (1, false)] {
            assert_eq!(sideline.push_in_line(of(number), is_bound, &shown), Ok(()));
        }
        assert_eq!(
            (sideline.len(), shown.len(), shown.movable(), share.so_far().waiting),
            (3, 3, Some(2), 3)
        );
        assert!(sideline.is_clear() && shown.has_entries() && shown.takes_turns());
        assert_eq!(sideline.next_movable(false), Some(FlowId::of_queue(1)));
        assert_eq!(sideline.take_movable(FlowId::of_queue(1), &shown), Some(false));
        assert_eq!(sideline.next_movable(false), Some(FlowId::of_queue(2)), "the other entry is bound");
        assert_eq!(sideline.take_any(&shown, |is_bound| !is_bound), Some(false));
        assert_eq!((shown.len(), shown.movable()), (1, Some(0)));
        assert_eq!(sideline.pop_by_turn(&shown, || false, || None), Some(true));
        let turn = sideline.begins(Some(of(1)), &shown).unwrap();
        assert!(!shown.has_entries() && shown.comes_first(), "the queue has debts");
        assert_eq!(sideline.pop_by_turn(&shown, || true, || Some(false)), Some(false), "of the worklist");
        sideline.ends(turn, Some(Duration::from_millis(2)), &shown);
        assert_eq!((share.so_far().turns, share.so_far().cpu_time), (1, Duration::from_millis(2)));
        assert_eq!(sideline.pop_by_turn(&shown, || false, || None), None);
        assert!(!shown.comes_first() && !shown.takes_turns(), "nothing waits");

        assert_eq!(sideline.push_in_line(of(2), true, &shown), Ok(()));
        assert_eq!(sideline.abandon(&shown), [true]);
        assert_eq!((shown.len(), shown.has_entries(), shown.takes_turns()), (0, false, false));
        assert_eq!(sideline.push_in_line(of(2), true, &shown), Err(true));
        assert_eq!(share.so_far().waiting, 0);
    }

    /// spec: B3.2, B3.3: entries that were moved aside from the worklist wait for the worklist's turn, and come before
    /// its other entries. An entry that was put back comes first.
    #[test]
    fn entries_that_were_moved_aside_wait_for_the_turn_of_the_worklist() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        let share = Arc::new(FairShare::new(100));
        let of = (FlowId::of_queue(1), &share);
        sideline.push_back(true);
        sideline.push_back(true);
        assert_eq!(
            sideline.pop_by_turn(&shown, || true, || Some(false)),
            Some(true),
            "turns are not in force"
        );
        assert_eq!(sideline.pop_by_turn(&shown, || true, || Some(false)), Some(true));
        (0..3).for_each(|_| sideline.push_back(true));
        assert_eq!(sideline.push_in_line(of, false, &shown), Ok(()));
        assert_eq!(sideline.put_back(true, &shown), Ok(()));
        assert_eq!((shown.len(), shown.movable(), sideline.iter().count()), (5, Some(1), 5));
        assert_eq!((sideline.pop_front(&shown), sideline.pop_front(&shown)), (Some(true), None));
        assert_eq!(sideline.pop_by_turn(&shown, || true, || None), Some(false), "the queue owes nothing");
        let _charged = sideline.begins(Some(of), &shown);
        assert_eq!(sideline.push_in_line(of, false, &shown), Ok(()));
        assert_eq!(sideline.pop_by_turn(&shown, || false, || None), Some(true), "the turn of the worklist");
        assert!(sideline.swap_front(false, &shown));
        assert_eq!(sideline.take_first(&shown, |is_bound| !is_bound), Some(false));
        assert!(!sideline.is_clear());
        assert_eq!(sideline.abandon(&shown), [true, false]);
    }

    #[test]
    fn each_change_shows_the_number_of_entries() {
        let (mut sideline, shown) = (Sideline::new(), Shown::new());
        for entry in [false, true, true] {
            sideline.put_back(entry, &shown).unwrap();
        }
        assert_eq!(sideline.take_first(&shown, |entry| !entry), Some(false));
        assert_eq!((shown.len(), shown.movable()), (2, Some(0)));
        assert_eq!(sideline.pop_front(&shown), Some(true));
        assert_eq!((shown.len(), shown.movable()), (1, Some(0)));
        assert_eq!(sideline.pop_front(&shown), Some(true));
        assert_eq!((shown.len(), sideline.pop_front(&shown)), (0, None));
    }
}
