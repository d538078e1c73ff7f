//! Reusable items: queueing, cancelling, disabling and flushing.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use cmwq::{WaitError, Work};

use crate::behaviour;
use crate::books::Books;
use crate::world::{Queue, World};

use super::{Driver, Operation};

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "queue", weight: 200, perform: queue_one },
    Operation { name: "queue everywhere", weight: 10, perform: queue_everywhere },
    Operation { name: "cancel an item", weight: 60, perform: cancel_one },
    Operation { name: "cancel_and_wait", weight: 20, perform: cancel_and_wait },
    Operation { name: "cancel_and_wait_timeout", weight: 10, perform: cancel_and_wait_timeout },
    Operation { name: "disable", weight: 10, perform: |driver| disable(driver, false) },
    Operation { name: "disable_and_wait", weight: 10, perform: |driver| disable(driver, true) },
    Operation { name: "enable", weight: 30, perform: enable },
    Operation { name: "enable and enqueue", weight: 20, perform: enable_and_enqueue },
    Operation { name: "flush an item", weight: 20, perform: flush },
    Operation { name: "flush_timeout of an item", weight: 10, perform: flush_timeout },
    Operation { name: "look at an item", weight: 20, perform: look },
];

/// Queues an item.
pub(crate) fn queue(world: &World, queue: &Queue, work: &Work) {
    // The item is counted as accepted before it can run, so the books never count more outcomes than accepted items.
    Books::add(&world.books.accepted);
    let answer = queue.queue.enqueue(work);
    if answer != Ok(true) {
        world.books.accepted.fetch_sub(1, SeqCst);
    }
    if answer.is_err() {
        Books::add(&world.books.refused);
    }
}

/// Cancels an item.
pub(crate) fn cancel(world: &World, work: &Work) {
    if work.cancel() {
        Books::add(&world.books.cancelled);
    }
}

fn queue_one(driver: &mut Driver) {
    let (item, on) = (driver.world.item(&mut driver.random), driver.world.queue(&mut driver.random));
    if let (Some(item), Some(on)) = (item, on) {
        queue(&driver.world, &on, &item.work);
    }
}

/// Queues one item to several queues, one after the other, even while the item is pending or runs.
fn queue_everywhere(driver: &mut Driver) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    for _ in 0..8 {
        if let Some(on) = driver.world.queue(&mut driver.random) {
            queue(&driver.world, &on, &item.work);
            if driver.random.once_in(3) {
                cancel(&driver.world, &item.work);
            }
        }
    }
}

fn cancel_one(driver: &mut Driver) {
    if let Some(item) = driver.world.item(&mut driver.random) {
        cancel(&driver.world, &item.work);
    }
}

fn cancel_and_wait(driver: &mut Driver) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    match item.work.cancel_and_wait() {
        Ok(true) => Books::add(&driver.world.books.cancelled),
        Ok(false) => {}
        // A driver is no item, so its wait must succeed.
        Err(_) => Books::add(&driver.world.books.wrong),
    }
}

/// Cancels an item, and waits for a time. If the wait times out, the call does not say whether it has cancelled a
/// pending run. So the driver first disables the item, which also cancels it, and says whether it was pending.
fn cancel_and_wait_timeout(driver: &mut Driver) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    // Between this call and the next one, no thread can queue the item.
    if item.work.disable() {
        Books::add(&driver.world.books.cancelled);
    }
    let answer = item.work.cancel_and_wait_timeout(driver.random.micros(300));
    if !matches!(answer, Ok(false) | Err(WaitError::TimedOut)) {
        Books::add(&driver.world.books.wrong);
    }
    driver.disabled.push(item.work);
    enable(driver);
}

fn disable(driver: &mut Driver, waits: bool) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    let taken_back = if waits { item.work.disable_and_wait() } else { Ok(item.work.disable()) };
    match taken_back {
        Ok(true) => Books::add(&driver.world.books.cancelled),
        Ok(false) => {}
        Err(_) => Books::add(&driver.world.books.wrong),
    }
    if !item.work.is_disabled() || (waits && (item.work.is_pending() || item.work.is_running())) {
        Books::add(&driver.world.books.wrong);
    }
    driver.disabled.push(item.work);
    if driver.disabled.len() > 3 {
        enable(driver);
    }
}

pub(crate) fn enable(driver: &mut Driver) {
    if let Some(work) = driver.disabled.pop() {
        if work.enable().is_err() {
            Books::add(&driver.world.books.wrong);
        }
    }
}

/// Enables a disabled item and queues it. The item is new, and no other thread has a handle to it. Otherwise, another
/// thread could queue the item between the two calls, and the expected answer would be unknown.
fn enable_and_enqueue(driver: &mut Driver) {
    let Some(on) = driver.world.queue(&mut driver.random) else { return };
    let work = behaviour::reusable(&driver.world, driver.random.next());
    let times = 1 + driver.random.below(2);
    for _ in 0..times {
        work.disable();
    }
    let books = &driver.world.books;
    Books::add(&books.accepted);
    match work.enable() {
        Ok(true) if times == 1 => match on.queue.enqueue(&work) {
            Ok(true) => return,
            Ok(false) => Books::add(&books.wrong),
            Err(_) => Books::add(&books.refused),
        },
        Ok(false) if times == 2 => {}
        Ok(_) | Err(_) => Books::add(&books.wrong),
    }
    books.accepted.fetch_sub(1, SeqCst);
}

fn flush(driver: &mut Driver) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    if item.work.flush().is_err() {
        Books::add(&driver.world.books.wrong);
    }
}

fn flush_timeout(driver: &mut Driver) {
    let Some(item) = driver.world.item(&mut driver.random) else { return };
    let answer = item.work.flush_timeout(driver.random.micros(300));
    if !matches!(answer, Ok(_) | Err(WaitError::TimedOut)) {
        Books::add(&driver.world.books.wrong);
    }
}

fn look(driver: &mut Driver) {
    let world = Arc::clone(&driver.world);
    if let Some(item) = world.item(&mut driver.random) {
        let _hints = (item.work.is_pending(), item.work.is_running(), item.work.clone());
    }
}
