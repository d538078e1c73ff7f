//! The log line about a wait that would never end. This is a test program of its own, because a process has only one
//! logger.
#![cfg(debug_assertions)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cmwq::observe::WorkerState;
use cmwq::{Executor, JoinError, JoinHandle, TopologySource, Work, WorkQueue};
use testkit::{LINES, eventually};

/// Queues an item that joins the handle that it receives. The item returns whether the join was refused.
fn joins_the_received_handle(queue: &WorkQueue) -> (mpsc::Sender<JoinHandle<bool>>, JoinHandle<bool>) {
    let (give, take) = mpsc::channel::<JoinHandle<bool>>();
    let item =
        move || matches!(cmwq::blocking(|| take.recv()).unwrap().join(), Err(JoinError::WouldDeadlock));
    (give, queue.spawn(item).unwrap())
}

/// spec: F5.7, F5.8 (reported with its names; and a flush from a queue with a rescuer of one without)
#[test]
fn waits_that_would_not_end_are_reported_with_their_names() {
    LINES.keep(log::LevelFilter::Warn);
    let orders = WorkQueue::new("orders");
    let bills = WorkQueue::per_cpu("bills").build().unwrap();
    let (to_order, order) = joins_the_received_handle(&orders);
    let (to_bill, bill) = joins_the_received_handle(&bills);
    to_order.send(bill).unwrap();
    to_bill.send(order).unwrap();
    orders.flush().unwrap();
    bills.flush().unwrap();
    let lines = LINES.of(log::Level::Error);
    let [line] = &lines[..] else { panic!("one report: {lines:?}") };
    for name in ["joins_the_received_handle", "queue \"orders\"", "queue \"bills\"", "never end"] {
        assert!(line.contains(name), "{name}: {line}");
    }

    let writeback = WorkQueue::builder("writeback").rescuer(true).build().unwrap();
    for others in [WorkQueue::builder("safe").rescuer(true), WorkQueue::builder("risky")] {
        let other = others.build().unwrap();
        writeback.spawn(move || other.flush().unwrap()).unwrap().join().unwrap();
    }
    let lines = LINES.of(log::Level::Warn);
    let [line] = &lines[..] else { panic!("one more report: {lines:?}") };
    for name in ["\"writeback\"", "\"risky\"", "rescuer"] {
        assert!(line.contains(name), "{name}: {line}");
    }

    // On one CPU, all items of a queue share its limit.
    let one_cpu = TopologySource::Synthetic("core:1 pu:1".into());
    let executor = Executor::builder().topology(one_cpu).build().unwrap();
    a_slot_of_another_item_is_not_reported(&executor);
    assert_eq!(reports_of_slots(), [""; 0]);
    a_slot_that_makes_a_wait_endless_is_reported(&executor);
}

/// spec: F5.7: a waiting item gets the slot of its next run, and so its wait would never end. The log says so.
fn a_slot_that_makes_a_wait_endless_is_reported(executor: &Executor) {
    let here = WorkQueue::builder("here").build_on(executor).unwrap();
    let there = WorkQueue::ordered("there").build_on(executor).unwrap();
    let (open, door) = mpsc::channel::<()>();
    let holder = there.spawn(move || cmwq::blocking(|| door.recv())).unwrap();
    let target = there.clone();
    let work = Work::with_handle(move |this| {
        assert_eq!(target.enqueue(this), Ok(true));
        target.spawn(|| ()).unwrap().join().unwrap();
    });
    here.enqueue(&work).unwrap();
    // The item registers its wait before its worker counts as blocked. The worker of the holder never counts.
    eventually("the item waits", || {
        let pools = executor.dump().pools;
        let mut workers = pools.iter().flat_map(|pool| &pool.worker_details);
        workers.any(|worker| worker.state == WorkerState::Blocked)
    });
    open.send(()).unwrap();
    eventually("the report is logged", || !reports_of_slots().is_empty());
    assert!(work.cancel(), "the next run is pending");
    here.flush().unwrap();
    holder.join().unwrap().unwrap();
    assert_eq!(reports_of_slots().len(), 1);
}

/// spec: F5.9: a lowered limit makes the end of a scope impossible. Another item gets the slot of its next run, and
/// this does not lead to a report.
fn a_slot_of_another_item_is_not_reported(executor: &Executor) {
    let queue = WorkQueue::builder("q").max_active(2).build_on(executor).unwrap();
    let [here, there] = ["here", "there"].map(|name| WorkQueue::ordered(name).build_on(executor).unwrap());
    let (open, door) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let holder = queue.spawn(move || {
        begins.send(()).unwrap();
        cmwq::blocking(|| door.recv()).unwrap();
    });
    begun.recv().unwrap();
    let (inner, shown) = (queue.clone(), executor.clone());
    let caller = queue.spawn(move || {
        inner.scope(|s| {
            let late = s.spawn(|| ()).unwrap();
            inner.set_max_active(1).unwrap();
            open.send(()).unwrap();
            cmwq::blocking(|| {
                eventually("only this item has a slot", || {
                    shown.dump().queues.iter().all(|queue| queue.active < 2)
                });
                a_next_run_gets_its_slot(&here, &there);
            });
            assert!(late.cancel());
        });
    });
    caller.unwrap().join().unwrap();
    holder.unwrap().join().unwrap();
}

/// Runs an item that queues itself to the ordered queue `there`, and ends when its next run has got the slot.
fn a_next_run_gets_its_slot(here: &WorkQueue, there: &WorkQueue) {
    let target = there.clone();
    let is_first = AtomicBool::new(true);
    let work = Work::with_handle(move |this| {
        if !is_first.swap(false, Ordering::Relaxed) {
            return;
        }
        assert_eq!(target.enqueue(this), Ok(true));
        let mut behind = target.spawn(|| ()).unwrap();
        // The wait only times out until a worker has popped the entry of the next run and left it to this thread.
        while let Err(handle) = behind.join_timeout(Duration::from_millis(1)) {
            behind = handle;
        }
    });
    here.enqueue(&work).unwrap();
    here.flush().unwrap();
    there.flush().unwrap();
}

fn reports_of_slots() -> Vec<String> {
    LINES.with(log::Level::Error, &["was given the slot of its next run"])
}
