//! Items that stay with the worker whose item has queued them: how long they wait, how many other items they overtake,
//! and whether other CPUs get their share. The bounds are the numbers that the documentation promises, not the
//! constants of `policy`.
//!
//! Red under: `crowd-wakes-no-worker`, `local-entries-stay`, `row-never-ends`, `row-outlasts-checks`,
//! `thief-leaves-the-victim-unnamed`, `turn-forgets-local-entries`, `turn-strands-local-entries`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::policy::detection::Detection;
use crate::sys::clock;
use crate::sys::machine::{Config, Mutex, burn, pause, run};
use crate::{AffinityScope, Attrs, Executor, WorkQueue, WorkQueueBuilder, blocking};

/// The longest time for which a local item can wait although a CPU of its pool is free.
const LONGEST: Duration = Duration::from_millis(3);

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

/// Calls `body` with a queue whose pool has two CPUs, and whose workers have run short items for a while.
fn with_short_items<R: Send + 'static>(body: impl FnOnce(&WorkQueue) -> R + Send + 'static) -> R {
    with_executor(|_, queue| body(queue))
}

/// Calls `body` as [`with_short_items`] does, and also passes the queue's executor.
fn with_executor<R: Send + 'static>(body: impl FnOnce(&Executor, &WorkQueue) -> R + Send + 'static) -> R {
    with_cpus(2, body)
}

/// Calls `body` as [`with_executor`] does, with a pool of this many CPUs.
fn with_cpus<R: Send + 'static>(
    cpus: usize,
    body: impl FnOnce(&Executor, &WorkQueue) -> R + Send + 'static,
) -> R {
    run(Config { slice: ms(3), ..Config::new(cpus) }, move || {
        let machine = format!("l3:1 core:{cpus} pu:1");
        let executor = executor(&machine, |builder| builder.detection(Detection::Sampling));
        let queue = default_queue("short").max_active(512).build_on(&executor).unwrap();
        for _ in 0..20 {
            for _ in 0..100 {
                assert!(queue.spawn_detached(|| burn(micros(2))).is_ok());
            }
            queue.flush().unwrap();
        }
        let result = body(&executor, &queue);
        queue.flush().unwrap();
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
        result
    })
}

/// Builds a queue whose pool has both CPUs.
fn default_queue(name: &str) -> WorkQueueBuilder {
    WorkQueue::builder(name).attrs(Attrs::new().scope(AffinityScope::System))
}

/// Keeps short items pending for 8 ms plus `time`, so the manager's checks become rare. Then waits until no item is
/// left. The time from the end of this call until the manager's next check depends on `time`.
fn becomes_rarely_checked(queue: &WorkQueue, time: Duration) {
    let end = now() + ms(8) + time;
    for _ in 0..4 {
        let own = queue.clone();
        assert!(queue.spawn_detached(move || go_on_until(&own, end)).is_ok());
    }
    while now() < end {
        queue.flush().unwrap();
    }
    queue.flush().unwrap();
    pause(time / 4);
}

/// Runs a few short items again and again, with pauses, so that the pool is not brisk. The time from the end of this
/// call until the manager's next check depends on `time`.
fn runs_few_short_items(queue: &WorkQueue, time: Duration) {
    for _ in 0..40 {
        for _ in 0..2 {
            assert!(queue.spawn_detached(|| burn(micros(2))).is_ok());
        }
        pause(micros(300));
    }
    pause(time / 4);
}

/// The body of an item that runs for 4 µs, and then queues itself again, until the time `end`.
fn go_on_until(queue: &WorkQueue, end: Duration) {
    burn(micros(4));
    if now() < end {
        let own = queue.clone();
        assert!(queue.spawn_detached(move || go_on_until(&own, end)).is_ok());
    }
}

/// The times at which items begin.
type Moments = Arc<Mutex<Vec<Duration>>>;

fn note(moments: &Moments) -> impl FnOnce() + Send + 'static + use<> {
    let moments = Arc::clone(moments);
    move || moments.lock().push(now())
}

/// Queues a long item, which queues a second item and then runs for 50 ms. The second item adds the moment of its
/// start to `noted`. Returns a cell, in which the long item stores the moment at which it begins.
fn queue_long_item(queue: &WorkQueue, noted: &Moments) -> Arc<Mutex<Duration>> {
    let (own, queued, noted) = (queue.clone(), Arc::new(Mutex::new(Duration::ZERO)), Arc::clone(noted));
    let begins = Arc::clone(&queued);
    let long = move || {
        *begins.lock() = now();
        assert!(own.spawn_detached(note(&noted)).is_ok());
        burn(ms(50));
    };
    assert!(queue.spawn_detached(long).is_ok());
    queued
}

