//! Who may start? The slots of a gate: at most `max` items of a queue are active, the others wait in order.
//!
//! An item is *active* from the moment it is given a slot (it lies on a pool's worklist, or runs) until it is
//! done, and *waiting* before. One word counts both, so that admitting, handing a slot over and freeing it are
//! one atomic step each, and a flush learns in one step how much was in flight.
//!
//! A waiting item is counted first and put on the waiting list after, because the count also stamps it with the
//! flush half that it belongs to. Whoever hands a slot over may therefore find the list still empty. It then
//! leaves the slot *owed*: the issuer, who looks at the word after it has put its item on the list, pays it.
//!
//! Flushing uses two halves. All items in flight carry the current half, except while a flush runs: it flips the
//! half, learns how many items of the old one are in flight, and waits for exactly these.

#![forbid(unsafe_code)]

use std::fmt;

/// The highest `max_active` (the kernel's documented WQ_MAX_ACTIVE).
pub(crate) const MAX_ACTIVE_LIMIT: usize = 512;

/// `max_active` unless told otherwise.
pub(crate) const MAX_ACTIVE_DEFAULT: usize = 256;

const COUNT: u32 = 10;
const COUNT_MASK: u64 = (1 << COUNT) - 1;
const ACTIVE: u32 = 0;
const OWED: u32 = COUNT;
const MAX: u32 = 2 * COUNT;
const HALF: u64 = 1 << 30;
const CLOSED: u64 = 1 << 31;
const WAITING: u32 = 32;

/// The slots of one gate, and how many items wait for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(u64);

/// Which half of the flushes an item belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    Even,
    Odd,
}

/// What the issuer of an item does.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// It has a slot: put it on the pool's worklist.
    Start(Half),
    /// Put it on the waiting list, then ask [`Admission::listed`].
    Wait(Half),
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

impl Admission {
    /// A gate with `max` slots, all free; 0 holds everything back.
    pub(crate) fn new(max: usize) -> Self {
        debug_assert!(max <= MAX_ACTIVE_LIMIT);
        Self((max as u64) << MAX)
    }

    pub(crate) const fn active(self) -> u64 {
        self.0 >> ACTIVE & COUNT_MASK
    }

    /// Slots handed over to an item that was counted but not yet on the list. Part of `active`.
    pub(crate) const fn owed(self) -> u64 {
        self.0 >> OWED & COUNT_MASK
    }

    pub(crate) const fn max(self) -> u64 {
        self.0 >> MAX & COUNT_MASK
    }

    pub(crate) const fn waiting(self) -> u64 {
        self.0 >> WAITING
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(crate) const fn half(self) -> Half {
        if self.0 & HALF == 0 { Half::Even } else { Half::Odd }
    }

    /// Does a flush wait for items of this half?
    pub(crate) fn is_old(self, half: Half) -> bool {
        self.half() != half
    }

    /// An item comes. It never overtakes one that waits.
    pub(crate) const fn admit(self) -> (Self, Admit) {
        debug_assert!(!self.is_closed(), "an item came to a queue that has no handle");
        if self.waiting() == 0 && self.active() < self.max() {
            (Self(self.0 + (1 << ACTIVE)), Admit::Start(self.half()))
        } else {
            debug_assert!(self.waiting() < u32::MAX as u64);
            (Self(self.0 + (1 << WAITING)), Admit::Wait(self.half()))
        }
    }

    /// Asked by an issuer whose item was counted as waiting and is now on the list: must a waiting item be started?
    pub(crate) const fn listed(self) -> (Self, Slot) {
        if self.owed() > 0 { (Self(self.0 - (1 << OWED)), Slot::Handed) } else { (self, Slot::Free) }
    }

    /// A slot was handed over, but the item is not on the list yet: its issuer will see to it.
    pub(crate) const fn owe(self) -> Self {
        debug_assert!(self.owed() < self.active());
        Self(self.0 + (1 << OWED))
    }

    /// An active item is done: its slot goes to the next waiting one, or is freed.
    pub(crate) const fn complete(self) -> (Self, Slot) {
        debug_assert!(self.active() > self.owed(), "an item completed that held no slot");
        if self.waiting() > 0 && self.active() <= self.max() {
            return (Self(self.0 - (1 << WAITING)), Slot::Handed);
        }
        let freed = Self(self.0 - (1 << ACTIVE));
        let last = freed.is_closed() && freed.in_flight() == 0;
        (freed, if last { Slot::Last } else { Slot::Free })
    }

    /// A flush begins: later items belong to the other half. Returns how many are in flight, all of the old one.
    pub(crate) const fn flip(self) -> (Self, u64) {
        (Self(self.0 ^ HALF), self.in_flight())
    }

    /// The last handle is gone, nothing comes any more. `Last` if nothing is in flight either.
    pub(crate) const fn close(self) -> (Self, Slot) {
        let slot = if self.in_flight() == 0 { Slot::Last } else { Slot::Free };
        (Self(self.0 | CLOSED), slot)
    }

    /// Items that were accepted and are not done.
    pub(crate) const fn in_flight(self) -> u64 {
        self.active() + self.waiting()
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("active", &self.active())
            .field("owed", &self.owed())
            .field("max", &self.max())
            .field("waiting", &self.waiting())
            .field("half", &self.half())
            .field("closed", &self.is_closed())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// spec: Q3 (limit 512): every count fits its field.
    #[test]
    fn the_largest_limit_fits() {
        let mut word = Admission::new(MAX_ACTIVE_LIMIT);
        for _ in 0..MAX_ACTIVE_LIMIT {
            let (next, admit) = word.admit();
            assert_eq!(admit, Admit::Start(Half::Even));
            word = next;
        }
        let (word, admit) = word.admit();
        assert_eq!(admit, Admit::Wait(Half::Even));
        assert_eq!((word.active(), word.waiting(), word.max()), (512, 1, 512));
    }

    #[test]
    fn a_slot_is_handed_over_and_freed_at_the_end() {
        let word = Admission::new(1).admit().0.admit().0;
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active(), word.waiting()), (Slot::Handed, 1, 0));
        let (word, slot) = word.complete();
        assert_eq!((slot, word.active()), (Slot::Free, 0));
    }

