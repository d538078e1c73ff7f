//! Models of the watched bit: which thread tells the manager that a saturated pool has work.
//!
//! The manager stops watching while issuers push items to a pool whose only worker never comes back. After these steps,
//! the pool is marked as watched, and exactly one thread was told to notify the manager.
//!
//! Red under: `push-without-fence`, `look-without-fence`, `watch-is-not-told`.

use std::sync::Arc;

use loom::thread;

use super::{List, check, check_all};
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::running::RunningCell;

struct Pool {
    list: List,
    running: RunningCell,
}

impl Pool {
    /// Makes a pool that is saturated and watched.
    fn new() -> Self {
        let running = RunningCell::new(Running::managed(1));
        let Kick::Wake(reserved) = running.pushed() else { panic!("the pool is empty") };
        assert!(running.start(reserved));
        assert_eq!(running.pushed(), Kick::Watch);
        Self { list: List::new(), running }
    }

    /// Pushes an item. Returns how many times the caller was told to notify the manager.
    fn push(&self) -> u32 {
        self.list.push();
        self.told(self.running.pushed())
    }

    fn disarm(&self) -> u32 {
        self.running.unwatch();
        self.told(self.running.look(|| self.list.has_work()))
    }

    fn told(&self, kick: Kick) -> u32 {
        match kick {
            Kick::Enough | Kick::Offer => 0,
            Kick::Watch => 1,
            Kick::Wake(_) | Kick::Leave | Kick::Starve => panic!("the pool is full"),
        }
    }
}

#[test]
fn an_item_is_pushed_while_the_manager_stops_watching() {
    check_all(|| {
        let pool = Arc::new(Pool::new());
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.disarm())
        };
        let told = pool.push() + manager.join().unwrap();
        assert!(pool.running.load().is_watched(), "work is pending, and the manager does not watch");
        assert_eq!(told, 1);
    });
}

#[test]
fn two_issuers_tell_the_manager_once() {
    check(3, || {
        let pool = Arc::new(Pool::new());
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.disarm())
        };
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        let told = pool.push() + issuer.join().unwrap() + manager.join().unwrap();
        assert!(pool.running.load().is_watched(), "work is pending, and the manager does not watch");
        assert_eq!(told, 1);
    });
}

/// A worker takes the first of two items while the manager stops watching. If an item is left, the pool is marked as
/// watched.
#[test]
fn a_worker_takes_an_item_while_the_manager_stops_watching() {
    check(3, || {
        let pool = Arc::new(Pool::new());
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.disarm())
        };
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || pool.list.pop())
        };
        let told = pool.push() + pool.push() + manager.join().unwrap();
        worker.join().unwrap();
        assert!(!pool.list.has_work() || pool.running.load().is_watched());
        assert!(told <= 1);
    });
}
