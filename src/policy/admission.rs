//! The slots of a gate: at most `max` items of a queue are active, and the others wait in order.
//!
//! An item is *active* from the moment it is given a slot until it is done: it lies on a pool's worklist, or
//! it runs. Before that, it is *coming* (counted, on its way to the waiting list) and then *listed*. One word
//! counts all three. So admitting an item, handing a slot over and freeing it are one atomic step each, and a
//! flush learns in one step how many items are in flight.
//!
//! The issuer counts an item before it puts it on the list, so a flush that begins meanwhile finds it. A slot
//! is handed over to listed items only, so the list is not empty when a thread takes the item for it. If a
//! slot becomes free while items are only coming, the first of them takes it when it is listed.
//!
//! The counts do not say which item is which. A slot that is handed to a listed item goes to the first item
//! on the list. That item may have been pushed by an issuer that has not counted it as listed yet. The items
//! that remain on the list are then counted as coming. So a new item stays behind coming items as well as
//! behind listed ones.
//!
//! The limit may change at any time. Active items finish after it is lowered. After it is raised there are
//! free slots beside listed items, until the thread that raised it has started these one by one
//! ([`Admission::start_listed`]). New items wait behind them meanwhile.
//!
//! A gate has a *door*, which closes when its queue ends. The door is part of the word, so after it changes
//! no item is admitted by the old rule.
//!
//! While a flush counts the items in flight, the gate is *flushing*: an item takes a ticket before it is
//! counted, and an item that is listed, or leaves, learns in the same step that it may have been counted. See
//! [`policy::flush`](super::flush).

#![forbid(unsafe_code)]

mod many;

use std::fmt;
use std::iter::Sum;

pub(crate) use self::many::{AdmitMany, Admitted, Arrived};

/// The highest `max_active` (the kernel's documented WQ_MAX_ACTIVE).
pub(crate) const MAX_ACTIVE_LIMIT: usize = 512;

/// `max_active` if the user sets none.
pub(crate) const MAX_ACTIVE_DEFAULT: usize = 256;

/// The limit of a gate that admits every item at once. The items keep their order on the worklist.
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
/// This bit and the door lie between the counts of coming and listed items. So one comparison tells that
/// nothing holds a new item back.
const FLUSHING: u64 = 1 << 33;
const DOOR: u32 = 34;
const DOOR_MASK: u64 = (1 << 2) - 1;
const LISTED: u32 = 36;
const LISTED_MASK: u64 = (1 << 28) - 1;

/// The slots of one gate, and the number of items that wait for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(u64);

/// Which items are admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// All.
    Open,
    /// Items that continue work in flight: [`Admission::admit_chained`].
    Chained,
    /// None.
    Shut,
}

/// What the issuer does with its item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// The item has a slot: put it on the pool's worklist.
    Start,
    /// Put it on the waiting list, then call [`Admission::list`].
    Wait,
    /// The gate is flushing: take a ticket, and repeat the call through [`Admission::beside_flush`]. The word
    /// is unchanged.
    Flushing,
    /// More items wait, or are on their way to the list, than the word can count. The word is unchanged. An
    /// issuer that asks [`Admission::is_full`] first gets this answer only if two thousand other threads have
    /// asked at the same time.
    Full,
    /// The door does not admit it. The word is unchanged.
    Refused,
}

/// Why an item was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The door does not admit it.
    Door,
    /// See [`Admit::Full`].
    Full,
}

