//! Items that fork: how long a fork waits although a CPU is free, how long a recursion takes on many CPUs, and how many
//! threads the recursion needs.
//!
//! Red under: `fork-wakes-no-worker`, `free-worker-sees-no-fork`, `siblings-see-no-fork`,
//! `joining-thread-takes-no-part`, `joining-thread-is-not-called`, `parts-of-parts-are-not-found`,
//! `joining-threads-keep-no-place`, `blocked-item-frees-no-place`, `refused-fork-is-not-offered`,
//! `forks-are-not-watched`, `ended-fork-still-has-parts`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_deque::Worker as List;

use super::setup::{executor, micros, ms};
use crate::engine::item::fork_head::ForkAddress;
use crate::engine::worker::levels::Forks;
use crate::engine::worker::shared::Worker;
use crate::policy::detection::Detection;
use crate::policy::worker::Phase;
use crate::sys::clock;
use crate::sys::machine::{Config, Mutex, burn, pause, run};
use crate::{Executor, WorkQueue, join};

/// The time in which a worker wakes up and takes a fork, and other threads take some steps.
const SOON: Duration = Duration::from_micros(200);

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

/// Calls `body` on a machine of this many CPUs, with this topology. Repeats the call with several orders of the
/// threads' steps.
fn always(cpus: usize, topology: &'static str, body: impl Fn(&Executor, &WorkQueue) + Send + Sync + 'static) {
    always_with(Detection::Sampling, cpus, topology, body);
}

fn always_with(
    detection: Detection,
    cpus: usize,
    topology: &'static str,
    body: impl Fn(&Executor, &WorkQueue) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    for seed in 0..5 {
        let body = Arc::clone(&body);
        run(Config { slice: ms(3), seed: Some(seed), ..Config::new(cpus) }, move || {
            let executor = executor(topology, |builder| builder.detection(detection));
            let queue = WorkQueue::builder("forks").build_on(&executor).unwrap();
            body(&executor, &queue);
            drop(queue);
            executor.shutdown(Duration::MAX).unwrap();
        });
    }
}

/// Burns `time` in a recursion: each call halves the time with a fork, until a part takes at most `leaf`.
fn divide(time: Duration, leaf: Duration) {
    if time <= leaf {
        return burn(time);
    }
    join(|| divide(time / 2, leaf), || divide(time / 2, leaf));
}

/// Divides like [`divide`], but into parts of different lengths.
fn divide_badly(time: Duration, leaf: Duration) {
    if time <= leaf {
        return burn(time);
    }
    join(|| divide_badly(time / 5, leaf), || divide_badly(time - time / 5, leaf));
}

/// spec: W7.8, W7.14: a recursion uses all CPUs, also those of other caches. In each pool, the recursion needs at most
/// one worker more than the pool has CPUs, or two more if the pool has siblings. A worker may wait for a lock whose
/// holder has lost its CPU for a slice of time. The detector may find such a worker asleep, and add another one. So the
/// test counts the workers only in runs without the detector.
#[test]
fn a_recursion_uses_all_cpus_and_needs_hardly_more_threads() {
    // The topology, the number of CPUs, the permitted number of workers in a pool, and the permitted time in percent
    // of the ideal time.
    let machines =
        [("l3:1 core:2 pu:1", 2, 3, 110), ("l3:1 core:8 pu:1", 8, 9, 120), ("l3:4 core:6 pu:1", 24, 8, 150)];
    for (topology, cpus, most, percent) in machines {
        let cases = [
            (Detection::Off, divide as fn(_, _)),
            (Detection::Off, divide_badly),
            (Detection::Sampling, divide),
        ];
        for (detection, division) in cases {
            always_with(detection, cpus, topology, move |executor, queue| {
                let (ideal, begin) = (ms(8), now());
                let work = ideal * cpus as u32;
                queue.spawn(move || division(work, micros(20))).unwrap().join().unwrap();
                let took = now() - begin;
                assert!(took < ideal * percent / 100, "{topology}: {took:?}");
                let workers = executor.dump().pools.iter().map(|pool| pool.workers).max().unwrap_or(0);
                assert!(workers <= most || detection != Detection::Off, "{topology}: {workers}");
            });
        }
    }
}

/// Queues an item that forks. Returns the moment at which the item forks, and the moment at which the fork begins. The
/// item's own thread calls the closure `first` beside the fork.
fn fork_beside(queue: &WorkQueue, first: impl FnOnce() + Send + 'static) -> Arc<Mutex<(Duration, Duration)>> {
    let moments = Arc::new(Mutex::new((Duration::ZERO, Duration::ZERO)));
    let noted = Arc::clone(&moments);
    let item = move || {
        noted.lock().0 = now();
        join(first, || noted.lock().1 = now());
    };
    assert!(queue.spawn_detached(item).is_ok());
    moments
}

