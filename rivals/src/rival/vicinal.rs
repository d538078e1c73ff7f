use std::num::NonZeroU32;

use vicinal::{Pool, Scheduler, WorkerPolicy};

use super::{Can, Rival};

/// Its workers stay on the CPU from which an item came, unless a limit is given: then all CPUs share them.
pub(crate) struct Vicinal {
    scheduler: Scheduler,
    /// Dropping it ends the workers.
    _pool: Pool,
}

impl Rival for Vicinal {
    const NAME: &'static str = "vicinal";
    const CAN: Can = Can { priorities: true, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        let limit = limit.and_then(|limit| NonZeroU32::new(u32::try_from(limit).ok()?));
        let pool = limit.map_or_else(Pool::new, |limit| {
            Pool::builder().worker_policy(WorkerPolicy::per_system(limit)).build()
        });
        Self { scheduler: pool.scheduler(), _pool: pool }
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.scheduler.spawn_and_forget(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        let Ok(value) = futures_lite::future::block_on(self.scheduler.spawn(item)) else {
            unreachable!("the item does not panic, and the pool lives");
        };
        value
    }

    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.scheduler.spawn_urgent_and_forget(item);
    }
}
