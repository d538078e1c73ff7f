use std::time::Duration;

use rusty_pool::ThreadPool;

use super::{Can, Rival};

/// The pool of `rusty_pool`. It has a thread for each CPU, and up to the same number of further threads while no thread
/// is idle.
pub(crate) struct RustyPool(ThreadPool);

impl Rival for RustyPool {
    const NAME: &'static str = "rusty_pool";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        Self(
            limit.map_or_else(ThreadPool::default, |limit| {
                ThreadPool::new(limit, limit, Duration::from_secs(60))
            }),
        )
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.execute(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.evaluate(item).await_complete()
    }
}