/// spec: W7.13: a fork begins at once if a CPU of the pool or of a sibling pool is free.
#[test]
fn a_fork_begins_at_once_on_a_free_cpu() {
    for topology in ["l3:1 core:2 pu:1", "l3:2 core:1 pu:1"] {
        always(2, topology, move |_, queue| {
            let moments = fork_beside(queue, || burn(ms(20)));
            queue.flush().unwrap();
            let (forked, begun) = *moments.lock();
            assert!(begun - forked < SOON, "{topology}: {:?}", begun - forked);
        });
    }
}

/// The items fork while the manager ends its watch of the pool, because the manager has found no work there. The
/// manager then checks for work. In this test, the test's own thread takes these steps of the manager.
#[test]
fn forks_of_a_full_pool_are_watched_although_the_watch_has_just_ended() {
    always(2, "l3:1 core:2 pu:1", |executor, queue| {
        let fork = || join(|| burn(ms(1)), || burn(ms(1)));
        let items = [(); 2].map(|()| queue.spawn(fork).unwrap());
        pause(micros(300));
        let pool = Arc::clone(&executor.inner.upkeep.pools.all()[0]);
        pool.running.unwatch();
        pool.look();
        assert!(pool.running.load().is_watched());
        items.into_iter().for_each(|item| _ = item.join().unwrap());
    });
}

/// spec: W7.13: a fork begins as soon as a CPU of the pool or of a sibling pool is free.
#[test]
fn a_fork_begins_when_a_cpu_becomes_free() {
    for topology in ["l3:1 core:2 pu:1", "l3:2 core:1 pu:1"] {
        always(2, topology, move |_, queue| {
            let free = Arc::new(Mutex::new(Duration::ZERO));
            let end = Arc::clone(&free);
            let other = queue.spawn(move || {
                burn(ms(5));
                *end.lock() = now();
            });
            pause(ms(1));
            let moments = fork_beside(queue, || burn(ms(20)));
            queue.flush().unwrap();
            other.unwrap().join().unwrap();
            let (begun, free) = (moments.lock().1, *free.lock());
            assert!(begun >= free && begun - free < SOON, "{topology}: {:?}", begun.saturating_sub(free));
        });
    }
}

/// spec: W7.13: a fork begins when the forking item blocks.
#[test]
fn a_fork_begins_when_its_item_blocks() {
    always(1, "l3:1 core:1 pu:1", |_, queue| {
        // The pool of one CPU has no siblings, so the item does not fork.
        let moments = fork_beside(queue, || crate::blocking(|| pause(ms(5))));
        queue.flush().unwrap();
        let (forked, begun) = *moments.lock();
        assert!(begun - forked >= ms(5));
    });
    always(2, "l3:1 core:2 pu:1", |_, queue| {
        let busy = queue.spawn(|| burn(ms(20)));
        pause(ms(1));
        let moments = fork_beside(queue, || crate::blocking(|| pause(ms(10))));
        queue.flush().unwrap();
        busy.unwrap().join().unwrap();
        let (forked, begun) = *moments.lock();
        assert!(begun - forked < SOON, "{:?}", begun - forked);
    });
}

/// spec: W7.14: a thread that waits for a fork runs the parts that this fork makes later.
#[test]
fn a_joining_thread_runs_the_parts_of_its_fork() {
    always(2, "l3:1 core:2 pu:1", |executor, queue| {
        let item = queue.spawn(|| {
            let caller = thread::current().id();
            let second = || {
                burn(ms(2));
                join(|| burn(ms(5)), || (thread::current().id(), now())).1
            };
            let ((), (runs, begun)) = join(|| burn(ms(1)), second);
            (caller == runs, begun)
        });
        let begin = now();
        let (same, begun) = item.unwrap().join().unwrap();
        assert!(same && begun < begin + ms(2) + SOON, "{same} {:?}", begun - begin);
        assert_eq!(executor.dump().pools[0].workers, 3);
    });
}

/// spec: W7.14: a part of a fork begins at once even if a worker of another pool runs the fork. A thread on the first
/// pool's CPU takes the part.
#[test]
fn a_part_that_is_made_in_another_pool_begins_at_once() {
    always(2, "l3:2 core:1 pu:1", |_, queue| {
        let item = queue.spawn(|| {
            let second = || {
                burn(ms(2));
                join(|| burn(ms(5)), now).1
            };
            join(|| burn(ms(1)), second).1
        });
        let begin = now();
        let begun = item.unwrap().join().unwrap();
        assert!(begun < begin + ms(2) + 2 * SOON, "{:?}", begun - begin);
    });
}

/// spec: W7.13: one thread of a pool waits for a fork, and the item of another worker blocks. A further fork then
/// begins at once.
#[test]
fn a_fork_begins_when_an_item_blocks_beside_a_joining_thread() {
    always(2, "l3:1 core:2 pu:1", |_, queue| {
        let moments = Arc::new(Mutex::new((Duration::ZERO, Duration::ZERO)));
        let noted = Arc::clone(&moments);
        let item = queue.spawn(move || {
            let second = || {
                burn(ms(3));
                join(|| burn(ms(20)), || noted.lock().1 = now())
            };
            // Another worker takes the fork. Then this thread sleeps until the fork ends.
            join(|| burn(ms(1)), second);
        });
        pause(micros(500));
        let blocked = Arc::clone(&moments);
        let other = queue.spawn(move || {
            burn(ms(4));
            blocked.lock().0 = now();
            crate::blocking(|| pause(ms(30)));
        });
        item.unwrap().join().unwrap();
        other.unwrap().join().unwrap();
        let (blocked, begun) = *moments.lock();
        assert!(begun < blocked + SOON, "{:?}", begun.saturating_sub(blocked));
    });
}

