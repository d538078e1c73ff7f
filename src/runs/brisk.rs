//! Pools whose items are short: when they wake another worker, and for how long an item may wait although a CPU is
//! free.
//!
//! Red under: `brisk-pushes-wake`, `brisk-wakes-for-no-rest`, `threads-leave-all-items`, `started-workers-wake-none`,
//! `not-brisk-offers-nothing`, `brisk-for-ever`, `blocked-worker-is-not-replaced`,
//! `checks-wake-for-no-few`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::sys::clock;
use crate::sys::machine::{self, Config, Mutex, burn, pause, run};
use crate::sys::thread::{self, spawn};
use crate::sys::wait::Until;
use crate::{Executor, WorkQueue, blocking};

const CPUS: usize = 8;

/// The longest time from waking a worker until it begins.
const LATENCY: Duration = Duration::from_micros(5);

/// The time between two pushes of an issuer that is quick enough to leave its items to the running workers.
const GAP: Duration = Duration::from_nanos(800);

/// The longest time between two checks of the manager.
const CHECK: Duration = Duration::from_micros(1600);

/// The longest time for which an item may wait behind others although a CPU of its pool is free.
const BRISK: Duration = Duration::from_micros(3200);

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

fn is_brisk(executor: &Executor) -> bool {
    let pools = executor.inner.upkeep.pools.all();
    pools.iter().any(|pool| pool.running.load().is_brisk())
}

/// Queues an item that runs for this time.
fn queue(queue: &WorkQueue, time: Duration) {
    assert!(queue.spawn_detached(move || burn(time)).is_ok());
}

/// Queues items that take 500 ns each, and pauses for 450 ns after each item. So a single worker is nearly fast enough
/// for the stream.
fn stream(queue: &WorkQueue, items: usize) {
    for _ in 0..items {
        self::queue(queue, Duration::from_nanos(500));
        pause(Duration::from_nanos(450));
    }
}

/// Calls `body` in three runs, with a queue whose pool has eight CPUs and is brisk. In each run, the threads take
/// their steps in a different order.
fn with_brisk_pool(body: impl Fn(&WorkQueue) + Copy + Send + 'static) {
    with_brisk_pool_of(move |_, queue| body(queue));
}

/// Does the same as [`with_brisk_pool`], and also passes the queue's executor.
fn with_brisk_pool_of(body: impl Fn(&Executor, &WorkQueue) + Copy + Send + 'static) {
    for seed in 1..=3 {
        let config =
            Config { latency: LATENCY, apart: &["/manager", "issuer"], ..Config::new(CPUS).seed(seed) };
        run(config, move || {
            let executor = executor(&format!("l3:1 core:{CPUS} pu:1"), |builder| builder.min_idle(CPUS));
            let queue = WorkQueue::builder("short").max_active(512).build_on(&executor).unwrap();
            (0..CPUS).for_each(|_| self::queue(&queue, ms(1)));
            queue.flush().unwrap();
            stream(&queue, 2000);
            assert!(is_brisk(&executor));
            body(&executor, &queue);
            queue.flush().unwrap();
            drop(queue);
            executor.shutdown(Duration::MAX).unwrap();
        });
    }
}

/// The times for which items have waited.
type Delays = Arc<Mutex<Vec<Duration>>>;

fn queue_and_note(queue: &WorkQueue, delays: &Delays) {
    let (queued, delays) = (now(), Arc::clone(delays));
    assert!(queue.spawn_detached(move || delays.lock().push(now() - queued)).is_ok());
}

/// spec: C3.4: a stream that one or two workers can run wakes few other workers.
#[test]
fn a_stream_of_short_items_wakes_few_workers() {
    with_brisk_pool(|queue| {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        machine::check(Box::new(move |moment| {
            let woken = moment.woken().iter().filter(|name| name.contains("/u")).count();
            counted.fetch_add(woken, Ordering::Relaxed);
        }));
        stream(queue, 3000);
        let wakes = wakes.load(Ordering::Relaxed);
        assert!(wakes <= 300, "{wakes} wake-ups for 3000 items");
    });
}

/// spec: C3.4 (the bound): a few items come behind a long one, and no other items follow. The manager's next check
/// finds these few items.
#[test]
fn a_few_items_behind_a_long_one_start_on_a_free_cpu_after_one_check() {
    for later in (0..10).map(|n| 171 * n) {
        with_brisk_pool(move |queue| {
            stream(queue, later);
            self::queue(queue, ms(50));
            pause(2 * LATENCY);
            let delays = Delays::default();
            for _ in 0..3 {
                queue_and_note(queue, &delays);
                pause(micros(1));
            }
            queue.flush().unwrap();
            let delays = delays.lock();
            assert!(delays.iter().all(|delay| *delay <= CHECK + LATENCY), "{later}: {delays:?}");
        });
    }
}