/// spec: F8.6 (the time): the item that has queued the local item turns out to be long. The local item starts on a free
/// CPU within 3 ms.
#[test]
fn a_local_item_behind_a_long_item_starts_on_a_free_cpu_within_3_ms() {
    for later in (0..20).map(|n| micros(171 * n)) {
        let moments = Moments::default();
        let noted = Arc::clone(&moments);
        let queued = with_short_items(move |queue| {
            becomes_rarely_checked(queue, later);
            let queued = queue_long_item(queue, &noted);
            queue.flush().unwrap();
            *queued.lock()
        });
        let delay = moments.lock()[0] - queued;
        assert!(delay <= LONGEST + micros(100), "{later:?}: {delay:?}");
    }
}

/// spec: C1.2, F8.6: the item that has queued the local items blocks. Other workers then start the local items at once.
#[test]
fn local_items_start_when_the_item_at_work_blocks() {
    let moments = Moments::default();
    let noted = Arc::clone(&moments);
    let blocked = with_short_items(move |queue| {
        let (own, blocked) = (queue.clone(), Arc::new(Mutex::new(Duration::ZERO)));
        let begins = Arc::clone(&blocked);
        let blocks = move || {
            for _ in 0..4 {
                assert!(own.spawn_detached(note(&noted)).is_ok());
            }
            *begins.lock() = now();
            blocking(|| pause(ms(50)));
        };
        assert!(queue.spawn_detached(blocks).is_ok());
        queue.flush().unwrap();
        *blocked.lock()
    });
    for begin in moments.lock().iter() {
        let delay = begin.saturating_sub(blocked);
        assert!(delay <= micros(200), "{delay:?}");
    }
    assert_eq!(moments.lock().len(), 4);
}

/// The body of an item that queues itself `left` times, and counts its runs in `links`.
fn link(queue: &WorkQueue, left: u64, links: &Arc<AtomicU64>) {
    links.fetch_add(1, Ordering::Relaxed);
    burn(micros(1));
    if left > 0 {
        let (own, links) = (queue.clone(), Arc::clone(links));
        assert!(queue.spawn_detached(move || link(&own, left - 1, &links)).is_ok());
    }
}

/// spec: F8.6 (the number of local items that overtake another item, and the time)
#[test]
fn a_chain_of_local_items_overtakes_an_item_by_a_bounded_number_for_a_bounded_time() {
    let (most, longest) = with_short_items(|queue| {
        let links = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let (own, links) = (queue.clone(), Arc::clone(&links));
            assert!(queue.spawn_detached(move || link(&own, 10_000, &links)).is_ok());
        }
        let (mut most, mut longest) = (0, Duration::ZERO);
        for round in 0..20 {
            pause(micros(100 + 17 * round));
            let (seen, queued) = (links.load(Ordering::Relaxed), now());
            let counted = Arc::clone(&links);
            let other = queue.spawn(move || (counted.load(Ordering::Relaxed), now()));
            let (then, begins) = other.unwrap().join().unwrap();
            (most, longest) = (most.max(then - seen), longest.max(begins - queued));
        }
        (most, longest)
    });
    // Each of the two CPUs runs at most its present item, and then 64 items in a row.
    assert!(most <= 2 * 65, "{most} items");
    assert!(longest <= ms(1), "{longest:?}");
}

/// spec: C5.1
#[test]
fn idle_workers_steal_local_items() {
    // The manager checks the pool at another time in each run.
    for later in (0..20).map(|n| micros(79 * n)) {
        let took = with_short_items(move |queue| {
            pause(later);
            let (own, begin) = (queue.clone(), now());
            let parent = move || {
                burn(micros(300));
                for _ in 0..60 {
                    assert!(own.spawn_detached(|| burn(micros(20))).is_ok());
                }
            };
            queue.spawn(parent).unwrap().join().unwrap();
            queue.flush().unwrap();
            now() - begin
        });
        // One CPU alone would take 1500 µs. Two CPUs take 900 µs, unless the second CPU begins late.
        assert!(took <= micros(900), "{later:?}: {took:?}");
    }
}

