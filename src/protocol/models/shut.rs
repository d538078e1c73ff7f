//! Models of an intake that is shut while items are in flight. The thread that shuts the intake empties the waiting
//! list.
//!
//! Meanwhile an issuer, whose item was admitted earlier, puts this item on the list. The item does not stay there:
//! either the shutting thread takes the item off the list, or the issuer gets the item back. No item starts after the
//! intake was shut, and no item is lost.
//!
//! Red under: `list-waits-while-shut`, `complete-hands-while-shut`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{List, check, check_all};
use crate::policy::admission::{Admission, Intake, Slot};
use crate::protocol::limiter::{Came, LimiterCell};

struct Queue {
    limiter: LimiterCell,
    waiting: List,
    /// The number of items that are over, because they ran or were given up. Accesses are relaxed, so that this number
    /// does not order the threads in place of the limiter.
    over: AtomicU64,
}

impl Queue {
    /// Makes a queue with one slot. An active item has this slot.
    fn busy() -> Self {
        let queue = Self {
            limiter: LimiterCell::new(Admission::new(1)),
            waiting: List::new(),
            over: AtomicU64::new(0),
        };
        assert_eq!(queue.limiter.admit(), Came::Started);
        queue
    }

    fn pop(&self) {
        assert!(self.waiting.pop(), "a slot was given to an item that is not on the list");
    }

    /// Does what an issuer does with a new item. Returns whether the item was admitted. An item that gets a slot, or
    /// that is handed back immediately, is counted as over immediately.
    fn come(&self) -> bool {
        match self.limiter.admit() {
            Came::Started => {
                self.complete();
                return true;
            }
            Came::Waits => {}
            Came::Flushing | Came::Not(_) => return false,
        }
        self.waiting.push();
        if self.limiter.list().handed {
            self.pop();
            self.complete();
        }
        true
    }

    /// Completes an item, and then each further item that gets the same slot.
    fn complete(&self) {
        loop {
            self.over.fetch_add(1, Ordering::Relaxed);
            match self.limiter.complete().slot {
                Slot::Handed => self.pop(),
                Slot::Free => return,
                Slot::Last => panic!("the limiter is not closed"),
            }
        }
    }

    /// Shuts the intake, and gives up the waiting items. An active item may run for ever.
    fn shut(&self) {
        self.limiter.set(1, Intake::Shut);
        while self.limiter.recall() {
            self.pop();
            self.complete_given_up();
        }
    }

    fn complete_given_up(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
        let slot = self.limiter.complete().slot;
        assert_eq!(slot, Slot::Free, "an item starts while the intake is shut");
    }

    fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }
}

/// An item arrives while a thread shuts the intake. The active item does not end.
#[test]
fn an_item_comes_while_the_intake_is_shut() {
    check_all(|| {
        let queue = Arc::new(Queue::busy());
        let issuer = {
            let queue = queue.clone();
            thread::spawn(move || queue.come())
        };
        queue.shut();
        let came = issuer.join().unwrap();
        assert!(!queue.waiting.has_work(), "an item stays on the list");
        assert_eq!((queue.limiter.load().in_flight(), queue.over()), (1, u64::from(came)));
    });
}

/// While a thread shuts the intake, one item is listed, another item arrives, and the active item ends.
#[test]
fn items_come_and_end_while_the_intake_is_shut() {
    check(3, || {
        let queue = Arc::new(Queue::busy());
        assert_eq!(queue.limiter.admit(), Came::Waits);
        queue.waiting.push();
        assert!(!queue.limiter.list().handed);
        let issuer = {
            let queue = queue.clone();
            thread::spawn(move || queue.come())
        };
        let worker = {
            let queue = queue.clone();
            thread::spawn(move || queue.complete())
        };
        queue.shut();
        worker.join().unwrap();
        let came = issuer.join().unwrap();
        assert!(!queue.waiting.has_work(), "an item stays on the list");
        assert_eq!((queue.limiter.load().in_flight(), queue.over()), (0, 2 + u64::from(came)));
    });
}
