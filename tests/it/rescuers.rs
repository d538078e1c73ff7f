//! Rescuers: threads of single queues, which run the items of their queue while no worker can be made.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use cmwq::{BuildQueueError, Executor, JoinError, Work, WorkQueue, WorkQueueBuilder, is_rescuer};

use crate::support::{
    Crowd, Door, SOON, Spawns, builder, bump, eventually, falls_quiet, has_no_elsewhere, no_thread_of,
    own_status, pool, stress, thread_id, threads_of, time_limit, unseen,
};

/// Makes an executor that can make no worker. Also returns the prefix of its threads' names, and the hook that decides
/// which workers can be made.
fn without_workers(shape: &str) -> (Executor, String, Spawns) {
    let spawns = Spawns::failing(..);
    let (builder, prefix) = builder(shape);
    // Detection is off. Otherwise, another worker could run beside a sleeping item, and change the order.
    (unseen(builder).before_spawn(spawns.hook()).build().unwrap(), prefix, spawns)
}

fn every_kind() -> [WorkQueueBuilder; 7] {
    [
        WorkQueue::builder("managed"),
        WorkQueue::per_cpu("per cpu"),
        WorkQueue::per_cpu("intensive").cpu_intensive(true),
        WorkQueue::per_cpu("urgent").high_priority(true),
        WorkQueue::unbound("unbound"),
        WorkQueue::ordered("ordered"),
        WorkQueue::builder("weighted").weight(20),
    ]
}

