//! Threads that cannot be made: items wait, no thread panics, and no item is lost. The items run once threads can be
//! made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::{Executor, Work, WorkQueue, blocking, is_rescuer};
use fastrand::Rng;

use crate::support::{
    Crowd, Door, SOON, Spawns, builder, bump, eventually, no_thread_of, pool, stress, time_limit,
};

fn executor(shape: &str, spawns: &Spawns) -> (Executor, String) {
    let (builder, prefix) = builder(shape);
    (builder.random_placement(6).before_spawn(spawns.hook()).build().unwrap(), prefix)
}

/// Runs items of every kind of queue to their ends. Some of them block under a guard, so the pools need several
/// workers.
fn assert_work_is_done(executor: &Executor) {
    let kinds = [
        WorkQueue::builder("managed"),
        WorkQueue::per_cpu("per cpu"),
        WorkQueue::unbound("unbound"),
        WorkQueue::ordered("ordered"),
    ];
    let queues = kinds.map(|kind| kind.build_on(executor).unwrap());
    let spawn = |n: usize| {
        let item = move || {
            if n % 7 == 0 {
                blocking::thread::sleep(Duration::from_micros(100));
            }
            n
        };
        queues[n % 4].spawn(item).unwrap()
    };
    let handles: Vec<_> = (0..200).map(spawn).collect();
    for (n, handle) in handles.into_iter().enumerate() {
        match handle.join_timeout(SOON) {
            Ok(result) => assert_eq!(result.unwrap(), n),
            Err(_) => panic!("item {n} never ran: {}", executor.dump()),
        }
    }
    queues.iter().for_each(|queue| queue.flush_timeout(SOON).unwrap());
}

/// spec: C8.3
#[test]
fn workers_are_made_before_the_first_item_if_the_executor_prestarts_them() {
    let _limit = time_limit();
    let spawns = Spawns::failing(1..1);
    let (builder, _) = builder("l3:2 core:1 pu:1");
    let executor = builder.before_spawn(spawns.hook()).min_idle(3).prestart(true).build().unwrap();
    let idle = |name: &str| {
        let pools = executor.dump().pools;
        pools.iter().find(|pool| pool.name == name).map(|pool| (pool.workers, pool.idle))
    };
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    eventually("each CPU has its workers", || ["0", "1"].map(idle) == [Some((3, 3)); 2]);
    let managed = WorkQueue::builder("q").build_on(&executor).unwrap();
    eventually("each pod has its workers", || executor.dump().threads == 12);
    let bh = cmwq::kernel::bh("q").build_on(&executor).unwrap();
    eventually("each context has its worker", || executor.dump().threads == 14);
    let made = spawns.counts().0;
    for queue in [&queue, &managed, &bh] {
        queue.item(|| ()).on_cpu(1).spawn().unwrap().join().unwrap();
    }
    assert_eq!(spawns.counts().0, made, "the items found their workers");
    let again = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    again.spawn(|| ()).unwrap().join().unwrap();
    assert_eq!(executor.dump().threads, 14);
}

/// spec: C8.3 (the cap, and refusals): a worker that cannot be made in advance is made when it is needed.
#[test]
fn prestarted_workers_respect_the_cap_and_refusals() {
    let _limit = time_limit();
    let executor = builder("core:2 pu:1").0.max_threads(3).min_idle(4).prestart(true).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    eventually("the cap is reached", || executor.dump().threads == 3);
    assert_work_is_done(&executor);
    drop(queue);
    for n in 0..4 {
        let spawns = Spawns::failing(n..=n);
        let builder = builder("l3:1 core:2 pu:1").0.before_spawn(spawns.hook());
        let executor = builder.prestart(true).build().unwrap();
        assert_work_is_done(&executor);
    }
}

/// spec: P3.1 (a hook that fails the n-th), P1.1
#[test]
fn all_items_run_whichever_thread_creation_fails() {
    let _limit = time_limit();
    for n in 0..4 {
        let spawns = Spawns::failing(n..=n);
        let (executor, prefix) = executor("l3:1 core:2 pu:1", &spawns);
        assert_work_is_done(&executor);
        drop(executor);
        eventually("all threads ended", || no_thread_of(&prefix));
        assert!(spawns.counts().1 <= 1);
    }
}

/// spec: P1.2 (tried again, at most one attempt per second after a failure), P3.1 (a hook that fails a range)
#[test]
fn after_a_failure_no_thread_is_tried_for_a_second() {
    let _limit = time_limit();
    for (range, failures) in [(0..2, 2), (1..3, 2)] {
        let spawns = Spawns::failing(range);
        let (executor, _) = executor("l3:1 core:2 pu:1", &spawns);
        let begin = Instant::now();
        assert_work_is_done(&executor);
        // The thread that cannot be made may be a spare. Then no item waits for the second attempt to make it.
        eventually("all expected failures have happened", || {
            assert!(begin.elapsed() < SOON);
            assert_work_is_done(&executor);
            spawns.counts().1 == failures
        });
        eventually("one more attempt", || {
            assert_work_is_done(&executor);
            spawns.counts().0 > failures
        });
        let pause = spawns.shortest_pause().unwrap();
        assert!(pause >= Duration::from_millis(990), "tried again after {pause:?}");
    }
}

