//! Models of [`LimiterCell`](crate::protocol::limiter::LimiterCell): which thread starts which waiting item.
//!
//! Items arrive while another item completes. A thread that was given a slot finds an item on the waiting list. At most
//! `max` items are active. If there is one slot, items exclude each other, and each item sees what the previous item
//! wrote. At the end, all items have run and the limiter's word is empty.
//!
//! There is no model of a limiter without a limit, because such a limiter hands on no slot. The tables of
//! `policy::admission` test the word of such a limiter.
//!
//! Red under: `limiter-without-acquire`, `limiter-without-release`, `list-leaves-free-slot`,
//! `complete-hands-to-coming`, `admit-in-two-steps`, `admit-overtakes-coming`, `batch-in-two-steps`,
//! `batch-overtakes-coming`, `batch-leaves-free-slots`, `admit-here-in-two-steps`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Data, List, check};
use crate::policy::admission::{Admission, AdmitMany, Slot};
use crate::protocol::limiter::{Came, LimiterCell};

pub(super) struct Queue {
    pub(super) limiter: LimiterCell,
    waiting: List,
    /// The highest limit that the limiter has at any time.
    highest: u64,
    /// Accesses to the counts are relaxed, so that the counts do not order the threads in place of the limiter.
    active: AtomicU64,
    done: AtomicU64,
    /// If there is one slot, this data belongs to the thread that has the slot.
    exclusive: Data<u64>,
}

impl Queue {
    pub(super) fn new(max: usize, highest: usize) -> Self {
        Self {
            limiter: LimiterCell::new(Admission::new(max)),
            waiting: List::new(),
            highest: highest as u64,
            active: AtomicU64::new(0),
            done: AtomicU64::new(0),
            exclusive: Data::new(0),
        }
    }

    /// Does what an issuer does with a new item. Returns whether the new item or another item has got a slot now. If
    /// so, the caller runs the item that has the slot.
    pub(super) fn come(&self) -> bool {
        if self.limiter.admit() == Came::Started {
            return true;
        }
        self.waiting.push();
        let handed = self.limiter.list().handed;
        if handed {
            self.pop();
        }
        handed
    }

    pub(super) fn pop(&self) {
        assert!(self.waiting.pop(), "a slot was given to an item that is not on the list");
    }

    /// Runs and completes an item that has a slot, and then each further item that gets the same slot.
    pub(super) fn run(&self) {
        loop {
            let before = self.active.fetch_add(1, Ordering::Relaxed);
            assert!(before < self.highest, "more items are active than there were slots at any time");
            if self.highest == 1 {
                self.exclusive.write(|runs| *runs += 1);
            }
            self.active.fetch_sub(1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
            match self.limiter.complete().slot {
                Slot::Handed => self.pop(),
                Slot::Free => return,
                Slot::Last => panic!("the limiter is not closed"),
            }
        }
    }

    fn issue(&self, items: u32) {
        for _ in 0..items {
            if self.come() {
                self.run();
            }
        }
    }

    pub(super) fn assert_done(&self, items: u64) {
        let word = self.limiter.load();
        assert_eq!(word.in_flight(), 0, "{word:?}");
        assert!(!self.waiting.has_work());
        assert_eq!(self.done.load(Ordering::Relaxed), items, "an item was lost");
    }
}

/// At first, as many items are active as there are slots. Two issuers submit items while the active items complete.
fn come_against_complete(preemptions: usize, max: usize) {
    check(preemptions, move || {
        let queue = Arc::new(Queue::new(max, max));
        for _ in 0..max {
            assert!(queue.come());
        }
        let issuers = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || queue.issue(1))
        });
        for _ in 0..max {
            queue.run();
        }
        for issuer in issuers {
            issuer.join().unwrap();
        }
        queue.assert_done(max as u64 + 2);
    });
}

#[test]
fn one_slot_is_handed_from_item_to_item() {
    come_against_complete(3, 1);
}

#[test]
fn two_slots_are_handed_from_item_to_item() {
    come_against_complete(2, 2);
}

/// One issuer submits two items. The second item must neither overtake the first item nor start beside it.
#[test]
fn items_of_one_issuer_start_one_after_the_other() {
    check(4, || {
        let queue = Arc::new(Queue::new(1, 1));
        assert!(queue.come());
        let issuer = {
            let queue = queue.clone();
            thread::spawn(move || queue.issue(2))
        };
        queue.run();
        issuer.join().unwrap();
        queue.assert_done(3);
    });
}

/// An issuer runs its item itself if a slot is free. Meanwhile, another item arrives, and an active item completes.
///
/// spec: B2.2 (never past `max_active`)
#[test]
fn an_issuer_runs_its_item_in_a_free_slot() {
    check(4, || {
        let queue = Arc::new(Queue::new(1, 1));
        assert!(queue.come());
        let comes = {
            let queue = queue.clone();
            thread::spawn(move || queue.issue(1))
        };
        let runs_here = {
            let queue = queue.clone();
            thread::spawn(move || {
                let started = queue.limiter.admit_here() == Came::Started;
                if started {
                    queue.run();
                }
                u64::from(started)
            })
        };
        queue.run();
        comes.join().unwrap();
        queue.assert_done(2 + runs_here.join().unwrap());
    });
}