/// spec: P2.4 (the rescuer runs that queue's items), Q2.2 (rescuer), W10.1 (`is_rescuer`), O1.6
#[test]
fn when_no_worker_can_be_made_the_rescuer_runs_every_item() {
    let _limit = time_limit();
    for kind in every_kind() {
        let (executor, _, _) = without_workers("l3:1 core:2 pu:1");
        let queue = kind.rescuer(true).build_on(&executor).unwrap();
        let crowd = Arc::new(Crowd::default());
        let handles: Vec<_> = (0..50)
            .map(|n| {
                let crowd = Arc::clone(&crowd);
                let item = move || {
                    crowd.enter();
                    crowd.leave();
                    (n, is_rescuer(), thread_id())
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        let ran: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        assert!(
            ran.iter()
                .enumerate()
                .all(|(at, (n, rescued, thread))| { (at, true, ran[0].2) == (*n, *rescued, *thread) })
        );
        assert_eq!(crowd.peak(), 1, "one at a time");
        assert_eq!(queue.counters().rescued, 50, "{}", queue.name());
        assert!(queue.counters().rescuer_calls >= 1);
        assert!(!is_rescuer(), "the test's thread is no rescuer");
    }
}

/// spec: P2.4: when an item that the rescuer runs passes its slot on, the rescuer runs the next item at once, without
/// another call by the manager.
#[test]
fn items_that_wait_for_a_slot_are_rescued_without_another_call() {
    let _limit = time_limit();
    for kind in [WorkQueue::ordered("q"), WorkQueue::per_cpu("q").max_active(1)] {
        // The items of the two CPUs are in two pools. The items of the ordered queue pass the slot from one pool to the
        // other.
        let spawns = Spawns::failing(..);
        let builder = builder("l3:2 core:1 pu:1").0.random_placement(2).before_spawn(spawns.hook());
        let executor = builder.build().unwrap();
        let queue = kind.rescuer(true).build_on(&executor).unwrap();
        let begin = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..200 {
            let order = Arc::clone(&order);
            drop(queue.spawn(move || order.lock().unwrap().push(n)).unwrap());
        }
        queue.flush_timeout(SOON).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?} for 200 items", begin.elapsed());
        assert_eq!(order.lock().unwrap().len(), 200);
        assert!(queue.counters().rescuer_calls < 50, "{} calls", queue.counters().rescuer_calls);
    }
}

/// spec: P2.4 (an item at a time, called again while the need lasts): the rescuer runs all items that are queued one by
/// one.
#[test]
fn work_that_comes_later_is_rescued_too() {
    let _limit = time_limit();
    let (executor, _, _) = without_workers("core:1 pu:1");
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    for n in 0..10 {
        assert_eq!(queue.spawn(move || n).unwrap().join().unwrap(), n);
        assert_eq!(queue.counters().rescued, n + 1);
        assert!(queue.counters().rescuer_calls >= 1);
    }
    // There may be fewer calls than items, because the rescuer may still be awake after the previous item. There may be
    // more, because the manager repeats its calls until the rescuer arrives.
    assert!(queue.counters().rescuer_calls < 20, "{} calls", queue.counters().rescuer_calls);
}

/// spec: P2.8 (if its pool cannot make one): while workers can be made, the rescuer is not called.
#[test]
fn a_rescuer_sleeps_while_workers_can_be_made() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::builder("q").rescuer(true).build_on(&executor).unwrap();
    for _ in 0..100 {
        assert!(!queue.spawn(is_rescuer).unwrap().join().unwrap());
    }
    assert_eq!((queue.counters().rescuer_calls, queue.counters().rescued), (0, 0));
    // The rescuer's thread sets its own name, so the test waits for it.
    eventually("the rescuer is there", || threads_of(&prefix).contains(&format!("{prefix}/R-q")));
}

/// spec: P2.1 (a thread made when it is built), E4 (`cmwq/R-name`, 15 bytes)
#[test]
fn the_thread_is_made_with_the_queue_and_ends_with_it() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    let plain = WorkQueue::builder("plain").build_on(&executor).unwrap();
    let queue = WorkQueue::builder("a-rather-long-name").rescuer(true).build_on(&executor).unwrap();
    let name: String = format!("{prefix}/R-a-rather-long-name").chars().take(15).collect();
    eventually("the rescuer has its name", || threads_of(&prefix).contains(&name));
    assert_eq!(threads_of(&prefix).len(), 2, "the rescuer and the manager: {:?}", threads_of(&prefix));
    assert_eq!(executor.dump().threads, 0, "only workers are counted");
    let clone = queue.clone();
    drop(queue);
    assert!(threads_of(&prefix).contains(&name), "the queue still has a handle");
    drop(clone);
    eventually("the rescuer ended", || !threads_of(&prefix).contains(&name));
    drop(WorkQueue::ordered("with \0 in it").rescuer(true).build_on(&executor).unwrap());
    drop((plain, executor));
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: F4.5 (destroy ends the rescuer's thread)
#[test]
fn the_thread_ends_when_its_queue_is_destroyed() {
    let _limit = time_limit();
    for kind in every_kind() {
        let (builder, prefix) = builder("core:1 pu:1");
        let executor = builder.build().unwrap();
        let queue = kind.rescuer(true).build_on(&executor).unwrap();
        let is_rescuer_there =
            || threads_of(&prefix).iter().any(|name| name.starts_with(&format!("{prefix}/R-")));
        eventually("the rescuer has its name", is_rescuer_there);
        queue.destroy().unwrap();
        eventually("the rescuer ended", || !is_rescuer_there());
        drop(queue);
    }
}

/// spec: P2.2 (`build` fails with a typed error), Q2.2
#[test]
fn a_queue_whose_rescuer_cannot_be_made_is_an_error() {
    let _limit = time_limit();
    let refuse = |name: &str| {
        if name.contains("/R-") { Err(ErrorKind::OutOfMemory.into()) } else { Ok(()) }
    };
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.before_spawn(refuse).build().unwrap();
    let error = WorkQueue::builder("q").rescuer(true).build_on(&executor).unwrap_err();
    let BuildQueueError::Rescuer { kind: ErrorKind::OutOfMemory, .. } = &error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "the queue's rescuer cannot be made: out of memory");
    assert_eq!(error.clone(), error);
    assert_eq!(threads_of(&prefix), [format!("{prefix}/manager")], "no thread was made");
    // The failure does not count as the failure to make a worker, so the next item does not wait for a second.
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
}

/// spec: P2.2, F5 (never a hang): a hook on the manager's thread cannot build a queue with a rescuer, because the
/// manager would wait for itself.
#[test]
fn a_hook_on_the_managers_thread_cannot_have_a_rescuer_made() {
    let _limit = time_limit();
    let executor: Arc<OnceLock<Executor>> = Arc::default();
    let answer = Arc::new(Mutex::new(None));
    let (own, slot) = (Arc::clone(&executor), Arc::clone(&answer));
    let hook = move |_: &str| {
        if let Some(executor) = own.get() {
            let built = WorkQueue::builder("inner").rescuer(true).build_on(executor);
            *slot.lock().unwrap() = Some(built.map(drop));
        }
        Ok(())
    };
    // The hook holds its executor for ever, so this test leaks a few threads.
    let made = builder("core:1 pu:1").0.before_spawn(hook).build().unwrap();
    let executor = executor.get_or_init(|| made);
    let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    let answer = answer.lock().unwrap().take().expect("the hook was called");
    assert!(matches!(answer, Err(BuildQueueError::Rescuer { kind: ErrorKind::Deadlock, .. })), "{answer:?}");
    // An item can make a rescuer, because the manager is free.
    let inner = executor.clone();
    let build = move || WorkQueue::builder("q").rescuer(true).build_on(&inner).map(drop);
    queue.spawn(build).unwrap().join().unwrap().unwrap();
}

/// spec: P2.5 (that queue's items): a rescuer runs only the items of its own queue. Items of other queues wait, and run
/// in their order when a worker can be made.
#[test]
fn items_of_other_queues_wait_until_a_worker_can_be_made() {
    let _limit = time_limit();
    let (executor, _, spawns) = without_workers("core:1 pu:1");
    let plain = WorkQueue::per_cpu("plain").build_on(&executor).unwrap();
    let rescued = WorkQueue::per_cpu("rescued").rescuer(true).build_on(&executor).unwrap();
    let other = WorkQueue::per_cpu("other").rescuer(true).build_on(&executor).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    for n in 0..30 {
        for queue in [&plain, &rescued, &other] {
            let (order, name) = (Arc::clone(&order), queue.name().to_owned());
            handles.push(queue.spawn(move || order.lock().unwrap().push((name, n, is_rescuer()))).unwrap());
        }
    }
    eventually("both rescuers did their work", || order.lock().unwrap().len() == 60);
    assert_eq!((rescued.counters().rescued, other.counters().rescued, plain.counters().rescued), (30, 30, 0));
    assert!(order.lock().unwrap().iter().all(|(name, _, rescued)| name != "plain" && *rescued));
    spawns.recover();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    let order = order.lock().unwrap();
    for queue in ["plain", "rescued", "other"] {
        let of_queue = order.iter().filter(|(name, ..)| name == queue).map(|(_, n, _)| *n);
        assert!(of_queue.eq(0..30), "{queue} kept its order");
    }
    assert!(order.iter().all(|(name, _, rescued)| *rescued == (name != "plain")));
}

/// spec: P2.6 (taking turns among pools)
#[test]
fn a_rescuer_takes_turns_among_pools_in_distress() {
    let _limit = time_limit();
    let spawns = Spawns::failing(..);
    let builder = builder("core:2 pu:1").0.random_placement(4).before_spawn(spawns.hook());
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let all_queued = Arc::new(AtomicBool::new(false));
    for _ in 0..200 {
        let (served, called, all_queued) = (Arc::clone(&served), queue.clone(), Arc::clone(&all_queued));
        let item = move || {
            // The first item waits until the rescuer was called for both pools, so both pools have enough items.
            eventually("both pools call", || {
                all_queued.load(Ordering::SeqCst) && called.counters().rescuer_calls >= 2
            });
            served.lock().unwrap().push(own_status("Cpus_allowed_list"));
        };
        drop(queue.spawn(item).unwrap());
    }
    all_queued.store(true, Ordering::SeqCst);
    queue.flush_timeout(SOON).unwrap();
    let served = served.lock().unwrap();
    // With only one CPU, the CPU does not show which pool an item comes from.
    if has_no_elsewhere(&executor) {
        return;
    }
    // The rescuer binds itself to the CPU of the pool that it serves, so the CPU shows which pool an item comes from.
    let turns: Vec<usize> = served.chunk_by(|one, next| one == next).map(<[_]>::len).collect();
    assert!(turns.len() >= 8, "turns of {turns:?} items");
    // The first turn may be longer, because it begins before the call for the second pool. The last turns may be
    // shorter or longer, because one pool has no items left.
    let middle = &turns[1..turns.len() - 2];
    assert!(middle.iter().all(|items| *items == 16), "turns of {turns:?} items");
}

/// spec: P2.4: a rescuer also helps at the cap on threads, which does not count rescuers. Workers run the items that
/// the rescuer leaves.
#[test]
fn at_the_cap_on_threads_a_rescuer_helps() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.max_threads(1).build().unwrap();
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    let door = Door::default();
    let inside = door.clone();
    // This item holds the only worker, so the items below need another thread.
    let held = queue.spawn(move || inside.wait()).unwrap();
    eventually("the item holds the only thread", || {
        executor.dump().pools.iter().any(|pool| (pool.workers, pool.idle) == (1, 0))
    });
    for _ in 0..5 {
        assert!(queue.spawn(is_rescuer).unwrap().join().unwrap());
    }
    assert_eq!(executor.dump().threads, 1);
    eventually("no worker is being woken", || pool(&executor, "0").waking == 0);
    door.open();
    held.join().unwrap();
    assert!(!queue.spawn(is_rescuer).unwrap().join().unwrap(), "the worker is back");
    assert_eq!(queue.counters().rescued, 5);
}

