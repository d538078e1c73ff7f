//! Tests of timers that fire while their queue is drained, or while another item waits for the timer's item.
//!
//! Red under: `timer-leaves-the-map-first`.

use std::time::Duration;

use super::seeds::runs;
use super::setup::{executor, ms};
use crate::sys::machine::{Config, pause, run};
use crate::{JoinHandle, WaitError, Work, WorkQueue, may_block};

/// The number of random runs in an ordinary test run.
const RUNS: u64 = if cfg!(debug_assertions) { 500 } else { 5000 };

/// A time that is longer than each run.
const LONG: Duration = Duration::from_secs(1);

/// Queues `work` with a timer. Also queues an item that flushes `work` at about the time at which this timer fires.
fn flushes_when_due(queue: &WorkQueue, work: &Work) -> JoinHandle<Result<bool, WaitError>> {
    assert!(queue.item(work).after(ms(1)).enqueue().unwrap());
    let work = work.clone();
    let flushes = move || {
        may_block(|| pause(ms(1)));
        work.flush_timeout(LONG)
    };
    queue.spawn(flushes).unwrap()
}

/// spec: F4.2 (a timer that fires during a drain is held): an item of the drained queue flushes a second item in the
/// moment in which the second item's timer fires. The flush finds either the timer, or the second item in flight.
#[test]
fn an_item_of_a_drained_queue_flushes_an_item_whose_timer_fires() {
    runs(RUNS, |seed, _trace| {
        run(Config::new(2).seed(seed), || {
            let executor = executor("core:2 pu:1", |builder| builder);
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            let flushes = flushes_when_due(&queue, &Work::new(|| ()));
            assert_eq!(queue.drain(), Ok(()));
            assert!(flushes.join().unwrap().is_ok(), "the flush has missed the timer");
        });
    });
}

/// spec: F5.4: the holder of the only slot flushes an item in the moment in which the item's timer fires. The flush is
/// refused whether it finds the timer or the pending item, and also while the thread that fires the timer is between
/// these two states. A flush with a timeout is not checked for cycles of items. So only one check refuses this flush:
/// whether the caller holds the slot that the flushed item needs.
#[test]
fn the_holder_of_the_only_slot_may_not_flush_an_item_whose_timer_fires() {
    runs(RUNS, |seed, _trace| {
        run(Config::new(2).seed(seed), || {
            let executor = executor("core:2 pu:1", |builder| builder);
            let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
            let work = Work::new(|| ());
            let flushes = flushes_when_due(&queue, &work);
            assert_eq!(flushes.join().unwrap(), Err(WaitError::WouldDeadlock));
            assert!(work.flush().is_ok());
        });
    });
}
