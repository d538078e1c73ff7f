//! Models of [`ReferenceCount`](crate::protocol::references::ReferenceCount): a thread takes a reference to a queue
//! that it finds in the register, while the queue's last reference is given up.
//!
//! Either the thread gets a reference, which keeps the queue alive, or the thread comes too late and gets no reference.
//! Exactly one thread frees the queue, after the queue has left the register. Every access to the queue is ordered
//! before the queue is freed.
//!
//! Red under: `reference-raises-the-dead`, `reference-without-acquire`, `reference-without-release`.

use std::sync::Arc;

use loom::thread;

use super::{Owned, check, check_all};
use crate::protocol::references::ReferenceCount;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

struct Executor {
    queue: Owned<Queue>,
    /// Whether the queue is in the register.
    register: Mutex<bool>,
}

struct Queue {
    references: ReferenceCount,
    /// Stands for the owners' uses of the queue. Accesses are relaxed, so that this number does not order the threads
    /// in place of the reference count.
    used: AtomicU64,
}

impl Executor {
    fn new() -> Self {
        let queue = Queue { references: ReferenceCount::new(), used: AtomicU64::new(0) };
        Self { queue: Owned::new(queue), register: Mutex::new(true) }
    }

    /// Takes a reference to the queue and uses the queue, as the executor does with all of its queues.
    fn find_and_use(&self) {
        let register = self.register.lock();
        let found = *register && self.queue.references.try_ref();
        drop(register);
        if found {
            self.use_and_release();
        }
    }

    fn use_and_release(&self) {
        self.queue.used.fetch_add(1, Ordering::Relaxed);
        if self.queue.references.release() {
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
fn a_queue_is_referenced_while_its_last_handle_is_dropped() {
    check_all(|| {
        let executor = Arc::new(Executor::new());
        let finder = elsewhere(&executor, Executor::find_and_use);
        executor.use_and_release();
        finder.join().unwrap();
        assert!(executor.queue.is_freed());
    });
}

/// The last handle is dropped while an item is in flight in a limiter. The limiter has its own reference.
#[test]
fn the_last_item_ends_while_the_queue_is_referenced() {
    check(3, || {
        let executor = Arc::new(Executor::new());
        executor.queue.references.add(1);
        let threads =
            [elsewhere(&executor, Executor::find_and_use), elsewhere(&executor, Executor::use_and_release)];
        executor.use_and_release();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(executor.queue.is_freed());
    });
}
