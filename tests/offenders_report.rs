//! The log lines about hogs, undeclared blockers, and stalls without a hook. This is a test program of its own, because
//! a process has only one logger.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::{Executor, WorkQueue};
use testkit::{LINES, SOON, holds_within, spin};

fn computes() {
    spin(Duration::from_millis(80));
}

fn sleeps() {
    std::thread::sleep(Duration::from_millis(30));
}

/// Runs the item, with another item queued behind it, until the count is at least 7.
fn until_seven(queue: &WorkQueue, item: fn(), count: impl Fn() -> u64) {
    let end = Instant::now() + Duration::from_secs(120);
    while count() < 7 {
        assert!(Instant::now() < end, "the item is not found");
        let item = queue.spawn(item).unwrap();
        let waits = queue.spawn(|| ()).unwrap();
        item.join().unwrap();
        waits.join().unwrap();
    }
}

/// spec: S2.2 (reported with its type name from the 4th time on, ever more rarely), S3.1, S4.3
#[test]
fn offenders_and_stalls_are_logged() {
    LINES.keep(log::LevelFilter::Debug);
    let executor = Executor::builder().build().unwrap();
    let queue = WorkQueue::per_cpu("compute").build_on(&executor).unwrap();
    // The items are passed as function pointers, so all of them have the type `fn()`.
    let of = |list: Vec<cmwq::Offender>| list.first().map_or(0, |offender| offender.count);
    until_seven(&queue, computes, || of(executor.hogs()));
    let told = LINES.with(log::Level::Warn, &["fn()", "queue \"compute\"", "10ms", "cpu_intensive"]);
    let times = ["4 times", "5 times", "7 times"];
    assert!(told.iter().zip(times).all(|(line, times)| line.contains(times)), "{told:#?}");

    let queue = WorkQueue::per_cpu("files").build_on(&executor).unwrap();
    until_seven(&queue, sleeps, || of(executor.undeclared_blockers()));
    let told = LINES.with(log::Level::Debug, &["fn()", "queue \"files\"", "guard"]);
    assert!(told.iter().zip(times).all(|(line, times)| line.contains(times)), "{told:#?}");

    assert_eq!(LINES.of(log::Level::Error), [""; 0]);
    let patient = Executor::builder().watchdog_threshold(Duration::from_millis(20));
    let patient = patient.detection(cmwq::Detection::Off).build().unwrap();
    let queue = kernel::bh("slow").build_on(&patient).unwrap();
    let cpu = patient.cpus().first().unwrap();
    let reports = || LINES.with(log::Level::Error, &["pool[bh", "started nothing for", "queue \"slow\""]);
    let is_told = move || holds_within(SOON, || !reports().is_empty());
    let stalls = queue.item(is_told).on_cpu(cpu).spawn().unwrap();
    let waits = queue.item(|| ()).on_cpu(cpu).spawn().unwrap();
    assert!(stalls.join().unwrap(), "the manager does not report the stall");
    waits.join().unwrap();
    let told = reports();
    assert_eq!(told.len(), 1, "{told:#?}");
}
