//! Operations on whole queues and executors while they are used: limits, freezing, and their ends.

use std::sync::atomic::Ordering::SeqCst;

use cmwq::kernel::ExecutorExt;
use cmwq::{ApplyAttrsError, Attrs, SetDefaultScopeError, SetUnboundCpusError, SetWeightError, WaitError};

use crate::books::Books;
use crate::clock;
use crate::world::{BEATS, SCOPES};

use super::{Driver, Operation};

/// The queues whose items the books do not count.
const UNBOOKED: [&str; 2] = [BEATS, "run_on_each_cpu"];

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "set_max_active, set_weight", weight: 20, perform: set_limits },
    Operation { name: "apply_attrs", weight: 20, perform: apply_attrs },
    Operation { name: "set_default_scope, set_unbound_cpus", weight: 2, perform: set_defaults },
    Operation { name: "len, is_congested", weight: 10, perform: look },
    Operation { name: "freeze and thaw", weight: 2, perform: freeze },
    Operation { name: "drain", weight: 4, perform: drain },
    Operation { name: "drain_timeout", weight: 4, perform: drain_timeout },
    Operation { name: "destroy", weight: 4, perform: destroy },
    Operation { name: "shutdown", weight: 1, perform: shutdown },
];

fn set_limits(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let number = 1 + driver.random.below(24);
    let has_weight = queue.queue.weight().is_some();
    let is_set = queue.queue.set_weight(number as u32) != Err(SetWeightError::Unweighted);
    if queue.queue.set_max_active(number) != queue.limit || is_set != has_weight {
        Books::add(&driver.world.books.wrong);
    }
}

fn apply_attrs(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let random = &mut driver.random;
    let attrs =
        Attrs::new().scope(*random.pick(&SCOPES)).strict(random.once_in(2)).nice(random.below(3) as i32);
    let has_attrs = queue.queue.attrs().is_some();
    let is_right = match queue.queue.apply_attrs(attrs) {
        Ok(()) => has_attrs,
        Err(ApplyAttrsError::PerCpu | ApplyAttrsError::Bh) => !has_attrs,
        Err(ApplyAttrsError::ShutDown) => driver.world.may_end(),
        Err(_) => false,
    };
    if !is_right {
        Books::add(&driver.world.books.wrong);
    }
}

fn set_defaults(driver: &mut Driver) {
    let Some(executor) = driver.world.executor(&mut driver.random) else { return };
    let scope = executor.set_default_scope(*driver.random.pick(&SCOPES));
    let cpus = 1 + driver.random.below(executor.cpus().len());
    let cpus = executor.set_unbound_cpus(executor.cpus().iter().take(cpus).collect());
    let may_refuse = driver.world.may_end();
    if !(scope.is_ok() || may_refuse && scope == Err(SetDefaultScopeError::ShutDown))
        || !(cpus.is_ok() || may_refuse && cpus == Err(SetUnboundCpusError::ShutDown))
    {
        Books::add(&driver.world.books.wrong);
    }
}

fn look(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let _hints = (queue.queue.len(), queue.queue.is_empty(), queue.queue.max_active());
    if queue.queue.is_congested(0).is_err() {
        Books::add(&driver.world.books.wrong);
    }
}

/// Freezes an executor for a moment. Frozen items wait, and so do the threads that wait for these items.
fn freeze(driver: &mut Driver) {
    let Some(executor) = driver.world.executor(&mut driver.random) else { return };
    executor.freeze_begin();
    let _hint = executor.freeze_busy();
    clock::sleep(driver.random.micros(500));
    executor.thaw();
}

/// Drains a queue. The drain must succeed, because the driver is no item.
fn drain(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    if queue.queue.drain().is_err() {
        Books::add(&driver.world.books.wrong);
    }
}

fn drain_timeout(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let timeout = driver.random.micros(500);
    if !matches!(queue.queue.drain_timeout(timeout), Ok(()) | Err(WaitError::TimedOut)) {
        Books::add(&driver.world.books.wrong);
    }
}

/// Destroys a queue. The books count the timers that the queue gives up as given back. A timer that fires just then may
/// be given up without being counted.
fn destroy(driver: &mut Driver) {
    if !driver.world.has_ends {
        return;
    }
    if driver.random.once_in(8) {
        return destroy_beats(driver);
    }
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    match queue.queue.destroy() {
        Ok(timers) => {
            driver.world.books.returned.fetch_add(timers as u64, SeqCst);
            Books::add(&driver.world.books.unsure);
        }
        Err(_) => Books::add(&driver.world.books.wrong),
    }
}

/// Destroys the queue of periodic items. The books do not count the ticks that this gives up.
fn destroy_beats(driver: &mut Driver) {
    let Some(queue) = driver.world.beats() else { return };
    if !matches!(queue.destroy_timeout(driver.random.micros(500)), Ok(_) | Err(WaitError::TimedOut)) {
        Books::add(&driver.world.books.wrong);
    }
    driver.world.replace_beats(&mut driver.random);
}

/// Shuts an executor down. The books count the items that do not end in time as given back. An item that counted as
/// running may be given up later without being counted.
fn shutdown(driver: &mut Driver) {
    if !driver.world.has_ends {
        return;
    }
    let Some(executor) = driver.world.take_executor(&mut driver.random) else { return };
    let Ok(report) = executor.shutdown(driver.random.micros(20_000)) else {
        return Books::add(&driver.world.books.wrong);
    };
    Books::add(&driver.world.books.unsure);
    for queue in report.queues.into_iter().filter(|queue| !UNBOOKED.contains(&&*queue.name)) {
        let books = &driver.world.books;
        books.returned.fetch_add((queue.dropped + queue.timers) as u64, SeqCst);
        books.unsure.fetch_add(queue.running as u64, SeqCst);
    }
}