    #[test]
    fn a_slot_that_comes_before_its_item_is_owed_and_paid_by_the_issuer() {
        let counted = Admission::new(1).admit().0.admit().0;
        let (handed, slot) = counted.complete();
        assert_eq!(slot, Slot::Handed);
        let owed = handed.owe();
        assert_eq!((owed.active(), owed.owed()), (1, 1));
        let (paid, slot) = owed.listed();
        assert_eq!((slot, paid.active(), paid.owed()), (Slot::Handed, 1, 0));
        assert_eq!(paid.listed().1, Slot::Free);
    }

    /// A frozen gate (max 0) hands nothing over.
    #[test]
    fn a_gate_without_slots_holds_everything_back() {
        let (word, admit) = Admission::new(0).admit();
        assert_eq!(admit, Admit::Wait(Half::Even));
        assert_eq!(word.listed().1, Slot::Free);
    }

    /// spec: F1 (waits for every item queued before the call, not for later ones)
    #[test]
    fn a_flip_counts_what_is_in_flight_and_marks_it_old() {
        let word = Admission::new(1).admit().0.admit().0;
        let (word, in_flight) = word.flip();
        assert_eq!(in_flight, 2);
        assert!(word.is_old(Half::Even));
        assert_eq!(word.admit().1, Admit::Wait(Half::Odd));
    }

    #[test]
    fn the_last_item_of_a_closed_gate_tells_its_owner() {
        assert_eq!(Admission::new(1).close().1, Slot::Last);
        let (word, slot) = Admission::new(1).admit().0.close();
        assert_eq!(slot, Slot::Free);
        assert_eq!(word.complete().1, Slot::Last);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Come,
        List,
        Complete,
        Flip,
    }

    proptest! {
        /// spec: Q3 (never more than max active). Against a plain model with real lists: no item overtakes one whose
        /// queueing has ended, no slot is lost, a flip knows exactly what is in flight, even if listing lags.
        #[test]
        fn agrees_with_a_model_of_lists(max in 1usize..4, steps in prop::collection::vec(
            prop_oneof![3 => Just(Step::Come), 3 => Just(Step::List), 4 => Just(Step::Complete), 1 => Just(Step::Flip)],
            0..60,
        )) {
            let mut word = Admission::new(max);
            let (mut next_item, mut unlisted, mut list, mut active) = (0, VecDeque::new(), VecDeque::new(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Come => {
                        let (next, admit) = word.admit();
                        word = next;
                        match admit {
                            Admit::Start(half) => {
                                prop_assert!(list.is_empty(), "item {} overtakes {:?}", next_item, list);
                                active.push_back((next_item, half));
                            }
                            Admit::Wait(half) => unlisted.push_back((next_item, half)),
                        }
                        next_item += 1;
                    }
                    Step::List => if let Some(item) = unlisted.pop_front() {
                        list.push_back(item);
                        let (next, slot) = word.listed();
                        word = next;
                        if slot == Slot::Handed {
                            active.push_back(list.pop_front().unwrap());
                        }
                    },
                    Step::Complete => if active.pop_front().is_some() {
                        let (next, slot) = word.complete();
                        word = next;
                        match (slot, list.pop_front()) {
                            (Slot::Handed, Some(item)) => active.push_back(item),
                            (Slot::Handed, None) => word = word.owe(),
                            (_, Some(item)) => list.push_front(item),
                            (_, None) => {}
                        }
                    },
                    Step::Flip => {
                        let (next, in_flight) = word.flip();
                        prop_assert_eq!(in_flight as usize, active.len() + list.len() + unlisted.len());
                        word = next;
                    }
                }
                prop_assert_eq!((word.active() - word.owed()) as usize, active.len());
                prop_assert!(word.active() as usize <= max);
                prop_assert_eq!((word.waiting() + word.owed()) as usize, list.len() + unlisted.len());
                prop_assert!(word.waiting() == 0 || word.active() as usize == max, "a slot idles: {:?}", word);
            }
        }
    }
}
