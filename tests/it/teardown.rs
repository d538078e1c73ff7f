//! The end of queues and executors: threads go, accepted work does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use cmwq::{Executor, Work, WorkQueue, WorkQueueBuilder};

use crate::support::{Door, SOON, builder, eventually, no_thread_of, time_limit};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 4] =
    [WorkQueue::new, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];

fn executor() -> (Executor, String) {
    let (builder, prefix) = builder("l3:2 core:2 pu:1");
    (builder.random_placement(11).build().unwrap(), prefix)
}

/// spec: E1, E5 (dropping the last handle never blocks): every thread ends, the manager too.
#[test]
fn dropping_the_last_handle_ends_all_threads() {
    let _limit = time_limit();
    let (executor, prefix) = executor();
    for kind in KINDS {
        let queue = kind("q").build_on(&executor).unwrap();
        (0..8).for_each(|_| queue.spawn(|| ()).unwrap().join().unwrap());
    }
    assert!(!no_thread_of(&prefix));
    drop(executor);
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: E5 (dropping the last handle of an executor or a queue loses no accepted work), W2 (dropped while pending
/// still runs)
#[test]
fn work_that_was_accepted_runs_after_every_handle_is_gone() {
    let _limit = time_limit();
    for kind in KINDS {
        let (executor, prefix) = executor();
        let runs = Arc::new(AtomicUsize::new(0));
        let door = Door::default();
        let queue = kind("q").max_pending(1000).build_on(&executor).unwrap();
        for n in 0..100 {
            let (runs, door) = (Arc::clone(&runs), door.clone());
            let item = move || {
                door.wait();
                runs.fetch_add(1, Ordering::SeqCst);
            };
            if n % 2 == 0 {
                drop(queue.spawn(item).unwrap());
            } else {
                assert!(queue.queue(&Work::new(item)).unwrap());
            }
        }
        drop((queue, executor));
        assert_eq!(runs.load(Ordering::SeqCst), 0, "dropping did not wait");
        door.open();
        eventually("all ran", || runs.load(Ordering::SeqCst) == 100);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5, W9 (an item may drop its own last handle)
#[test]
fn an_item_may_drop_the_last_handles_of_everything() {
    let _limit = time_limit();
    for kind in KINDS {
        let (executor, prefix) = executor();
        let queue = kind("q").build_on(&executor).unwrap();
        let (hand_over, take) = mpsc::channel::<(Executor, WorkQueue)>();
        let (done, is_done) = mpsc::channel();
        let item = move || {
            let (executor, queue) = take.recv().unwrap();
            drop(executor);
            // Queued by an item of a queue whose last handle goes now.
            drop(queue.spawn(move || done.send(()).unwrap()).unwrap());
            drop(queue);
        };
        drop(queue.spawn(item).unwrap());
        hand_over.send((executor, queue)).unwrap();
        is_done.recv_timeout(SOON).unwrap();
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5, W9: the last handle of a queue lives in its own item, in a reusable one and in a result.
#[test]
fn the_last_handle_of_a_queue_may_live_inside_its_item() {
    let _limit = time_limit();
    for kind in KINDS {
        let (executor, prefix) = executor();
        let queue = kind("q").build_on(&executor).unwrap();
        let captured = queue.clone();
        assert!(queue.queue(&Work::new(move || assert_eq!(captured.name(), "q"))).unwrap());
        let returned = queue.clone();
        drop(queue.spawn(move || returned).unwrap());
        drop((queue, executor));
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5: handles are dropped while items come, run and end.
#[test]
fn queues_and_executors_may_end_at_any_moment() {
    let _limit = time_limit();
    let runs = Arc::new(AtomicUsize::new(0));
    let mut prefixes = Vec::new();
    let rounds = crate::support::stress(30);
    for round in 0..rounds {
        let (executor, prefix) = executor();
        let queue = KINDS[round % 4]("q").build_on(&executor).unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (queue, runs) = (queue.clone(), Arc::clone(&runs));
                std::thread::spawn(move || {
                    for _ in 0..10 {
                        let runs = Arc::clone(&runs);
                        drop(queue.spawn(move || crate::support::bump(&runs)).unwrap());
                    }
                })
            })
            .collect();
        drop((queue, executor));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        prefixes.push(prefix);
    }
    eventually("all ran", || runs.load(Ordering::SeqCst) == 30 * rounds);
    eventually("all threads ended", || prefixes.iter().all(|prefix| no_thread_of(prefix)));
}
