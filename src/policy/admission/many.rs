//! Many items at once: what comes, and is listed, in one step.
//!
//! A step does what as many single steps would do, one behind the other, so nothing else is to be shown of it. The items
//! that wait are *coming* until all of them are pushed: whoever comes meanwhile stays behind them.

#![forbid(unsafe_code)]

use super::{ACTIVE, Admission, COMING, COMING_MASK, DOOR, DOOR_MASK, LISTED, LISTED_MASK, Slot};

/// So many items of batches may be coming; beyond that, one of each batch. Below half of what can be counted, from where on
/// the gate is full.
const COMING_FOR_BATCHES: u64 = COMING_MASK / 4;

/// The same for items that come one behind the other, in one step.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmitMany {
    /// The first of them, at least one. Whoever has more asks again.
    In(Admitted),
    /// As of [`Admit`](super::Admit).
    Flushing,
    /// As of [`Admit`](super::Admit).
    Full,
    /// As of [`Admit`](super::Admit).
    Refused,
}

/// How many of some items came.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// These have a slot: put them on the pool's worklist, before the others go to the list.
    pub(crate) started: usize,
    /// The others: put them on the waiting list, then ask [`Admission::list_many`].
    pub(crate) waiting: usize,
}

impl Admitted {
    /// A single item.
    pub(crate) fn one(has_slot: bool) -> Self {
        Self { started: usize::from(has_slot), waiting: usize::from(!has_slot) }
    }

    pub(crate) fn items(&self) -> usize {
        self.started + self.waiting
    }
}

/// What becomes of items that were coming.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// So many are not coming any more. For the others, ask again once those that were handed out are on their way.
    pub(crate) arrived: usize,
    /// So many slots are free: take them to the list's first items.
    pub(crate) handed: usize,
}

impl Admission {
    /// So many items come, at least one: the same as if they came singly.
    ///
    /// Not all of them at once if many others are coming already: however many threads queue batches, there is room for
    /// single items.
    #[inline]
    pub(crate) fn admit_many(self, items: usize) -> (Self, AdmitMany) {
        debug_assert!(!self.is_closed(), "an item came to a queue that has no handle");
        // As in `admit`.
        let slots = if self.0 >> COMING == 0 { self.max().saturating_sub(self.active()) } else { 0 };
        let started = slots.min(items as u64);
        if started == 0 && self.0 >> DOOR & DOOR_MASK != 0 {
            return (self, AdmitMany::Refused);
        }
        if self.is_flushing() {
            return (self, AdmitMany::Flushing);
        }
        let room = LISTED_MASK.saturating_sub(self.listed() + self.coming());
        let at_once =
            COMING_FOR_BATCHES.saturating_sub(self.coming()).max(1).min(COMING_MASK - self.coming());
        let others = (items as u64 - started).min(room);
        let (next, started, waiting) = if self.has_no_limit() {
            (self.plus_many(ACTIVE, started).plus_many(LISTED, others), started + others, 0)
        } else {
            let waiting = others.min(at_once);
            (self.plus_many(ACTIVE, started).plus_many(COMING, waiting), started, waiting)
        };
        if started + waiting == 0 {
            return (self, AdmitMany::Full);
        }
        let (started, waiting) = (started as usize, waiting as usize);
        (next, AdmitMany::In(Admitted { started, waiting }))
    }

    /// So many items that were coming are on the list now, at least one: the same as if they were listed singly. Behind a
    /// shut door they are: whoever takes items off the list holds one at a time, so that there is a count for each.
    #[inline]
    pub(crate) fn list_many(self, items: usize) -> (Self, Arrived) {
        if self.is_shut() {
            let (next, slot) = self.list();
            return (next, Arrived { arrived: 1, handed: usize::from(slot == Slot::Handed) });
        }
        let handed = self.max().saturating_sub(self.active()).min(items as u64);
        let next = self.minus_many(COMING, items as u64).plus_many(ACTIVE, handed);
        let next = next.plus_many(LISTED, items as u64 - handed);
        (next, Arrived { arrived: items, handed: handed as usize })
    }

    const fn plus_many(self, field: u32, items: u64) -> Self {
        Self(self.0 + (items << field))
    }

    const fn minus_many(self, field: u32, items: u64) -> Self {
        Self(self.0 - (items << field))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Admit, COUNT_MASK, Door, MAX, MAX_ACTIVE_DEFAULT, NO_LIMIT};
    use super::*;

    fn admitted(started: usize, waiting: usize) -> AdmitMany {
        AdmitMany::In(Admitted { started, waiting })
    }

    /// spec: W8, Q3 (max active): the first of a batch start, the others wait behind them.
    #[test]
    fn a_batch_starts_as_far_as_there_are_slots() {
        let (word, answer) = Admission::new(MAX_ACTIVE_DEFAULT).admit().0.admit_many(300);
        assert_eq!(answer, admitted(255, 45));
        assert_eq!((word.active(), word.coming(), word.listed()), (256, 45, 0));
        assert_eq!(word.admit_many(5).1, admitted(0, 5), "they stay behind what is coming");
        let (word, arrived) = word.list_many(45);
        assert_eq!(arrived, Arrived { arrived: 45, handed: 0 });
        assert_eq!((word.coming(), word.listed()), (0, 45));
    }

