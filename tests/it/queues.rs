//! Queues: names, kinds, limits, order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cmwq::kernel::{ExecutorBuilderExt, WorkQueueBuilderExt};
use cmwq::{Executor, JoinError, QueueError, Work, WorkQueue, WorkQueueBuilder};

use crate::support::{
    Crowd, Door, builder, cpus, current_pool, eventually, on_each_executor, one_cpu, stress, time_limit,
};

fn assert_handle<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}

/// spec: Q6.1 (any length, shown whole; two queues may share a name)
#[test]
fn names_are_any_text_and_may_be_shared() {
    let executor = one_cpu();
    let long = "long ".repeat(10_000);
    for name in [long.as_str(), " ", "Größe/🦀:\n\0", "shared"] {
        let (one, two) = (WorkQueue::builder(name), WorkQueue::ordered(name.to_owned()));
        let (one, two) = (one.build_on(&executor).unwrap(), two.build_on(&executor).unwrap());
        assert_eq!((one.name(), two.name()), (name, name));
        one.spawn(|| ()).unwrap().join().unwrap();
        two.flush().unwrap();
    }
}

/// spec: Q1.2 (handles are cheap clones, Send + Sync)
#[test]
fn clones_are_the_same_queue() {
    assert_handle::<WorkQueue>();
    let executor = cpus(2);
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let clone = queue.clone();
    let door = Door::default();
    let (behind, begun) = (door.clone(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&begun);
    let held = queue.spawn(move || {
        flag.store(true, Ordering::SeqCst);
        behind.wait();
    });
    eventually("the item began", || begun.load(Ordering::SeqCst));
    drop(clone.spawn(|| ()).unwrap());
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full, "the handles share one bound");
    drop(queue);
    door.open();
    held.unwrap().join().unwrap();
    clone.flush().unwrap();
    clone.spawn(|| ()).unwrap().join().unwrap();
}

/// spec: Q1.1 (the kinds)
#[test]
fn each_kind_runs_in_the_pools_of_its_kind() {
    let executor = cpus(2);
    for (queue, target) in [
        (WorkQueue::builder("q"), Some(2)),
        (WorkQueue::per_cpu("q"), Some(1)),
        (WorkQueue::unbound("q"), None),
        (WorkQueue::ordered("q"), None),
    ] {
        let queue = queue.build_on(&executor).unwrap();
        let name = queue.spawn(current_pool).unwrap().join().unwrap();
        let pool = crate::support::pool(&executor, &name);
        assert_eq!(pool.target, target);
        assert_eq!(name.starts_with('u'), target != Some(1), "{name}");
        assert_eq!(pool.cpus.len(), if target == Some(1) { 1 } else { 2 });
    }
}

/// spec: Q2.1 (high_priority)
#[test]
fn high_priority_items_have_pools_of_their_own() {
    let executor = cpus(2);
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
        let queue = kind("q").high_priority(true).build_on(&executor).unwrap();
        let name = queue.spawn(current_pool).unwrap().join().unwrap();
        assert_eq!(crate::support::pool(&executor, &name).nice, -20);
    }
}

/// spec: Q2.1 (power_efficient: per-CPU unless the executor says power efficient, then unbound)
#[test]
fn power_efficient_queues_become_unbound_if_the_executor_says_so() {
    for efficient in [false, true] {
        let executor = builder("core:2 pu:1").0.power_efficient(efficient).build().unwrap();
        let queue = WorkQueue::per_cpu("q").power_efficient(true).build_on(&executor).unwrap();
        let pool = queue.spawn(current_pool).unwrap().join().unwrap();
        assert_eq!(pool.starts_with('u'), efficient, "{pool}");
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        assert!(!queue.spawn(current_pool).unwrap().join().unwrap().starts_with('u'));
    }
}