/// A list of numbered items in one word, with the first item in the lowest digit. In all other respects, this list is
/// like [`List`].
struct Line(AtomicU64);

impl Line {
    fn push(&self, item: u64) {
        self.change(Ordering::Release, |line| match line {
            0 => item,
            _ => line | item << (4 * (line.ilog2() / 4 + 1)),
        });
    }

    /// Takes the first item. Returns 0 if the list looks empty.
    fn pop(&self) -> u64 {
        self.change(Ordering::Acquire, |line| line >> 4) & 0xf
    }

    fn change(&self, success: Ordering, change: impl Fn(u64) -> u64) -> u64 {
        self.0.fetch_update(success, Ordering::Relaxed, |line| Some(change(line))).unwrap()
    }
}

/// A queue whose items can be told apart: items 1, 2 and 4 belong to one issuer, and item 3 belongs to another issuer.
/// Item 0 has the slot at first.
struct InOrder {
    limiter: LimiterCell,
    waiting: Line,
    /// The set of items that have begun, with one bit for each item. Accesses are relaxed, so that the set does not
    /// order the threads in place of the limiter.
    seen: AtomicU64,
}

impl InOrder {
    fn come(&self, item: u64) {
        if self.limiter.admit() == Came::Started {
            return self.run(item);
        }
        self.waiting.push(item);
        if self.limiter.list().handed {
            self.run(self.waiting.pop());
        }
    }

    /// Submits several items of one issuer in one step. The items that get a slot begin before the other items are on
    /// the list.
    fn come_many(&self, items: &[u64]) {
        let AdmitMany::In(admitted) = self.limiter.admit_many(items.len()) else {
            panic!("the intake is open")
        };
        assert_eq!(admitted.items(), items.len(), "there is room for all");
        let (started, waiting) = items.split_at(admitted.started);
        started.iter().for_each(|item| self.begin(*item));
        waiting.iter().for_each(|item| self.waiting.push(*item));
        if !waiting.is_empty() {
            let (listed, _) = self.limiter.list_many(waiting.len());
            assert_eq!(listed.arrived, waiting.len(), "the intake is open");
            (0..listed.handed).for_each(|_| self.run(self.waiting.pop()));
        }
        started.iter().for_each(|_| self.complete());
    }

    fn run(&self, item: u64) {
        self.begin(item);
        self.complete();
    }

    fn begin(&self, item: u64) {
        let before = self.seen.fetch_or(1 << item, Ordering::Relaxed);
        let behind = [0, 0, 1, 0, 2][item as usize];
        assert!(before & 1 << behind != 0 || item == 0, "an item has overtaken one of the same issuer");
    }

    /// Completes an item, and then each further item that gets the same slot.
    fn complete(&self) {
        loop {
            match self.limiter.complete().slot {
                Slot::Handed => self.begin(self.waiting.pop()),
                Slot::Free => return,
                Slot::Last => panic!("the limiter is not closed"),
            }
        }
    }
}

/// Issuers submit items while the first item completes. Each issuer submits its single items and batches one after the
/// other.
fn keep_the_order(preemptions: usize, issuers: &'static [&'static [&'static [u64]]]) {
    let came: usize = issuers.iter().copied().flatten().map(|batch| batch.len()).sum();
    check(preemptions, move || {
        let queue = Arc::new(InOrder {
            limiter: LimiterCell::new(Admission::new(1)),
            waiting: Line(AtomicU64::new(0)),
            seen: AtomicU64::new(0),
        });
        let _admitted = queue.limiter.admit();
        let issuers = issuers.iter().map(|batches| {
            let queue = queue.clone();
            thread::spawn(move || {
                for batch in *batches {
                    match batch {
                        [item] => queue.come(*item),
                        items => queue.come_many(items),
                    }
                }
            })
        });
        let issuers: Vec<_> = issuers.collect();
        queue.run(0);
        for issuer in issuers {
            issuer.join().unwrap();
        }
        let seen = queue.seen.load(Ordering::Relaxed);
        assert_eq!((seen.count_ones() as usize, queue.limiter.load().in_flight()), (1 + came, 0));
    });
}

/// Two issuers push their items to the list. The first issuer to push its item may be the last to count its item as
/// listed. In the meantime, a thread may hand out a slot for the other issuer's item. This slot goes to the first item
/// on the list, although this first item is not counted as listed yet.
///
/// spec: Q4.1
#[test]
fn items_of_one_issuer_keep_their_order_beside_another() {
    keep_the_order(3, &[&[&[1], &[2]], &[&[3]]]);
}

/// One issuer submits a batch while another issuer submits a single item. The items of the batch start in their order.
///
/// spec: W8.4
#[test]
fn a_batch_beside_a_single_item_keeps_the_order() {
    keep_the_order(3, &[&[&[1, 2]], &[&[3]]]);
}

/// An issuer submits a single item and then a batch. The items of the batch start after the single item.
///
/// spec: Q4.1
#[test]
fn a_batch_stays_behind_an_item_of_its_issuer() {
    keep_the_order(2, &[&[&[1], &[2, 4]], &[&[3]]]);
}
