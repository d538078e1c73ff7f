//! Undeclared blocking, mixed with guards of both kinds, misused guards, CPU hogs, panics, attribute changes, and ends
//! of queues and executors. No item is lost, and the counts are right in the end.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{
    Attrs, BlockingGuard, Detection, Executor, MayBlockGuard, QueueReport, WorkQueue, WorkQueueBuilder,
    blocking, may_block,
};
use fastrand::Rng;

use crate::detection::{check_count, comes_to_rest};
use crate::support::{
    SOON, builder, bump, burn, eventually, nap, no_thread_of, on_each_executor, stress, time_limit,
};

/// A guard that an item keeps, and that a later item of the same worker may take.
enum Kept {
    Blocks(#[allow(dead_code, reason = "its drop matters")] BlockingGuard),
    May(#[allow(dead_code, reason = "its drop matters")] MayBlockGuard),
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

fn queues(executor: &Executor) -> Vec<WorkQueue> {
    let kinds: [WorkQueueBuilder; 7] = [
        WorkQueue::per_cpu("per CPU"),
        WorkQueue::per_cpu("few").max_active(3),
        WorkQueue::builder("managed"),
        WorkQueue::builder("urgent").high_priority(true),
        WorkQueue::per_cpu("heavy").cpu_intensive(true).max_active(2),
        WorkQueue::unbound("unbound").max_active(3),
        WorkQueue::ordered("ordered"),
    ];
    kinds.map(|queue| queue.build_on(executor).unwrap()).into()
}

/// Runs one of the behaviours of an item, chosen by `kind`, for some microseconds.
fn behave(kind: u64, time: u64, lock: &Mutex<u64>) {
    let nap = || nap(Duration::from_micros(time));
    match kind {
        0..3 => nap(),
        3 => blocking(nap),
        4 => may_block(nap),
        5 => {
            let mut shared = lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            nap();
            *shared += 1;
        }
        6 => {
            let (outer, inner) = (BlockingGuard::enter(), MayBlockGuard::enter());
            nap();
            drop(outer);
            nap();
            drop(inner);
        }
        7 => {
            let (outer, inner) = (MayBlockGuard::enter(), BlockingGuard::enter());
            drop(outer);
            nap();
            drop(inner);
            nap();
        }
        8 => std::mem::forget((BlockingGuard::enter(), MayBlockGuard::enter())),
        9 => KEPT.with_borrow_mut(|kept| kept.push(Kept::Blocks(BlockingGuard::enter()))),
        10 => KEPT.with_borrow_mut(|kept| kept.push(Kept::May(MayBlockGuard::enter()))),
        11 => {
            let _inside = MayBlockGuard::enter();
            KEPT.with_borrow_mut(Vec::clear);
            nap();
        }
        12 => burn(Duration::from_micros(time)),
        13 => burn(Duration::from_micros(10 * time)),
        14 => panic!("on purpose"),
        15 => {
            nap();
            burn(Duration::from_micros(time));
            nap();
            blocking(nap);
        }
        _ => std::thread::yield_now(),
    }
}

/// Queues items with random behaviours from two issuers, and waits until all have run. Some items queue another item.
fn mix(executor: &Executor, seed: u64, items: usize) {
    let queues = queues(executor);
    let (runs, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(0)));
    let queued = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for issuer in 0..2 {
            let (queues, runs, lock, queued) = (&queues, &runs, &lock, &queued);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed * 2 + issuer);
                for _ in 0..items {
                    let at = |n: u64| queues[n as usize % queues.len()].clone();
                    let (queue, next) = (at(random.u64(..7)), at(random.u64(..4)));
                    let (kind, time) = (random.u64(..18), 100 + random.u64(..1500));
                    let more = random.u64(..5) == 0;
                    let (runs, lock) = (Arc::clone(runs), Arc::clone(lock));
                    queued.fetch_add(1 + usize::from(more), Ordering::SeqCst);
                    let item = move || {
                        bump(&runs);
                        if more {
                            let runs = Arc::clone(&runs);
                            drop(next.spawn(move || bump(&runs)).unwrap());
                        }
                        behave(kind, time, &lock);
                    };
                    drop(queue.spawn(item).unwrap());
                    if random.u64(..8) == 0 {
                        nap(Duration::from_micros(random.u64(..1000)));
                    }
                }
            });
        }
    });
    eventually("all ran", || runs.load(Ordering::SeqCst) == queued.load(Ordering::SeqCst));
    queues.iter().for_each(|queue| queue.flush().unwrap());
    comes_to_rest(executor);
}

