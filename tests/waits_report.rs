//! The log line about a wait that would never end. This is a test program of its own, because a process has only one
//! logger.
#![cfg(debug_assertions)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::mpsc;

use cmwq::{JoinError, JoinHandle, WorkQueue};
use testkit::LINES;

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
}
