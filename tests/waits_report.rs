//! What is logged of a wait that would never end. In a process of its own, which has one logger.
#![cfg(debug_assertions)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::{Mutex, mpsc};

use cmwq::{JoinError, JoinHandle, WorkQueue};

struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "cmwq" && record.level() == log::Level::Error {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Joins what it is sent: refused or not?
fn joins_what_it_gets(queue: &WorkQueue) -> (mpsc::Sender<JoinHandle<bool>>, JoinHandle<bool>) {
    let (give, take) = mpsc::channel::<JoinHandle<bool>>();
    let item =
        move || matches!(cmwq::blocking(|| take.recv()).unwrap().join(), Err(JoinError::WouldDeadlock));
    (give, queue.spawn(item).unwrap())
}

/// spec: F5 (reported with its names)
#[test]
fn a_cycle_is_reported_with_its_names() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Error);
    let orders = WorkQueue::new("orders").build().unwrap();
    let bills = WorkQueue::per_cpu("bills").build().unwrap();
    let (to_order, order) = joins_what_it_gets(&orders);
    let (to_bill, bill) = joins_what_it_gets(&bills);
    to_order.send(bill).unwrap();
    to_bill.send(order).unwrap();
    orders.flush().unwrap();
    bills.flush().unwrap();
    let lines = LINES.0.lock().unwrap();
    let [line] = &lines[..] else { panic!("one report: {lines:?}") };
    for name in ["joins_what_it_gets", "queue \"orders\"", "queue \"bills\"", "never end"] {
        assert!(line.contains(name), "{name}: {line}");
    }
}
