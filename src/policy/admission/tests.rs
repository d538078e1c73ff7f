//! Tests of admission: tables of steps, and properties of random steps.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// spec: Q3.1: in a limiter with the largest limit, every count fits its field in the word.
#[test]
fn the_largest_limits_fit() {
    for (is_plain_unbound, limit) in [(false, 512), (true, 2000)] {
        assert_eq!(most_active(is_plain_unbound), limit);
        let mut word = Admission::new(limit);
        for _ in 0..limit {
            let (next, admit) = word.admit();
            assert_eq!(admit, Admit::Start);
            word = next;
        }
        let (word, admit) = word.admit();
        assert_eq!(admit, Admit::Wait);
        let limit = limit as u64;
        assert_eq!((word.active(), word.coming(), word.listed(), word.max()), (limit, 1, 0, limit));
    }
    const { assert!(LISTED_LIMIT < LISTED_MASK - COMING_MASK) };
}

#[test]
fn counts_at_their_end_change_nothing() {
    for word in [
        Admission(1 << ACTIVE | 1 << MAX | COMING_MASK << COMING),
        Admission(1 << ACTIVE | 1 << MAX | LISTED_MASK << LISTED),
        Admission(1 << ACTIVE | 1 << MAX | (LISTED_MASK - 9) << LISTED | 9 << COMING),
    ] {
        assert_eq!(word.admit(), (word, Admit::Full));
        assert_eq!(word.admit_unless_full(), (word, Admit::Full));
        assert!(word.is_full());
    }
}

/// spec: Q3.4 (full): a full limiter still counts items that were accepted before, such as those of timers.
#[test]
fn a_full_limiter_has_room_for_items_that_were_accepted_before() {
    let busy = 1 << ACTIVE | 1 << MAX;
    for full in [Admission(busy | LISTED_LIMIT << LISTED), Admission(busy | (COMING_MASK / 2) << COMING)] {
        assert_eq!(full.admit_unless_full(), (full, Admit::Full), "{full:?}");
        assert_eq!(full.admit().1, Admit::Wait, "{full:?}");
        let below = if full.listed() > 0 { full.minus(LISTED) } else { full.minus(COMING) };
        assert_eq!(below.admit_unless_full(), below.admit(), "{below:?}");
    }
}

/// spec: Q1 (bh: no max_active): a limiter without a limit admits each item immediately, and reports when the last item
/// leaves.
#[test]
fn a_limiter_without_a_limit_lets_everything_through() {
    let mut word = Admission::new(NO_LIMIT);
    for n in 1..=3000 {
        let (next, admit) = word.admit();
        assert_eq!(admit, Admit::Start, "{n}");
        word = next;
        assert_eq!((word.in_flight(), word.waiting()), (n, 0));
        assert_eq!(word.start_listed(), (word, Slot::Free));
    }
    let (shut, _) = word.with_intake(Intake::Shut).close();
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

/// spec: Q4.1, F8: two items are on the list, but only one of them counts as listed. One item gets the slot and
/// completes. A new item then waits behind the other item on the list.
#[test]
fn an_item_stays_behind_pushed_items_that_are_not_listed() {
    let word = Admission::new(1).admit().0.admit().0.admit().0.list().0;
    let (word, first) = word.complete();
    let (word, second) = word.complete();
    assert_eq!((first, second, word.active(), word.coming()), (Slot::Handed, Slot::Free, 0, 1));
    assert_eq!(word.admit().1, Admit::Wait);
    assert_eq!(word.admit_counted(Intake::Draining).1, Admit::Wait);
}

/// spec: B2.2 (never past `max_active`): an item that its issuer runs gets a free slot or is not admitted. Such an item
/// never overtakes an item that waits.
#[test]
fn an_item_is_admitted_here_only_with_a_free_slot() {
    let (one, answer) = Admission::new(1).admit_here();
    assert_eq!((answer, one.active()), (Admit::Start, 1));
    assert_eq!(one.admit_here(), (one, Admit::Full));
    let behind_coming = one.admit().0.complete().0;
    assert_eq!((behind_coming.active(), behind_coming.coming()), (0, 1));
    assert_eq!(behind_coming.admit_here(), (behind_coming, Admit::Full));
    let frozen = Admission::new(0);
    assert_eq!(frozen.admit_here(), (frozen, Admit::Full));
    let flushing = Admission::new(1).begin_flush().0;
    assert_eq!(flushing.admit_here(), (flushing, Admit::Flushing));
    let (beside, answer) = flushing.beside_flush(Admission::admit_here);
    assert_eq!((answer, beside.active(), beside.is_flushing()), (Admit::Start, 1, true));
    for intake in [Intake::Counted, Intake::Draining, Intake::Shut] {
        let word = one.with_intake(intake);
        assert_eq!(word.admit_here(), (word, Admit::Refused));
    }
}

/// spec: W7.13: a fork gets a slot of a closed limiter. Only the completion of the last item returns `Last`.
#[test]
fn a_fork_is_admitted_to_a_closed_limiter() {
    let (closed, slot) = Admission::new(2).admit().0.close();
    assert_eq!(slot, Slot::Free);
    let (forked, answer) = closed.admit_here();
    assert_eq!((answer, forked.active()), (Admit::Start, 2));
    assert_eq!(forked.admit_here(), (forked, Admit::Full));
    assert_eq!(forked.complete(), (closed, Slot::Free));
    assert_eq!(closed.complete().1, Slot::Last);
}

/// A frozen limiter (max 0) hands no slot over.
#[test]
fn a_limiter_without_slots_holds_everything_back() {
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
        assert_eq!(flushing.admit_counted(Intake::Draining), (flushing, Admit::Flushing));
        assert_eq!(flushing.admit_many(5), (flushing, AdmitMany::Flushing));
        let (next, answer) = flushing.beside_flush(Admission::admit);
        assert_eq!((next.end_flush().0, answer), word.admit());
        assert!(next.is_flushing());
    }
}

