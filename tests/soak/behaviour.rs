//! The behaviour of items: each item performs a random mixture of the actions that a user's item may perform.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use cmwq::{BlockingGuard, MayBlockGuard, Work};

use crate::books::{Books, Cell, Exists, Ticket};
use crate::clock;
use crate::operations;
use crate::random::Random;
use crate::world::{Queue, World};

/// Makes a closure that runs once on this queue. This function already draws the closure's behaviour.
pub(crate) fn one_shot(
    world: &Arc<World>,
    queue: &Queue,
    random: &mut Random,
) -> impl FnOnce() -> u64 + Send + 'static + use<> {
    let (world, alone, seed) = (Arc::clone(world), queue.alone.clone(), random.next());
    let mut ticket = Ticket::new(&world.books);
    move || {
        ticket.run();
        let _alone = alone.as_ref().map(|cell| cell.enter(&world.books));
        behave(&world, &mut Random::new(seed));
        seed
    }
}

/// Makes a reusable item. The item holds its world only while it runs, so it does not keep the world alive.
pub(crate) fn reusable(world: &Arc<World>, seed: u64) -> Work {
    let exists = Exists::new(&world.books);
    let (world, cell, runs) = (Arc::downgrade(world), Cell::default(), AtomicU64::new(seed));
    Work::with_handle(move |this| {
        let _captured = &exists;
        let Some(world) = world.upgrade() else { return };
        let _inside = cell.enter(&world.books);
        Books::add(&world.books.run);
        let mut random = Random::new(runs.fetch_add(1, SeqCst));
        if !world.is_closing() && random.once_in(4) {
            // The item queues itself again, on any queue.
            if let Some(queue) = world.queue(&mut random) {
                match random.below(4) {
                    0 => operations::timers::queue_later(&world, &queue, this, &mut random),
                    1 => operations::timers::queue_later_again(&world, &queue, this, &mut random),
                    _ => operations::works::queue(&world, &queue, this),
                }
            }
        }
        if random.once_in(50) {
            // The item cancels itself. It may have just queued itself.
            operations::works::cancel(&world, this);
        }
        behave(&world, &mut random);
    })
}

pub(crate) fn behave(world: &Arc<World>, random: &mut Random) {
    match random.below(28) {
        0 => {
            Books::add(&world.books.panicked);
            // This ends the item as a panic does, but prints nothing.
            resume_unwind(Box::new("on purpose"));
        }
        1 => clock::spin(random.micros(300)),
        2 => cmwq::blocking(|| clock::sleep(random.micros(300))),
        3 => clock::sleep(random.micros(100)),
        4 => cmwq::blocking(|| cmwq::blocking(clock::give_way)),
        5 => std::mem::forget(BlockingGuard::enter()),
        6 => spawn_child(world, random, false),
        7 => spawn_child(world, random, true),
        8 => flush_another(world, random),
        9 => drop_what_it_can(world, random),
        10 => check_identity(world, random),
        11 => clock::sleep(random.micros(4000)),
        12 => cmwq::may_block(|| clock::sleep(random.micros(4000))),
        13 => cross_guards(random),
        14 if random.once_in(8) => clock::spin(random.micros(20_000)),
        _ => {}
    }
}

/// Enters guards that overlap. Leaks some of them, so they last until the end of the item.
fn cross_guards(random: &mut Random) {
    let (may, blocks) = (MayBlockGuard::enter(), BlockingGuard::enter());
    clock::sleep(random.micros(1000));
    if random.once_in(2) {
        drop(may);
        clock::sleep(random.micros(1000));
        std::mem::forget(blocks);
    } else {
        drop(blocks);
        clock::sleep(random.micros(3000));
        std::mem::forget(may);
    }
    clock::sleep(random.micros(1000));
}

/// Checks the names of the current queue. An item can get its queue only as long as the queue has handles.
fn check_identity(world: &World, random: &mut Random) {
    cmwq::set_description(format_args!("{:#x}", random.next()));
    let (queue, name) = (cmwq::current_queue(), cmwq::current_queue_name());
    let named_otherwise = queue.is_some_and(|queue| Some(queue.name()) != name.as_deref());
    if name.is_none() || named_otherwise {
        Books::add(&world.books.wrong);
    }
    let _either = (cmwq::current_work(), cmwq::is_rescuer());
}

/// Spawns another item on some queue, and may wait for it. The wait has a timeout, because the other item may need the
/// calling item's slot.
fn spawn_child(world: &Arc<World>, random: &mut Random, waits: bool) {
    if world.is_closing() {
        return;
    }
    let Some(queue) = world.queue(random) else { return };
    let Some(handle) = operations::one_shots::spawn(world, &queue, random) else { return };
    if waits {
        drop(handle.join_timeout(random.micros(2000)));
    }
}

fn flush_another(world: &Arc<World>, random: &mut Random) {
    if let Some(queue) = world.queue(random) {
        // The drawn queue may be the item's own queue, which refuses the flush.
        let _ended_or_not = queue.queue.flush_timeout(random.micros(1000));
    }
}

/// Drops handles inside of an item. They may be the last ones of a queue, an item or an executor.
fn drop_what_it_can(world: &Arc<World>, random: &mut Random) {
    if !world.is_closing() {
        match random.below(8) {
            0 => world.replace_queue(random),
            1 => world.replace_item(random),
            _ => {}
        }
    }
}
