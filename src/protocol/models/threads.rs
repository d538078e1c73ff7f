//! Models of [`ThreadsCell`](crate::protocol::threads::ThreadsCell): a worker that leaves against a manager that finds no
//! room, and the wait for the end.
//!
//! A manager that found no room is told, or finds some when it asks again. Who waits until all threads have left, of
//! whatever kind, is woken and sees what they did.
//!
//! Red under: `full-in-two-steps`, `last-thread-wakes-nobody`, `thread-leaves-without-release`,
//! `threads-wait-without-acquire`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check, check_all};
use crate::protocol::threads::ThreadsCell;
use crate::sys::wait::Until;

#[test]
fn a_worker_leaves_while_the_manager_finds_no_room() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        assert!(threads.worker_comes(1));
        let worker = {
            let threads = threads.clone();
            thread::spawn(move || threads.worker_left())
        };
        let has_room = threads.worker_comes(1);
        let told = worker.join().unwrap();
        assert!(has_room != told, "room: {has_room}, told of some: {told}");
        assert_eq!(threads.load().workers(), u64::from(has_room));
    });
}

/// The manager and a rescuer end, while somebody waits for that.
#[test]
fn the_last_thread_ends_the_wait() {
    check(3, || {
        let threads = Arc::new(ThreadsCell::new());
        let data = Arc::new([Data::new(0), Data::new(0)]);
        threads.manager_comes();
        threads.rescuer_comes();
        let rescuer = {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                data[0].write(|value| *value += 1);
                threads.rescuer_left();
            })
        };
        let manager = {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                data[1].write(|value| *value += 1);
                threads.manager_left();
            })
        };
        assert_eq!(threads.wait(Until::FOREVER), 0);
        data.iter().for_each(|data| assert_eq!(data.read(|value| *value), 1));
        rescuer.join().unwrap();
        manager.join().unwrap();
    });
}

/// The manager makes a cleaner before it ends: a thread that waits for all of them sees what the cleaner did.
#[test]
fn a_manager_that_ends_leaves_a_cleaner() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let data = Arc::new(Data::new(0));
        threads.manager_comes();
        let manager = {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                threads.cleaner_comes();
                threads.manager_left();
                data.write(|value| *value += 1);
                threads.cleaner_left();
            })
        };
        assert_eq!(threads.wait(Until::FOREVER), 0);
        assert_eq!(data.read(|value| *value), 1);
        manager.join().unwrap();
    });
}

/// The manager makes a worker before it ends: nobody finds all gone in between.
#[test]
fn a_manager_that_ends_leaves_a_worker() {
    check_all(|| {
        let threads = Arc::new(ThreadsCell::new());
        let data = Arc::new(Data::new(0));
        threads.manager_comes();
        let manager = {
            let (threads, data) = (threads.clone(), data.clone());
            thread::spawn(move || {
                assert!(threads.worker_comes(1));
                threads.manager_left();
                data.write(|value| *value += 1);
                assert!(!threads.worker_left());
            })
        };
        assert_eq!(threads.wait(Until::FOREVER), 0);
        assert_eq!(data.read(|value| *value), 1);
        manager.join().unwrap();
    });
}
