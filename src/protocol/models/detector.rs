//! Models of the detector, which inspects workers from outside and writes to the same words as the workers:
//! [`WorkerCell`](crate::protocol::worker::WorkerCell) and [`RunningCell`](crate::protocol::running::RunningCell)
//! together.
//!
//! The detector reads a worker's word, inspects the worker's thread for a long time, and then applies its finding to
//! the worker. Meanwhile the worker enters and leaves guards, ends its item, and begins another item. At the end, no
//! worker counts as running, and no worker was counted twice. The detector never applies a finding about one item to
//! another item.
//!
//! Red under: `asleep-leaves-twice`, `end-item-forgets-asleep`, `end-item-in-two-steps`, `block-in-two-steps`,
//! `may-block-in-two-steps`, `found-whatever-was-seen`, `counts-by-its-word-first`, `back-by-its-word-first`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::pool::Pool;
use super::{Event, check, check_all};
use crate::policy::concurrency::Running;
use crate::policy::idle_set::WorkerId;
use crate::policy::worker::{Finding, Phase};

fn pool(items: u64) -> Arc<Pool> {
    Arc::new(Pool::new(Running::managed(1).unwatchable(), 2, items))
}

/// A worker sleeps in its item without a guard. Another item is pushed at the same time, and the worker sleeps until
/// that item has run. Either the detector or the thread that pushes wakes another worker.
#[test]
fn a_worker_that_sleeps_without_a_guard_is_replaced() {
    check(2, || {
        let pool = pool(2);
        let event = Arc::new(Event::new());
        let sleeper = pool.start_in_item();
        let sleeps = {
            let (pool, event) = (pool.clone(), event.clone());
            thread::spawn(move || {
                event.wait();
                pool.item_ended(sleeper);
                pool.work(sleeper, || event.set());
            })
        };
        let other = {
            let (pool, event) = (pool.clone(), event.clone());
            thread::spawn(move || pool.work(1 - sleeper, || event.set()))
        };
        let detector = {
            let pool = pool.clone();
            thread::spawn(move || {
                let seen = pool.worker(sleeper).cell.load();
                pool.found(sleeper, seen, Finding::Asleep);
            })
        };
        pool.push();
        detector.join().unwrap();
        sleeps.join().unwrap();
        other.join().unwrap();
        pool.assert_quiet();
    });
}

/// A worker that runs the only item of its pool. So if a thread takes the worker out of the count and then looks for
/// work, this thread finds no work.
struct Alone(Arc<Pool>, WorkerId);

impl Alone {
    fn new() -> Self {
        let pool = pool(1);
        let id = pool.start_in_item();
        Self(pool, id)
    }

    /// Starts a detector. For each of these findings, the detector reads the worker's word, and then applies the
    /// finding.
    fn detector(&self, findings: &'static [Finding]) -> thread::JoinHandle<()> {
        let (pool, id) = (self.0.clone(), self.1);
        let detect = move || {
            for finding in findings {
                pool.found(id, pool.worker(id).cell.load(), *finding);
            }
        };
        thread::spawn(detect)
    }

    fn come_back(&self, comes: bool) {
        if comes {
            self.0.running.come_back();
        }
    }

    fn ends_its_item(&self, detector: thread::JoinHandle<()>) {
        let (running, cell) = (&self.0.running, &self.0.worker(self.1).cell);
        self.come_back(cell.end_item());
        assert_eq!(cell.load().phase(), Phase::Between);
        running.leave();
        assert!(running.load().running() <= 1, "the count is below zero: it was raised after the word");
        detector.join().unwrap();
        assert_eq!(running.load().running(), 0);
    }
}

#[test]
fn a_guard_and_the_detector_take_a_worker_out_of_the_count_once() {
    check_all(|| {
        let alone = Alone::new();
        let detector = alone.detector(&[Finding::Asleep, Finding::Runs]);
        alone.0.block(alone.1);
        alone.0.unblock(alone.1);
        alone.ends_its_item(detector);
    });
}

#[test]
fn a_may_block_guard_and_the_detector_take_a_worker_out_of_the_count_once() {
    check_all(|| {
        let alone = Alone::new();
        let detector = alone.detector(&[Finding::Asleep, Finding::Blocks]);
        let cell = &alone.0.worker(alone.1).cell;
        cell.enter_may_block();
        cell.leave_may_block(&alone.0.running);
        alone.ends_its_item(detector);
    });
}

#[test]
fn a_guard_inside_of_a_may_block_guard_and_the_detector_take_a_worker_out_once() {
    check(3, || {
        let alone = Alone::new();
        let detector = alone.detector(&[Finding::Blocks]);
        let cell = &alone.0.worker(alone.1).cell;
        cell.enter_may_block();
        alone.0.block(alone.1);
        cell.unblock(true, &alone.0.running);
        cell.leave_may_block(&alone.0.running);
        alone.ends_its_item(detector);
    });
}

/// The item ends while the detector takes the item's worker out of the count, or puts this worker back.
#[test]
fn an_item_ends_while_the_detector_carries_out_a_finding() {
    check_all(|| {
        let alone = Alone::new();
        let detector = alone.detector(&[Finding::Asleep, Finding::Runs, Finding::Hog]);
        alone.ends_its_item(detector);
    });
}

/// A worker runs two items, one after the other. The detector may try to apply its finding about one item after this
/// item has ended. At the end of each item, the worker learns whether the detector has taken the worker out of the
/// count. If the detector has done this, its finding was about the item that ends.
#[test]
fn a_finding_is_not_carried_out_on_the_next_item() {
    check(3, || {
        let pool = pool(2);
        let id = pool.start_in_item();
        let looked_at = Arc::new(AtomicU64::new(0));
        let detector = {
            let (pool, looked_at) = (pool.clone(), looked_at.clone());
            thread::spawn(move || {
                let seen = pool.worker(id).cell.load();
                looked_at.store(seen.sequence(), Ordering::SeqCst);
                pool.found(id, seen, Finding::Hog);
            })
        };
        let cell = &pool.worker(id).cell;
        for number in 1..=2 {
            if number == 2 {
                cell.begin_item(Phase::Running);
            }
            assert_eq!(cell.load().sequence(), number);
            if cell.end_item() {
                pool.running.come_back();
                assert_eq!(looked_at.load(Ordering::SeqCst), number, "the finding was about another item");
            }
        }
        detector.join().unwrap();
        assert_eq!(pool.running.load().running(), 1, "the worker counts between its items");
    });
}
