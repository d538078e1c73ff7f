//! A manager whose own code panics.

use std::sync::Arc;
use std::time::Duration;

use crate::sys::sync::{AtomicUsize, Mutex, Ordering};
use crate::{Detection, Executor, TopologySource, Work, WorkQueue};

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn executor() -> Executor {
    let builder = Executor::builder().topology(TopologySource::Synthetic("core:1 pu:1".into()));
    builder.detection(Detection::Sampling).idle_timeout(Duration::from_millis(50)).build().unwrap()
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = clock::now() + SOON;
    while !holds() {
        assert!(clock::now() < end, "this never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The manager panics there once, at the next occasion; then `what` happens all the same.
#[track_caller]
fn survives(executor: &Executor, point: Point, what: impl FnOnce()) {
    executor.inner.core.manager.plant(point);
    // Where there is nothing else to do, it comes to a round.
    executor.inner.core.manager.bell.ring();
    what();
    until("the fault", || !executor.inner.core.manager.has_faults());
}

/// spec: P1 (the manager is supervised): requests, duties and timers outlive a panic.
#[test]
fn a_manager_that_panics_goes_on_and_loses_nothing() {
    let each = [Point::Request, Point::Duty, Point::Timer, Point::Round].map(|point| {
        move || {
            let executor = executor();
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&ran);
            let work = Work::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            survives(&executor, point, || {
                let one_shot = queue.spawn_after(Duration::from_millis(1), || ()).unwrap();
                assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
                let item = queue.spawn(|| ()).unwrap();
                // The manager makes its thread.
                drop(WorkQueue::per_cpu("r").rescuer().build_on(&executor).unwrap());
                assert!(item.join_timeout(SOON).is_ok(), "{point:?}: {}", executor.dump());
                assert!(one_shot.join_timeout(SOON).is_ok(), "{point:?}: {}", executor.dump());
            });
            until("the delayed item runs", || ran.load(Ordering::SeqCst) > 0);
            assert_eq!(ran.load(Ordering::SeqCst), 1);
            assert!(executor.shutdown(SOON).unwrap().is_complete(), "{point:?}");
        }
    });
    let threads = each.map(std::thread::spawn);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// spec: P1 (the manager is supervised): it panics while it watches a pool whose item blocks.
#[test]
fn a_pool_is_watched_though_looks_fail() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (open, door) = std::sync::mpsc::channel();
    let door = Mutex::new(door);
    let (begin, begun) = std::sync::mpsc::channel();
    let blocks = move || {
        begin.send(()).unwrap();
        door.lock().recv_timeout(SOON).unwrap();
    };
    let blocks = queue.spawn(blocks).unwrap();
    begun.recv().unwrap();
    survives(&executor, Point::Duty, || {
        let opens = queue.spawn(move || open.send(()).unwrap()).unwrap();
        assert!(opens.join_timeout(SOON).is_ok(), "{}", executor.dump());
    });
    assert!(blocks.join_timeout(SOON).is_ok());
}

/// spec: P1 (the manager is supervised), E5: a timer that is put off when its executor is shut down comes to nothing.
#[test]
fn a_shutdown_accounts_for_a_timer_that_is_put_off() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let mut timer = None;
    survives(&executor, Point::Timer, || {
        timer = Some(queue.spawn_after(Duration::from_millis(1), || ()).unwrap());
    });
    let report = executor.shutdown(SOON).unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.queues.iter().map(|queue| queue.timers).sum::<usize>(), 1, "{report}");
    assert!(matches!(timer.unwrap().join(), Err(crate::JoinError::Cancelled)));
}
