//! Models of a task that waits for a one-shot through the one-shot's handle, and of a task that waits for a signal.
//!
//! When the result is stored, the task that waits for the result is woken, and then sees the result. A dropped handle
//! removes its own alarm, and no other alarm.
//!
//! Red under: `finish-forgets-the-task`, `task-watches-without-the-bit`, `signal-forgets-the-task`,
//! `alarm-after-the-look`, `handle-detaches-before-its-alarm`.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::thread;

use super::super::{Data, Event, check};
use super::{Cell, Shared, against_a_worker, detach, join, run, take_result};
use crate::protocol::signal::Signal;
use crate::sys::wakers::{self, Alarm, Watcher};

/// A task that is polled again when its event happens.
struct Task(Event);

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self(Event::new()))
    }

    fn alarm(self: &Arc<Self>) -> Alarm {
        Alarm { waker: Waker::from(Arc::clone(self)), ring: Waker::wake }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// Polls the handle until the item has ended.
fn await_handle(cell: &Shared) {
    loop {
        let task = Task::new();
        if !cell.state.watch(task.alarm()) {
            return;
        }
        task.0.wait();
    }
}

/// spec: I1.1
#[test]
fn a_task_gets_the_result() {
    against_a_worker(|cell| {
        await_handle(cell);
        take_result(cell);
        detach(cell);
    });
}

/// spec: I1.1
#[test]
fn a_handle_that_was_polled_is_joined() {
    against_a_worker(|cell| {
        let _waits = cell.state.watch(Task::new().alarm());
        join(cell);
    });
}

/// spec: I1.2 (a dropped future leaves no alarm behind, and removes no alarm of another item)
#[test]
fn a_handle_that_is_dropped_removes_only_its_own_alarm() {
    check(3, || {
        let cell = Cell::shared();
        let key = cell.state.key();
        let first = Task::new();
        assert!(cell.state.watch(first.alarm()));
        let worker = {
            let cell = cell.clone();
            thread::spawn(move || {
                // If the worker has freed the cell, another item may get a cell at this address.
                let next = run(&cell).then(Task::new);
                if let Some(next) = &next {
                    assert!(wakers::watch(key, Watcher::ONLY, next.alarm(), || true));
                }
                next
            })
        };
        detach(&cell);
        if let Some(next) = worker.join().unwrap() {
            wakers::ring(key);
            assert!(next.0.has_happened(), "the alarm of the next item is lost");
        }
    });
}

/// spec: I1.1
#[test]
fn a_task_waits_for_a_signal() {
    check(4, || {
        let shared = Arc::new((Signal::new(), Data::new(0)));
        let setter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.write(|data| *data = 7);
                shared.0.set();
            })
        };
        loop {
            let task = Task::new();
            if !shared.0.watch(Watcher::ONLY, task.alarm()) {
                break;
            }
            task.0.wait();
        }
        assert_eq!(shared.1.read(|data| *data), 7);
        setter.join().unwrap();
    });
}