/// Fills the queue with waiting items. Returns the largest number of items that were active at once, and how many were
/// active in each pool.
fn peak_of(queue: &WorkQueue, items: usize, expected: usize) -> (usize, HashMap<String, usize>) {
    let (door, crowd) = (Door::default(), Arc::new(Crowd::default()));
    let inside = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let handles: Vec<_> = (0..items)
        .map(|_| {
            let (door, crowd, inside) = (door.clone(), Arc::clone(&crowd), Arc::clone(&inside));
            let item = move || {
                *inside.lock().unwrap().entry(current_pool()).or_default() += 1;
                // The item enters the crowd last, so it is already counted for its pool when the test sees it in the
                // crowd.
                crowd.enter();
                door.wait();
                crowd.leave();
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    eventually("the expected number of items begins", || crowd.inside() >= expected);
    let by_pool = inside.lock().unwrap().clone();
    door.open();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    (crowd.peak(), by_pool)
}

/// spec: Q3.2 (max_active, per CPU): blocked items count as active. The limit is reached, and never exceeded.
#[test]
fn max_active_limits_each_cpu() {
    let _limit = time_limit();
    let executor = cpus(4);
    for limit in [1, 3] {
        let queue = WorkQueue::per_cpu("q").max_active(limit).build_on(&executor).unwrap();
        let (peak, by_pool) = peak_of(&queue, 120, 4 * limit);
        assert_eq!(peak, 4 * limit);
        assert_eq!(by_pool.len(), 4);
        assert!(by_pool.values().all(|peak| *peak == limit), "{by_pool:?}");
    }
    // Unbound queues have this limit for each issuing CPU. All of their items are active in the one pool of the pod.
    for queue in [WorkQueue::unbound("q"), WorkQueue::builder("q")] {
        let queue = queue.max_active(2).build_on(&executor).unwrap();
        let (peak, by_pool) = peak_of(&queue, 120, 8);
        assert_eq!((peak, by_pool.len()), (8, 1));
    }
}

/// spec: Q3.3 (max_active_total limits the queue as a whole)
#[test]
fn max_active_total_limits_the_queue_as_a_whole() {
    let _limit = time_limit();
    let executor = builder("l3:2 core:2 pu:1").0.random_placement(2).build().unwrap();
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound] {
        for limit in [1, 3] {
            let queue = kind("q").max_active_total(limit).build_on(&executor).unwrap();
            let (peak, _) = peak_of(&queue, 60, limit);
            assert_eq!(peak, limit);
        }
    }
}

/// spec: Q3.1 (default 256 when 0 or unset)
#[test]
fn by_default_256_items_are_active() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.stack_size(64 * 1024).build().unwrap();
    for queue in [WorkQueue::per_cpu("q"), WorkQueue::unbound("q")] {
        let queue = queue.build_on(&executor).unwrap();
        assert_eq!(peak_of(&queue, 270, 256).0, 256);
    }
}

/// Builds a queue with one slot. An item holds this slot until the door opens.
fn held(builder: WorkQueueBuilder, executor: &Executor) -> (WorkQueue, Door) {
    let queue = builder.build_on(executor).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (wait, tell) = (door.clone(), begun.clone());
    drop(queue.spawn(move || {
        tell.open();
        wait.wait();
    }));
    begun.wait();
    (queue, door)
}

/// spec: Q3.4 (max_pending: Full with the closure back), W1.6 (a refusal hands the closure back), W9.1
#[test]
fn a_full_queue_hands_the_closure_back() {
    let _limit = time_limit();
    let executor = cpus(2);
    let (queue, door) = held(WorkQueue::ordered("q").max_pending(3), &executor);
    let handles: Vec<_> =
        (0..3).map(|n| queue.spawn(move || assert_ne!(n, 1, "on purpose")).unwrap()).collect();
    let text = "not copied".to_owned();
    let address = text.as_ptr() as usize;
    let refused = queue.spawn(move || text).unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    let text = (refused.into_closure())();
    assert_eq!(text.as_ptr() as usize, address, "the closure is untouched");
    // A cancelled item takes room until a worker reaches its place.
    assert!(handles[2].cancel());
    assert!(queue.spawn(|| ()).is_err());
    door.open();
    let ends: Vec<_> = handles.into_iter().map(cmwq::JoinHandle::join).collect();
    assert!(matches!(ends[..], [Ok(()), Err(JoinError::Panicked(_)), Err(JoinError::Cancelled)]), "{ends:?}");
    queue.flush().unwrap();
    // Completed, panicked and cancelled items have all given their room back.
    let (queue, door) = (queue.clone(), held_again(&queue));
    for _ in 0..3 {
        drop(queue.spawn(|| ()).unwrap());
    }
    assert!(queue.spawn(|| ()).is_err());
    door.open();
}

fn held_again(queue: &WorkQueue) -> Door {
    let (door, begun) = (Door::default(), Door::default());
    let (wait, tell) = (door.clone(), begun.clone());
    drop(queue.spawn(move || {
        tell.open();
        wait.wait();
    }));
    begun.wait();
    door
}

/// spec: Q3.4, W2: a refused item stays usable. An item that is already pending needs no room.
#[test]
fn a_full_queue_refuses_new_items_and_coalesces_pending_ones() {
    let _limit = time_limit();
    let executor = one_cpu();
    let (queue, door) = held(WorkQueue::unbound("q").max_active(1).max_pending(1), &executor);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = || {
        let runs = Arc::clone(&runs);
        Work::new(move || crate::support::bump(&runs))
    };
    let (pending, other) = (count(), count());
    assert_eq!(queue.enqueue(&pending), Ok(true));
    assert_eq!(queue.enqueue(&pending), Ok(false), "the pending item needs no place");
    assert_eq!(queue.enqueue(&other), Err(QueueError::Full));
    assert!(!other.is_pending());
    assert!(pending.cancel());
    assert_eq!(
        queue.enqueue(&other),
        Err(QueueError::Full),
        "the place of the cancelled item is still taken"
    );
    assert_eq!(queue.enqueue(&pending), Ok(true), "the cancelled item returns to its place");
    door.open();
    queue.flush().unwrap();
    assert_eq!(queue.enqueue(&other), Ok(true));
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// spec: Q3.4: the bound is exact even if many issuers submit at the same time.
#[test]
fn max_pending_is_exact_among_racing_issuers() {
    let _limit = time_limit();
    let executor = cpus(4);
    let (queue, door) = held(WorkQueue::ordered("q").max_pending(50), &executor);
    let (accepted, runs) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let runs = Arc::clone(&runs);
                    if queue.spawn(move || crate::support::bump(&runs)).is_ok() {
                        accepted.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(accepted.load(Ordering::SeqCst), 50);
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 50);
}

/// spec: Q4.1 (at most one item at a time, in queueing order)
#[test]
fn an_ordered_queue_runs_one_at_a_time_in_queueing_order() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").build_on(executor).unwrap();
        let (crowd, order) = (Arc::new(Crowd::default()), Arc::new(Mutex::new(Vec::new())));
        let count = stress(1500);
        for n in 0..count {
            let (crowd, order) = (Arc::clone(&crowd), Arc::clone(&order));
            let item = move || {
                crowd.enter();
                order.lock().unwrap().push(n);
                if n % 16 == 0 {
                    cmwq::blocking(std::thread::yield_now);
                }
                crowd.leave();
                assert_ne!(n % 50, 7, "a panic on purpose");
            };
            drop(queue.spawn(item).unwrap());
        }
        queue.flush().unwrap();
        assert_eq!(crowd.peak(), 1);
        assert!(order.lock().unwrap().iter().copied().eq(0..count));
    });
}

/// spec: Q4.1: if there are many issuers, the items of each issuer keep their order.
#[test]
fn an_ordered_queue_keeps_the_order_of_every_issuer() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").build_on(executor).unwrap();
        let (crowd, last) = (Arc::new(Crowd::default()), Arc::new(Mutex::new([0; 4])));
        let count = stress(800);
        std::thread::scope(|scope| {
            for issuer in 0..4 {
                let (queue, crowd, last) = (&queue, &crowd, &last);
                scope.spawn(move || {
                    for n in 1..=count {
                        let (crowd, last) = (Arc::clone(crowd), Arc::clone(last));
                        let item = move || {
                            crowd.enter();
                            let before = std::mem::replace(&mut last.lock().unwrap()[issuer], n);
                            crowd.leave();
                            assert_eq!(before + 1, n);
                        };
                        let handle = queue.spawn(item).unwrap();
                        if n == count {
                            handle.join().unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!((crowd.peak(), *last.lock().unwrap()), (1, [count; 4]));
    });
}
