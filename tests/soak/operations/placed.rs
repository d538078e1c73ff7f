//! Items placed on a CPU or node, and batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use cmwq::kernel::ExecutorExt;
use cmwq::{RunError, Work};

use crate::behaviour;
use crate::books::{Books, Ticket};

use super::{Driver, Operation};

/// The number of CPU numbers to draw from. It is larger than any machine's number of CPUs, so some numbers are invalid.
pub(super) const CPUS: usize = 9;
const BATCH: usize = 24;

pub(crate) const TABLE: &[Operation] = &[
    Operation { name: "spawn_on", weight: 40, perform: spawn_on },
    Operation { name: "queue_on", weight: 40, perform: queue_on },
    Operation { name: "spawn_batch", weight: 5, perform: spawn_batch },
    Operation { name: "spawn_batch_detached", weight: 5, perform: spawn_batch_detached },
    Operation { name: "queue_batch", weight: 5, perform: queue_batch },
    Operation { name: "run_on_cpu", weight: 4, perform: run_on_cpu },
    Operation { name: "run_on_each_cpu", weight: 1, perform: run_on_each },
];

fn spawn_on(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let closure = behaviour::one_shot(&driver.world, &queue, &mut driver.random);
    Books::add(&driver.world.books.accepted);
    let (cpu, node) = (driver.random.below(CPUS), driver.random.below(3));
    let answer = if driver.random.once_in(4) {
        queue.queue.item(closure).on_node(node).spawn()
    } else {
        queue.queue.item(closure).on_cpu(cpu).spawn()
    };
    match answer {
        Ok(handle) => driver.keep(handle),
        Err(_) => {
            Books::add(&driver.world.books.refused);
            driver.world.books.accepted.fetch_sub(1, SeqCst);
        }
    }
}

fn queue_on(driver: &mut Driver) {
    let (item, on) = (driver.world.item(&mut driver.random), driver.world.queue(&mut driver.random));
    let (Some(item), Some(on)) = (item, on) else { return };
    Books::add(&driver.world.books.accepted);
    let (cpu, node) = (driver.random.below(CPUS), driver.random.below(3));
    let answer = if driver.random.once_in(4) {
        on.queue.item(&item.work).on_node(node).enqueue()
    } else {
        on.queue.item(&item.work).on_cpu(cpu).enqueue()
    };
    if answer != Ok(true) {
        driver.world.books.accepted.fetch_sub(1, SeqCst);
    }
    if answer.is_err() {
        Books::add(&driver.world.books.refused);
    }
}

fn spawn_batch(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let count = driver.random.below(BATCH);
    let closures: Vec<_> =
        (0..count).map(|_| behaviour::one_shot(&driver.world, &queue, &mut driver.random)).collect();
    driver.world.books.accepted.fetch_add(count as u64, SeqCst);
    let handles = match queue.queue.items(closures).spawn() {
        Ok(handles) => handles,
        Err(refused) => {
            Books::add(&driver.world.books.refused);
            let (accepted, closures) = refused.into_parts();
            driver.world.books.accepted.fetch_sub(closures.len() as u64, SeqCst);
            accepted
        }
    };
    handles.into_iter().for_each(|handle| driver.keep(handle));
}

fn spawn_batch_detached(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let count = driver.random.below(BATCH);
    let closures: Vec<_> =
        (0..count).map(|_| behaviour::one_shot(&driver.world, &queue, &mut driver.random)).collect();
    driver.world.books.accepted.fetch_add(count as u64, SeqCst);
    if let Err(refused) = queue.queue.items(closures).spawn_detached() {
        Books::add(&driver.world.books.refused);
        driver.world.books.accepted.fetch_sub(refused.into_parts().1.len() as u64, SeqCst);
    }
}

fn queue_batch(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let count = driver.random.below(BATCH);
    let works: Vec<Work> =
        (0..count).filter_map(|_| driver.world.item(&mut driver.random)).map(|item| item.work).collect();
    driver.world.books.accepted.fetch_add(works.len() as u64, SeqCst);
    let queued = queue.queue.items(&works).enqueue().unwrap_or_else(|refused| {
        Books::add(&driver.world.books.refused);
        refused.newly_pending
    });
    driver.world.books.accepted.fetch_sub((works.len() - queued) as u64, SeqCst);
}

fn run_on_cpu(driver: &mut Driver) {
    let Some(executor) = driver.world.executor(&mut driver.random) else { return };
    let (cpu, books) = (driver.random.below(CPUS), &driver.world.books);
    let mut ticket = Ticket::new(books);
    Books::add(&books.accepted);
    let answer = executor.run_on_cpu(cpu, move || ticket.run());
    // The call is refused if the executor has no such CPU.
    if matches!(answer, Err(RunError::Refused(_))) {
        Books::add(&books.refused);
        books.accepted.fetch_sub(1, SeqCst);
    }
    if answer.is_ok() != executor.cpus().contains(cpu) && !driver.world.may_refuse_any() {
        Books::add(&books.wrong);
    }
}

fn run_on_each(driver: &mut Driver) {
    let Some(executor) = driver.world.executor(&mut driver.random) else { return };
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let answer = executor.run_on_each_cpu(move |_| {
        count.fetch_add(1, SeqCst);
    });
    let all = answer.is_ok() && runs.load(SeqCst) == executor.cpus().len();
    if !all && !driver.world.may_refuse_any() {
        Books::add(&driver.world.books.wrong);
    }
}
