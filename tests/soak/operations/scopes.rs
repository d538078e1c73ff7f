//! Scopes: items that borrow from the stack of the waiting thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use cmwq::{JoinError, Scope, ScopeError, ScopedJoinHandle};

use crate::behaviour;
use crate::books::{Books, Ticket};
use crate::random::Random;
use crate::world::{Queue, World};

use super::{Driver, Operation};

/// A scope's body spawns fewer items than this number, and these items spawn a few more.
const ITEMS: usize = 12;

pub(crate) const TABLE: &[Operation] = &[Operation { name: "scope", weight: 12, perform: scope }];

/// The data that all items of a scope borrow.
#[derive(Clone, Copy)]
struct Host<'env> {
    world: &'env Arc<World>,
    queue: &'env Queue,
    /// The number of closures of the scope's items that still exist.
    present: &'env AtomicU64,
}

/// Counts an item while its closure exists.
struct Guest<'env>(&'env AtomicU64);

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Opens a scope. The scope ends, because the driver is no item. Then all of its items must be over, whether they ran
/// or not.
fn scope(driver: &mut Driver) {
    let Some(queue) = driver.world.queue(&mut driver.random) else { return };
    let (world, random, present) = (&driver.world, &mut driver.random, AtomicU64::new(0));
    let host = Host { world, queue: &queue, present: &present };
    let count = random.below(ITEMS);
    // If an item panics and is not joined, the scope panics.
    let end = catch_unwind(AssertUnwindSafe(|| {
        queue.queue.try_scope(|scope| {
            for _ in 0..count {
                if random.once_in(6) {
                    host.spawn_late(scope, random);
                } else if let Some(handle) = host.spawn(scope, random) {
                    host.use_handle(handle, random);
                }
            }
        })
    }));
    let is_well = match end {
        Ok(Ok(())) | Err(_) => true,
        Ok(Err(ScopeError::Dropped { items })) => items > 0 && world.may_end(),
        Ok(Err(_)) => false,
    };
    if !is_well || present.load(Relaxed) > 0 {
        Books::add(&world.books.wrong);
    }
}

impl<'env> Host<'env> {
    /// Makes the closure of an item, and counts the item as accepted.
    fn item<'scope, 'outer>(
        self,
        scope: &'scope Scope<'scope, 'outer>,
        random: &mut Random,
    ) -> impl FnOnce() -> u64 + Send + use<'scope, 'outer, 'env>
    where
        'env: 'scope,
    {
        let Host { world, queue, present } = self;
        let seed = random.next();
        let mut ticket = Ticket::new(&world.books);
        present.fetch_add(1, Relaxed);
        let guest = Guest(present);
        Books::add(&world.books.accepted);
        move || {
            let _present = guest;
            ticket.run();
            let _alone = queue.alone.as_ref().map(|cell| cell.enter(&world.books));
            let mut random = Random::new(seed);
            if !world.is_closing() && random.once_in(4) {
                drop(self.spawn(scope, &mut random));
            }
            behaviour::behave(world, &mut random);
            seed
        }
    }

    fn spawn<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        random: &mut Random,
    ) -> Option<ScopedJoinHandle<'scope, u64>>
    where
        'env: 'scope,
    {
        let item = self.item(scope, random);
        scope.spawn(item).map_err(|_| self.was_refused()).ok()
    }

    /// Spawns an item whose deadline has passed or will soon pass, and joins it.
    fn spawn_late<'scope>(self, scope: &'scope Scope<'scope, '_>, random: &mut Random)
    where
        'env: 'scope,
    {
        let item = self.item(scope, random);
        let books = &self.world.books;
        match scope.item(item).within(random.micros(300)).spawn() {
            Ok(handle) => match handle.join() {
                Err(JoinError::DeadlinePassed) => Books::add(&books.cancelled),
                Ok(_) | Err(JoinError::Panicked(_)) => {}
                Err(JoinError::Cancelled) if self.world.may_end() => {}
                Err(_) => Books::add(&books.wrong),
            },
            Err(_) => self.was_refused(),
        }
    }

    fn was_refused(self) {
        Books::add(&self.world.books.refused);
        self.world.books.accepted.fetch_sub(1, SeqCst);
    }

    fn use_handle(self, handle: ScopedJoinHandle<'_, u64>, random: &mut Random) {
        let books = &self.world.books;
        match random.below(4) {
            0 if handle.cancel() => {
                Books::add(&books.cancelled);
                if !matches!(handle.join(), Err(JoinError::Cancelled)) {
                    Books::add(&books.wrong);
                }
            }
            1 => {
                let result = handle.join();
                let ended = self.world.may_end() && matches!(result, Err(JoinError::Cancelled));
                if !ended && !matches!(result, Ok(_) | Err(JoinError::Panicked(_))) {
                    Books::add(&books.wrong);
                }
            }
            2 => drop(handle.join_timeout(random.micros(200))),
            _ => {}
        }
    }
}
