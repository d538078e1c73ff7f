//! Models of [`BellCell`](crate::protocol::bell::BellCell): requests arrive while the manager goes to sleep or wakes up
//! by itself.
//!
//! After these steps, one of three things holds: the manager has seen every request, or the manager is awake, or an
//! issuer has woken the manager.
//!
//! Red under: `bell-awake-without-acquire`, `bell-rests-over-a-ring`, `bell-without-acquire`, `bell-without-release`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::check_all;
use crate::protocol::bell::BellCell;

struct Executor {
    bell: BellCell,
    /// Whether the manager has published how issuers can wake the manager: 0 means no, and 1 means yes. All accesses to
    /// `sleeper`, `requests` and `woken` are relaxed, so that only the bell orders them.
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

    /// Does what the manager does before it sleeps. Returns whether the manager would sleep now.
    fn rest(&self) -> bool {
        self.sleeper.store(1, Ordering::Relaxed);
        self.bell.rest()
    }

    /// Does what the manager does when it wakes up. Returns the number of requests that the manager finds.
    fn wakes_up(&self) -> u64 {
        self.bell.awake();
        self.requests.iter().map(|request| request.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether the manager sleeps and was not woken. Must be called after all other threads have ended.
    fn is_left_asleep(&self) -> bool {
        self.bell.ring()
    }
}

/// Runs `manager` while other threads make this number of requests. Returns after all these threads have ended.
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

/// Requests that arrive before the manager sleeps keep the manager awake. A request that arrives later wakes the
/// manager once.
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

/// A request arrives while the manager wakes up at its deadline. The manager may see the request after it has woken up.
/// Otherwise, the issuer's ring of the bell keeps the manager awake, or wakes the manager again.
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
