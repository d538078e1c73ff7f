use std::thread;

use super::{Can, Part, Rival};

/// No pool at all.
pub(crate) struct Threads;

impl Rival for Threads {
    const NAME: &'static str = "threads";
    const CAN: Can = Can { part: Part::Threads, limits: false, tenants: false, ..Can::POOL };

    fn new(_limit: Option<usize>) -> Self {
        Self
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        thread::spawn(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        thread::spawn(item).join().expect("the item does not panic")
    }
}
