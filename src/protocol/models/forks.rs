//! Models of [`ForkBits`](crate::protocol::forks::ForkBits), and of a thread that waits for a fork. A worker makes a
//! fork. Meanwhile another worker leaves the count, another thread clears the forking worker's bit, or a thread that
//! waits for a fork falls asleep.
//!
//! In the models, a worker's list is a count of forks. The owner of the list stores the count without a
//! read-modify-write.
//!
//! Red under: `fork-without-fence`, `fork-bit-stays-clear`, `join-without-fence`, `fork-wakes-beside-joining-threads`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::concurrency::Running;
use crate::protocol::forks::ForkBits;
use crate::protocol::one_shot::OneShotCell;
use crate::protocol::running::RunningCell;
use crate::sys::sync::{AtomicU64, Ordering};

struct Pool {
    running: RunningCell,
    forks: ForkBits,
    list: AtomicU64,
    joining: AtomicU64,
    /// The cell of the fork that worker 0 runs.
    fork: OneShotCell,
}

impl Pool {
    /// Makes a pool of two CPUs, in which both workers run.
    fn new() -> Arc<Self> {
        let pool = Self {
            running: RunningCell::new(Running::managed(2).unwatchable()),
            forks: ForkBits::new(),
            list: AtomicU64::new(0),
            joining: AtomicU64::new(0),
            fork: OneShotCell::new(),
        };
        (0..2).for_each(|_| pool.running.come_back());
        Arc::new(pool)
    }

    /// Worker 0 makes a fork.
    fn fork(&self) {
        self.list.store(1, Ordering::Release);
        self.forks.set(0);
    }

    fn has_forks(&self) -> bool {
        self.list.load(Ordering::Acquire) > 0
    }

    fn reserves(&self) -> bool {
        self.running.reserve_for_fork(|| self.joining.load(Ordering::Relaxed)).is_some()
    }
}

/// spec: W7.13
#[test]
fn a_worker_leaves_while_another_worker_forks() {
    check_all(|| {
        let pool = Pool::new();
        let forking = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.fork();
                pool.running.load().has_free_cpu() && pool.reserves()
            })
        };
        pool.running.leave();
        _ = pool.running.look(|| false);
        let other = pool.forks.are_any() && pool.has_forks() && pool.reserves();
        let forking = forking.join().unwrap();
        assert!(forking || other, "a CPU is free, and no worker was woken for the fork");
    });
}

/// A worker makes a fork while another thread clears the worker's bit, which an earlier fork has left set.
///
/// spec: W7.13
#[test]
fn a_bit_is_cleared_while_its_worker_forks() {
    check_all(|| {
        let pool = Pool::new();
        pool.forks.set(0);
        let forking = {
            let pool = pool.clone();
            thread::spawn(move || pool.fork())
        };
        if !pool.has_forks() {
            pool.forks.clear(0, || pool.has_forks());
        }
        forking.join().unwrap();
        assert!(pool.forks.are_any(), "no worker finds the fork");
    });
}

/// A thread begins to wait for its fork while this fork makes a part (a further fork). Either the waiting thread sees
/// the part, or the thread that makes the part sees that the other thread waits.
///
/// spec: W7.14
#[test]
fn a_thread_falls_asleep_while_its_fork_makes_a_part() {
    check_all(|| {
        let pool = Pool::new();
        let forking = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.fork();
                pool.fork.load().is_joined()
            })
        };
        assert!(pool.fork.will_wait());
        let sees = pool.has_forks();
        assert!(forking.join().unwrap() || sees, "the thread sleeps, and is not called");
    });
}

/// A thread begins to wait for its fork while this fork makes a part. The waiting thread keeps its place in the pool,
/// so no worker is woken.
///
/// spec: W7.14
#[test]
fn no_worker_takes_the_place_of_a_thread_that_waits() {
    check_all(|| {
        let pool = Pool::new();
        let forking = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.fork();
                pool.reserves()
            })
        };
        pool.joining.fetch_add(1, Ordering::AcqRel);
        pool.running.leave();
        assert!(!forking.join().unwrap(), "a worker was woken beside the thread that waits");
    });
}
