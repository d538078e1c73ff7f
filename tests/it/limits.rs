//! Changes of `max_active` at run time, and the functions that tell about the length of a queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cmwq::kernel;
use cmwq::{Executor, JoinHandle, QueueError, SetMaxActiveError, WorkQueue, WorkQueueBuilder};
use fastrand::Rng;

use crate::support::{
    Crowd, Door, builder, bump, cpus, eventually, on_each_executor, one_cpu, one_cpu_unseen, stress,
    time_limit,
};

/// Queues items that wait at a door. The crowd counts each item while it waits.
fn wait_inside(queue: &WorkQueue, crowd: &Arc<Crowd>, door: &Door, items: usize) -> Vec<JoinHandle<()>> {
    let item = || {
        let (crowd, door) = (Arc::clone(crowd), door.clone());
        move || {
            crowd.enter();
            door.wait();
            crowd.leave();
        }
    };
    (0..items).map(|_| queue.spawn(item()).unwrap()).collect()
}

fn join_all(handles: Vec<JoinHandle<()>>) {
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// spec: F8.1 (raising starts waiting items): when the limit rises, as many items start at once as there are new slots.
#[test]
fn raising_the_limit_starts_waiting_items() {
    let _limit = time_limit();
    let executor = one_cpu();
    let builders = [
        WorkQueue::builder("q").max_active(1),
        WorkQueue::per_cpu("q").max_active(1),
        WorkQueue::unbound("q").max_active(1),
        WorkQueue::unbound("q").max_active_total(1),
    ];
    for builder in builders {
        let queue = builder.build_on(&executor).unwrap();
        let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
        let handles = wait_inside(&queue, &crowd, &door, 5);
        eventually("the first one runs", || crowd.inside() == 1);
        queue.set_max_active(4).unwrap();
        eventually("three more run", || crowd.inside() == 4);
        assert_eq!((queue.max_active(), crowd.peak()), (Some(4), 4));
        let error = queue.set_max_active(0).unwrap_err();
        assert!(matches!(error, SetMaxActiveError::MaxActive { value: 0, .. }), "{error}");
        assert!(error.to_string().starts_with("max_active is 0; it must be 1 to "), "{error}");
        assert_eq!(queue.max_active(), Some(4));
        queue.set_max_active(256).unwrap();
        eventually("the last one runs", || crowd.inside() == 5);
        door.open();
        join_all(handles);
    }
}

/// spec: F8.1 (raising starts waiting items): the items start in the order in which they were queued.
#[test]
fn raising_the_limit_keeps_the_order() {
    let _limit = time_limit();
    // One worker runs at a time, so that the items start in the order of the worklist.
    let queue = WorkQueue::per_cpu("q").max_active(1).build_on(&one_cpu_unseen()).unwrap();
    let (door, order) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
    let wait = door.clone();
    let first = queue.spawn(move || wait.wait_unguarded()).unwrap();
    let spawn = |n: usize| {
        let order = Arc::clone(&order);
        queue.spawn(move || order.lock().unwrap().push(n)).unwrap()
    };
    let mut handles: Vec<_> = (0..10).map(spawn).collect();
    queue.set_max_active(5).unwrap();
    handles.extend((10..20).map(spawn));
    queue.set_max_active(100).unwrap();
    handles.extend((20..30).map(spawn));
    door.open();
    first.join().unwrap();
    join_all(handles);
    assert_eq!(*order.lock().unwrap(), (0..30).collect::<Vec<_>>());
}

/// spec: F8.2 (lowering lets running ones finish): no item starts until fewer items are active than the new limit.
#[test]
fn lowering_the_limit_lets_running_items_finish() {
    let _limit = time_limit();
    let queue = WorkQueue::unbound("q").max_active(3).build_on(&one_cpu()).unwrap();
    let (before, after) = (Arc::new(Crowd::default()), Arc::new(Crowd::default()));
    let (first, second) = (Door::default(), Door::default());
    let mut handles = wait_inside(&queue, &before, &first, 3);
    eventually("three run", || before.inside() == 3);
    queue.set_max_active(1).unwrap();
    handles.extend(wait_inside(&queue, &after, &second, 4));
    assert_eq!(before.inside(), 3, "the running items go on");
    first.open();
    eventually("one of the waiting ones runs", || after.inside() == 1);
    second.open();
    join_all(handles);
    assert_eq!(after.peak(), 1);
}

/// spec: F8.5 (the refusals): an ordered queue refuses every limit, and other queues refuse an invalid one. A refusal
/// changes nothing.
#[test]
fn a_limit_that_has_no_meaning_is_refused() {
    let executor = one_cpu();
    let ordered = WorkQueue::ordered("o").build_on(&executor).unwrap();
    let bh = kernel::bh("bh").build_on(&executor).unwrap();
    assert_eq!(bh.set_max_active(1), Err(SetMaxActiveError::Bh));
    for items in [0, 1, 2] {
        assert_eq!(ordered.set_max_active(items), Err(SetMaxActiveError::Ordered));
    }
    assert_eq!(ordered.max_active(), Some(1));
    let queue = WorkQueue::builder("q").max_active(7).build_on(&executor).unwrap();
    let error = queue.set_max_active(513).unwrap_err();
    assert_eq!(error, SetMaxActiveError::MaxActive { value: 513, limit: 512 });
    assert_eq!(queue.max_active(), Some(7));
    queue.set_max_active(512).unwrap();
    let plain = WorkQueue::unbound("u").max_active_total(600).build_on(&executor).unwrap();
    let error = plain.set_max_active(2001).unwrap_err();
    assert_eq!(error, SetMaxActiveError::MaxActive { value: 2001, limit: 2000 });
}

/// spec: Q3.1: a plain unbound queue may have more active items than other kinds of queues.
#[test]
fn a_plain_unbound_queue_may_have_many_active_items() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.max_threads(700).stack_size(128 << 10).build().unwrap();
    let queue = WorkQueue::unbound("q").max_active(600).build_on(&executor).unwrap();
    let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
    let handles = wait_inside(&queue, &crowd, &door, 610);
    // The pool makes its workers one after the other, which takes a while on a busy machine.
    for items in 1..=600 {
        eventually(format!("{items} items are active"), || crowd.inside() >= items);
    }
    assert_eq!((queue.running(), queue.waiting()), (600, 10));
    door.open();
    join_all(handles);
    assert_eq!(crowd.peak(), 600);
}

