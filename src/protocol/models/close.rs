//! Models of the end of a queue: its limiters are closed while the last items complete.
//!
//! For each limiter, one thread finds that it is the limiter's last user. If no item is in flight, the last user is the
//! thread that drops the handle. Otherwise, the last user is the thread that completes the last item. The queue's parts
//! exist until each limiter has lost its last user. Exactly one thread frees the parts. Every access to a limiter is
//! ordered before the parts are freed. loom checks this order when the limiters are dropped.
//!
//! Red under: `close-without-acquire`, `close-in-two-steps`, `complete-looks-again`, `reference-without-acquire`.

use std::sync::Arc;

use loom::thread;

use super::{List, Owned, check_all};
use crate::policy::admission::{Admission, Slot};
use crate::protocol::limiter::{Came, LimiterCell};
use crate::protocol::references::ReferenceCount;

struct Queue {
    limiters: Owned<[LimiterCell; 2]>,
    waiting: List,
    /// The handle has one reference. When a thread drops the handle, each limiter gets a reference, too.
    references: ReferenceCount,
}

impl Queue {
    fn new() -> Self {
        Self {
            limiters: Owned::new([0, 1].map(|_| LimiterCell::new(Admission::new(1)))),
            waiting: List::new(),
            references: ReferenceCount::new(),
        }
    }

    fn start(&self, limiter: usize) {
        assert_eq!(self.limiters[limiter].admit(), Came::Started);
    }

    /// Completes an active item, and then each further item that gets the same slot.
    fn complete(&self, limiter: usize) {
        loop {
            match self.limiters[limiter].complete().slot {
                Slot::Handed => assert!(self.waiting.pop()),
                Slot::Free => return,
                Slot::Last => return self.limiter_is_done(),
            }
        }
    }

    /// Drops the last handle. The handle's own reference is given up last, so that the limiters exist while this call
    /// closes them.
    fn close(&self) {
        self.references.add(2);
        for limiter in 0..2 {
            if self.limiters[limiter].close() {
                self.limiter_is_done();
            }
        }
        self.limiter_is_done();
    }

    fn limiter_is_done(&self) {
        if self.references.release() {
            self.limiters.free();
        }
    }
}

#[test]
fn items_of_two_limiters_end_while_both_are_closed() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        let threads = [0, 1].map(|limiter| {
            queue.start(limiter);
            let queue = queue.clone();
            thread::spawn(move || queue.complete(limiter))
        });
        queue.close();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(queue.limiters.is_freed());
    });
}

/// An item completes and hands its slot to a listed item while another thread closes the limiter. The listed item keeps
/// the limiter in memory, just like an active item.
#[test]
fn a_listed_item_keeps_its_limiter() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        queue.start(0);
        assert_eq!(queue.limiters[0].admit(), Came::Waits);
        queue.waiting.push();
        assert!(!queue.limiters[0].list().handed);
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || queue.complete(0))
        };
        queue.close();
        thread.join().unwrap();
        assert!(queue.limiters.is_freed());
    });
}

/// An issuer admits and lists its item and then drops the last handle, while the previous item completes.
#[test]
fn the_last_handle_is_dropped_right_after_an_item_came() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        queue.start(0);
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || queue.complete(0))
        };
        let mut mine = queue.limiters[0].admit() == Came::Started;
        if !mine {
            queue.waiting.push();
            mine = queue.limiters[0].list().handed;
            assert!(!mine || queue.waiting.pop());
        }
        queue.close();
        if mine {
            queue.complete(0);
        }
        thread.join().unwrap();
        assert!(queue.limiters.is_freed());
    });
}