/// spec: P3.1 (a hook that fails every time), P1.1 (the item waits, nothing panics or is orphaned)
#[test]
fn without_any_worker_work_waits_and_then_runs() {
    let _limit = time_limit();
    let spawns = Spawns::failing(..);
    let (executor, prefix) = executor("l3:1 core:2 pu:1", &spawns);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let ordered = WorkQueue::ordered("ordered").build_on(&executor).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let work = {
        let count = Arc::clone(&count);
        Work::new(move || bump(&count))
    };
    assert!(queue.enqueue(&work).unwrap());
    assert!(!queue.enqueue(&work).unwrap(), "the item is pending");
    for n in 0..100 {
        let (count, order) = (Arc::clone(&count), Arc::clone(&order));
        drop(queue.spawn(move || bump(&count)).unwrap());
        drop(ordered.spawn(move || order.lock().unwrap().push(n)).unwrap());
    }
    let cancelled = queue.spawn(|| ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(queue.flush_timeout(Duration::from_millis(30)), Err(cmwq::WaitError::TimedOut));
    assert_eq!((count.load(Ordering::SeqCst), executor.dump().threads), (0, 0));
    let patient = queue.spawn(|| 7).unwrap();
    spawns.recover();
    assert_eq!(patient.join().unwrap(), 7);
    queue.flush_timeout(SOON).unwrap();
    ordered.flush_timeout(SOON).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 101);
    assert!(order.lock().unwrap().iter().copied().eq(0..100));
    drop((queue, ordered, executor));
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: P1.1: the last handles may be dropped while no worker can be made. The accepted items run once a worker can be
/// made.
#[test]
fn accepted_items_outlive_their_queue_without_a_worker() {
    let _limit = time_limit();
    let spawns = Spawns::failing(..);
    let (executor, prefix) = executor("core:1 pu:1", &spawns);
    let count = Arc::new(AtomicUsize::new(0));
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..10 {
        let count = Arc::clone(&count);
        drop(queue.spawn(move || bump(&count)).unwrap());
    }
    drop((queue, executor));
    spawns.recover();
    eventually("everything ran", || count.load(Ordering::SeqCst) == 10);
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: P1.3 (a worker cannot be made): without a spare, items behind a blocked item wait. The worker that returns
/// from the block runs them.
#[test]
fn without_a_spare_a_block_delays_the_items_behind_it() {
    let _limit = time_limit();
    let spawns = Spawns::failing(1..);
    let (executor, _) = executor("core:1 pu:1", &spawns);
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let door = Door::default();
    let inside = door.clone();
    let blocked = queue.spawn(move || inside.wait()).unwrap();
    eventually("the spare failed", || spawns.counts().1 >= 1);
    let behind = queue.spawn(is_rescuer).unwrap().join_timeout(Duration::from_millis(30)).unwrap_err();
    assert_eq!(pool(&executor, "0").workers, 1);
    door.open();
    blocked.join().unwrap();
    assert!(!behind.join().unwrap());
}

/// spec: P1.4, P2, P3.1: attempts to make threads fail at random, on queues with and without rescuers. Items block,
/// panic, queue others and are cancelled. Each accepted item either runs or is cancelled.
#[test]
fn while_creations_fail_at_random_every_item_is_accounted_for() {
    let _limit = time_limit();
    for (seed, percent) in [(1, 30), (2, 60)] {
        let random = Mutex::new(Rng::with_seed(seed));
        let spawns = Spawns::failing_if(move |_| random.lock().unwrap().u64(..100) < percent);
        let (executor, prefix) = executor("l3:2 core:1 pu:1", &spawns);
        let queues = [
            WorkQueue::builder("a").rescuer(true),
            WorkQueue::per_cpu("b").rescuer(true).max_active(2),
            WorkQueue::ordered("c").rescuer(true),
            WorkQueue::unbound("d").rescuer(true),
            WorkQueue::per_cpu("e").cpu_intensive(true).rescuer(true),
            WorkQueue::builder("f"),
        ]
        .map(|kind| kind.build_on(&executor).unwrap());
        let (ran, rescued) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ordered = Arc::new(Crowd::default());
        let (mut accepted, mut cancelled) = (0, 0);
        let mut random = Rng::with_seed(100 + seed);
        for _ in 0..stress(3000) {
            let at = random.usize(..6);
            let what = random.u64(..20);
            let (ran, rescued, ordered) = (Arc::clone(&ran), Arc::clone(&rescued), Arc::clone(&ordered));
            let chained = (what == 0).then(|| queues[random.usize(..6)].clone());
            accepted += 1 + usize::from(chained.is_some());
            let item = move || {
                if at == 2 {
                    ordered.enter();
                }
                bump(&ran);
                if is_rescuer() {
                    bump(&rescued);
                }
                if let Some(queue) = chained {
                    let (ran, rescued) = (Arc::clone(&ran), Arc::clone(&rescued));
                    let item = move || {
                        bump(&ran);
                        if is_rescuer() {
                            bump(&rescued);
                        }
                    };
                    drop(queue.spawn(item).unwrap());
                }
                if what < 3 {
                    blocking::thread::sleep(Duration::from_micros(200));
                }
                if at == 2 {
                    ordered.leave();
                }
                if what == 3 {
                    // This ends the item as a panic does, but prints nothing to standard error.
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            };
            let handle = queues[at].spawn(item).unwrap();
            if what == 4 && handle.cancel() {
                cancelled += 1;
            }
        }
        // The first flush waits for the items that this thread has queued. The second one waits for those that these
        // have queued.
        for _ in 0..2 {
            queues.iter().for_each(|queue| queue.flush_timeout(4 * SOON).unwrap());
        }
        assert_eq!(ran.load(Ordering::SeqCst), accepted - cancelled);
        assert_eq!(ordered.peak(), 1);
        // A rescuer also takes entries of cancelled items, and does not run these.
        let counted: u64 = queues.iter().map(|queue| queue.counters().rescued).sum();
        assert!(counted >= rescued.load(Ordering::SeqCst) as u64);
        assert_eq!(queues[5].counters().rescued, 0);
        drop((queues, executor));
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}
