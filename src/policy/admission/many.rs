//! Admits and lists many items in one step.
//!
//! A step for many items has the same effect as a sequence of steps for one item each, so a step for many items needs
//! no proof of its own. The waiting items of a batch count as *coming* until all of them are on the waiting list. So an
//! item that is submitted while a batch is on its way to the list stays behind the batch.

#![forbid(unsafe_code)]

use super::{ACTIVE, Admission, COMING, COMING_MASK, INTAKE, INTAKE_MASK, LISTED, LISTED_MASK, Slot};

/// A call of `admit_many` admits items without a slot only until this many items are coming (on their way to the list).
/// If this many items are coming already, the call still admits one item without a slot. The bound is less than half of
/// the highest count of coming items, because the limiter is full when the count reaches half.
const COMING_FOR_BATCHES: u64 = COMING_MASK / 4;

/// The answer to an attempt to admit a batch. The answer tells the issuer what to do with the batch.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmitMany {
    /// The first items of the batch, at least one, are admitted. If items remain, the issuer calls `admit_many` again
    /// for them.
    In(Admitted),
    /// See [`Admit::Flushing`](super::Admit::Flushing).
    Flushing,
    /// See [`Admit::Full`](super::Admit::Full).
    Full,
    /// See [`Admit::Refused`](super::Admit::Refused).
    Refused,
}

/// The numbers of items of a batch that were admitted.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The number of items with a slot. The issuer puts these items on the pool's worklist before it puts the other
    /// items on the waiting list.
    pub(crate) started: usize,
    /// The number of items without a slot. The issuer puts these items on the waiting list, then calls
    /// [`Admission::list_many`].
    pub(crate) waiting: usize,
}

impl Admitted {
    /// Returns the result of an admission of a single item.
    pub(crate) fn one(has_slot: bool) -> Self {
        Self { started: usize::from(has_slot), waiting: usize::from(!has_slot) }
    }

    pub(crate) fn items(&self) -> usize {
        self.started + self.waiting
    }
}

/// The result of counting coming items as listed.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// The number of items that no longer count as coming. For the other items, the caller calls `list_many` again
    /// after it has started the items that got a slot.
    pub(crate) arrived: usize,
    /// The number of slots that the caller gives to the list's first items.
    pub(crate) handed: usize,
}

