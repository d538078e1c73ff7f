//! Who may start? The slots of a gate: at most `max` items of a queue are active, the others wait in order.
//!
//! An item is *active* from the moment it is given a slot (it lies on a pool's worklist, or runs) until it is
//! done. Before, it is *coming* (counted, on its way to the waiting list) and then *listed*. One word counts all
//! three, so that admitting, handing a slot over and freeing it are one atomic step each, and a flush learns in
//! one step how much is in flight.
//!
//! An item is counted before it is on the list, so that a flush that begins meanwhile finds it. A slot is handed over to listed items only, so whoever gets one finds an item on the list. A slot
//! that becomes free while items are only coming is taken by the first of them when it is listed.
//!
//! The counts name nobody: a slot that is handed to a listed item takes whatever lies first on the list, which may be
//! the item of somebody who has pushed it and not counted it as listed yet. Then what remains on the list is counted as
//! coming only. So whoever comes stays behind coming items as behind listed ones.
//!
//! The limit may change at any time. Lowering it lets active items finish. After raising it there are free slots
//! beside listed items, until whoever raised it has started these one by one ([`Admission::start_listed`]); what comes
//! meanwhile waits behind them.
//!
//! A gate has a *door*, for the end of its queue. The door is part of the word, so that after it was changed nothing is
//! admitted by its old rule.
//!
//! While a flush counts what is in flight, the gate is *flushing*: items take a ticket before they come, and an item
//! that is listed, or leaves, learns in the same step that it may have been counted. See [`policy::flush`](super::flush).

#![forbid(unsafe_code)]

mod many;

use std::fmt;
use std::iter::Sum;

pub(crate) use self::many::{AdmitMany, Admitted, Arrived};

/// The highest `max_active` (the kernel's documented WQ_MAX_ACTIVE).
pub(crate) const MAX_ACTIVE_LIMIT: usize = 512;

/// `max_active` unless told otherwise.
pub(crate) const MAX_ACTIVE_DEFAULT: usize = 256;

/// The limit of a gate through which everything goes at once: what is on a worklist keeps its order there.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// So many items that a flush holds back are counted as coming in their gate, as all others that are on their way to the
/// list. There may be more, and these are not: issuers would find the gate full.
pub(crate) const HELD_AS_COMING: u64 = COMING_MASK / 8;

const COUNT: u32 = 10;
const COUNT_MASK: u64 = (1 << COUNT) - 1;
const ACTIVE: u32 = 0;
const MAX: u32 = COUNT;
const CLOSED: u64 = 1 << 20;
const COMING: u32 = 21;
const COMING_MASK: u64 = (1 << 12) - 1;
/// This bit and the door lie between the counts of coming and listed items, so that one look tells that nothing keeps a
/// newcomer back.
const FLUSHING: u64 = 1 << 33;
const DOOR: u32 = 34;
const DOOR_MASK: u64 = (1 << 2) - 1;
const LISTED: u32 = 36;
const LISTED_MASK: u64 = (1 << 28) - 1;

/// The slots of one gate, and how many items wait for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(u64);

/// Who may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// Everybody.
    Open,
    /// Those who were found to continue work that is in flight: [`Admission::admit_chained`].
    Chained,
    /// Nobody.
    Shut,
}

/// What the issuer of an item does.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// It has a slot: put it on the pool's worklist.
    Start,
    /// Put it on the waiting list, then ask [`Admission::list`].
    Wait,
    /// The gate is flushing: take a ticket, and ask by [`Admission::beside_flush`]. Nothing was changed.
    Flushing,
    /// More items wait, or are on their way to the list, than can be counted. Nothing was changed. A thread that minds
    /// [`Admission::is_full`] sees this only if two thousand others have looked at the same time.
    Full,
    /// The door is not open for it. Nothing was changed.
    Refused,
}

/// Why an item did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The door is not open for it.
    Door,
    /// As of [`Admit`].
    Full,
}

/// What becomes of a slot.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It belongs to the first item of the waiting list: start that one.
    Handed,
    /// Nothing to do.
    Free,
    /// It was the last one of a gate that is closed: the gate's owner is to be told.
    Last,
}

/// What a flush finds in a gate when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) in_flight: u64,
    /// So many of these are coming.
    pub(crate) coming: u64,
}

impl Sum for Found {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, found| Self {
            in_flight: sum.in_flight + found.in_flight,
            coming: sum.coming + found.coming,
        })
    }
}

