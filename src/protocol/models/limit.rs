//! Models of [`LimiterCell::set`](crate::protocol::limiter::LimiterCell::set), which changes a limit while items arrive
//! and complete.
//!
//! No slot is lost, and no slot is given to two items at a time. After the limit was raised, either no item waits, or
//! as many items are active as the new limit permits. A thread that was given a slot finds an item on the waiting list.
//! At the end all items have run.
//!
//! Red under: `intake-in-two-steps`, `start-listed-keeps-count`, `raise-starts-nothing`.

use std::sync::Arc;

use loom::thread;

use super::check;
use super::limiter::Queue;
use crate::policy::admission::Intake;

impl Queue {
    fn set(&self, max: usize) {
        self.limiter.set(max, Intake::Open);
        while self.limiter.start_listed() {
            self.pop();
            self.run();
        }
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

/// A thread raises the limit while one item is active, one item is listed and one item arrives.
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

/// An item waits on the list while the limiter is frozen, which means that its limit is zero. When the limit is raised,
/// the item starts, even if other items arrive meanwhile.
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

/// The limit is lowered while two items are active. The listed item runs in the slot that remains.
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
