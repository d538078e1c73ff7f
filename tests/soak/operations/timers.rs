//! Delayed, moved and periodic items.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use cmwq::{PeriodicHandle, Work};

use crate::behaviour;
use crate::books::{Books, Cell};
use crate::clock;
use crate::random::Random;
use crate::world::{Queue, World};

use super::placed::CPUS;
use super::{Driver, Operation};

/// The largest number of periodic items that a driver keeps.
const PERIODIC: usize = 2;

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "queue_delayed", weight: 60, perform: queue_delayed },
    Operation { name: "mod_delayed", weight: 60, perform: mod_delayed },
    Operation { name: "spawn_after", weight: 40, perform: spawn_after },
    Operation { name: "spawn_every", weight: 2, perform: spawn_every },
    Operation { name: "end a periodic item", weight: 2, perform: end_periodic },
];

/// Draws a delay. It is mostly short, often zero, and rarely longer than most of a round.
fn delay(random: &mut Random) -> Duration {
    match random.below(20) {
        0..5 => Duration::ZERO,
        5 => random.micros(200_000),
        _ => random.micros(5000),
    }
}

/// Queues an item after a random delay, if the item is not pending.
pub(crate) fn queue_later(world: &World, queue: &Queue, work: &Work, random: &mut Random) {
    // The item is counted as accepted before it can run, so the books never count more outcomes than accepted items.
    Books::add(&world.books.accepted);
    let delay = delay(random);
    let answer = match random.once_in(4) {
        true => queue.queue.item(work).on_cpu(random.below(CPUS)).after(delay).enqueue(),
        false => queue.queue.item(work).after(delay).enqueue(),
    };
    if answer != Ok(true) {
        world.books.accepted.fetch_sub(1, SeqCst);
    }
    if answer.is_err() {
        Books::add(&world.books.refused);
    }
}

/// Queues an item after a random delay, and replaces a pending submission.
pub(crate) fn queue_later_again(world: &World, queue: &Queue, work: &Work, random: &mut Random) {
    Books::add(&world.books.accepted);
    let delay = delay(random);
    let answer = match random.once_in(4) {
        true => queue.queue.item(work).on_cpu(random.below(CPUS)).after(delay).reschedule(),
        false => queue.queue.item(work).after(delay).reschedule(),
    };
    match answer {
        Ok(true) => Books::add(&world.books.cancelled),
        Ok(false) => {}
        Err(_) => {
            Books::add(&world.books.refused);
            world.books.accepted.fetch_sub(1, SeqCst);
        }
    }
}

fn queue_delayed(driver: &mut Driver) {
    let (item, on) = (driver.world.item(&mut driver.random), driver.world.queue(&mut driver.random));
    if let (Some(item), Some(on)) = (item, on) {
        queue_later(&driver.world, &on, &item.work, &mut driver.random);
    }
}

fn mod_delayed(driver: &mut Driver) {
    let (item, on) = (driver.world.item(&mut driver.random), driver.world.queue(&mut driver.random));
    if let (Some(item), Some(on)) = (item, on) {
        queue_later_again(&driver.world, &on, &item.work, &mut driver.random);
    }
}

fn spawn_after(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let closure = behaviour::one_shot(&driver.world, &queue, &mut driver.random);
    Books::add(&driver.world.books.accepted);
    match queue.queue.item(closure).after(delay(&mut driver.random)).spawn() {
        Ok(handle) => driver.keep(handle),
        Err(_) => {
            Books::add(&driver.world.books.refused);
            driver.world.books.accepted.fetch_sub(1, SeqCst);
        }
    }
}

fn spawn_every(driver: &mut Driver) {
    // A queue that ends also counts its ticks as timers that it gives back, but ticks are not submissions. So if queues
    // may end, the ticks have a queue of their own.
    let on = if driver.world.may_end() {
        driver.world.beats()
    } else {
        driver.world.queue(&mut driver.random).map(|queue| queue.queue)
    };
    let Some(queue) = on else { return };
    let (books, cell, nap) = (Arc::clone(&driver.world.books), Cell::default(), driver.random.micros(300));
    let beat = move || {
        let _inside = cell.enter(&books);
        Books::add(&books.ticks);
        cmwq::blocking(|| clock::sleep(nap));
    };
    let period = Duration::from_micros(100) + driver.random.micros(2000);
    if let Ok(handle) = queue.item(beat).spawn_every(period) {
        driver.periodic.push_back(handle);
    }
    if driver.periodic.len() > PERIODIC {
        end_periodic(driver);
    }
}

/// Ends a periodic item: either cancels it and waits, or drops its handle.
fn end_periodic(driver: &mut Driver) {
    let Some(handle) = driver.periodic.pop_front() else { return };
    if driver.random.once_in(2) {
        end_and_check(&driver.world, &handle);
    }
}

/// Cancels the periodic item, waits, and checks that no call runs after that.
fn end_and_check(world: &World, handle: &PeriodicHandle) {
    let ended = handle.cancel_and_wait();
    let runs = handle.runs();
    clock::give_way();
    if ended.is_err() || handle.is_running() || handle.runs() != runs {
        Books::add(&world.books.wrong);
    }
}