impl Admission {
    /// A gate with `max` slots, all free; 0 holds everything back.
    pub(crate) fn new(max: usize) -> Self {
        Self(max_field(max))
    }

    pub(crate) const fn active(self) -> u64 {
        self.0 >> ACTIVE & COUNT_MASK
    }

    pub(crate) const fn max(self) -> u64 {
        self.0 >> MAX & COUNT_MASK
    }

    /// Items that were counted and are on their way to the list.
    pub(crate) const fn coming(self) -> u64 {
        self.0 >> COMING & COMING_MASK
    }

    /// Items on the list that no slot was given to.
    pub(crate) const fn listed(self) -> u64 {
        self.0 >> LISTED & LISTED_MASK
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Does a flush count what was in flight here when this was set?
    pub(crate) const fn is_flushing(self) -> bool {
        self.0 & FLUSHING != 0
    }

    /// Does everything go through at once? Then nothing is ever on the list, and what is counted as listed is what the
    /// count of active items has no room for.
    const fn has_no_limit(self) -> bool {
        self.max() == COUNT_MASK
    }

    /// Items that wait for a slot.
    pub(crate) const fn waiting(self) -> u64 {
        if self.has_no_limit() { 0 } else { self.coming() + self.listed() }
    }

    /// Items that were accepted and are not done.
    pub(crate) const fn in_flight(self) -> u64 {
        self.active() + self.coming() + self.listed()
    }

    pub(crate) const fn door(self) -> Door {
        match self.0 >> DOOR & DOOR_MASK {
            0 => Door::Open,
            1 => Door::Chained,
            _ => Door::Shut,
        }
    }

    /// So many items wait that no more should come: half of what can be counted, a hundred million.
    pub(crate) const fn is_full(self) -> bool {
        self.listed() >= LISTED_MASK / 2 || self.coming() >= COMING_MASK / 2
    }

    /// An item comes. It never overtakes one that is on the list.
    #[inline]
    pub(crate) const fn admit(self) -> (Self, Admit) {
        debug_assert!(!self.is_closed(), "an item came to a queue that has no handle");
        // Nothing is coming or listed, no flush counts, and the door is open.
        if self.0 >> COMING == 0 && self.active() < self.max() {
            (self.plus(ACTIVE), Admit::Start)
        } else if self.0 >> DOOR & DOOR_MASK != 0 {
            (self, Admit::Refused)
        } else if self.is_flushing() {
            (self, Admit::Flushing)
        } else {
            self.wait_or_pass()
        }
    }

    /// An item comes that may come unless the door is shut.
    pub(crate) const fn admit_chained(self) -> (Self, Admit) {
        match self.door() {
            Door::Shut => (self, Admit::Refused),
            _ if self.is_flushing() => (self, Admit::Flushing),
            _ if self.listed() + self.coming() == 0 && self.active() < self.max() => {
                (self.plus(ACTIVE), Admit::Start)
            }
            _ => self.wait_or_pass(),
        }
    }

    /// What an admission makes of a gate while the issuer holds the lock of the flushes, and so takes part in none.
    pub(crate) fn beside_flush<A>(self, admit: impl Fn(Self) -> (Self, A)) -> (Self, A) {
        let (next, answer) = admit(Self(self.0 & !FLUSHING));
        (Self(next.0 | self.0 & FLUSHING), answer)
    }

    const fn wait_or_pass(self) -> (Self, Admit) {
        if self.listed() + self.coming() >= LISTED_MASK || self.coming() == COMING_MASK {
            (self, Admit::Full)
        } else if self.has_no_limit() {
            (self.plus(LISTED), Admit::Start)
        } else {
            (self.plus(COMING), Admit::Wait)
        }
    }

    /// The limit changes. Whoever raises it then asks [`start_listed`](Self::start_listed) until there is nothing to
    /// start.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self(self.0 & !(COUNT_MASK << MAX) | max_field(max))
    }

    pub(crate) const fn with_door(self, door: Door) -> Self {
        Self(self.0 & !(DOOR_MASK << DOOR) | (door as u64) << DOOR)
    }

