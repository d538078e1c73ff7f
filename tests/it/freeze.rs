//! Freezing an executor: until it thaws, freezable queues start no items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{Executor, QueueError, WaitError, Work, WorkQueue, WorkQueueBuilder};

use crate::support::{
    Crowd, Door, builder, bump, cpus, eventually, no_thread_of, on_each_executor, one_cpu, stress, time_limit,
};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 4] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];

/// Runs an item of another queue in each pool of the executor's CPUs, and in the pools of unbound queues. These items
/// run after all items that are already on the pools' worklists.
fn others_run(executor: &Executor) {
    let per_cpu = WorkQueue::per_cpu("other").build_on(executor).unwrap();
    let unbound = WorkQueue::unbound("other").build_on(executor).unwrap();
    for cpu in executor.cpus().iter() {
        per_cpu.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
        unbound.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    }
}

/// spec: F7.1 (freezable queues start nothing new; thaw restores order)
#[test]
fn a_frozen_queue_starts_nothing_until_it_thaws() {
    on_each_executor(|executor| {
        for kind in KINDS {
            let queue = kind("q").freezable(true).build_on(executor).unwrap();
            let runs = Arc::new(AtomicUsize::new(0));
            let item = || {
                let runs = Arc::clone(&runs);
                move || bump(&runs)
            };
            queue.spawn(item()).unwrap().join().unwrap();
            eventually("the item has given its slot up", || queue.is_empty());
            executor.freeze_begin();
            let handles: Vec<_> = (0..10).map(|_| queue.spawn(item()).unwrap()).collect();
            let work = Work::new(item());
            assert!(queue.enqueue(&work).unwrap() && !queue.enqueue(&work).unwrap());
            assert_eq!(queue.flush_timeout(Duration::from_millis(5)), Err(WaitError::TimedOut));
            assert_eq!((runs.load(Ordering::SeqCst), queue.len()), (1, 11));
            executor.thaw();
            queue.flush().unwrap();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
            assert_eq!(runs.load(Ordering::SeqCst), 12);
        }
    });
}

/// spec: F7.1: if two threads freeze the executor at the same time, no item starts after either of the calls. There are
/// so many queues that the second call begins while the first is still at it.
#[test]
fn each_of_two_threads_that_freeze_finds_all_queues_frozen() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queues: Vec<_> =
        (0..500).map(|_| WorkQueue::unbound("q").freezable(true).build_on(&executor).unwrap()).collect();
    let last = queues.last().unwrap();
    for _ in 0..stress(10) {
        // A limiter that is made later is frozen from the beginning.
        for queue in &queues {
            for cpu in executor.cpus().iter() {
                queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
            }
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    executor.freeze_begin();
                    let item = last.spawn(|| ()).unwrap();
                    assert!(item.join_timeout(Duration::from_millis(5)).is_err(), "an item began");
                });
            }
        });
        executor.thaw();
    }
}

/// spec: F7.1: active items run to their end, and `freeze_busy` reports them.
#[test]
fn active_items_finish_while_their_queue_freezes() {
    let _limit = time_limit();
    let executor = cpus(2);
    assert!(!executor.freeze_busy());
    let queue = WorkQueue::unbound("q").freezable(true).build_on(&executor).unwrap();
    let other = WorkQueue::unbound("other").build_on(&executor).unwrap();
    let (door, long) = (Door::default(), Door::default());
    let (wait, wait_long) = (door.clone(), long.clone());
    let active = queue.spawn(move || wait.wait()).unwrap();
    let not_freezable = other.spawn(move || wait_long.wait()).unwrap();
    executor.freeze_begin();
    assert!(executor.freeze_busy());
    door.open();
    active.join().unwrap();
    eventually("nothing is active", || !executor.freeze_busy());
    assert_eq!(other.spawn(|| 3).unwrap().join().unwrap(), 3, "only freezable queues are frozen");
    long.open();
    not_freezable.join().unwrap();
    executor.thaw();
}

