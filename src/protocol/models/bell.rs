//! Models of [`BellCell`](crate::protocol::bell::BellCell): requests come while the manager goes to sleep, or wakes up
//! because it is time to.
//!
//! Afterwards every request was seen, or the manager is awake, or somebody has woken it.
//!
//! Red under: `bell-awake-without-acquire`, `bell-rests-over-a-ring`, `bell-without-acquire`, `bell-without-release`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::check_all;
use crate::protocol::bell::BellCell;

struct Executor {
    bell: BellCell,
    /// Whom to wake; 0 before it is known. No more than relaxed, as all here: the bell alone orders.
    sleeper: AtomicU64,
    requests: [AtomicU64; 2],
    woken: AtomicU64,
}

impl Executor {
    fn ask(&self, number: usize) {
        self.requests[number].store(1, Ordering::Relaxed);
        if self.bell.ring() {
            assert_eq!(self.sleeper.load(Ordering::Relaxed), 1, "nobody knows whom to wake");
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// By the manager. True if it would sleep now.
    fn rest(&self) -> bool {
        self.sleeper.store(1, Ordering::Relaxed);
        self.bell.rest()
    }

    /// By the manager: how many requests it finds after a sleep.
    fn wakes_up(&self) -> u64 {
        self.bell.awake();
        self.requests.iter().map(|request| request.load(Ordering::Relaxed)).sum()
    }

    /// When nobody else is there: does the manager sleep, and was not woken?
    fn is_left_asleep(&self) -> bool {
        self.bell.ring()
    }
}

/// Runs `manager` while so many requests come. All is over when it returns.
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

/// What comes before the manager sleeps keeps it awake, what comes later wakes it, once.
#[test]
fn who_sleeps_over_a_request_is_woken() {
    check_all(|| {
        let (executor, slept) = meanwhile(2, Executor::rest);
        let woken = executor.woken.load(Ordering::Relaxed);
        assert_eq!(woken, u64::from(slept), "woken once, if it slept");
        assert!(!executor.is_left_asleep());
        assert_eq!(executor.wakes_up(), 2);
    });
}

/// Its deadline comes just then. The ring that it took back it has heard, and for another one it is woken again.
#[test]
fn who_wakes_up_by_itself_has_heard_the_bell() {
    check_all(|| {
        let (executor, seen) = meanwhile(1, |executor| {
            let _slept = executor.rest();
            let seen = executor.wakes_up();
            let _sleeps_again = executor.rest();
            seen
        });
        assert!(seen == 1 || !executor.is_left_asleep(), "a request that nobody has seen");
    });
}