/// spec: P2.7, W9 (a panic is contained), C2 (guards), C4: a rescuer runs items as a worker does.
#[test]
fn panics_guards_and_counts_are_as_on_a_worker() {
    let _limit = time_limit();
    let panics = Arc::new(AtomicUsize::new(0));
    let spawns = Spawns::failing(..);
    let seen = Arc::clone(&panics);
    let builder = unseen(builder("core:1 pu:1").0).before_spawn(spawns.hook());
    let executor = builder.panic_handler(move |_| bump(&seen)).build().unwrap();
    let intensive =
        WorkQueue::per_cpu("intensive").cpu_intensive(true).rescuer(true).build_on(&executor).unwrap();
    let plain = WorkQueue::per_cpu("plain").rescuer(true).build_on(&executor).unwrap();
    for queue in [&intensive, &plain] {
        let panicking = queue.spawn(|| cmwq::blocking(|| assert!(!is_rescuer(), "on purpose"))).unwrap();
        assert!(matches!(panicking.join(), Err(JoinError::Panicked(_))));
        let forgetful = queue.spawn(|| std::mem::forget(cmwq::BlockingGuard::enter())).unwrap();
        forgetful.join().unwrap();
        assert_eq!(queue.counters().rescued, 2);
        let own = queue.clone();
        let flushes = queue.spawn(move || own.flush()).unwrap();
        assert_eq!(flushes.join().unwrap(), Err(cmwq::WaitError::WouldDeadlock));
    }
    assert_eq!(panics.load(Ordering::SeqCst), 2);
    spawns.recover();
    // The running count is right if the pool comes to rest, and then runs one item at a time.
    plain.spawn(|| ()).unwrap().join().unwrap();
    eventually("a worker is there", || pool(&executor, "0").workers > 0);
    eventually("the pool rests", || (pool(&executor, "0").running, pool(&executor, "0").waking) == (0, 0));
    let door = Door::default();
    let inside = door.clone();
    let busy = plain.spawn(move || inside.wait_unguarded()).unwrap();
    let behind = plain.spawn(|| ()).unwrap().join_timeout(Duration::from_millis(50)).unwrap_err();
    door.open();
    busy.join().unwrap();
    behind.join().unwrap();
}