/// spec: S1.7, S2, C1, C2: no item is lost on executors of all shapes, and no worker counts as running in the end.
#[test]
fn mixed_declared_and_undeclared_blocking_balances() {
    let seed = AtomicUsize::new(1);
    on_each_executor(|executor| mix(executor, seed.fetch_add(1, Ordering::SeqCst) as u64, stress(150)));
}

/// spec: S1.7, S2, C1, C2: the count of running workers is right in each mode. The executor has one CPU, where a wrong
/// count shows, and a low threshold for hogs.
#[test]
fn mixed_blocking_leaves_every_count_right() {
    let _limit = time_limit();
    let modes = [Detection::Off, Detection::Sampling, Detection::Switches, Detection::Auto];
    for (seed, mode) in modes.into_iter().enumerate() {
        let builder = builder("core:1 pu:1").0.detection(mode).hog_threshold(Duration::from_millis(2));
        let executor = builder.build().unwrap();
        mix(&executor, 100 + seed as u64, stress(200));
        let queue = WorkQueue::per_cpu("last").build_on(&executor).unwrap();
        check_count(&executor, &queue);
    }
}

/// spec: S1.7, S5, E2 (max threads): all items run under a cap on threads that is reached all the time.
#[test]
fn mixed_blocking_balances_at_the_cap_of_threads() {
    let _limit = time_limit();
    let executor = builder("l3:2 core:2 pu:1").0.random_placement(5).max_threads(6).build().unwrap();
    mix(&executor, 200, stress(120));
    assert!(executor.dump().threads <= 6);
}

/// spec: S1.7, E5: a shutdown waits for sleeping items or times out, and threads end while the detector looks at them.
#[test]
fn an_executor_may_end_while_its_threads_are_looked_at() {
    let _limit = time_limit();
    for round in 0..stress(12) {
        let (builder, prefix) = builder("l3:2 core:2 pu:1");
        let executor = builder.random_placement(round as u64).build().unwrap();
        let queues = queues(&executor);
        let mut random = Rng::with_seed(round as u64);
        let runs = Arc::new(AtomicUsize::new(0));
        for n in 0..60 {
            let runs = Arc::clone(&runs);
            let time = Duration::from_micros(random.u64(..6000));
            let item = move || {
                bump(&runs);
                nap(time);
            };
            drop(queues[n % queues.len()].spawn(item).unwrap());
        }
        let some = random.usize(..60);
        eventually("some run", || runs.load(Ordering::SeqCst) >= some);
        match round % 3 {
            0 => assert!(executor.shutdown(SOON).unwrap().is_complete()),
            1 => {
                let report = executor.shutdown(Duration::from_millis(2)).unwrap();
                eventually("the queues are empty", || queues.iter().all(WorkQueue::is_empty));
                let sum = |count: fn(&QueueReport) -> usize| report.queues.iter().map(count).sum::<usize>();
                let (dropped, running) = (sum(|queue| queue.dropped), sum(|queue| queue.running));
                let gone = 60 - runs.load(Ordering::SeqCst);
                // A worker may give up items after the report was made. The report counts these items as running.
                assert!((dropped..=dropped + running).contains(&gone), "{gone} did not run: {report}");
            }
            // Dropping all handles loses no item.
            _ => {
                drop((queues, executor));
                eventually("all ran", || runs.load(Ordering::SeqCst) == 60);
            }
        }
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: S1.7, A4, F8: while workers sleep, queues change their pools and limits, and end.
#[test]
fn queues_may_change_and_end_while_their_items_sleep() {
    let _limit = time_limit();
    let executor = builder("l3:2 core:2 pu:1").0.random_placement(3).build().unwrap();
    let mut random = Rng::with_seed(11);
    for round in 0..stress(20) {
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        for n in 0..40 {
            let (counted, time) = (Arc::clone(&runs), Duration::from_micros(random.u64(..3000)));
            let item = move || {
                nap(time);
                bump(&counted);
            };
            drop(queue.spawn(item).unwrap());
            match n % 10 {
                3 => queue.apply_attrs(Attrs::new().nice(random.u64(..4) as i32)).unwrap(),
                6 => queue.set_max_active(1 + random.usize(..8)).unwrap(),
                9 => {
                    let some = random.usize(..n);
                    eventually("some ran", || runs.load(Ordering::SeqCst) >= some);
                }
                _ => {}
            }
        }
        if round % 2 == 0 {
            queue.flush().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 40);
        }
        drop(queue);
        eventually("all ran", || runs.load(Ordering::SeqCst) == 40);
    }
    comes_to_rest(&executor);
}