/// What happens to a slot.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It belongs to the first item of the waiting list: start that one.
    Handed,
    /// Nothing is to be done.
    Free,
    /// It was the last slot in use of a closed gate: tell the gate's owner.
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
    /// A gate with `max` slots, all free; with 0 every item waits.
    pub(crate) fn new(max: usize) -> Self {
        Self(max_field(max))
    }

    pub(crate) const fn active(self) -> u64 {
        self.0 >> ACTIVE & COUNT_MASK
    }

    pub(crate) const fn max(self) -> u64 {
        self.0 >> MAX & COUNT_MASK
    }

    /// Items that are counted and on their way to the list.
    pub(crate) const fn coming(self) -> u64 {
        self.0 >> COMING & COMING_MASK
    }

    /// Items on the list that have no slot.
    pub(crate) const fn listed(self) -> u64 {
        self.0 >> LISTED & LISTED_MASK
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Returns whether a flush counts the items that were in flight when it set the bit.
    pub(crate) const fn is_flushing(self) -> bool {
        self.0 & FLUSHING != 0
    }

    /// Returns whether every item is admitted at once. Then the list stays empty, and `listed` counts the
    /// items that do not fit the count of active ones.
    const fn has_no_limit(self) -> bool {
        self.max() == COUNT_MASK
    }

    /// Items that wait for a slot.
    pub(crate) const fn waiting(self) -> u64 {
        if self.has_no_limit() { 0 } else { self.coming() + self.listed() }
    }

    /// Items that were admitted and are not done.
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

    /// Returns whether so many items wait that the queue should refuse more: half of what the word can count,
    /// a hundred million.
    pub(crate) const fn is_full(self) -> bool {
        self.listed() >= LISTED_MASK / 2 || self.coming() >= COMING_MASK / 2
    }

    /// Admits an item. It never overtakes one that is on the list.
    #[inline]
    pub(crate) const fn admit(self) -> (Self, Admit) {
        debug_assert!(!self.is_closed(), "an item was queued to a queue without handles");
        // No item is coming or listed, no flush counts, and the door is open.
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

    /// Admits an item that continues work in flight: only a shut door refuses it.
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

    /// Applies an admission as if the gate were not flushing, and keeps the flushing bit. The issuer holds the lock
    /// of the flushes.
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

    /// Changes the limit. After raising it, the caller calls [`start_listed`](Self::start_listed) until no
    /// slot is handed out.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self(self.0 & !(COUNT_MASK << MAX) | max_field(max))
    }

    pub(crate) const fn with_door(self, door: Door) -> Self {
        Self(self.0 & !(DOOR_MASK << DOOR) | (door as u64) << DOOR)
    }

    /// Takes a free slot after the limit was raised. `Handed`: give it to the list's first item, and call
    /// again.
    pub(crate) const fn start_listed(self) -> (Self, Slot) {
        if self.listed() > 0 && !self.has_no_limit() && self.active() < self.max() && !self.is_shut() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    /// Takes an item off the list after the door was shut. `Handed`: take the list's first item, which counts
    /// as active now whatever the limit is, and complete it without a run.
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

    /// Counts a coming item as listed, after it was put on the list. `Handed`: a slot is free, give it to the
    /// list's first item. The answer is the same if the door was shut meanwhile: then the thread that empties
    /// the list may have finished, and no other thread takes that item.
    pub(crate) const fn list(self) -> (Self, Slot) {
        let arrived = self.minus(COMING);
        if arrived.active() < arrived.max() || self.is_shut() && arrived.active() < COUNT_MASK {
            (arrived.plus(ACTIVE), Slot::Handed)
        } else {
            (arrived.plus(LISTED), Slot::Free)
        }
    }

    /// Lists an item that is no longer counted as coming.
    pub(crate) const fn list_uncounted(self) -> (Self, Slot) {
        self.plus(COMING).list()
    }

    /// Takes the count of a coming item back: it will not be listed.
    pub(crate) const fn withdraw(self) -> Self {
        debug_assert!(self.coming() > 0);
        self.minus(COMING)
    }

    /// Completes an active item: its slot goes to the first item on the list, or is freed. Behind a shut door
    /// no further item starts.
    pub(crate) const fn complete(self) -> (Self, Slot) {
        if self.listed() > 0 && self.has_no_limit() {
            return self.minus(LISTED).freed();
        }
        debug_assert!(self.active() > 0, "an item without a slot completed");
        if self.listed() > 0 && self.active() <= self.max() && !self.is_shut() {
            return (self.minus(LISTED), Slot::Handed);
        }
        self.minus(ACTIVE).freed()
    }

    const fn freed(self) -> (Self, Slot) {
        let last = self.is_closed() && self.in_flight() == 0;
        (self, if last { Slot::Last } else { Slot::Free })
    }

    /// Begins a flush. Returns the items that it finds in flight.
    pub(crate) fn begin_flush(self) -> (Self, Found) {
        debug_assert!(!self.is_flushing());
        (Self(self.0 | FLUSHING), Found { in_flight: self.in_flight(), coming: self.coming() })
    }

    /// Ends the flush: all items that it counted are done, and new items need no ticket.
    pub(crate) fn end_flush(self) -> (Self, ()) {
        debug_assert!(self.is_flushing());
        (Self(self.0 & !FLUSHING), ())
    }

    /// Closes the gate when the last handle is dropped. No item comes after it. Returns `Last` if none is in
    /// flight.
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

    /// spec: Q1 (bh: no max_active): a gate without a limit admits each item at once, and reports the last
    /// one that leaves.
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
        assert_eq!(shut.recall(), (shut, Slot::Free), "the list is empty");
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
    fn an_item_takes_a_slot_that_became_free_before_it_was_listed() {
        let word = Admission::new(1).admit().0.admit().0;
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active(), word.coming()), (Slot::Free, 0, 1));
        let (word, slot) = word.list();
        assert_eq!((slot, word.active(), word.listed()), (Slot::Handed, 1, 0));
    }

    /// spec: Q4.1, F8: two items were pushed and one of them was counted as listed. The other one took that
    /// slot and is done.
    #[test]
    fn an_item_stays_behind_pushed_items_that_are_not_listed() {
        let word = Admission::new(1).admit().0.admit().0.admit().0.list().0;
        let (word, first) = word.complete();
        let (word, second) = word.complete();
        assert_eq!((first, second, word.active(), word.coming()), (Slot::Handed, Slot::Free, 0, 1));
        assert_eq!(word.admit().1, Admit::Wait);
        assert_eq!(word.admit_chained().1, Admit::Wait);
    }

    /// A frozen gate (max 0) hands no slot over.
    #[test]
    fn a_gate_without_slots_holds_everything_back() {
        let (word, admit) = Admission::new(0).admit();
        assert_eq!(admit, Admit::Wait);
        assert_eq!(word.list().1, Slot::Free);
    }

    /// spec: F1.1 (waits for every item queued before the call, not for later ones)
    #[test]
    fn a_flush_counts_the_items_in_flight_and_later_ones_take_a_ticket() {
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

    /// The door decides before the flush: an item that is refused needs no ticket.
    #[test]
    fn a_flushing_gate_refuses_as_any_other() {
        let word = Admission::new(1).begin_flush().0.with_door(Door::Chained);
        assert_eq!(word.admit().1, Admit::Refused);
        assert_eq!(word.admit_chained().1, Admit::Flushing);
        assert_eq!(word.with_door(Door::Shut).admit_chained().1, Admit::Refused);
    }

    #[test]
    fn the_last_item_of_a_closed_gate_is_reported() {
        assert_eq!(Admission::new(1).close().1, Slot::Last);
        let (word, slot) = Admission::new(1).admit().0.close();
        assert_eq!(slot, Slot::Free);
        assert_eq!(word.complete().1, Slot::Last);
    }

    #[test]
    fn an_item_that_is_withdrawn_leaves_no_trace() {
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
        assert_eq!((lowered.active(), lowered.listed()), (2, 3), "active items go on");
        let (lowered, slot) = lowered.complete();
        assert_eq!((slot, lowered.active()), (Slot::Free, 1), "its slot is gone");
        assert_eq!(lowered.complete().1, Slot::Handed);

        let (raised, slot) = word.with_max(3).start_listed();
        assert_eq!((slot, raised.active(), raised.listed()), (Slot::Handed, 3, 2));
        assert_eq!(raised.start_listed(), (raised, Slot::Free), "there is no fourth slot");
    }

    /// spec: F8.3 (new items never overtake waiting ones): also while the thread that raised the limit starts
    /// these.
    #[test]
    fn an_item_waits_behind_the_listed_ones_after_the_limit_was_raised() {
        let word = Admission::new(0).admit().0.list().0.with_max(9);
        assert_eq!(word.admit().1, Admit::Wait);
        assert_eq!(word.admit_chained().1, Admit::Wait);
        assert_eq!(word.start_listed().0.admit().1, Admit::Start, "no item waits any more");
    }

    /// spec: F4 (accepts only chained queueing)
    #[test]
    fn the_door_decides_which_items_are_admitted() {
        let chained = Admission::new(1).with_door(Door::Chained);
        assert_eq!(chained.admit(), (chained, Admit::Refused));
        let (busy, admit) = chained.admit_chained();
        assert_eq!(admit, Admit::Start);
        assert_eq!(busy.admit(), (busy, Admit::Refused));
        assert_eq!(busy.admit_chained().1, Admit::Wait);
        let shut = busy.with_door(Door::Shut);
        assert_eq!(shut.admit(), (shut, Admit::Refused));
        assert_eq!(shut.admit_chained(), (shut, Admit::Refused));
        assert_eq!(shut.complete().1, Slot::Free, "admitted items may finish");
        let (late, slot) = busy.admit_chained().0.with_door(Door::Shut).list();
        assert_eq!(
            (slot, late.active()),
            (Slot::Handed, 2),
            "an issuer that lists its item too late takes the first one"
        );
        let (word, slot) = busy.admit_chained().0.list().0.with_door(Door::Shut).complete();
        assert_eq!((slot, word.listed()), (Slot::Free, 1), "no item starts any more");
        assert_eq!(word.recall().1, Slot::Handed);
        assert_eq!(shut.with_door(Door::Chained), busy);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Come {
            chained: bool,
        },
        ComeMany(usize),
        /// An issuer that was told to wait puts its item on the list.
        Push,
        /// An issuer that has pushed its item counts it as listed.
        List,
        /// An issuer that has pushed several items counts them as listed.
        ListMany(usize),
        Complete,
        Flush,
        /// Changes the limit; the thread that does so has not started any item yet.
        SetMax(usize),
        StartListed,
        SetDoor(Door),
        /// Behind a shut door, the thread that shut it takes an item off the list.
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

    /// Whether the door admits an item.
    fn lets_in(door: Door, chained: bool) -> bool {
        door == Door::Open || door == Door::Chained && chained
    }

    proptest! {
        /// spec: Q3 (never more than max active), F8. Compares the word with a plain model with real lists.
        /// No item overtakes one that is on the list. No slot idles beside a listed item unless a thread is
        /// about to start it. A slot that a lower limit took is not given away. A flush counts exactly the
        /// items in flight, even if listing lags.
        #[test]
        fn agrees_with_a_model_of_lists(max in 0usize..4, steps in prop::collection::vec(step(), 0..80)) {
            let mut word = Admission::new(max);
            let (mut max, mut active, mut list) = (max, 0, VecDeque::new());
            // Items whose issuer was told to wait; and items on the list that are not counted as listed.
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
                                prop_assert!(active <= max, "a slot beyond the limit is handed over");
                                prop_assert!(door != Door::Shut, "an item starts behind a shut door");
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
                    // A door that was shut is never opened again.
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
                // An item that was taken off the list behind a shut door counts as active until it is
                // completed.
                let shut = door == Door::Shut;
                prop_assert!(active <= max.max(before) || shut, "{:?}", word);
                let expected = pushed > 0 || raising || shut;
                prop_assert!(list.is_empty() || active >= max || expected, "a slot idles: {:?}", word);
            }
        }
    }
}
