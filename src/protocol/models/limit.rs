//! Models of a limit that changes: [`LimiterCell::set`](crate::protocol::limiter::LimiterCell::set) is called while
//! items come and complete.
//!
//! No slot is lost, and none is given twice. After the limit was raised, as many items are active as it says, or no
//! item waits. A thread that was given a slot finds an item on the waiting list. At the end all items have run.
//!
//! Red under: `intake-in-two-steps`, `start-listed-keeps-count`, `raise-starts-nothing`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{List, check};
use crate::policy::admission::{Admission, Intake, Slot};
use crate::protocol::limiter::{Came, LimiterCell};

struct Queue {
    limiter: LimiterCell,
    waiting: List,
    /// The highest limit that the limiter ever has.
    highest: u64,
    /// Relaxed, so that they order nothing that the limiter should order.
    active: AtomicU64,
    done: AtomicU64,
}

impl Queue {
    fn new(max: usize, highest: u64) -> Self {
        Self {
            limiter: LimiterCell::new(Admission::new(max)),
            waiting: List::new(),
            highest,
            active: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// An item comes. Returns true if an item, this one or another, has a slot now: the caller runs it.
    fn come(&self) -> bool {
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

    fn pop(&self) {
        assert!(self.waiting.pop(), "a slot was given to an item that is not on the list");
    }

    /// Runs and completes an item that has a slot, and each item that the slot is handed to.
    fn run(&self) {
        loop {
            let before = self.active.fetch_add(1, Ordering::Relaxed);
            assert!(before < self.highest, "more items are active than there were slots at any time");
            self.active.fetch_sub(1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
            match self.limiter.complete().slot {
                Slot::Handed => self.pop(),
                Slot::Free => return,
                Slot::Last => panic!("the limiter is not closed"),
            }
        }
    }

    fn set(&self, max: usize) {
        self.limiter.set(max, Intake::Open);
        while self.limiter.start_listed() {
            self.pop();
            self.run();
        }
    }

    fn assert_done(&self, items: u64) {
        let word = self.limiter.load();
        assert_eq!(word.in_flight(), 0, "{word:?}");
        assert!(!self.waiting.has_work());
        assert_eq!(self.done.load(Ordering::Relaxed), items, "an item was lost");
    }
}

fn elsewhere(queue: &Arc<Queue>, act: impl FnOnce(&Queue) + 'static) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || act(&queue))
}

fn come_and_run(queue: &Queue) {
    if queue.come() {
        queue.run();
    }
}

/// One item is active, one is listed and one comes, while the limit is raised.
///
/// spec: F8.1
#[test]
fn the_limit_is_raised_while_items_come_and_complete() {
    check(2, || {
        let queue = Arc::new(Queue::new(1, 2));
        assert!(queue.come() && !queue.come());
        let threads = [elsewhere(&queue, come_and_run), elsewhere(&queue, |queue| queue.set(2))];
        queue.run();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        queue.assert_done(3);
    });
}

/// An item that is listed while the limiter is frozen starts when the limiter thaws, though other items come meanwhile.
///
/// spec: F7.1
#[test]
fn a_frozen_limiter_thaws_while_items_come() {
    check(2, || {
        let queue = Arc::new(Queue::new(0, 2));
        assert!(!queue.come());
        let threads = [elsewhere(&queue, come_and_run), elsewhere(&queue, come_and_run)];
        queue.set(2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        queue.assert_done(3);
    });
}

/// Two items are active, and the limit is lowered. The listed item runs in the slot that is left.
///
/// spec: F8.2
#[test]
fn the_limit_is_lowered_while_items_complete() {
    check(2, || {
        let queue = Arc::new(Queue::new(2, 2));
        assert!(queue.come() && queue.come() && !queue.come());
        let threads = [elsewhere(&queue, Queue::run), elsewhere(&queue, |queue| queue.set(1))];
        queue.run();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(queue.limiter.load().max(), 1);
        queue.assert_done(3);
    });
}
