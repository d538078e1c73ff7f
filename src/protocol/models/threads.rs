//! Models of [`ThreadsCell`](crate::protocol::threads::ThreadsCell): a worker leaves while a manager finds no room for
//! another worker, and a thread waits for the end of all threads.
//!
//! A manager that needs room for a thread either finds room, or is told when there is room. A thread that waits for the
//! end of the executor's threads is woken when all threads of every kind are gone. The woken thread then sees
//! everything that those threads did, including their last destructors. If a worker becomes idle while the manager asks
//! a worker to give way, the manager finds the idle worker, or this worker leaves by itself. If several busy or idle
//! workers are asked, exactly one of them gives way. A worker that answers a request to give way does not end a later
//! request.
//!
//! Red under: `answers-a-later-request`, `asks-after-the-look`, `full-in-two-steps`, `gives-way-in-two-steps`,
//! `last-thread-wakes-no-waiter`, `thread-leaves-without-release`, `threads-wait-without-acquire`, `gone-as-it-leaves`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check, check_all};
use crate::policy::threads::Kind;
use crate::protocol::threads::ThreadsCell;
use crate::sys::sync::Mutex;
use crate::sys::wait::Until;

#[test]
fn a_worker_leaves_while_the_manager_finds_no_room() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        assert!(threads.worker_comes(1));
        let worker = {
            let threads = threads.clone();
            thread::spawn(move || threads.leaves(Kind::Worker))
        };
        let has_room = threads.worker_comes(1);
        let told = worker.join().unwrap();
        assert!(has_room != told, "has room: {has_room}, was told: {told}");
        assert_eq!(threads.load().workers(), u64::from(has_room));
    });
}

/// spec: E5 (stops the threads): the manager and a rescuer end, and another thread waits for the end of both. The
/// writes of both threads between `leaves` and `gone` stand for the writes of their thread-local destructors.
#[test]
fn the_last_destructor_ends_the_wait() {
    check(3, || {
        let threads = Arc::new(ThreadsCell::new());
        let data = Arc::new([Data::new(0), Data::new(0)]);
        threads.other_comes();
        threads.rescuer_comes();
        let ends = |kind, at: usize| {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                assert!(!threads.leaves(kind));
                data[at].write(|value| *value += 1);
                threads.gone();
            })
        };
        let both = [ends(Kind::Rescuer, 0), ends(Kind::Manager, 1)];
        assert_eq!(threads.wait(Until::FOREVER), 0);
        data.iter().for_each(|data| assert_eq!(data.read(|value| *value), 1));
        both.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The manager makes a worker and then ends. Between these two steps, there is no moment at which all threads count as
/// gone.
#[test]
fn a_manager_that_ends_leaves_a_worker() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let data = Arc::new(Data::new(0));
        threads.other_comes();
        let manager = {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                assert!(threads.worker_comes(1));
                assert!(!threads.leaves(Kind::Manager));
                threads.gone();
                data.write(|value| *value += 1);
                assert!(!threads.leaves(Kind::Worker));
                threads.gone();
            })
        };
        assert_eq!(threads.wait(Until::FOREVER), 0);
        assert_eq!(data.read(|value| *value), 1);
        manager.join().unwrap();
    });
}

/// Answers a request to give way. `idle` is the number of idle workers of the pool that answers. Returns whether one of
/// these workers leaves.
fn answer(threads: &ThreadsCell, idle: &Mutex<usize>) -> bool {
    threads.rested(|| {
        let mut idle = idle.lock();
        let leaves = *idle > 0 && threads.give_way(true);
        *idle -= usize::from(leaves);
        leaves
    })
}

/// spec: E2.5 (work waits, never for ever)
#[test]
fn an_idle_worker_is_found_or_leaves_by_itself() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let idle = Arc::new(Mutex::new(0));
        let worker = {
            let (threads, idle) = (threads.clone(), idle.clone());
            thread::spawn(move || {
                *idle.lock() = 1;
                answer(&threads, &idle);
            })
        };
        threads.ask(|| std::mem::take(&mut *idle.lock()) > 0);
        worker.join().unwrap();
        assert_eq!(*idle.lock(), 0, "the worker stays, though its thread is needed");
    });
}

/// spec: E2.5 (work waits, never for ever): an idle worker leaves, and at that moment the manager asks a worker to give
/// way for another pool. The second request stays open.
#[test]
fn the_answer_to_a_request_does_not_end_a_later_request() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let idle = Arc::new(Mutex::new(1));
        threads.ask(|| false);
        let worker = {
            let (threads, idle) = (threads.clone(), idle.clone());
            thread::spawn(move || answer(&threads, &idle))
        };
        let asks_again = *idle.lock() == 0;
        if asks_again {
            threads.ask(|| false);
        }
        assert!(worker.join().unwrap());
        assert_eq!(threads.is_asked(), asks_again);
    });
}

/// spec: E2.5: two idle workers answer one request to give way, and exactly one of them leaves.
#[test]
fn one_of_two_idle_workers_leaves() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let idle = Arc::new(Mutex::new(2));
        threads.ask(|| false);
        let other = {
            let (threads, idle) = (threads.clone(), idle.clone());
            thread::spawn(move || answer(&threads, &idle))
        };
        let leaves = answer(&threads, &idle);
        assert!(other.join().unwrap() != leaves, "one of the two leaves");
        assert_eq!((*idle.lock(), threads.is_asked()), (1, false));
    });
}

/// spec: E2.5 (a busy worker gives way between items)
#[test]
fn one_of_two_busy_workers_gives_way() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        threads.ask(|| false);
        threads.hurry();
        let other = {
            let threads = threads.clone();
            thread::spawn(move || threads.give_way(false))
        };
        let gives_way = threads.give_way(true);
        assert!(other.join().unwrap() != gives_way, "one of the two gives way");
        assert!(!threads.is_asked());
    });
}