    /// The limit was raised. `Handed`: a slot is free, take it to the list's first item, and ask again.
    pub(crate) const fn start_listed(self) -> (Self, Slot) {
        if self.listed() > 0 && !self.has_no_limit() && self.active() < self.max() && !self.is_shut() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    /// The door was shut while items were in flight, and the list is emptied. `Handed`: take its first item, which
    /// counts as active now, whatever the limit is, and complete it without a run.
    pub(crate) const fn recall(self) -> (Self, Slot) {
        debug_assert!(self.is_shut());
        if self.listed() > 0 && self.active() < COUNT_MASK && !self.has_no_limit() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    const fn is_shut(self) -> bool {
        matches!(self.door(), Door::Shut)
    }

    /// An item that was coming is on the list now. `Handed`: a slot is free, take it to the list's first item. So it is,
    /// too, if the door was shut meanwhile: nobody else comes for that item.
    pub(crate) const fn list(self) -> (Self, Slot) {
        let arrived = self.minus(COMING);
        if arrived.active() < arrived.max() || self.is_shut() && arrived.active() < COUNT_MASK {
            (arrived.plus(ACTIVE), Slot::Handed)
        } else {
            (arrived.plus(LISTED), Slot::Free)
        }
    }

    /// The same for an item that is not counted as coming any more.
    pub(crate) const fn list_uncounted(self) -> (Self, Slot) {
        self.plus(COMING).list()
    }

    /// An item that was coming does not come after all.
    pub(crate) const fn withdraw(self) -> Self {
        debug_assert!(self.coming() > 0);
        self.minus(COMING)
    }

    /// An active item is done: its slot goes to the first one on the list, or is freed. Behind a shut door nothing
    /// starts any more.
    pub(crate) const fn complete(self) -> (Self, Slot) {
        if self.listed() > 0 && self.has_no_limit() {
            return self.minus(LISTED).freed();
        }
        debug_assert!(self.active() > 0, "an item completed that held no slot");
        if self.listed() > 0 && self.active() <= self.max() && !self.is_shut() {
            return (self.minus(LISTED), Slot::Handed);
        }
        self.minus(ACTIVE).freed()
    }

    const fn freed(self) -> (Self, Slot) {
        let last = self.is_closed() && self.in_flight() == 0;
        (self, if last { Slot::Last } else { Slot::Free })
    }

    /// A flush counts what is in flight; returns how much that is.
    pub(crate) fn begin_flush(self) -> (Self, Found) {
        debug_assert!(!self.is_flushing());
        (Self(self.0 | FLUSHING), Found { in_flight: self.in_flight(), coming: self.coming() })
    }

    /// All that was counted is done, and items need no ticket.
    pub(crate) fn end_flush(self) -> (Self, ()) {
        debug_assert!(self.is_flushing());
        (Self(self.0 & !FLUSHING), ())
    }

    /// The last handle is gone, nothing comes any more. `Last` if nothing is in flight either.
    pub(crate) const fn close(self) -> (Self, Slot) {
        let slot = if self.in_flight() == 0 { Slot::Last } else { Slot::Free };
        (Self(self.0 | CLOSED), slot)
    }

    const fn plus(self, field: u32) -> Self {
        Self(self.0 + (1 << field))
    }

    const fn minus(self, field: u32) -> Self {
        Self(self.0 - (1 << field))
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

fn max_field(max: usize) -> u64 {
    debug_assert!(max <= MAX_ACTIVE_LIMIT || max == NO_LIMIT);
    (max as u64).min(COUNT_MASK) << MAX
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("active", &self.active())
            .field("max", &self.max())
            .field("coming", &self.coming())
            .field("listed", &self.listed())
            .field("flushing", &self.is_flushing())
            .field("closed", &self.is_closed())
            .field("door", &self.door())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// spec: Q3.1 (limit 512): every count fits its field.
    #[test]
    fn the_largest_limit_fits() {
        let mut word = Admission::new(MAX_ACTIVE_LIMIT);
        for _ in 0..MAX_ACTIVE_LIMIT {
            let (next, admit) = word.admit();
            assert_eq!(admit, Admit::Start);
            word = next;
        }
        let (word, admit) = word.admit();
        assert_eq!(admit, Admit::Wait);
        assert_eq!((word.active(), word.coming(), word.listed(), word.max()), (512, 1, 0, 512));
    }

    #[test]
    fn counts_at_their_end_change_nothing() {
        for word in [
            Admission(1 << ACTIVE | 1 << MAX | COMING_MASK << COMING),
            Admission(1 << ACTIVE | 1 << MAX | LISTED_MASK << LISTED),
            Admission(1 << ACTIVE | 1 << MAX | (LISTED_MASK - 9) << LISTED | 9 << COMING),
        ] {
            assert_eq!(word.admit(), (word, Admit::Full));
            assert!(word.is_full());
        }
    }

    /// spec: Q1 (bh: no max_active): however many come, each goes through at once, and the last one is noticed.
    #[test]
    fn a_gate_without_a_limit_lets_everything_through() {
        let mut word = Admission::new(NO_LIMIT);
        for n in 1..=3000 {
            let (next, admit) = word.admit();
            assert_eq!(admit, Admit::Start, "{n}");
            word = next;
            assert_eq!((word.in_flight(), word.waiting()), (n, 0));
            assert_eq!(word.start_listed(), (word, Slot::Free));
        }
        let (shut, _) = word.with_door(Door::Shut).close();
        assert_eq!(shut.recall(), (shut, Slot::Free), "nothing is on a list");
        let mut word = shut;
        for n in (0..3000).rev() {
            let (next, slot) = word.complete();
            assert_eq!((slot, next.in_flight()), (if n == 0 { Slot::Last } else { Slot::Free }, n));
            word = next;
        }
    }

    #[test]
    fn a_slot_is_handed_over_and_freed_at_the_end() {
        let word = Admission::new(1).admit().0.admit().0;
        let (word, slot) = word.list();
        assert_eq!((slot, word.listed()), (Slot::Free, 1));
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active(), word.listed()), (Slot::Handed, 1, 0));
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active()), (Slot::Free, 0));
    }

