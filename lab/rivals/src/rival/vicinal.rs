use std::num::NonZeroU32;

use many_cpus::SystemHardware;
use vicinal::{Pool, Scheduler, WorkerPolicy};

use super::{Can, Rival, cpus};

/// The pool of `vicinal`, whose workers stay on the CPU from which an item came. With a limit, all CPUs share the
/// workers.
pub(crate) struct Vicinal {
    scheduler: Scheduler,
    /// Dropping the pool ends the workers.
    _pool: Pool,
}

/// The pool of `vicinal` with one worker for each CPU. The items of one producer run on all CPUs.
pub(crate) struct VicinalSystem(Vicinal);

impl Vicinal {
    fn of(pool: Pool) -> Self {
        Self { scheduler: pool.scheduler(), _pool: pool }
    }

    /// The pool starts its workers on all CPUs when it is made. Otherwise the workers would run only on the CPUs from
    /// which items have come.
    fn shared(workers: usize) -> Self {
        let workers = u32::try_from(workers).ok().and_then(NonZeroU32::new).expect("a number of threads");
        let policy = WorkerPolicy::per_system(workers);
        Self::of(Pool::builder().worker_policy(policy).eager(SystemHardware::current().processors()).build())
    }
}

impl Rival for Vicinal {
    const NAME: &'static str = "vicinal";
    const CAN: Can = Can { priorities: true, pins: true, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        limit.map_or_else(|| Self::of(Pool::new()), Self::shared)
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

impl Rival for VicinalSystem {
    const NAME: &'static str = "vicinal-system";
    // With a limit, the two variants of `vicinal` are the same. So this variant takes no limit.
    const CAN: Can = Can { limits: false, pins: false, ..Vicinal::CAN };

    fn new(_limit: Option<usize>) -> Self {
        Self(Vicinal::shared(cpus()))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.join(item)
    }

    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn_urgent(item);
    }
}
