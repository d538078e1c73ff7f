//! Queues and executors as a whole: flushes, replacements and snapshots.

use crate::books::Books;
use crate::clock::give_way;

use super::{Driver, Operation};

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "flush", weight: 10, perform: flush },
    Operation { name: "flush_timeout", weight: 10, perform: flush_timeout },
    Operation { name: "replace a queue", weight: 20, perform: |d| d.world.replace_queue(&mut d.random) },
    Operation { name: "replace an item", weight: 20, perform: |d| d.world.replace_item(&mut d.random) },
    Operation {
        name: "replace an executor",
        weight: 1,
        perform: |d| d.world.replace_executor(&mut d.random),
    },
    Operation { name: "snapshot", weight: 4, perform: snapshot },
    Operation { name: "yield", weight: 30, perform: |_| give_way() },
];

/// Flushes a queue. The flush must succeed, because the driver is no item.
fn flush(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    if queue.queue.flush().is_err() {
        Books::add(&driver.world.books.wrong);
    }
}

fn flush_timeout(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let timeout = driver.random.micros(500);
    if !matches!(queue.queue.flush_timeout(timeout), Ok(()) | Err(cmwq::WaitError::TimedOut)) {
        Books::add(&driver.world.books.wrong);
    }
}

fn snapshot(driver: &mut Driver) {
    if let Some(executor) = driver.world.executor(&mut driver.random) {
        let _text = executor.dump().to_string();
    }
}
