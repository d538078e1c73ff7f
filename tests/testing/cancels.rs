//! Cancelled waits and deadlines in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use cmwq::blocking::block_on;
use cmwq::blocking::channel::{RecvCancellableError, SendCancellableError, bounded};
use cmwq::blocking::sync::{Condvar, Mutex};
use cmwq::blocking::thread::{sleep, sleep_cancellable};
use cmwq::{Cancelled, JoinError, WorkQueue, clock, testing};

use super::support::add;

/// spec: T1.3 (the waits of the crate hand over): a cancel ends the waits of the crate in virtual time.
#[test]
fn cancelled_waits_end() {
    let interrupted = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&interrupted);
    testing::explore(50, move || {
        static READY: Mutex<bool> = Mutex::new(false);
        static CHANGED: Condvar = Condvar::new();
        let queue = WorkQueue::new("waits");
        let (send, receive) = bounded::<u32>(1);
        send.send(1).unwrap();
        let (_kept, empty) = bounded::<u32>(1);
        let sends = queue
            .spawn(move || matches!(send.send_cancellable(2), Err(SendCancellableError::Cancelled(2, _))));
        let receives = queue.spawn(move || {
            matches!(empty.recv_cancellable(), Err(RecvCancellableError::Cancelled(Cancelled::Requested)))
        });
        let sleeps = queue.spawn(|| sleep_cancellable(Duration::from_secs(3600)).is_err());
        let waits =
            queue.spawn(|| CHANGED.wait_while_cancellable(&mut READY.lock(), |ready| !*ready).is_err());
        for item in [sends.unwrap(), receives.unwrap(), sleeps.unwrap(), waits.unwrap()] {
            item.stop();
            match item.join() {
                Ok(true) => add(&counted),
                other => assert!(matches!(other, Err(JoinError::Cancelled))),
            }
        }
        drop(receive);
    });
    assert!(interrupted.load(SeqCst) > 0, "some items had begun to wait");
}

/// spec: T1.3: a message ends a cancellable wait of a receiver, and room for a message ends that of a sender.
#[test]
fn messages_pass_between_cancellable_waits() {
    testing::explore(50, || {
        let queue = WorkQueue::new("pipeline");
        let (send, receive) = bounded(1);
        let sends = queue.spawn(move || (0..10).try_for_each(|n| send.send_cancellable(n)).is_ok()).unwrap();
        let receives =
            queue.spawn(move || std::iter::from_fn(|| receive.recv_cancellable().ok()).sum::<u32>());
        assert!(sends.join().unwrap());
        assert_eq!(receives.unwrap().join().unwrap(), 45);
    });
}

/// spec: T1.1 (time is virtual): deadlines pass in virtual time, and end the wait of a running item.
#[test]
fn deadlines_pass() {
    testing::run(|| {
        let queue = WorkQueue::ordered("late").build().unwrap();
        let hour = Duration::from_secs(3600);
        let runs = queue.item(move || sleep_cancellable(2 * hour)).within(hour).spawn().unwrap();
        let late = queue.item(|| ()).within(hour).spawn().unwrap();
        testing::advance(hour + Duration::from_secs(1));
        assert_eq!(runs.join().unwrap(), Err(Cancelled::DeadlinePassed));
        assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
    });
}

/// spec: T1.1, I3.5: a task is told at the deadline, although the queue does not reach the item for hours.
#[test]
fn a_task_is_told_at_the_deadline() {
    testing::run(|| {
        let queue = WorkQueue::ordered("late").build().unwrap();
        let hour = Duration::from_secs(3600);
        let first = queue.spawn(move || sleep(10 * hour)).unwrap();
        let begin = clock::now();
        let late = queue.item(|| ()).within(hour).spawn().unwrap();
        assert!(matches!(block_on(late), Err(JoinError::DeadlinePassed)));
        assert_eq!(clock::now() - begin, hour);
        first.join().unwrap();
    });
}
