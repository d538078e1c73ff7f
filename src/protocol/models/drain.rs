//! Models of [`were_empty`](crate::protocol::drain::were_empty) for a queue with two limiters, and of the limiters'
//! intakes. A *drain* calls this function, and so does a *look*, which only finds out whether the queue is empty.
//!
//! While a drain reads the limiters, an item in one limiter puts another item into the other limiter. The drain ends
//! only after both items have ended, and the draining thread then sees the effects of both items. An item that arrives
//! after the intake was shut is refused. The drain waits for an item that was admitted earlier. A look refuses no item,
//! and misses no item that the queue's own items add.
//!
//! Red under: `count-not-compared`, `counted-before`, `counted-passes-a-drain`, `empty-without-acquire`,
//! `intake-in-two-steps`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check, check_all};
use crate::policy::admission::{Admission, Intake, NotAdmitted, Slot};
use crate::protocol::drain::{CountedItems, were_empty};
use crate::protocol::limiter::{Came, LimiterCell};

struct Queue {
    limiters: [LimiterCell; 2],
    counted: CountedItems,
    /// Data that the added item writes before it completes.
    data: Data<bool>,
}

impl Queue {
    fn new() -> Self {
        Self {
            limiters: [0, 1].map(|_| LimiterCell::new(Admission::new(1))),
            counted: CountedItems::new(),
            data: Data::new(false),
        }
    }

    fn start(&self, limiter: usize) {
        assert_eq!(self.limiters[limiter].admit(), Came::Started);
    }

    fn complete(&self, limiter: usize) {
        assert_eq!(self.limiters[limiter].complete().slot, Slot::Free);
    }

    /// Puts an item into a limiter on behalf of another item, as the engine does while the intake is not open.
    fn chain(&self, limiter: usize) {
        assert_eq!(self.add(limiter, Intake::Draining), Ok(()));
    }

    /// Puts an item into a limiter, unless the limiter's own intake is shut or is stricter than the intake `by`.
    fn add(&self, limiter: usize, by: Intake) -> Result<(), Came> {
        self.counted.admit(|| match self.limiters[limiter].admit_counted(by) {
            Came::Started => Ok(()),
            came => Err(came),
        })
    }

    fn shut(&self, intake: Intake) {
        self.limiters.iter().for_each(|limiter| limiter.set(1, intake));
    }

    fn were_empty(&self) -> bool {
        were_empty(|| self.counted.load(), self.limiters.iter())
    }
}

/// One item is in the limiter that the drain reads last. This item puts another item into the first limiter, and both
/// items end.
///
/// spec: F4.1
#[test]
fn an_item_puts_another_one_into_a_limiter_that_was_read_already() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        queue.start(1);
        queue.shut(Intake::Draining);
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.chain(0);
                queue.complete(1);
                queue.data.write(|done| *done = true);
                queue.complete(0);
            })
        };
        if queue.were_empty() {
            assert!(queue.data.read(|done| *done), "the drain ended before an item did");
        }
        thread.join().unwrap();
        assert!(queue.were_empty());
    });
}

/// Either the limiter admits an issuer's item, and the drain waits for the item, or the limiter refuses the item. So no
/// item arrives after the end of the drain.
///
/// spec: F4.3
#[test]
fn no_item_is_admitted_after_the_intake_was_shut() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || {
                let came = queue.limiters[0].admit() == Came::Started;
                if came {
                    queue.data.write(|done| *done = true);
                    queue.complete(0);
                }
                came
            })
        };
        queue.shut(Intake::Draining);
        let ended = queue.were_empty();
        queue.shut(Intake::Shut);
        let seen = ended && queue.data.read(|done| *done);
        assert_eq!(queue.limiters[0].admit(), Came::Not(NotAdmitted::Intake));
        let came = thread.join().unwrap();
        assert!(!ended || came == seen, "an item came after the end, or was not seen");
        assert_eq!(queue.limiters[0].load().in_flight(), 0);
    });
}

/// An item adds another item while a look (a check whether the queue is empty) sets the intake of the added item's
/// limiter. The look misses neither item, and the added item is not refused.
///
/// spec: F1.7
#[test]
fn a_look_begins_while_an_item_adds_another_one() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        queue.start(1);
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || {
                match queue.limiters[0].admit() {
                    Came::Started => {}
                    came => {
                        assert_eq!(came, Came::Not(NotAdmitted::Intake));
                        assert_eq!(queue.add(0, Intake::Counted), Ok(()));
                    }
                }
                queue.complete(1);
                queue.data.write(|done| *done = true);
                queue.complete(0);
            })
        };
        queue.shut(Intake::Counted);
        if queue.were_empty() {
            assert!(queue.data.read(|done| *done), "the look missed an item");
        }
        thread.join().unwrap();
        assert!(queue.were_empty());
    });
}

/// During a look, an issuer that is no item of the queue submits an item. If the queue is destroyed before the item is
/// admitted, the item is refused.
///
/// spec: F1.7, F4.3
#[test]
fn a_look_lets_no_issuer_into_a_queue_that_has_ended() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        queue.shut(Intake::Counted);
        let issuer = {
            let queue = queue.clone();
            thread::spawn(move || {
                let came = queue.add(0, Intake::Counted).is_ok();
                if came {
                    queue.data.write(|done| *done = true);
                    queue.complete(0);
                }
                came
            })
        };
        queue.shut(Intake::Draining);
        let ended = queue.were_empty();
        let seen = ended && queue.data.read(|done| *done);
        let came = issuer.join().unwrap();
        assert!(!ended || came == seen, "an item came after the end, or was not seen");
    });
}
