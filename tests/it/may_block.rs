//! `may_block`: a worker that stays in the call for long is replaced, with and without detection.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cmwq::{BlockingGuard, Detection, Executor, MayBlockGuard, WorkQueue, blocking, may_block};
use fastrand::Rng;

use crate::detection::check_count;
use crate::support::{Door, SOON, builder, eventually, no_thread_of, one_cpu_unseen, stress, time_limit};

thread_local! {
    static KEPT: RefCell<Vec<Guard>> = const { RefCell::new(Vec::new()) };
}

/// A guard of either kind.
enum Guard {
    Blocks(#[allow(dead_code, reason = "its drop matters")] BlockingGuard),
    May(#[allow(dead_code, reason = "its drop matters")] MayBlockGuard),
}

impl Guard {
    fn enter(blocks: bool) -> Self {
        if blocks { Self::Blocks(BlockingGuard::enter()) } else { Self::May(MayBlockGuard::enter()) }
    }
}

/// Executors of one CPU, with detection off and on.
fn executors() -> [Executor; 2] {
    [Detection::Off, Detection::Auto].map(|mode| builder("core:1 pu:1").0.detection(mode).build().unwrap())
}

/// Queues an item, and waits until it has begun. This shows that the calling worker was replaced.
#[track_caller]
fn wait_for_the_next(queue: &WorkQueue) {
    let door = Door::default();
    let opens = door.clone();
    drop(queue.spawn(move || opens.open()).unwrap());
    door.wait_unguarded();
}

/// Runs an item to its end.
#[track_caller]
fn run(executor: &Executor, queue: &WorkQueue, item: impl FnOnce() + Send + 'static) {
    let ended = queue.spawn(item).unwrap().join_timeout(SOON);
    assert!(matches!(ended, Ok(Ok(()))), "the item waits for ever: {}", executor.dump());
}

/// spec: C2.4 (`may_block`): a worker that stays in `may_block` is replaced, with detection and without.
#[test]
fn a_worker_that_is_inside_for_long_is_replaced() {
    let _limit = time_limit();
    for executor in executors() {
        for kind in
            [WorkQueue::per_cpu("p"), WorkQueue::builder("n"), WorkQueue::builder("h").high_priority(true)]
        {
            let queue = kind.build_on(&executor).unwrap();
            for _ in 0..5 {
                let own = queue.clone();
                run(&executor, &queue, move || may_block(|| wait_for_the_next(&own)));
            }
            check_count(&executor, &queue);
        }
    }
}

/// spec: C2.4 (`may_block`): a worker that computes inside the guard is also replaced, and counts again afterwards.
#[test]
fn a_worker_that_spins_inside_is_replaced() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let own = queue.clone();
    run(&executor, &queue, move || {
        may_block(|| {
            let next = own.spawn(|| ()).unwrap();
            while !next.is_finished() {
                std::thread::yield_now();
            }
        });
    });
    check_count(&executor, &queue);
}

/// spec: C2.5 (nesting is free): guards of both kinds are nested, and dropped in any order, with a wait at each step.
#[test]
fn guards_of_both_strengths_may_be_nested_and_crossed() {
    let _limit = time_limit();
    for executor in executors() {
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        for choice in 0..16 {
            let own = queue.clone();
            let bit = move |n: u32| choice & (1 << n) != 0;
            run(&executor, &queue, move || {
                let wait = |when: bool| {
                    if when {
                        wait_for_the_next(&own);
                    }
                };
                let outer = Guard::enter(bit(0));
                wait(bit(2));
                let inner = Guard::enter(!bit(0));
                wait(bit(3));
                let (first, second) = if bit(1) { (outer, inner) } else { (inner, outer) };
                drop(first);
                // The item waits under the remaining guard.
                wait(true);
                drop(second);
            });
            check_count(&executor, &queue);
        }
        let own = queue.clone();
        run(&executor, &queue, move || {
            may_block(|| blocking(|| may_block(|| wait_for_the_next(&own))));
            may_block(|| may_block(|| wait_for_the_next(&own)));
            blocking(|| may_block(|| wait_for_the_next(&own)));
        });
        check_count(&executor, &queue);
    }
}

/// spec: C2.5: a guard that an item leaks ends with the item, whether or not its worker was replaced.
#[test]
fn a_forgotten_guard_ends_with_its_item() {
    let _limit = time_limit();
    for executor in executors() {
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        for replaced in [false, true] {
            let own = queue.clone();
            run(&executor, &queue, move || {
                std::mem::forget(MayBlockGuard::enter());
                if replaced {
                    wait_for_the_next(&own);
                }
            });
            check_count(&executor, &queue);
        }
    }
}

/// spec: C2.5: a guard that is kept beyond the end of its item has no effect, even when the next item drops it.
#[test]
fn a_guard_that_outlives_its_item_does_nothing() {
    let _limit = time_limit();
    for mode in [Detection::Off, Detection::Auto] {
        let (builder, prefix) = builder("core:1 pu:1");
        let executor = builder.detection(mode).build().unwrap();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let keep = || KEPT.with_borrow_mut(|kept| kept.push(Guard::enter(false)));
        for round in 0..10 {
            let own = queue.clone();
            run(&executor, &queue, move || {
                keep();
                if round % 2 == 0 {
                    wait_for_the_next(&own);
                }
            });
            run(&executor, &queue, || {
                let _inside = MayBlockGuard::enter();
                KEPT.with_borrow_mut(Vec::clear);
            });
        }
        check_count(&executor, &queue);
        // Some guards are kept until their threads end.
        (0..4).for_each(|_| run(&executor, &queue, keep));
        drop((queue, executor));
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: C2.5, W9: a panic ends the guards that it unwinds.
#[test]
fn a_panic_under_a_guard_leaves_it() {
    let _limit = time_limit();
    for executor in executors() {
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        for caught in [false, true] {
            let own = queue.clone();
            let item = move || {
                let panics = || {
                    may_block(|| {
                        wait_for_the_next(&own);
                        panic!("on purpose")
                    })
                };
                if !caught {
                    panics();
                }
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                may_block(|| wait_for_the_next(&own));
            };
            assert_eq!(queue.spawn(item).unwrap().join().is_err(), !caught);
            check_count(&executor, &queue);
        }
    }
}

/// spec: C2.3 (on a thread that is no worker it is a no-op)
#[test]
fn outside_of_workers_a_guard_does_nothing() {
    let _guard = MayBlockGuard::enter();
    assert_eq!(may_block(|| blocking(|| may_block(|| 3))), 3);
    std::mem::forget(MayBlockGuard::enter());
    let kept = || KEPT.with_borrow_mut(|kept| kept.push(Guard::enter(false)));
    std::thread::spawn(kept).join().unwrap();
}

/// spec: C2.5, S1 (one truth): items enter, drop, leak and keep guards of both kinds at random, and wait under guards.
/// If detection is on, they also wait without a guard. The count of running workers is right in the end.
#[test]
fn the_count_is_right_after_any_use_of_guards() {
    let _limit = time_limit();
    for (seed, executor) in executors().into_iter().enumerate() {
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let looks = executor.dump().detection != Detection::Off;
        let mut seeds = Rng::with_seed(seed as u64);
        for round in 0..stress(150) {
            let (own, mut random) = (queue.clone(), Rng::with_seed(seeds.u64(..)));
            run(&executor, &queue, move || {
                let mut held = Vec::new();
                for _ in 0..random.u64(..12) {
                    let any = random.usize(..held.len().max(1));
                    match random.u64(..8) {
                        kind @ 0..3 => held.push(Guard::enter(kind == 0)),
                        3 if any < held.len() => drop(held.swap_remove(any)),
                        4 if any < held.len() => std::mem::forget(held.remove(any)),
                        5 if any < held.len() => {
                            let guard = held.swap_remove(any);
                            KEPT.with_borrow_mut(|kept| kept.push(guard));
                        }
                        6 => KEPT.with_borrow_mut(|kept| drop(kept.pop())),
                        _ if looks => wait_for_the_next(&own),
                        _ => blocking(|| wait_for_the_next(&own)),
                    }
                }
            });
            if round % 10 == 9 {
                check_count(&executor, &queue);
            }
        }
        check_count(&executor, &queue);
    }
}