/// spec: C5.1: an idle worker steals two of four local items. The other two are left to a worker whose present item is
/// long, so a second idle worker steals one of them.
#[test]
fn a_second_idle_worker_steals_of_what_the_first_one_has_left() {
    let moments = Moments::default();
    let noted = Arc::clone(&moments);
    let queued = with_cpus(4, move |_, queue| {
        let own = queue.clone();
        let parent = move || {
            for _ in 0..4 {
                let begins = note(&noted);
                let child = move || {
                    begins();
                    burn(ms(1));
                };
                assert!(own.spawn_detached(child).is_ok());
            }
            let queued = now();
            burn(ms(5));
            queued
        };
        queue.spawn(parent).unwrap().join().unwrap()
    });
    let delays: Vec<_> = moments.lock().iter().map(|begin| begin.saturating_sub(queued)).collect();
    assert!(delays[..2].iter().all(|delay| *delay <= micros(50)), "{delays:?}");
}

/// spec: A4.3: local items are not left behind in a pool that closes.
#[test]
fn a_queue_leaves_its_pool_while_items_are_local() {
    for later in (0..20).map(|n| micros(23 * n)) {
        with_short_items(move |queue| {
            // While no CPU is free, the manager leaves local items where they are.
            let busy = micros(100) + later;
            assert!(queue.spawn_detached(move || burn(busy)).is_ok());
            let own = queue.clone();
            let parent = move || {
                let child = own.spawn(|| burn(micros(1))).unwrap();
                burn(micros(700));
                child.join().unwrap();
            };
            let parent = queue.spawn(parent).unwrap();
            pause(micros(50));
            queue.apply_attrs(Attrs::new().scope(AffinityScope::Cpu)).unwrap();
            parent.join().unwrap();
        });
    }
}

/// spec: F8.6 (the time): another queue, which has no item in the pool, leaves the pool. In half of the runs, the pool
/// is brisk: it gets so many short items that it leaves them to the running workers. In the other runs, the pool is not
/// brisk, because only few short items come.
#[test]
fn a_local_item_does_not_wait_longer_because_another_queue_leaves_the_pool() {
    for (n, is_brisk) in (0..20).flat_map(|n| [(n, true), (n, false)]) {
        let later = micros(171 * n);
        let moments = Moments::default();
        let noted = Arc::clone(&moments);
        let queued = with_executor(move |executor, queue| {
            let other = default_queue("other").build_on(executor).unwrap();
            other.spawn(|| ()).unwrap().join().unwrap();
            match is_brisk {
                true => becomes_rarely_checked(queue, later),
                false => runs_few_short_items(queue, later),
            }
            let queued = queue_long_item(queue, &noted);
            pause(micros(100));
            other.apply_attrs(Attrs::new().scope(AffinityScope::Cpu)).unwrap();
            queue.flush().unwrap();
            *queued.lock()
        });
        let delay = moments.lock()[0] - queued;
        assert!(delay <= LONGEST + micros(200), "{later:?}, {is_brisk}: {delay:?}");
    }
}

/// spec: F8.6 (the time for which local items overtake): the items of a chain suddenly become long. These items
/// overtake another item for two checks of the manager at most.
#[test]
fn local_items_that_become_long_overtake_another_item_for_at_most_two_checks() {
    let longest = with_short_items(|queue| {
        let (length, mut longest) = (Arc::new(AtomicU64::new(1000)), Duration::ZERO);
        for _ in 0..2 {
            let (own, length) = (queue.clone(), Arc::clone(&length));
            assert!(queue.spawn_detached(move || lengthen(&own, &length)).is_ok());
        }
        for round in 0..20 {
            length.store(1000, Ordering::Relaxed);
            pause(ms(5) + micros(137 * round));
            length.store(1_000_000, Ordering::Relaxed);
            let queued = now();
            let begins = queue.spawn(now).unwrap().join().unwrap();
            longest = longest.max(begins - queued);
        }
        length.store(0, Ordering::Relaxed);
        longest
    });
    // The bound is two intervals between checks of the manager, and two items of 1 ms.
    assert!(longest <= 2 * LONGEST + ms(2), "{longest:?}");
}

/// The body of an item that runs for `length` nanoseconds, and then queues itself again. The chain ends when `length`
/// is 0.
fn lengthen(queue: &WorkQueue, length: &Arc<AtomicU64>) {
    let nanos = length.load(Ordering::Relaxed);
    burn(Duration::from_nanos(nanos));
    if nanos > 0 {
        let (own, length) = (queue.clone(), Arc::clone(length));
        assert!(queue.spawn_detached(move || lengthen(&own, &length)).is_ok());
    }
}
