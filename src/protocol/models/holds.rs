//! Models of [`HoldCount`](crate::protocol::holds::HoldCount): a thread pins a queue that it finds in the register,
//! while the queue's last hold is given up.
//!
//! The pin comes in time and keeps the queue in place, or comes too late and gets no hold. Exactly one party frees
//! the queue, after it left the register. No access to the queue comes after that, or is unordered with it.
//!
//! Red under: `pin-raises-the-dead`, `let-go-without-acquire`, `let-go-without-release`.

use std::sync::Arc;

use loom::thread;

use super::{Owned, check, check_all};
use crate::protocol::holds::HoldCount;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

struct Executor {
    queue: Owned<Queue>,
    /// Whether the queue is in the register.
    register: Mutex<bool>,
}

struct Queue {
    holds: HoldCount,
    /// Stands for what the holders do with the queue. Relaxed, so that it orders nothing that the count should order.
    used: AtomicU64,
}

impl Executor {
    fn new() -> Self {
        let queue = Queue { holds: HoldCount::new(), used: AtomicU64::new(0) };
        Self { queue: Owned::new(queue), register: Mutex::new(true) }
    }

    /// Pins the queue and uses it, as the executor does with all of its queues.
    fn pin_and_use(&self) {
        let register = self.register.lock();
        let pinned = *register && self.queue.holds.try_hold();
        drop(register);
        if pinned {
            self.use_and_let_go();
        }
    }

    fn use_and_let_go(&self) {
        self.queue.used.fetch_add(1, Ordering::Relaxed);
        if self.queue.holds.let_go() {
            *self.register.lock() = false;
            self.queue.free();
        }
    }
}

fn elsewhere(executor: &Arc<Executor>, act: impl FnOnce(&Executor) + 'static) -> thread::JoinHandle<()> {
    let executor = executor.clone();
    thread::spawn(move || act(&executor))
}

#[test]
fn a_queue_is_pinned_while_its_last_handle_is_dropped() {
    check_all(|| {
        let executor = Arc::new(Executor::new());
        let pin = elsewhere(&executor, Executor::pin_and_use);
        executor.use_and_let_go();
        pin.join().unwrap();
        assert!(executor.queue.is_freed());
    });
}

/// The last handle is dropped while an item is in flight in a limiter, which has a hold of its own.
#[test]
fn the_last_item_ends_while_the_queue_is_pinned() {
    check(3, || {
        let executor = Arc::new(Executor::new());
        executor.queue.holds.add(1);
        let threads =
            [elsewhere(&executor, Executor::pin_and_use), elsewhere(&executor, Executor::use_and_let_go)];
        executor.use_and_let_go();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(executor.queue.is_freed());
    });
}