/// spec: F8.4 (per CPU): shards of the queue that are made after the change have the new limit.
#[test]
fn shards_that_are_made_later_have_the_new_limit() {
    let _limit = time_limit();
    let (builder, _) = builder("l3:1 core:8 pu:1");
    let executor = builder.random_placement(3).build().unwrap();
    let queue = WorkQueue::unbound("q").max_active(100).build_on(&executor).unwrap();
    queue.set_max_active(1).unwrap();
    let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
    let handles = wait_inside(&queue, &crowd, &door, 64);
    eventually("one item per CPU runs", || crowd.inside() == 8);
    door.open();
    join_all(handles);
    assert_eq!(crowd.peak(), 8);
}

/// spec: F8.4, Q3: the limit changes again and again under load. After it was lowered, no item begins that would exceed
/// it. No item is lost.
#[test]
fn limits_hold_while_they_change_under_load() {
    let _limit = time_limit();
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").max_active_total(4).build_on(executor).unwrap();
        let (crowd, over, runs) = (Arc::new(Crowd::default()), Arc::new(AtomicBool::new(false)), counter());
        let issuers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, crowd, runs) = (queue.clone(), Arc::clone(&crowd), Arc::clone(&runs));
                std::thread::spawn(move || {
                    for _ in 0..stress(100) {
                        let (crowd, runs) = (Arc::clone(&crowd), Arc::clone(&runs));
                        let item = move || {
                            crowd.enter();
                            cmwq::blocking::thread::sleep(Duration::from_micros(20));
                            crowd.leave();
                            bump(&runs);
                        };
                        drop(queue.spawn(item).unwrap());
                    }
                })
            })
            .collect();
        let setter = {
            let (queue, over) = (queue.clone(), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut random = Rng::with_seed(5);
                while !over.load(Ordering::Relaxed) {
                    queue.set_max_active(1 + random.usize(..8)).unwrap();
                }
            })
        };
        issuers.into_iter().for_each(|issuer| issuer.join().unwrap());
        over.store(true, Ordering::Relaxed);
        setter.join().unwrap();
        queue.set_max_active(1).unwrap();
        queue.flush().unwrap();
        assert!(crowd.peak() <= 8, "{} items at once", crowd.peak());
        assert_eq!(runs.load(Ordering::SeqCst), 3 * stress(100));
        eventually("the last one has given its slot up", || queue.is_empty());
    });
}

fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}

/// spec: F8, F5: the queue checks whether an item holds the only slot when the item waits, and not when it begins.
#[test]
fn an_item_may_join_another_one_once_the_limit_was_raised() {
    let _limit = time_limit();
    let queue = WorkQueue::unbound("q").max_active_total(1).build_on(&one_cpu()).unwrap();
    let (raised, is_raised) = mpsc::channel::<()>();
    let again = queue.clone();
    let outer = queue.spawn(move || {
        let inner = again.spawn(|| 7).unwrap();
        cmwq::blocking(|| is_raised.recv()).unwrap();
        inner.join()
    });
    queue.set_max_active(2).unwrap();
    raised.send(()).unwrap();
    assert_eq!(outer.unwrap().join().unwrap().unwrap(), 7);
}

/// spec: F0.1 (len): `len` counts items that wait or run. It also counts a cancelled item until a worker reaches the
/// item's place.
#[test]
fn the_length_counts_waiting_and_running_items() {
    let _limit = time_limit();
    let executor = cpus(2);
    let two = |builder: WorkQueueBuilder| builder.max_active_total(2);
    for builder in [two(WorkQueue::builder("q")), WorkQueue::ordered("q"), two(WorkQueue::unbound("q"))] {
        let queue = builder.build_on(&executor).unwrap();
        assert!(queue.is_empty());
        let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
        let handles = wait_inside(&queue, &crowd, &door, 5);
        assert_eq!(queue.len(), 5);
        eventually("the first one runs", || crowd.inside() > 0);
        let last = queue.spawn(|| ()).unwrap();
        assert!(last.cancel(), "the item waits for a slot");
        assert_eq!(queue.len(), 6);
        door.open();
        join_all(handles);
        queue.flush().unwrap();
        eventually("the last one has given its slot up", || queue.is_empty());
    }
}

/// spec: F0.2 (is_congested): `is_congested` says whether items wait for a slot in the shard of the given CPU.
#[test]
fn a_queue_is_congested_where_its_limit_is_reached() {
    let _limit = time_limit();
    let executor = one_cpu();
    let two = cpus(2);
    let congested = |queue: &WorkQueue, cpu| queue.is_congested(cpu).unwrap();
    let queue = WorkQueue::unbound("q").max_active(2).build_on(&executor).unwrap();
    let (crowd, door) = (Arc::new(Crowd::default()), Door::default());
    let mut handles = wait_inside(&queue, &crowd, &door, 2);
    assert!(!congested(&queue, 0), "two items are active and none waits");
    handles.extend(wait_inside(&queue, &crowd, &door, 1));
    assert!(congested(&queue, 0));
    assert_eq!(queue.is_congested(1), Err(QueueError::UnknownCpu { cpu: 1 }));

    let whole = WorkQueue::ordered("whole").build_on(&two).unwrap();
    handles.extend(wait_inside(&whole, &crowd, &door, 2));
    assert!(congested(&whole, 0) && congested(&whole, 1), "the limit is shared by all CPUs");
    door.open();
    join_all(handles);
    queue.flush().unwrap();
    assert!(!congested(&queue, 0));
}

/// spec: F0.1: reading the length creates no shard and no pool.
#[test]
fn looking_at_an_unused_queue_makes_nothing() {
    let executor: Executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    assert!(queue.is_empty() && !queue.is_congested(1).unwrap());
    assert!(executor.dump().pools.is_empty());
}
