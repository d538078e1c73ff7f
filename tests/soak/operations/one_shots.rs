//! Closures that run once: spawn, join, cancel, detach.

use std::sync::Arc;
use std::time::Duration;

use cmwq::{BuildQueueError, JoinError, JoinHandle, WhenFull, WorkQueue};

use crate::behaviour;
use crate::books::Books;
use crate::random::Random;
use crate::world::{Queue, World};

use super::{Driver, Operation, works};

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "spawn", weight: 300, perform: spawn_one },
    Operation { name: "join", weight: 40, perform: join },
    Operation { name: "join_timeout", weight: 40, perform: join_timeout },
    Operation { name: "cancel a one-shot", weight: 60, perform: cancel },
    Operation { name: "stop", weight: 40, perform: stop },
    Operation { name: "spawn too late", weight: 20, perform: spawn_too_late },
    Operation { name: "detach", weight: 40, perform: |driver| drop(driver.handles.pop_back()) },
    Operation { name: "callers run items", weight: 10, perform: callers_run },
];

/// Spawns a one-shot on this queue.
pub(crate) fn spawn(world: &Arc<World>, queue: &Queue, random: &mut Random) -> Option<JoinHandle<u64>> {
    let closure = behaviour::one_shot(world, queue, random);
    // The item is counted as accepted before it can run, so the books never count more outcomes than accepted items.
    Books::add(&world.books.accepted);
    let spawned = match random.once_in(4) {
        true => queue.queue.item(closure).bytes(1 + random.below(1000) as u64).spawn(),
        false => queue.queue.spawn(closure),
    };
    match spawned {
        Ok(handle) => Some(handle),
        Err(refused) => {
            Books::add(&world.books.refused);
            world.books.accepted.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            drop(refused.into_closure());
            None
        }
    }
}

fn spawn_one(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    if let Some(handle) = spawn(&driver.world, &queue, &mut driver.random) {
        driver.keep(handle);
    }
}

/// Checks the result of a join. A driver is no item, so its join fails only if the item panics or its queue ends.
fn check(driver: &Driver, result: Result<u64, JoinError>) {
    let ended = driver.world.may_end() && matches!(result, Err(JoinError::Cancelled));
    if !ended && !matches!(result, Ok(_) | Err(JoinError::Panicked(_))) {
        Books::add(&driver.world.books.wrong);
    }
}

fn join(driver: &mut Driver) {
    if let Some(handle) = driver.handles.pop_front() {
        check(driver, handle.join());
    }
}

fn join_timeout(driver: &mut Driver) {
    let Some(handle) = driver.handles.pop_front() else { return };
    match handle.join_timeout(driver.random.micros(200)) {
        Ok(result) => check(driver, result),
        Err(handle) => driver.handles.push_back(handle),
    }
}

fn cancel(driver: &mut Driver) {
    cancel_by(driver, JoinHandle::cancel);
}

fn stop(driver: &mut Driver) {
    cancel_by(driver, JoinHandle::stop);
}

/// Spawns an item whose deadline has passed.
fn spawn_too_late(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let closure = behaviour::one_shot(&driver.world, &queue, &mut driver.random);
    let books = &driver.world.books;
    Books::add(&books.accepted);
    match queue.queue.item(closure).within(Duration::ZERO).spawn() {
        Ok(handle) => match handle.join() {
            Err(JoinError::DeadlinePassed) => Books::add(&books.cancelled),
            Err(JoinError::Cancelled) if driver.world.may_end() => {}
            _ => Books::add(&books.wrong),
        },
        Err(_) => {
            Books::add(&books.refused);
            books.accepted.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
}

/// Fills a queue whose callers run items. Only this driver submits to the queue, so no submission waits for a place in
/// it.
fn callers_run(driver: &mut Driver) {
    let Driver { world, random, .. } = driver;
    let Some(executor) = world.executor(random) else { return };
    let builder = if random.once_in(2) { WorkQueue::builder("full") } else { WorkQueue::unbound("full") };
    let builder = builder.max_pending(1 + random.below(3)).when_full(WhenFull::CallerRuns);
    let limited = random.once_in(2);
    let builder = if limited { builder.max_active_total(1 + random.below(3)) } else { builder };
    let queue = match builder.build_on(&executor) {
        Ok(queue) => Queue { queue, alone: None, limit: Ok(()) },
        Err(BuildQueueError::ShutDown) if world.may_end() => return,
        Err(error) => panic!("a queue cannot be made: {error}"),
    };
    for _ in 0..6 {
        if driver.random.once_in(4) {
            if let Some(item) = driver.world.item(&mut driver.random) {
                works::queue(&driver.world, &queue, &item.work);
            }
        } else if let Some(handle) = spawn(&driver.world, &queue, &mut driver.random) {
            driver.keep(handle);
        } else if !driver.world.may_refuse_any() {
            Books::add(&driver.world.books.wrong);
        }
    }
}

fn cancel_by(driver: &mut Driver, cancel: fn(&JoinHandle<u64>) -> bool) {
    let Some(handle) = driver.handles.pop_back() else { return };
    if !cancel(&handle) {
        driver.handles.push_front(handle);
        return;
    }
    Books::add(&driver.world.books.cancelled);
    if driver.random.once_in(2) && !matches!(handle.join(), Err(JoinError::Cancelled)) {
        Books::add(&driver.world.books.wrong);
    }
}
