//! Items that compute or sleep without a guard, and how far a pool grows because of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cmwq::{Detection, Executor, WorkQueue, blocking, may_block};

use crate::detection::{check_count, comes_to_rest};
use crate::support::{Crowd, SOON, builder, bump, burn, eventually, is_portable, nap, pool, time_limit};

/// Makes an executor with one CPU, and a counter of the workers that it makes.
fn counted(max_threads: Option<usize>) -> (Executor, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let (builder, _) = builder("core:1 pu:1");
    let builder = builder.on_thread_start(move || bump(&count));
    let builder = match max_threads {
        Some(most) => builder.max_threads(most),
        None => builder,
    };
    (builder.build().unwrap(), made)
}

/// Spins until the flag is set.
fn spin(flag: &AtomicBool) {
    let begin = Instant::now();
    while !flag.load(Ordering::Relaxed) {
        std::hint::spin_loop();
        assert!(begin.elapsed() < 6 * SOON, "the flag was not set");
    }
}

/// spec: S2, S5.1: an item spins until the next item of its CPU has run. The pool starts the next item, so the first
/// one ends.
#[test]
fn a_hog_lets_the_next_item_start() {
    let _limit = time_limit();
    for mode in [Detection::Sampling, Detection::Auto] {
        let executor = builder("core:1 pu:1").0.detection(mode).build().unwrap();
        if is_portable(&executor) {
            return;
        }
        for queue in [WorkQueue::per_cpu("q"), WorkQueue::per_cpu("h").high_priority(true)] {
            let queue = queue.build_on(&executor).unwrap();
            for guarded in [false, true] {
                let flag = Arc::new(AtomicBool::new(false));
                let raised = Arc::clone(&flag);
                let hog = queue.spawn(move || {
                    spin(&raised);
                    // The item is now known as a hog and no longer counts, so its guards change no count.
                    if guarded {
                        blocking(|| may_block(|| nap(Duration::from_millis(2))));
                    }
                    nap(Duration::from_millis(2));
                });
                let raises = queue.spawn(move || flag.store(true, Ordering::Relaxed)).unwrap();
                assert!(raises.join_timeout(SOON).is_ok(), "{mode}: {}", executor.dump());
                hog.unwrap().join().unwrap();
                check_count(&executor, &queue);
            }
        }
    }
}

/// spec: S2 (without blocking), S1.7: an item that computes and sleeps by turns is not taken for a hog, however long it
/// runs. It is taken for a sleeper each time it sleeps.
#[test]
fn items_that_compute_and_sleep_by_turns_end_in_the_right_count() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let items: Vec<_> = (0..12)
        .map(|_| {
            let item = || {
                for _ in 0..4 {
                    burn(Duration::from_millis(4));
                    nap(Duration::from_millis(3));
                }
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    items.into_iter().for_each(|item| item.join().unwrap());
    check_count(&executor, &queue);
}

/// spec: S5.1: two hundred items, four at a time, spin until a flag is set. The item that sets the flag is queued
/// behind them on the same CPU. It runs, and the pool stays small.
#[test]
fn spinning_items_make_no_crowd() {
    let _limit = time_limit();
    let (executor, _) = counted(None);
    if is_portable(&executor) {
        return;
    }
    let spinners = WorkQueue::per_cpu("spinners").max_active(4).build_on(&executor).unwrap();
    let others = WorkQueue::per_cpu("others").build_on(&executor).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let items: Vec<_> = (0..200)
        .map(|_| {
            let flag = Arc::clone(&flag);
            spinners.spawn(move || spin(&flag)).unwrap()
        })
        .collect();
    let raises = others.spawn(move || flag.store(true, Ordering::Relaxed)).unwrap();
    assert!(raises.join_timeout(3 * SOON).is_ok(), "{}", executor.dump());
    items.into_iter().for_each(|item| item.join().unwrap());
    let workers = pool(&executor, "0").workers;
    assert!(workers <= 7, "{workers} workers");
    check_count(&executor, &others);
}

/// Runs two hundred items that sleep without a guard. Returns the largest number of items that slept at the same time.
fn sleep_together(executor: &Executor) -> usize {
    let queue = WorkQueue::per_cpu("q").max_active(64).build_on(executor).unwrap();
    let (crowd, runs) = (Arc::new(Crowd::default()), Arc::new(AtomicUsize::new(0)));
    let items: Vec<_> = (0..200)
        .map(|_| {
            let (crowd, runs) = (Arc::clone(&crowd), Arc::clone(&runs));
            let item = move || {
                crowd.enter();
                nap(Duration::from_millis(10));
                crowd.leave();
                bump(&runs);
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!(runs.load(Ordering::SeqCst), 200);
    check_count(executor, &queue);
    crowd.peak()
}

/// spec: S5.2 (capped by max_active): all items run, several at a time, and never more than `max_active`.
#[test]
fn sleeping_items_grow_a_pool_up_to_max_active() {
    let _limit = time_limit();
    let (executor, made) = counted(None);
    let peak = sleep_together(&executor);
    let least = if is_portable(&executor) { 1 } else { 2 };
    assert!((least..=64).contains(&peak), "{peak} at once");
    // Besides the 64 sleeping workers, there may be one running worker and one spare.
    let made = made.load(Ordering::SeqCst);
    assert!(made <= 66, "{made} workers");
}

/// spec: S5.2 (capped by max threads; reaching the cap degrades to waiting)
#[test]
fn at_the_cap_sleeping_items_degrade_to_waiting() {
    let _limit = time_limit();
    let (executor, made) = counted(Some(3));
    let peak = sleep_together(&executor);
    assert!(peak <= 3, "{peak} at once");
    let threads = executor.dump().threads;
    assert!(threads <= 3, "{threads} threads");
    assert!(made.load(Ordering::SeqCst) <= 3);
    eventually("no worker is being made", || executor.dump().pools.iter().all(|pool| !pool.creating));
    comes_to_rest(&executor);
}