/// spec: F7.2 (thaw restores order): an ordered queue keeps its order, even for items that are queued while it thaws.
#[test]
fn a_thaw_keeps_the_order() {
    let _limit = time_limit();
    for _ in 0..stress(20) {
        let executor = cpus(2);
        let queue = WorkQueue::ordered("q").freezable(true).build_on(&executor).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let spawn = |n: usize| {
            let order = Arc::clone(&order);
            drop(queue.spawn(move || order.lock().unwrap().push(n)).unwrap());
        };
        executor.freeze_begin();
        (0..20).for_each(spawn);
        std::thread::scope(|scope| {
            scope.spawn(|| executor.thaw());
            (20..40).for_each(spawn);
        });
        queue.flush().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }
}

/// spec: F7.2 (thaw restores limits), F8: a limit that is set on a frozen queue applies from the thaw on, and starts no
/// item before the thaw.
#[test]
fn a_limit_that_is_set_while_frozen_applies_from_the_thaw_on() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::unbound("q").max_active(5).freezable(true).build_on(&executor).unwrap();
    executor.freeze_begin();
    let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
    let handles: Vec<_> = (0..6)
        .map(|_| {
            let (crowd, door) = (Arc::clone(&crowd), door.clone());
            let item = move || {
                crowd.enter();
                door.wait();
                crowd.leave();
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    queue.set_max_active(2).unwrap();
    assert_eq!(queue.max_active(), Some(2));
    others_run(&executor);
    assert_eq!(crowd.peak(), 0);
    executor.thaw();
    eventually("two run", || crowd.inside() == 2);
    door.open();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(crowd.peak(), 2);
}

/// spec: F7.3: an executor may be frozen or thawed twice in a row, with and without queues.
#[test]
fn freezing_and_thawing_twice_is_the_same_as_once() {
    let _limit = time_limit();
    let executor = one_cpu();
    executor.thaw();
    let queue = WorkQueue::builder("q").freezable(true).build_on(&executor).unwrap();
    executor.freeze_begin();
    executor.clone().freeze_begin();
    let handle = queue.spawn(|| ()).unwrap();
    executor.thaw();
    handle.join().unwrap();
    executor.thaw();
    queue.spawn(|| ()).unwrap().join().unwrap();
}

/// spec: F7.1: queues and shards that are made while the executor is frozen are frozen, too.
#[test]
fn queues_and_shards_made_while_frozen_are_frozen() {
    let _limit = time_limit();
    let (builder, _) = builder("l3:1 core:8 pu:1");
    let executor = builder.random_placement(5).build().unwrap();
    let before = WorkQueue::per_cpu("before").freezable(true).build_on(&executor).unwrap();
    executor.freeze_begin();
    let later = WorkQueue::ordered("later").freezable(true).build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    for n in 0..40 {
        let runs = Arc::clone(&runs);
        drop([&before, &later][n % 2].spawn(move || bump(&runs)).unwrap());
    }
    others_run(&executor);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    executor.thaw();
    before.flush().unwrap();
    later.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 40);
}

/// spec: F7.3 (cancelled and disabled items): a pending item may be cancelled or disabled while its queue is frozen.
/// Workers pass over its place.
#[test]
fn pending_items_may_be_cancelled_while_frozen() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").freezable(true).build_on(&executor).unwrap();
    executor.freeze_begin();
    let never = queue.spawn(|| unreachable!("the item was cancelled")).unwrap();
    let work = Work::new(|| unreachable!("the item is disabled"));
    assert!(queue.enqueue(&work).unwrap());
    let handle = queue.spawn(|| 7).unwrap();
    assert!(never.cancel() && work.disable());
    executor.thaw();
    assert_eq!(handle.join().unwrap(), 7);
    work.enable().unwrap();
}

