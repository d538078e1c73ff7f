//! Models of [`GivenUpCount`](crate::protocol::given_up::GivenUpCount): threads give up items, which then never run,
//! while a shutdown counts the remaining items.
//!
//! The shutdown finds each item, either in its limiter or among the items that were given up. This holds although the
//! limiter and the count are two separate words.
//!
//! Red under: `left-looks-at-the-count-first`, `empty-without-acquire`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::admission::{Admission, Slot};
use crate::protocol::given_up::GivenUpCount;
use crate::protocol::limiter::{Came, LimiterCell};

struct Queue {
    limiters: [LimiterCell; 2],
    given_up: GivenUpCount,
}

impl Queue {
    /// Makes a queue with an item in each limiter.
    fn new() -> Self {
        let limiters = [0, 1].map(|_| LimiterCell::new(Admission::new(1)));
        limiters.iter().for_each(|limiter| assert_eq!(limiter.admit(), Came::Started));
        Self { limiters, given_up: GivenUpCount::new() }
    }

    /// Does the same as `engine/executor/shutdown.rs`.
    fn give_up(&self, limiter: usize) {
        self.given_up.raise();
        assert_eq!(self.limiters[limiter].complete().slot, Slot::Free);
    }
}

/// spec: E5.3 (returns what did not finish in time): workers give up items while the shutdown counts the remaining
/// items. The shutdown misses no item.
#[test]
fn each_item_that_is_left_is_reported() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        let workers = [0, 1].map(|limiter| {
            let queue = queue.clone();
            thread::spawn(move || queue.give_up(limiter))
        });
        let left = queue.given_up.beside(queue.limiters.iter());
        assert!(left.given_up + left.in_flight >= 2, "an item is missing: {left:?}");
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let left = queue.given_up.beside(queue.limiters.iter());
        assert_eq!((left.given_up, left.in_flight), (2, 0));
    });
}