/// spec: W7.13: while a thread waits for a fork, its pool wakes no worker for a fork in its place, and offers other
/// forks to sibling pools.
#[test]
fn a_fork_beside_a_joining_thread_goes_to_a_free_sibling() {
    always(6, "l3:2 core:3 pu:1", |_, queue| {
        let recursion = queue.spawn(|| join(|| burn(ms(1)), || burn(ms(30))));
        pause(ms(2));
        let moments = fork_beside(queue, || burn(ms(20)));
        queue.flush().unwrap();
        recursion.unwrap().join().unwrap();
        let (forked, begun) = *moments.lock();
        assert!(begun - forked < 2 * SOON, "{:?}", begun - forked);
    });
}

/// spec: W7.13, S1.1: a fork begins when the manager finds that the item of another worker sleeps without a guard.
#[test]
fn a_fork_begins_when_a_sleeper_is_found() {
    always(2, "l3:1 core:2 pu:1", |_, queue| {
        let sleeper = queue.spawn(|| pause(ms(40)));
        pause(micros(200));
        let moments = fork_beside(queue, || burn(ms(30)));
        queue.flush().unwrap();
        sleeper.unwrap().join().unwrap();
        let (forked, begun) = *moments.lock();
        assert!(begun - forked < ms(4), "{:?}", begun - forked);
    });
}

/// spec: W7.14: a thread that waits for a fork takes the parts of this fork. The thread takes no fork that the fork's
/// worker makes after the awaited fork has ended.
#[test]
fn a_fork_that_is_over_has_no_parts() {
    let worker = Arc::new(Worker::new(0, Phase::Between, List::new_fifo().stealer()));
    let list = List::new_lifo();
    worker.forks.add(list.stealer());
    let parts = Forks::new(Arc::clone(&worker), worker.forks.begins_run().unwrap());
    let part = ForkAddress::of_nothing();
    list.push(part);
    assert!(parts.are_any() && parts.take() == Some(part) && !parts.are_any());
    worker.forks.ends_run();
    list.push(part);
    assert!(!parts.are_any() && parts.take().is_none());
    let next = Forks::new(Arc::clone(&worker), worker.forks.begins_run().unwrap());
    assert!(parts.take().is_none() && next.take() == Some(part));
}

/// spec: W7.14: two threads run parts of each other's forks in turn, and each level waits for the next level. A search
/// for parts ends although there is an exponential number of ways through these levels.
#[test]
fn a_search_for_parts_visits_each_level_once() {
    let workers: [_; 2] =
        [0, 1].map(|id| Arc::new(Worker::new(id, Phase::Between, List::new_fifo().stealer())));
    let mut lists = Vec::new();
    let mut runs: Vec<Forks> = Vec::new();
    for level in 0..60 {
        let (own, other) = (&workers[level % 2], &workers[(level + 1) % 2]);
        let list = List::new_lifo();
        own.forks.add(list.stealer());
        runs.push(Forks::new(Arc::clone(own), own.forks.begins_run().unwrap()));
        if level > 0 {
            other.forks.joins(runs.last());
        }
        lists.push(list);
    }
    assert!(!runs[0].are_any());
    let part = ForkAddress::of_nothing();
    for (level, list) in lists.iter().enumerate() {
        list.push(part);
        assert!(runs.iter().enumerate().all(|(outer, run)| run.are_any() == (outer <= level)));
        assert_eq!(runs[0].take(), Some(part), "level {level}");
    }
}

/// spec: W7.14: if the thread that runs a fork waits for a part of the fork, the parts of the awaited part are also
/// parts of the fork.
#[test]
fn a_fork_has_the_parts_of_its_parts() {
    let workers: [_; 2] =
        [0, 1].map(|id| Arc::new(Worker::new(id, Phase::Between, List::new_fifo().stealer())));
    let lists = [List::new_lifo(), List::new_lifo()];
    let parts: Vec<_> = workers
        .iter()
        .zip(&lists)
        .map(|(worker, list)| {
            worker.forks.add(list.stealer());
            Forks::new(Arc::clone(worker), worker.forks.begins_run().unwrap())
        })
        .collect();
    lists[1].push(ForkAddress::of_nothing());
    assert!(!parts[0].are_any());
    workers[0].forks.joins(Some(&parts[1]));
    // An item that the thread runs while it waits has a level of its own.
    let inner = List::new_lifo();
    workers[0].forks.add(inner.stealer());
    assert!(parts[0].are_any());
    workers[0].forks.remove_innermost();
    workers[0].forks.joins(None);
    assert!(!parts[0].are_any() && workers[0].forks.take().is_none() && workers[1].forks.have_forks());
}