/// spec: F7.3 (pending, disabled and delayed items), F3, W5, F6: while the queue is frozen, a timer that fires queues
/// its item, a flush waits, and a cancel returns at once. After the thaw, the items run in the order in which they were
/// queued.
#[test]
fn pending_disabled_and_delayed_items_stay_so_while_frozen() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").freezable(true).build_on(&executor).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let item = |name: &'static str| {
        let order = Arc::clone(&order);
        Work::new(move || order.lock().unwrap().push(name))
    };
    let [pending, disabled, delayed, moved, cancelled] =
        ["pending", "disabled", "delayed", "moved", "cancelled"].map(item);
    executor.freeze_begin();
    for work in [&disabled, &pending, &moved, &cancelled] {
        assert_eq!(queue.enqueue(work), Ok(true));
    }
    assert_eq!(queue.item(&delayed).after(Duration::from_millis(1)).enqueue(), Ok(true));
    eventually("the timer has fired", || queue.len() == 5);

    assert!(disabled.disable(), "the item was pending");
    assert_eq!(queue.enqueue(&disabled), Err(QueueError::Disabled));
    assert_eq!(
        queue.item(&moved).after(Duration::from_millis(1)).reschedule(),
        Ok(true),
        "the item comes last now"
    );
    assert_eq!(cancelled.cancel_and_wait(), Ok(true), "no item runs, so the call does not wait");
    assert_eq!(pending.flush_timeout(Duration::from_millis(5)), Err(WaitError::TimedOut));
    assert_eq!(queue.flush_timeout(Duration::from_millis(5)), Err(WaitError::TimedOut));
    assert!(order.lock().unwrap().is_empty() && !executor.freeze_busy());
    // A cancelled item keeps its place in the queue, so its place still counts.
    eventually("the other timer has fired, too", || queue.len() == 6);

    executor.thaw();
    moved.flush().unwrap();
    assert_eq!(*order.lock().unwrap(), ["pending", "delayed", "moved"]);
    assert_eq!((disabled.enable(), queue.enqueue(&disabled)), (Ok(true), Ok(true)));
    queue.flush().unwrap();
    assert_eq!(order.lock().unwrap().last(), Some(&"disabled"));
}

/// spec: F7.3, E5.4 (dropping loses no accepted work): a frozen queue without handles still thaws when its executor
/// thaws. It also thaws when the executor's last handle is dropped.
#[test]
fn items_of_a_frozen_queue_run_after_every_handle_is_gone() {
    let _limit = time_limit();
    for kind in KINDS {
        let (builder, prefix) = builder("l3:2 core:2 pu:1");
        let executor = builder.build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        for drop_executor in [false, true] {
            let queue = kind("q").freezable(true).build_on(&executor).unwrap();
            executor.freeze_begin();
            for _ in 0..10 {
                let runs = Arc::clone(&runs);
                drop(queue.spawn(move || bump(&runs)).unwrap());
            }
            drop(queue);
            if !drop_executor {
                executor.thaw();
                eventually("all ran", || runs.load(Ordering::SeqCst) == 10);
            }
        }
        drop(executor);
        eventually("all ran", || runs.load(Ordering::SeqCst) == 20);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: F7.3: several threads queue while queues come and go, and limits change.
#[test]
fn freezing_under_load_loses_nothing() {
    let _limit = time_limit();
    let executor: Executor = cpus(4);
    let (runs, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let issuers: Vec<_> = (0..3)
        .map(|issuer| {
            let (executor, runs, accepted) = (executor.clone(), Arc::clone(&runs), Arc::clone(&accepted));
            std::thread::spawn(move || {
                for round in 0..stress(60) {
                    let queue = KINDS[(issuer + round) % 4]("q").freezable(true).build_on(&executor).unwrap();
                    for _ in 0..10 {
                        let runs = Arc::clone(&runs);
                        drop(queue.spawn(move || bump(&runs)).unwrap());
                        bump(&accepted);
                    }
                    let _refused_by_ordered_queues = queue.set_max_active(1 + round % 3);
                }
            })
        })
        .collect();
    while !issuers.iter().all(|issuer| issuer.is_finished()) {
        executor.freeze_begin();
        eventually("nothing is active", || !executor.freeze_busy());
        let before = runs.load(Ordering::SeqCst);
        assert!(!executor.freeze_busy(), "no item has begun since");
        assert_eq!(runs.load(Ordering::SeqCst), before);
        executor.thaw();
    }
    issuers.into_iter().for_each(|issuer| issuer.join().unwrap());
    eventually("all ran", || runs.load(Ordering::SeqCst) == accepted.load(Ordering::SeqCst));
}
