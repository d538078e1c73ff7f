//! Models of [`BellCell`](crate::protocol::bell::BellCell): requests come while the manager goes to sleep, or wakes
//! up by itself.
//!
//! Afterwards the manager has seen every request, or is awake, or was woken.
//!
//! Red under: `bell-awake-without-acquire`, `bell-rests-over-a-ring`, `bell-without-acquire`, `bell-without-release`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::check_all;
use crate::protocol::bell::BellCell;

struct Executor {
    bell: BellCell,
    /// How to wake the manager; 0 before that is known. All accesses here are relaxed, so that only the bell orders
    /// them.
    sleeper: AtomicU64,
    requests: [AtomicU64; 2],
    woken: AtomicU64,
}

impl Executor {
    fn ask(&self, number: usize) {
        self.requests[number].store(1, Ordering::Relaxed);
        if self.bell.ring() {
            assert_eq!(
                self.sleeper.load(Ordering::Relaxed),
                1,
                "the issuer does not see how to wake the manager"
            );
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The manager goes to rest. Returns whether it would sleep now.
    fn rest(&self) -> bool {
        self.sleeper.store(1, Ordering::Relaxed);
        self.bell.rest()
    }

    /// The manager wakes up. Returns how many requests it finds.
    fn wakes_up(&self) -> u64 {
        self.bell.awake();
        self.requests.iter().map(|request| request.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether the manager sleeps, and was not woken. Called after all other threads have ended.
    fn is_left_asleep(&self) -> bool {
        self.bell.ring()
    }
}

/// Runs `manager` while so many requests come. All threads have ended when it returns.
fn meanwhile<T>(requests: usize, manager: impl FnOnce(&Executor) -> T) -> (Arc<Executor>, T) {
    let executor = Arc::new(Executor {
        bell: BellCell::new(),
        sleeper: AtomicU64::new(0),
        requests: [0, 0].map(AtomicU64::new),
        woken: AtomicU64::new(0),
    });
    let askers: Vec<_> = (0..requests)
        .map(|number| {
            let executor = executor.clone();
            thread::spawn(move || executor.ask(number))
        })
        .collect();
    let result = manager(&executor);
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    (executor, result)
}

/// Requests that come before the manager sleeps keep it awake. A request that comes later wakes it once.
#[test]
fn a_manager_that_sleeps_is_woken_by_a_request() {
    check_all(|| {
        let (executor, slept) = meanwhile(2, Executor::rest);
        let woken = executor.woken.load(Ordering::Relaxed);
        assert_eq!(woken, u64::from(slept), "the manager is woken once if it slept, and else not");
        assert!(!executor.is_left_asleep());
        assert_eq!(executor.wakes_up(), 2);
    });
}

/// The manager's deadline comes while a request does. Either the manager has seen the request when it takes the ring
/// back, or the ring keeps it awake or wakes it again.
#[test]
fn a_manager_that_wakes_up_by_itself_misses_no_request() {
    check_all(|| {
        let (executor, seen) = meanwhile(1, |executor| {
            let _slept = executor.rest();
            let seen = executor.wakes_up();
            let _sleeps_again = executor.rest();
            seen
        });
        assert!(seen == 1 || !executor.is_left_asleep(), "the manager sleeps, and has not seen the request");
    });
}
