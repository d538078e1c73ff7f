//! The end of queues and executors: the threads end, and accepted items run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cmwq::{Executor, Work, WorkQueue, WorkQueueBuilder, blocking};

use crate::support::{Door, SOON, builder, eventually, no_thread_of, threads_of, time_limit, unseen};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 4] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];

fn executor() -> (Executor, String) {
    let (builder, prefix) = builder("l3:2 core:2 pu:1");
    (builder.random_placement(11).build().unwrap(), prefix)
}

/// spec: E1, E5.4 (dropping the last handle never blocks): after the last handle is dropped, all threads end, including
/// the manager.
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

/// spec: E5.4 (dropping the last handle of an executor or a queue loses no accepted work), W2.3 (dropped while pending
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
                assert!(queue.enqueue(&Work::new(item)).unwrap());
            }
        }
        drop((queue, executor));
        assert_eq!(runs.load(Ordering::SeqCst), 0, "the drop did not wait for the items");
        door.open();
        eventually("all ran", || runs.load(Ordering::SeqCst) == 100);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5, W9.4 (an item may drop its own last handle)
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
            // The item queues this second item to its own queue. Then it drops the last handle of the queue.
            drop(queue.spawn(move || done.send(()).unwrap()).unwrap());
            drop(queue);
        };
        drop(queue.spawn(item).unwrap());
        hand_over.send((executor, queue)).unwrap();
        is_done.recv_timeout(SOON).unwrap();
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5, W9.4: the last handle of a queue may be captured by its own reusable item, or be the result of its own
/// item.
#[test]
fn the_last_handle_of_a_queue_may_live_inside_its_item() {
    let _limit = time_limit();
    for kind in KINDS {
        let (executor, prefix) = executor();
        let queue = kind("q").build_on(&executor).unwrap();
        let captured = queue.clone();
        assert!(queue.enqueue(&Work::new(move || assert_eq!(captured.name(), "q"))).unwrap());
        let returned = queue.clone();
        drop(queue.spawn(move || returned).unwrap());
        drop((queue, executor));
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E5.4: the last handles may be dropped while items arrive, run and end.
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

/// spec: E5 (drops unfinished items), A3: a shutdown gives up two sibling pools, one after the other. The first pool,
/// which was given up, takes no surplus items of the second one.
#[test]
fn a_pool_that_is_given_up_takes_no_work_of_siblings() {
    /// The drop of this value lets the item that holds its pod block, and waits until the item has blocked.
    struct Halfway(Door, Arc<AtomicBool>);
    impl Drop for Halfway {
        fn drop(&mut self) {
            self.0.open();
            eventually("the item blocks", || self.1.load(Ordering::SeqCst));
        }
    }
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:2 core:1 pu:1");
    let executor = unseen(builder).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (halfway, blocks, end) = (Door::default(), Arc::new(AtomicBool::new(false)), Door::default());
    let (began, begun) = mpsc::channel();
    let (its_halfway, its_end, is_inside, begins) =
        (halfway.clone(), end.clone(), Arc::clone(&blocks), began.clone());
    // The pool of CPU 0 is made first, so the shutdown gives it up first.
    let here = queue
        .item(move || {
            begins.send(()).unwrap();
            its_halfway.wait_unguarded();
            blocking(|| {
                is_inside.store(true, Ordering::SeqCst);
                its_end.wait_unguarded();
            });
        })
        .on_cpu(0)
        .spawn();
    begun.recv_timeout(SOON).unwrap();
    let (its_end, its_queue) = (end.clone(), queue.clone());
    let there = queue
        .item(move || {
            let left_over = its_queue.spawn(|| ()).unwrap();
            began.send(()).unwrap();
            its_end.wait_unguarded();
            left_over
        })
        .on_cpu(1)
        .spawn();
    begun.recv_timeout(SOON).unwrap();
    let halfway = Halfway(halfway, blocks);
    let dropped = queue.item(move || drop(halfway)).on_cpu(0).spawn().unwrap();
    let report = executor.shutdown(Duration::from_millis(20)).unwrap();
    assert_eq!((report.queues[0].dropped, report.queues[0].running), (2, 2), "{report}");
    assert!(dropped.join().is_err());
    end.open();
    here.unwrap().join().unwrap();
    assert!(there.unwrap().join().unwrap().join().is_err());
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: E3 (unbound pools are dropped with their last user), A3: this also holds for pools that have taken items from
/// each other.
#[test]
fn pools_that_share_work_end_with_their_last_user() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:4 core:1 pu:1");
    let executor = builder.build().unwrap();
    for _ in 0..3 {
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let item = |_| {
            let inside = Arc::clone(&inside);
            move || {
                inside.fetch_add(1, Ordering::SeqCst);
                eventually("each pod runs an item", || inside.load(Ordering::SeqCst) == 4);
            }
        };
        // The last handle of the queue is dropped while workers are being woken.
        drop(queue.items((0..4).map(item)).spawn().unwrap());
        drop(queue);
        eventually("the pools are gone", || executor.dump().pools.is_empty());
        eventually("their workers are gone", || threads_of(&prefix).len() == 1);
        assert_eq!(inside.load(Ordering::SeqCst), 4);
    }
}
