use super::{Can, Part, Rival, cpus};

/// The pool of `rayon`. Items that a worker spawns run last in, first out. Items from other threads run in their order.
pub(crate) struct Rayon(rayon::ThreadPool);

/// The pool of `rayon`, in which the items of each spawning thread run first in, first out.
pub(crate) struct RayonFifo(Rayon);

/// Two pools of `rayon`, one of them for urgent and long items. The system's scheduler shares the CPUs among the
/// threads of both pools. A second pool is a common solution for any pool without priorities.
pub(crate) struct RayonApart {
    items: Rayon,
    apart: Rayon,
}

impl Rival for Rayon {
    const NAME: &'static str = "rayon";
    const CAN: Can = Can { forks: true, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(limit.unwrap_or_else(cpus));
        Self(pool.build().expect("threads can be made"))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.install(item)
    }

    fn both<A, B>(first: A, second: B) -> (u64, u64)
    where
        A: FnOnce() -> u64 + Send,
        B: FnOnce() -> u64 + Send,
    {
        rayon::join(first, second)
    }
}

impl Rival for RayonFifo {
    const NAME: &'static str = "rayon-fifo";
    const CAN: Can = Can { joins: false, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        Self(Rayon::new(limit))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.0.spawn_fifo(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.join(item)
    }
}

impl Rival for RayonApart {
    const NAME: &'static str = "rayon-apart";
    const CAN: Can = Can { part: Part::Apart, limits: false, priorities: true, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        Self { items: Rayon::new(limit), apart: Rayon::new(limit) }
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.items.spawn(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.items.join(item)
    }

    fn spawn_urgent<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.apart.spawn(item);
    }

    fn spawn_long<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.apart.spawn(item);
    }
}