    /// Slots became free while a batch was on its way to the list.
    #[test]
    fn a_batch_takes_the_slots_that_became_free_meanwhile() {
        let word = Admission::new(4).admit_many(9).0.complete().0.complete().0;
        assert_eq!((word.active(), word.coming()), (2, 5));
        let (word, arrived) = word.list_many(5);
        assert_eq!(arrived, Arrived { arrived: 5, handed: 2 });
        assert_eq!((word.active(), word.coming(), word.listed()), (4, 0, 3));
    }

    /// spec: Q1 (bh: no max_active)
    #[test]
    fn a_gate_without_a_limit_lets_a_batch_through() {
        let (word, answer) = Admission::new(NO_LIMIT).admit_many(3000);
        assert_eq!((answer, word.in_flight(), word.waiting()), (admitted(3000, 0), 3000, 0));
    }

    /// spec: F4: what holds for a single item at a door holds for a batch.
    #[test]
    fn the_door_keeps_a_batch_out() {
        for door in [Door::Chained, Door::Shut] {
            let word = Admission::new(9).with_door(door);
            assert_eq!(word.admit_many(5), (word, AdmitMany::Refused));
        }
        let late = Admission::new(1).admit_many(5).0.with_door(Door::Shut);
        let (late, arrived) = late.list_many(4);
        assert_eq!(arrived, Arrived { arrived: 1, handed: 1 }, "one at a time is given up");
        assert_eq!((late.active(), late.coming()), (2, 3));
    }

    /// However many queue batches at once, a single item finds room.
    #[test]
    fn batches_on_their_way_do_not_fill_the_gate() {
        let mut word = Admission::new(0);
        for _ in 0..500 {
            let (next, answer) = word.admit_many(256);
            assert!(matches!(answer, AdmitMany::In(_)), "{word:?}");
            word = next;
        }
        assert!(!word.is_full(), "{word:?}");
        let full = Admission(COMING_MASK << COMING);
        assert_eq!(full.admit_many(256), (full, AdmitMany::Full));
        let listed = Admission((LISTED_MASK - 3) << LISTED);
        assert_eq!(listed.admit_many(256).1, admitted(0, 3));
    }

    fn door() -> impl Strategy<Value = Door> {
        prop_oneof![4 => Just(Door::Open), 1 => Just(Door::Chained), 1 => Just(Door::Shut)]
    }

    /// Words with all kinds of counts, those at their ends too.
    fn word() -> impl Strategy<Value = Admission> {
        let max = prop_oneof![0..6u64, Just(256), Just(512), Just(COUNT_MASK)];
        let few = |end| prop_oneof![4 => 0..8u64, 4 => Just(0), 1 => end - 8..=end];
        (max, few(COUNT_MASK), few(COMING_MASK), few(LISTED_MASK - COMING_MASK), door()).prop_map(
            |(max, active, coming, listed, door)| {
                let coming = if max == COUNT_MASK { 0 } else { coming };
                let counts = active << ACTIVE | max << MAX | coming << COMING | listed << LISTED;
                Admission(counts).with_door(door)
            },
        )
    }

    proptest! {
        /// spec: W8.4, Q3, Q4: a batch comes as single items would.
        #[test]
        fn many_come_as_single_ones_would(word in word(), items in 1usize..600) {
            let (next, answer) = word.admit_many(items);
            let (mut single, mut started, mut waiting) = (word, 0, 0);
            let came = if let AdmitMany::In(in_) = answer { in_.started + in_.waiting } else { 1 };
            prop_assert!((1..=items).contains(&came));
            for _ in 0..came {
                let (next, admit) = single.admit();
                single = next;
                match admit {
                    Admit::Start => {
                        prop_assert_eq!(waiting, 0, "those that have a slot come first");
                        started += 1;
                    }
                    Admit::Wait => waiting += 1,
                    Admit::Full => prop_assert_eq!(answer, AdmitMany::Full),
                    Admit::Refused => prop_assert_eq!(answer, AdmitMany::Refused),
                    Admit::Flushing => prop_assert!(false, "no flush counts"),
                }
            }
            prop_assert_eq!(next, single);
            if let AdmitMany::In(in_) = answer {
                prop_assert_eq!((in_.started, in_.waiting), (started, waiting));
                let is_cut = came < items;
                prop_assert!(!is_cut || next.coming() >= COMING_FOR_BATCHES || next.listed() >= LISTED_MASK / 2);
            }
        }

        /// spec: W8.4, Q3, Q4: and is listed so.
        #[test]
        fn many_are_listed_as_single_ones_would(word in word(), items in 1usize..600) {
            let items = items.min(word.coming() as usize);
            if items > 0 {
                let (next, Arrived { arrived, handed }) = word.list_many(items);
                let (mut single, mut single_handed) = (word, 0);
                for _ in 0..arrived {
                    let (next, slot) = single.list();
                    single = next;
                    single_handed += usize::from(slot == Slot::Handed);
                }
                prop_assert_eq!((next, handed), (single, single_handed));
                prop_assert_eq!(arrived, if word.door() == Door::Shut { 1 } else { items });
            }
        }
    }
}
