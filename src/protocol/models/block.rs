//! Models of a blocking guard: [`WorkerCell`](crate::protocol::worker::WorkerCell) and
//! [`RunningCell`](crate::protocol::running::RunningCell) together.
//!
//! A pool runs one item at a time. A worker of the pool blocks in its item until a later item has run. Another thread
//! pushes the later item while the worker enters its guard. Either the pushing thread sees that the worker has left the
//! count of running workers, or the worker sees the later item. When the blocked worker returns from its guard, two
//! workers run, and one of them is *shed*: it leaves the count. At the end, no worker counts as running.
//!
//! Red under: `push-without-fence`, `look-without-look`, `return-uncounted`, `shed-stays-counted`.

use std::sync::Arc;

use loom::thread;

use super::pool::Pool;
use super::{Event, check};
use crate::policy::concurrency::Running;

/// Pushes `later` items while another item blocks. When the first of these later items runs, the other item stops
/// blocking.
fn block_against_push(preemptions: usize, later: u64) {
    check(preemptions, move || {
        let pool = Arc::new(Pool::new(Running::managed(1).unwatchable(), 2, 1 + later));
        let event = Arc::new(Event::new());
        let blocker = pool.start_in_item();
        let blocked = {
            let (pool, event) = (pool.clone(), event.clone());
            thread::spawn(move || {
                pool.block(blocker);
                event.wait();
                pool.unblock(blocker);
                pool.item_ended(blocker);
                pool.work(blocker, || event.set());
            })
        };
        let other = {
            let (pool, event) = (pool.clone(), event.clone());
            thread::spawn(move || pool.work(1 - blocker, || event.set()))
        };
        for _ in 0..later {
            pool.push();
        }
        blocked.join().unwrap();
        other.join().unwrap();
        pool.assert_quiet();
    });
}

/// spec: C1.2
#[test]
fn a_blocked_worker_is_replaced() {
    block_against_push(2, 1);
}

/// spec: C3.3
#[test]
fn a_worker_that_returns_is_shed() {
    block_against_push(2, 2);
}
