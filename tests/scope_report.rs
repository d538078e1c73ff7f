//! The log line about an item of a scope that is refused. This is a test program of its own, because a process has only
//! one logger.
#![cfg(all(debug_assertions, target_os = "linux"))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use cmwq::{JoinHandle, QueueError, WorkQueue};
use testkit::threads::{own_status, status_of};
use testkit::{SOON, eventually};

/// A logger that queues an item when it gets the first error, and joins this item.
struct Joins;

/// The queue of the logger's item.
static FREE: OnceLock<WorkQueue> = OnceLock::new();

static HAS_JOINED: AtomicBool = AtomicBool::new(false);

/// The first error, and whether the join ended well.
static JOINED: Mutex<Option<(String, bool)>> = Mutex::new(None);

impl log::Log for Joins {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error && metadata.target() == "cmwq"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) && !HAS_JOINED.swap(true, Ordering::SeqCst) {
            let joined = FREE.get().unwrap().spawn(|| 7).unwrap().join();
            *JOINED.lock().unwrap() = Some((record.args().to_string(), joined.is_ok()));
        }
    }

    fn flush(&self) {}
}

/// spec: F5.7, F5.9: a scope does not wait for a refused item any more when the refusal is logged. So the logger, which
/// runs on the thread of the item that opened the scope, may wait.
#[test]
fn the_logger_may_wait_when_an_item_of_a_scope_is_refused() {
    log::set_logger(&Joins).unwrap();
    log::set_max_level(log::LevelFilter::Error);
    let [queue, free] = ["here", "free"].map(WorkQueue::new);
    FREE.set(free).unwrap();
    let there = WorkQueue::ordered("there").build().unwrap();
    let (give, take) = mpsc::channel::<JoinHandle<QueueError>>();
    let (tell, told) = mpsc::channel();
    let holder = there.spawn(move || {
        let opener = cmwq::blocking(|| take.recv_timeout(SOON)).unwrap();
        tell.send(own_status("Pid")).unwrap();
        opener.join().unwrap()
    });
    let opener = queue.spawn(move || {
        let holder = cmwq::blocking(|| told.recv_timeout(SOON)).unwrap();
        let sleeps = || {
            let switches = || status_of(&holder, "voluntary_ctxt_switches");
            let before = switches();
            std::thread::sleep(Duration::from_millis(20));
            status_of(&holder, "State").starts_with('S') && switches() == before
        };
        cmwq::blocking(|| eventually("the holder waits for this item", sleeps));
        there.scope(|s| s.spawn(|| ()).map(|item| item.cancel()).unwrap_err())
    });
    give.send(opener.unwrap()).unwrap();
    assert_eq!(holder.unwrap().join().unwrap(), QueueError::WouldDeadlock);
    let (line, is_joined) = JOINED.lock().unwrap().take().expect("the refusal is logged");
    assert!(line.contains("an item of a scope is refused"), "{line}");
    assert!(is_joined, "the logger's wait ends");
}
