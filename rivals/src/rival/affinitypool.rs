use std::mem;

use super::{Can, Rival, cpus};

/// Dropping the future of an item cancels it, and there is no other way to leave it alone: it is forgotten, and with it a
/// few bytes.
pub(crate) struct Affinitypool(affinitypool::Threadpool);

impl Rival for Affinitypool {
    const NAME: &'static str = "affinitypool";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        Self(affinitypool::Threadpool::new(limit.unwrap_or_else(cpus)))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        mem::forget(self.0.spawn(item));
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        futures_lite::future::block_on(self.0.spawn(item))
    }
}