    #[test]
    fn a_slot_that_is_free_before_the_item_is_listed_is_taken_by_it() {
        let word = Admission::new(1).admit().0.admit().0;
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active(), word.coming()), (Slot::Free, 0, 1));
        let (word, slot) = word.list();
        assert_eq!((slot, word.active(), word.listed()), (Slot::Handed, 1, 0));
    }

    /// spec: Q4.1, F8: two were pushed, one of them counted as listed, and the other one took that slot and is done.
    #[test]
    fn who_comes_stays_behind_what_is_pushed_and_not_listed() {
        let word = Admission::new(1).admit().0.admit().0.admit().0.list().0;
        let (word, first) = word.complete();
        let (word, second) = word.complete();
        assert_eq!((first, second, word.active(), word.coming()), (Slot::Handed, Slot::Free, 0, 1));
        assert_eq!(word.admit().1, Admit::Wait);
        assert_eq!(word.admit_chained().1, Admit::Wait);
    }

    /// A frozen gate (max 0) hands nothing over.
    #[test]
    fn a_gate_without_slots_holds_everything_back() {
        let (word, admit) = Admission::new(0).admit();
        assert_eq!(admit, Admit::Wait);
        assert_eq!(word.list().1, Slot::Free);
    }

    /// spec: F1.1 (waits for every item queued before the call, not for later ones)
    #[test]
    fn a_flush_counts_what_is_in_flight_and_who_comes_later_takes_a_ticket() {
        for word in [Admission::new(9), Admission::new(1).admit().0.admit().0.list().0] {
            let word = word.admit().0;
            let before = word.in_flight();
            let (flushing, found) = word.begin_flush();
            assert_eq!((found.in_flight, flushing.in_flight()), (before, before));
            assert_eq!(flushing.admit(), (flushing, Admit::Flushing));
            assert_eq!(flushing.admit_chained(), (flushing, Admit::Flushing));
            assert_eq!(flushing.admit_many(5), (flushing, AdmitMany::Flushing));
            let (next, answer) = flushing.beside_flush(Admission::admit);
            assert_eq!((next.end_flush().0, answer), word.admit());
            assert!(next.is_flushing());
        }
    }

    /// The door decides first: an item that is refused needs no ticket.
    #[test]
    fn a_flushing_gate_refuses_as_any_other() {
        let word = Admission::new(1).begin_flush().0.with_door(Door::Chained);
        assert_eq!(word.admit().1, Admit::Refused);
        assert_eq!(word.admit_chained().1, Admit::Flushing);
        assert_eq!(word.with_door(Door::Shut).admit_chained().1, Admit::Refused);
    }

    #[test]
    fn the_last_item_of_a_closed_gate_tells_its_owner() {
        assert_eq!(Admission::new(1).close().1, Slot::Last);
        let (word, slot) = Admission::new(1).admit().0.close();
        assert_eq!(slot, Slot::Free);
        assert_eq!(word.complete().1, Slot::Last);
    }

    #[test]
    fn an_item_that_does_not_come_leaves_no_trace() {
        let full = Admission::new(1).admit().0;
        assert_eq!(full.admit().0.withdraw(), full);
    }

    /// spec: F8.2 (raising starts waiting items, lowering lets running ones finish)
    #[test]
    fn the_limit_may_change_while_items_are_active_and_listed() {
        let mut word = Admission::new(2).admit().0.admit().0;
        for _ in 0..3 {
            word = word.admit().0.list().0;
        }
        let lowered = word.with_max(1);
        assert_eq!((lowered.active(), lowered.listed()), (2, 3), "what is active goes on");
        let (lowered, slot) = lowered.complete();
        assert_eq!((slot, lowered.active()), (Slot::Free, 1), "its slot is gone");
        assert_eq!(lowered.complete().1, Slot::Handed);

        let (raised, slot) = word.with_max(3).start_listed();
        assert_eq!((slot, raised.active(), raised.listed()), (Slot::Handed, 3, 2));
        assert_eq!(raised.start_listed(), (raised, Slot::Free), "there is no fourth slot");
    }

    /// spec: F8.3 (new items never overtake waiting ones): also while the one who raised the limit starts these.
    #[test]
    fn who_comes_when_the_limit_was_raised_waits_behind_the_listed() {
        let word = Admission::new(0).admit().0.list().0.with_max(9);
        assert_eq!(word.admit().1, Admit::Wait);
        assert_eq!(word.admit_chained().1, Admit::Wait);
        assert_eq!(word.start_listed().0.admit().1, Admit::Start, "nobody waits any more");
    }

    /// spec: F4 (accepts only chained queueing)
    #[test]
    fn the_door_says_who_may_come() {
        let chained = Admission::new(1).with_door(Door::Chained);
        assert_eq!(chained.admit(), (chained, Admit::Refused));
        let (busy, admit) = chained.admit_chained();
        assert_eq!(admit, Admit::Start);
        assert_eq!(busy.admit(), (busy, Admit::Refused));
        assert_eq!(busy.admit_chained().1, Admit::Wait);
        let shut = busy.with_door(Door::Shut);
        assert_eq!(shut.admit(), (shut, Admit::Refused));
        assert_eq!(shut.admit_chained(), (shut, Admit::Refused));
        assert_eq!(shut.complete().1, Slot::Free, "what was accepted is not concerned");
        let (late, slot) = busy.admit_chained().0.with_door(Door::Shut).list();
        assert_eq!(
            (slot, late.active()),
            (Slot::Handed, 2),
            "who comes to the list too late takes its first item"
        );
        let (word, slot) = busy.admit_chained().0.list().0.with_door(Door::Shut).complete();
        assert_eq!((slot, word.listed()), (Slot::Free, 1), "nothing starts any more");
        assert_eq!(word.recall().1, Slot::Handed);
        assert_eq!(shut.with_door(Door::Chained), busy);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Come {
            chained: bool,
        },
        ComeMany(usize),
        /// One of those who were told to wait puts his item onto the list.
        Push,
        /// One of those who did counts it as listed.
        List,
        /// Somebody who has pushed several counts them as listed.
        ListMany(usize),
        Complete,
        Flush,
        /// Another limit; whoever set it has not started anything yet.
        SetMax(usize),
        StartListed,
        SetDoor(Door),
        /// Behind a shut door, somebody empties the list.
        Recall,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => any::<bool>().prop_map(|chained| Step::Come { chained }),
            2 => (1usize..6).prop_map(Step::ComeMany),
            8 => Just(Step::Push),
            6 => Just(Step::List),
            3 => (1usize..6).prop_map(Step::ListMany),
            8 => Just(Step::Complete),
            2 => Just(Step::Flush),
            2 => (0usize..4).prop_map(Step::SetMax),
            4 => Just(Step::StartListed),
            1 => prop_oneof![4 => Just(Door::Open), 1 => Just(Door::Chained), 1 => Just(Door::Shut)]
                .prop_map(Step::SetDoor),
            2 => Just(Step::Recall),
        ]
    }

    /// Whether somebody who comes is admitted, by a door's description.
    fn lets_in(door: Door, chained: bool) -> bool {
        door == Door::Open || door == Door::Chained && chained
    }

    proptest! {
        /// spec: Q3 (never more than max active), F8. Against a plain model with real lists: no item overtakes one that
        /// is on the list, no slot idles beside one unless somebody is about to start it, a slot that a lower limit
        /// took is not given away, a flush counts exactly what is in flight, even if listing lags.
        #[test]
        fn agrees_with_a_model_of_lists(max in 0usize..4, steps in prop::collection::vec(step(), 0..80)) {
            let mut word = Admission::new(max);
            let (mut max, mut active, mut list) = (max, 0, VecDeque::new());
            // Told to wait; and with an item on the list that was not counted as listed.
            let (mut coming, mut pushed) = (0, 0);
            let (mut door, mut raising) = (Door::Open, false);
            let mut items = 0..;
            for step in steps {
                let before = active;
                match step {
                    Step::Come { chained } => {
                        let admit = if chained { Admission::admit_chained } else { Admission::admit };
                        let (next, admit) = word.beside_flush(admit);
                        word = next;
                        prop_assert_eq!(admit != Admit::Refused, lets_in(door, chained));
                        match admit {
                            Admit::Start => {
                                prop_assert!(list.is_empty(), "overtakes {:?}", list);
                                active += 1;
                            }
                            Admit::Wait => coming += 1,
                            Admit::Refused => {}
                            Admit::Full | Admit::Flushing => prop_assert!(false, "full, or flushing"),
                        }
                    }
                    Step::ComeMany(items) => {
                        let (next, answer) = word.beside_flush(|word| word.admit_many(items));
                        word = next;
                        match answer {
                            AdmitMany::In(came) => {
                                prop_assert!(lets_in(door, false));
                                prop_assert_eq!(came.started + came.waiting, items);
                                prop_assert!(came.started == 0 || list.is_empty(), "overtakes {:?}", list);
                                active += came.started;
                                coming += came.waiting;
                            }
                            AdmitMany::Refused => prop_assert!(!lets_in(door, false)),
                            AdmitMany::Full | AdmitMany::Flushing => prop_assert!(false, "full, or flushing"),
                        }
                    }
                    Step::Push => if coming > 0 {
                        coming -= 1;
                        pushed += 1;
                        list.push_back(items.next());
                    },
                    Step::List => if pushed > 0 {
                        pushed -= 1;
                        let (next, slot) = word.list();
                        word = next;
                        if slot == Slot::Handed {
                            list.pop_front().unwrap();
                            active += 1;
                        }
                    },
                    Step::ListMany(items) => if pushed > 0 {
                        let (next, listed) = word.list_many(items.min(pushed));
                        word = next;
                        pushed -= listed.arrived;
                        for _ in 0..listed.handed {
                            prop_assert!(list.pop_front().is_some());
                            active += 1;
                        }
                    },
                    Step::Complete => if active > 0 {
                        let (next, slot) = word.complete();
                        word = next;
                        match slot {
                            Slot::Handed => {
                                prop_assert!(active <= max, "a slot that is no more is handed over");
                                prop_assert!(door != Door::Shut, "something starts behind a shut door");
                                prop_assert!(list.pop_front().is_some());
                            }
                            _ => active -= 1,
                        }
                    },
                    Step::Flush if word.is_flushing() => word = word.end_flush().0,
                    Step::Flush => {
                        let (next, found) = word.begin_flush();
                        prop_assert_eq!(found.in_flight as usize, active + coming + list.len());
                        prop_assert_eq!(found.coming as usize, coming + pushed);
                        word = next;
                    }
                    Step::SetMax(new) => {
                        raising |= new > max;
                        max = new;
                        word = word.with_max(max);
                    }
                    Step::StartListed => {
                        let (next, slot) = word.start_listed();
                        word = next;
                        match slot {
                            Slot::Handed => {
                                prop_assert!(list.pop_front().is_some());
                                active += 1;
                            }
                            _ => raising = false,
                        }
                    }
                    // Nobody opens a door again that was shut to all.
                    Step::SetDoor(new) => if door != Door::Shut {
                        door = new;
                        word = word.with_door(door);
                    },
                    Step::Recall => if door == Door::Shut {
                        let (next, slot) = word.recall();
                        word = next;
                        prop_assert_eq!(slot == Slot::Handed, list.len() > pushed);
                        if slot == Slot::Handed {
                            list.pop_front();
                            active += 1;
                        }
                    },
                }
                prop_assert_eq!(word.active() as usize, active);
                prop_assert_eq!(word.coming() as usize, coming + pushed);
                prop_assert_eq!(word.listed() as usize, list.len() - pushed);
                prop_assert_eq!((word.max() as usize, word.door()), (max, door));
                // What is taken off the list behind a shut door counts as active until it is given up.
                let shut = door == Door::Shut;
                prop_assert!(active <= max.max(before) || shut, "{:?}", word);
                let expected = pushed > 0 || raising || shut;
                prop_assert!(list.is_empty() || active >= max || expected, "a slot idles: {:?}", word);
            }
        }
    }
}