/// spec: C3.4 (the bound): a few items of a weighted queue come behind a long item. These items wait in the queue's
/// line, and workers take an item only when it is the queue's turn. The manager's next check finds these few items.
#[test]
fn a_few_items_of_a_weighted_queue_start_on_a_free_cpu_after_one_check() {
    for later in (0..10).map(|n| 171 * n) {
        with_brisk_pool_of(move |executor, queue| {
            let weighted = WorkQueue::builder("weighted").weight(300).build_on(executor).unwrap();
            stream(queue, later);
            self::queue(queue, ms(50));
            pause(2 * LATENCY);
            let delays = Delays::default();
            for _ in 0..3 {
                queue_and_note(&weighted, &delays);
                pause(micros(1));
            }
            weighted.flush().unwrap();
            let delays = delays.lock();
            assert!(delays.iter().all(|delay| *delay <= CHECK + LATENCY), "{later}: {delays:?}");
        });
    }
}

/// spec: C3.4: many items come behind a long one. After every sixteen items, their issuer checks whether it has left
/// more than four items to the worker that runs the long one.
#[test]
fn many_items_behind_a_long_one_start_soon() {
    with_brisk_pool(|queue| {
        self::queue(queue, ms(50));
        pause(2 * LATENCY);
        let delays = Delays::default();
        for _ in 0..60 {
            queue_and_note(queue, &delays);
            pause(GAP);
        }
        queue.flush().unwrap();
        let delays = delays.lock();
        let soon = |delay: &Duration| *delay <= (16 + 4) * GAP + LATENCY;
        assert!(delays.len() == 60 && delays[..40].iter().all(soon), "{delays:?}");
    });
}

/// spec: C2.1, C3.4: a worker that blocks leaves its CPU to another worker, although a third worker runs.
#[test]
fn a_worker_that_blocks_is_replaced_at_once() {
    // After a stream of one of these lengths, the issuer is about to find that it pushes slowly. A slow issuer wakes
    // workers itself.
    for later in [0, 4, 8, 12] {
        with_brisk_pool(move |queue| {
            stream(queue, later);
            pause(micros(50));
            let blocks = move || {
                burn(micros(20));
                blocking(|| pause(ms(20)));
            };
            assert!(queue.spawn_detached(blocks).is_ok());
            self::queue(queue, ms(50));
            pause(2 * LATENCY + micros(1));
            let delays = Delays::default();
            (0..3).for_each(|_| queue_and_note(queue, &delays));
            queue.flush().unwrap();
            let delays = delays.lock();
            assert!(delays.iter().all(|delay| *delay <= micros(20) + LATENCY), "{delays:?}");
        });
    }
}

/// spec: C3.4: all CPUs run a part of a long backlog, whether the backlog has come from one thread or from many.
#[test]
fn all_cpus_run_a_long_backlog_of_short_items() {
    for issuers in [1, 100] {
        with_brisk_pool(move |queue| {
            let (begin, items, time) = (now(), 1500, micros(6));
            let issue = |_| {
                let queue = queue.clone();
                let issue = move || (0..items / issuers).for_each(|_| self::queue(&queue, time));
                spawn("issuer".to_owned(), None, issue).unwrap()
            };
            let threads: Vec<_> = (0..issuers).map(issue).collect();
            threads.into_iter().for_each(|thread| thread::join(thread, Until::FOREVER).unwrap());
            queue.flush().unwrap();
            let (took, ideal) = (now() - begin, time * items as u32 / CPUS as u32);
            assert!(took <= ideal + micros(120), "{issuers}: {took:?} instead of {ideal:?}");
        });
    }
}

/// spec: C3.4: in a burst, each woken worker wakes the next one, because the issuer checks only after every sixteen
/// items.
#[test]
fn a_short_burst_is_run_by_all_cpus() {
    with_brisk_pool(|queue| {
        let (begin, items, time) = (now(), 40, micros(20));
        (0..items).for_each(|_| self::queue(queue, time));
        queue.flush().unwrap();
        let (took, ideal) = (now() - begin, time * items / CPUS as u32);
        assert!(took <= ideal + micros(50), "{took:?} instead of {ideal:?}");
    });
}

/// spec: C3.4 (the bound): the items of the backlog are not short any more. Each CPU gets one of these items within
/// the bound.
#[test]
fn a_backlog_of_long_items_starts_on_all_cpus_within_the_bound() {
    with_brisk_pool(|queue| {
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..CPUS {
            let begun = Arc::clone(&begun);
            let item = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                burn(ms(20));
            };
            assert!(queue.spawn_detached(item).is_ok());
            pause(micros(1));
        }
        pause(BRISK + 2 * LATENCY);
        assert_eq!(begun.load(Ordering::Relaxed), CPUS);
    });
}
