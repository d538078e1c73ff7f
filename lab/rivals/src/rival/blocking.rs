use std::num::NonZeroUsize;

use super::{Can, Rival};

/// The pool of `blocking`. The process has only one such pool, with up to 500 threads.
pub(crate) struct Blocking;

impl Rival for Blocking {
    const NAME: &'static str = "blocking";
    const CAN: Can = Can { tenants: false, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        if let Some(limit) = limit.and_then(NonZeroUsize::new) {
            blocking::set_max_blocking_threads(limit);
        }
        Self
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        blocking::unblock(item).detach();
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        futures_lite::future::block_on(blocking::unblock(item))
    }
}