/// spec: P2.7, W3 (one worker at a time): a reusable item runs on at most one thread at a time, which may be a worker
/// or a rescuer.
#[test]
fn an_item_is_never_entered_twice_by_worker_and_rescuer() {
    let _limit = time_limit();
    // Every second attempt to make a worker fails.
    let spawns = Spawns::failing_if(|attempt| attempt % 2 == 0);
    let builder = builder("l3:2 core:2 pu:1").0.random_placement(8).before_spawn(spawns.hook());
    let executor = builder.build().unwrap();
    let queues = [
        WorkQueue::per_cpu("a").rescuer(true).build_on(&executor).unwrap(),
        WorkQueue::builder("b").rescuer(true).build_on(&executor).unwrap(),
        WorkQueue::ordered("c").rescuer(true).build_on(&executor).unwrap(),
    ];
    let crowd = Arc::new(Crowd::default());
    let runs = Arc::new(AtomicUsize::new(0));
    let work = {
        let (crowd, runs) = (Arc::clone(&crowd), Arc::clone(&runs));
        Work::new(move || {
            crowd.enter();
            std::thread::yield_now();
            crowd.leave();
            bump(&runs);
        })
    };
    let mut accepted = 0;
    for n in 0..stress(20_000) {
        accepted += usize::from(queues[n % 3].enqueue(&work).unwrap());
    }
    queues.iter().for_each(|queue| queue.flush_timeout(SOON).unwrap());
    assert_eq!((crowd.peak(), runs.load(Ordering::SeqCst)), (1, accepted));
}

/// spec: P2.1 (ends with the queue), E5 (dropping never blocks and loses nothing): the rescuer runs the accepted items
/// of a queue without handles. When the last item ends, the queue ends.
#[test]
fn items_left_by_the_last_handle_are_rescued() {
    let _limit = time_limit();
    for _ in 0..stress(20) {
        let (executor, prefix, _) = without_workers("l3:1 core:2 pu:1");
        let count = Arc::new(AtomicUsize::new(0));
        for kind in every_kind() {
            let queue = kind.rescuer(true).build_on(&executor).unwrap();
            for _ in 0..20 {
                let (count, own) = (Arc::clone(&count), queue.clone());
                let item = move || {
                    drop(own);
                    bump(&count);
                };
                drop(queue.spawn(item).unwrap());
            }
        }
        drop(executor);
        eventually("all items ran", || count.load(Ordering::SeqCst) == 140);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: P2.8, E3 (an idle executor makes no wake-ups): after a rescue, an executor makes no wake-ups, even if it could
/// make no worker.
#[test]
fn after_the_rescue_all_threads_sleep() {
    let _limit = time_limit();
    let (executor, prefix, spawns) = without_workers("core:1 pu:1");
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    // After a second, the manager tries once more to make the requested worker. After that, no worker is needed.
    eventually("the last attempt", || spawns.counts().0 == 2);
    falls_quiet(&prefix);
    assert_eq!(spawns.counts().0, 2);
}