impl Admission {
    /// Admits `items` items, with the same effect as one call of `admit` for each item. `items` is at least 1.
    ///
    /// If many other items are coming already, the call admits only some of the items. So the word keeps room for
    /// single items, however many threads queue batches.
    #[inline]
    pub(crate) fn admit_many(self, items: usize) -> (Self, AdmitMany) {
        debug_assert!(!self.is_closed(), "an item was queued to a queue without handles");
        // The condition is the same as in `admit`.
        let slots = if self.0 >> COMING == 0 { self.max().saturating_sub(self.active()) } else { 0 };
        let started = slots.min(items as u64);
        if started == 0 && self.0 >> INTAKE & INTAKE_MASK != 0 {
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

    /// Counts `items` coming items as listed, with the same effect as one call of `list` for each item. `items` is at
    /// least 1. While the intake is shut, each call counts only one item, because `list` decides for each item whether
    /// the count of active items has room for that item. If the call hands out a slot, the caller takes the first item
    /// off the list and passes it on before the next call.
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

    use super::super::tests::intake;
    use super::super::{Admit, COUNT_MASK, Intake, LISTED_LIMIT, MAX, MAX_ACTIVE_DEFAULT, NO_LIMIT};
    use super::*;

    fn admitted(started: usize, waiting: usize) -> AdmitMany {
        AdmitMany::In(Admitted { started, waiting })
    }

    /// spec: W8, Q3 (max active): the first items of a batch start, and the others wait behind them.
    #[test]
    fn a_batch_starts_as_many_items_as_there_are_slots() {
        let (word, answer) = Admission::new(MAX_ACTIVE_DEFAULT).admit().0.admit_many(300);
        assert_eq!(answer, admitted(255, 45));
        assert_eq!((word.active(), word.coming(), word.listed()), (256, 45, 0));
        assert_eq!(word.admit_many(5).1, admitted(0, 5), "they stay behind the coming items");
        let (word, arrived) = word.list_many(45);
        assert_eq!(arrived, Arrived { arrived: 45, handed: 0 });
        assert_eq!((word.coming(), word.listed()), (0, 45));
    }

    /// Slots that become free while a batch is on its way to the list go to items of the batch.
    #[test]
    fn a_batch_takes_slots_that_became_free_before_it_was_listed() {
        let word = Admission::new(4).admit_many(9).0.complete().0.complete().0;
        assert_eq!((word.active(), word.coming()), (2, 5));
        let (word, arrived) = word.list_many(5);
        assert_eq!(arrived, Arrived { arrived: 5, handed: 2 });
        assert_eq!((word.active(), word.coming(), word.listed()), (4, 0, 3));
    }

    /// spec: Q1 (bh: no max_active): a limiter without a limit gives each item of a batch a slot.
    #[test]
    fn a_limiter_without_a_limit_lets_a_batch_through() {
        let (word, answer) = Admission::new(NO_LIMIT).admit_many(3000);
        assert_eq!((answer, word.in_flight(), word.waiting()), (admitted(3000, 0), 3000, 0));
    }

    /// spec: F4: an intake refuses a batch just as it refuses a single item.
    #[test]
    fn the_intake_keeps_a_batch_out() {
        for intake in [Intake::Counted, Intake::Draining, Intake::Shut] {
            let word = Admission::new(9).with_intake(intake);
            assert_eq!(word.admit_many(5), (word, AdmitMany::Refused));
        }
        let late = Admission::new(1).admit_many(5).0.with_intake(Intake::Shut);
        let (late, arrived) = late.list_many(4);
        assert_eq!(arrived, Arrived { arrived: 1, handed: 1 }, "one item at a time is given up");
        assert_eq!((late.active(), late.coming()), (2, 3));
    }

    /// A single item finds room, however many threads queue batches at the same time.
    #[test]
    fn batches_on_their_way_do_not_fill_the_limiter() {
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

    /// Generates words with all kinds of counts, including full counts.
    fn word() -> impl Strategy<Value = Admission> {
        let max = prop_oneof![0..6u64, Just(256), Just(512), Just(2000), Just(COUNT_MASK)];
        let few = |end| prop_oneof![4 => 0..8u64, 4 => Just(0), 1 => end - 8..=end];
        (max, few(COUNT_MASK), few(COMING_MASK), few(LISTED_MASK - COMING_MASK), intake()).prop_map(
            |(max, active, coming, listed, intake)| {
                let coming = if max == COUNT_MASK { 0 } else { coming };
                let counts = active << ACTIVE | max << MAX | coming << COMING | listed << LISTED;
                Admission(counts).with_intake(intake)
            },
        )
    }

    proptest! {
        /// spec: W8.4, Q3, Q4: admitting a batch has the same effect as admitting its items one by one.
        #[test]
        fn a_batch_is_admitted_as_single_items_would_be(word in word(), items in 1usize..600) {
            let (next, answer) = word.admit_many(items);
            let (mut single, mut started, mut waiting) = (word, 0, 0);
            let came = if let AdmitMany::In(in_) = answer { in_.started + in_.waiting } else { 1 };
            prop_assert!((1..=items).contains(&came));
            for _ in 0..came {
                let (next, admit) = single.admit();
                single = next;
                match admit {
                    Admit::Start => {
                        prop_assert_eq!(waiting, 0, "items with a slot come first");
                        started += 1;
                    }
                    Admit::Wait => waiting += 1,
                    Admit::Full => prop_assert_eq!(answer, AdmitMany::Full),
                    Admit::Refused => prop_assert_eq!(answer, AdmitMany::Refused),
                    Admit::Flushing => prop_assert!(false, "no flush is under way"),
                }
            }
            prop_assert_eq!(next, single);
            if let AdmitMany::In(in_) = answer {
                prop_assert_eq!((in_.started, in_.waiting), (started, waiting));
                let is_cut = came < items;
                prop_assert!(!is_cut || next.coming() >= COMING_FOR_BATCHES || next.listed() >= LISTED_LIMIT);
            }
        }

        /// spec: W8.4, Q3, Q4: listing the items of a batch has the same effect as listing them one by one.
        #[test]
        fn a_batch_is_listed_as_single_items_would_be(word in word(), items in 1usize..600) {
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
                prop_assert_eq!(arrived, if word.intake() == Intake::Shut { 1 } else { items });
            }
        }
    }
}