/// The intake is checked before the flush, so a refused item needs no ticket.
#[test]
fn a_flushing_limiter_refuses_as_any_other() {
    let word = Admission::new(1).begin_flush().0.with_intake(Intake::Draining);
    assert_eq!(word.admit().1, Admit::Refused);
    assert_eq!(word.admit_counted(Intake::Draining).1, Admit::Flushing);
    assert_eq!(word.with_intake(Intake::Shut).admit_counted(Intake::Draining).1, Admit::Refused);
}

#[test]
fn the_last_item_of_a_closed_limiter_is_reported() {
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

/// spec: F8.3 (new items never overtake waiting ones): a new item waits behind listed items while the thread that
/// raised the limit starts them.
#[test]
fn an_item_waits_behind_the_listed_ones_after_the_limit_was_raised() {
    let word = Admission::new(0).admit().0.list().0.with_max(9);
    assert_eq!(word.admit().1, Admit::Wait);
    assert_eq!(word.admit_counted(Intake::Draining).1, Admit::Wait);
    assert_eq!(word.start_listed().0.admit().1, Admit::Start, "no item waits any more");
}

/// spec: F4 (accepts only chained queueing)
#[test]
fn the_intake_decides_which_items_are_admitted() {
    let chained = Admission::new(1).with_intake(Intake::Draining);
    assert_eq!(chained.admit(), (chained, Admit::Refused));
    let (busy, admit) = chained.admit_counted(Intake::Draining);
    assert_eq!(admit, Admit::Start);
    assert_eq!(busy.admit(), (busy, Admit::Refused));
    assert_eq!(busy.admit_counted(Intake::Draining).1, Admit::Wait);
    let shut = busy.with_intake(Intake::Shut);
    assert_eq!(shut.admit(), (shut, Admit::Refused));
    assert_eq!(shut.admit_counted(Intake::Draining), (shut, Admit::Refused));
    assert_eq!(shut.complete().1, Slot::Free, "admitted items may finish");
    let (late, slot) = busy.admit_counted(Intake::Draining).0.with_intake(Intake::Shut).list();
    assert_eq!(
        (slot, late.active()),
        (Slot::Handed, 2),
        "an issuer that lists its item too late takes the first one"
    );
    let (word, slot) = busy.admit_counted(Intake::Draining).0.list().0.with_intake(Intake::Shut).complete();
    assert_eq!((slot, word.listed()), (Slot::Free, 1), "no item starts any more");
    assert_eq!(word.recall().1, Slot::Handed);
    assert_eq!(shut.with_intake(Intake::Draining), busy);
    let counted = Admission::new(1).with_intake(Intake::Counted);
    assert_eq!(counted.admit(), (counted, Admit::Refused), "each item is counted");
    assert_eq!(counted.admit_counted(Intake::Counted).1, Admit::Start);
    assert_eq!(chained.admit_counted(Intake::Counted), (chained, Admit::Refused), "the drain is stricter");
}

/// spec: I3.4 (every item leaves): more items reach the list of a shut limiter than the limiter can count as active.
#[test]
fn no_item_stays_on_the_list_of_a_shut_limiter() {
    let mut word = Admission::new(1).admit().0;
    for _ in 0..1000 {
        word = word.admit().0.list().0;
    }
    for _ in 0..2000 {
        word = word.admit().0;
    }
    // A frozen queue has no slot.
    word = word.with_max(0).with_intake(Intake::Shut);
    while word.recall().1 == Slot::Handed {
        word = word.recall().0;
    }
    assert_eq!((word.active(), word.listed()), (1001, 0));
    for _ in 0..2000 {
        word = word.list().0;
    }
    assert_eq!((word.active(), word.listed()), (COUNT_MASK, 3001 - COUNT_MASK));
    assert_eq!(word.recall(), (word, Slot::Free), "the thread that has shut the intake leaves them");
    // One item runs for ever, and workers complete the others without running them.
    let given_up = std::iter::repeat_with(|| word = word.complete().0).take(3000).count();
    assert_eq!((given_up, word.active(), word.listed()), (3000, 1, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An issuer submits an item. If `by` is given, the issuer counts the item, and calls `admit_counted(by)`.
    Come {
        by: Option<Intake>,
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
    /// Changes the limit, but does not start any listed item yet.
    SetMax(usize),
    StartListed,
    SetIntake(Intake),
    /// The thread that has shut the intake takes an item off the list.
    Recall,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::option::of(intake()).prop_map(|by| Step::Come { by }),
        2 => (1usize..6).prop_map(Step::ComeMany),
        8 => Just(Step::Push),
        6 => Just(Step::List),
        3 => (1usize..6).prop_map(Step::ListMany),
        8 => Just(Step::Complete),
        2 => Just(Step::Flush),
        2 => (0usize..4).prop_map(Step::SetMax),
        4 => Just(Step::StartListed),
        1 => intake().prop_map(Step::SetIntake),
        2 => Just(Step::Recall),
    ]
}

pub(super) fn intake() -> impl Strategy<Value = Intake> {
    prop_oneof![
        5 => Just(Intake::Open),
        1 => Just(Intake::Counted),
        1 => Just(Intake::Draining),
        1 => Just(Intake::Shut),
    ]
}

/// Returns whether the intake admits an item. If `by` is given, the issuer counts the item, and `by` is the strictest
/// intake that admits the item.
fn lets_in(intake: Intake, by: Option<Intake>) -> bool {
    match intake {
        Intake::Open => true,
        Intake::Counted => by.is_some_and(|by| by != Intake::Open),
        Intake::Draining => matches!(by, Some(Intake::Draining | Intake::Shut)),
        Intake::Shut => false,
    }
}

proptest! {
    /// spec: Q3 (never more than max active), F8. Compares the word with a plain model that has real lists. No item
    /// overtakes an item on the list. While an item is listed, a slot stays free only if a thread is about to start
    /// that item. No item gets a slot that a lowered limit has removed. A flush counts exactly the items in flight,
    /// even if some pushed items do not count as listed yet.
    #[test]
    fn agrees_with_a_model_of_lists(max in 0usize..4, steps in prop::collection::vec(step(), 0..80)) {
        let mut word = Admission::new(max);
        let (mut max, mut active, mut list) = (max, 0, VecDeque::new());
        // `coming` counts the items whose issuer was told to wait. `pushed` counts the items on the list that do not
        // count as listed yet.
        let (mut coming, mut pushed) = (0, 0);
        let (mut intake, mut raising) = (Intake::Open, false);
        let mut items = 0..;
        for step in steps {
            let before = active;
            match step {
                Step::Come { by } => {
                    let (next, admit) = word.beside_flush(|word| match by {
                        None => word.admit(),
                        Some(by) => word.admit_counted(by),
                    });
                    word = next;
                    prop_assert_eq!(admit != Admit::Refused, lets_in(intake, by));
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
                            prop_assert!(lets_in(intake, None));
                            prop_assert_eq!(came.started + came.waiting, items);
                            prop_assert!(came.started == 0 || list.is_empty(), "overtakes {:?}", list);
                            active += came.started;
                            coming += came.waiting;
                        }
                        AdmitMany::Refused => prop_assert!(!lets_in(intake, None)),
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
                            prop_assert!(intake != Intake::Shut, "an item starts while the intake is shut");
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
                // Once shut, an intake is never opened again.
                Step::SetIntake(new) => if intake != Intake::Shut {
                    intake = new;
                    word = word.with_intake(intake);
                },
                Step::Recall => if intake == Intake::Shut {
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
            prop_assert_eq!((word.max() as usize, word.intake()), (max, intake));
            // If an item is taken off the list while the intake is shut, it counts as active until it completes.
            let shut = intake == Intake::Shut;
            prop_assert!(active <= max.max(before) || shut, "{:?}", word);
            let expected = pushed > 0 || raising || shut;
            prop_assert!(list.is_empty() || active >= max || expected, "a slot idles: {:?}", word);
        }
    }
}
