//! Models of [`GivenUpCount`](crate::protocol::given_up::GivenUpCount): items are given up while a shutdown counts
//! what is left.
//!
//! The shutdown reports each item, in its gate or among those that were given up, though gate and count are two
//! words.
//!
//! Red under: `left-looks-at-the-count-first`, `empty-without-acquire`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::admission::{Admission, Slot};
use crate::protocol::gate::{Came, GateCell};
use crate::protocol::given_up::GivenUpCount;

struct Queue {
    gates: [GateCell; 2],
    given_up: GivenUpCount,
}

impl Queue {
    /// Makes a queue with an item in each gate.
    fn new() -> Self {
        let gates = [0, 1].map(|_| GateCell::new(Admission::new(1)));
        gates.iter().for_each(|gate| assert_eq!(gate.admit(), Came::Started));
        Self { gates, given_up: GivenUpCount::new() }
    }

    /// Does the same as `engine/executor/shutdown.rs`.
    fn give_up(&self, gate: usize) {
        self.given_up.raise();
        assert_eq!(self.gates[gate].complete().slot, Slot::Free);
    }
}

/// spec: E5.3 (returns what did not finish in time): workers give up items that came late.
#[test]
fn each_item_that_is_left_is_reported() {
    check_all(|| {
        let queue = Arc::new(Queue::new());
        let workers = [0, 1].map(|gate| {
            let queue = queue.clone();
            thread::spawn(move || queue.give_up(gate))
        });
        let left = queue.given_up.beside(queue.gates.iter());
        assert!(left.given_up + left.in_flight >= 2, "an item is missing: {left:?}");
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let left = queue.given_up.beside(queue.gates.iter());
        assert_eq!((left.given_up, left.in_flight), (2, 0));
    });
}
