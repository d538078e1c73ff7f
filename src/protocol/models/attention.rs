//! Models of [`AttentionCell`](crate::protocol::attention::AttentionCell): a worker becomes active while the manager
//! stops watching the CPUs.
//!
//! After these steps, either the manager still watches the CPUs, or the worker has woken the manager, which will watch
//! them again. So the manager does not stay at rest while a worker is active.
//!
//! Red under: `active-without-fence`, `rest-without-fence`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{check, check_all};
use crate::policy::concurrency::Running;
use crate::policy::worker::Phase;
use crate::protocol::attention::AttentionCell;
use crate::protocol::running::RunningCell;
use crate::protocol::worker::WorkerCell;

struct Executor {
    attention: AttentionCell,
    workers: [WorkerCell; 2],
    running: RunningCell,
    /// The number of times that the manager was woken.
    woken: AtomicU64,
}

impl Executor {
    /// Makes an executor whose manager watches the CPUs, and in which no worker is active.
    fn new() -> Arc<Self> {
        let attention = AttentionCell::new();
        attention.watch();
        let workers = [(); 2].map(|()| WorkerCell::new(Phase::Blocked));
        let running = RunningCell::new(Running::managed(2));
        Arc::new(Self { attention, workers, running, woken: AtomicU64::new(0) })
    }

    /// Does what a worker does when it returns from a guard.
    fn begin(&self, worker: usize) {
        assert!(self.workers[worker].unblock(false, &self.running));
        if self.attention.active() {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_active(&self) -> bool {
        // This code reads only the pool's count of running workers. The worker's phase may become visible later than
        // the count if a read-modify-write serves as the worker's fence.
        self.running.load().running() > 0
    }

    /// Does what the manager does at its deadline. Returns whether the manager continues to watch.
    fn deadline(&self) -> bool {
        if !self.is_active() {
            self.attention.rest();
            if !self.is_active() {
                return false;
            }
            self.attention.watch();
        }
        true
    }

    /// Does what the manager does after it has woken up. Returns whether the manager watches the CPUs.
    fn wakes_up(&self) -> bool {
        let asked = self.attention.is_asked();
        if asked {
            self.attention.watch();
        }
        asked
    }
}

/// spec: A5.1
#[test]
fn a_worker_begins_while_the_manager_goes_to_rest() {
    check_all(|| {
        let executor = Executor::new();
        let worker = {
            let executor = executor.clone();
            thread::spawn(move || executor.begin(0))
        };
        let watches = executor.deadline();
        worker.join().unwrap();
        assert!(watches || executor.wakes_up(), "the manager does not watch an active worker");
    });
}

/// Two workers become active. If one of them wakes the manager, the other worker does not.
#[test]
fn two_workers_wake_the_manager_once() {
    check(3, || {
        let executor = Executor::new();
        let workers = [0, 1].map(|worker| {
            let executor = executor.clone();
            thread::spawn(move || executor.begin(worker))
        });
        let watches = executor.deadline();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(watches || executor.wakes_up(), "the manager does not watch active workers");
        assert!(executor.woken.load(Ordering::Relaxed) <= 1);
    });
}
