use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::{Can, Rival, cpus};

/// The pool of `affinitypool`. Dropping the future of an item cancels the item, and an item cannot be detached from its
/// future. So the issuer keeps the futures, as the documentation recommends, and from time to time drops the futures of
/// items that have ended.
pub(crate) struct Affinitypool(affinitypool::Threadpool);

/// When the number of kept futures is a multiple of this, the issuer drops the futures of items that have ended.
const TIME: usize = 256;

thread_local! {
    static KEPT: RefCell<VecDeque<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(VecDeque::new()) };
}

impl Rival for Affinitypool {
    const NAME: &'static str = "affinitypool";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        Self(affinitypool::Threadpool::new(limit.unwrap_or_else(cpus)))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        keep(self.0.spawn(item));
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        futures_lite::future::block_on(self.0.spawn(item))
    }
}

fn keep(future: impl Future<Output = ()> + 'static) {
    let mut context = Context::from_waker(Waker::noop());
    KEPT.with_borrow_mut(|kept| {
        kept.push_back(Box::pin(future));
        if kept.len().is_multiple_of(TIME) {
            while kept.front_mut().is_some_and(|first| first.as_mut().poll(&mut context).is_ready()) {
                kept.pop_front();
            }
        }
    });
}
