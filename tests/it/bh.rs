//! Bh queues: one context for each CPU and priority, items in order, and no replacement for an item that blocks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use cmwq::kernel::{self, ExecutorExt, WorkQueueBuilderExt};
use cmwq::{Attrs, BuildQueueError, JoinError, QueueError, WaitError, Work, WorkQueue};

use crate::support::{
    Crowd, Door, builder, bump, cpus, current_pool, eventually, no_thread_of, on_each_executor, one_cpu,
    own_status, pool, stress, thread_id, threads_of, time_limit,
};

/// spec: Q1.3 (bh): each CPU and priority has one context, pinned, shared by all bh queues, and no spare.
#[test]
fn each_cpu_and_priority_has_one_context() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:4 pu:1");
    let executor = builder.build().unwrap();
    let queues = ["one", "two"].map(|name| kernel::bh(name).build_on(&executor).unwrap());
    let urgent = kernel::bh("urgent").high_priority(true).build_on(&executor).unwrap();
    let mut threads = BTreeMap::new();
    for round in 0..40 {
        let queue = if round % 4 == 3 { &urgent } else { &queues[round % 2] };
        let tell = || (current_pool(), thread_id(), own_status("Cpus_allowed_list"));
        let (name, thread, allowed) = queue.item(tell).on_cpu(round / 4 % 4).spawn().unwrap().join().unwrap();
        let pinned = allowed.parse::<usize>().is_ok();
        assert!(pinned || executor.dump().portable, "pinned to one CPU: {allowed}");
        assert_eq!(*threads.entry(name).or_insert(thread), thread, "always the same thread");
    }
    let names: Vec<&str> = threads.keys().map(String::as_str).collect();
    assert_eq!(names, ["bh0", "bh0H", "bh1", "bh1H", "bh2", "bh2H", "bh3", "bh3H"]);
    for name in names {
        let pool = pool(&executor, name);
        assert_eq!((pool.workers, pool.target), (1, Some(1)), "{pool}");
    }
    let mut shown = threads_of(&prefix);
    shown.retain(|name| !name.ends_with("/manager"));
    shown.sort();
    assert_eq!(shown.len(), 8, "{shown:?}");
    assert_eq!(shown[1], format!("{prefix}/bh0H"));
}

/// spec: Q1.3 (bh: items in order): the items of one CPU run one at a time. The items of each issuer run in the order
/// of their submission, even if they are in several queues.
#[test]
fn items_of_one_cpu_run_one_after_the_other_in_order() {
    on_each_executor(|executor| {
        let queues = ["one", "two"].map(|name| kernel::bh(name).build_on(executor).unwrap());
        let cpus: Vec<usize> = executor.cpus().iter().collect();
        let crowds: Arc<Vec<Crowd>> = Arc::new(cpus.iter().map(|_| Crowd::default()).collect());
        let last: Arc<Vec<[AtomicUsize; 3]>> = Arc::new(cpus.iter().map(|_| Default::default()).collect());
        std::thread::scope(|scope| {
            for issuer in 0..3 {
                let (queues, cpus, crowds, last) = (&queues, &cpus, &crowds, &last);
                scope.spawn(move || {
                    for n in 1..=stress(3000) {
                        let at = n % cpus.len();
                        let (crowds, last) = (Arc::clone(crowds), Arc::clone(last));
                        let item = move || {
                            crowds[at].enter();
                            let before = last[at][issuer].swap(n, Ordering::SeqCst);
                            assert!(before < n, "{before} came before {n}");
                            crowds[at].leave();
                        };
                        // Both queues share the context, so the order holds across both.
                        drop(queues[n % 2].item(item).on_cpu(cpus[at]).spawn().unwrap());
                    }
                });
            }
        });
        queues.iter().for_each(|queue| queue.flush().unwrap());
        assert!(crowds.iter().all(|crowd| crowd.peak() == 1));
        let ended: usize = last.iter().flatten().map(|last| last.load(Ordering::SeqCst)).max().unwrap();
        assert_eq!(ended, stress(3000), "no item panicked");
    });
}

/// spec: Q1.3 (bh: items in order): if an item queues another item on its own CPU, the new item runs after the items
/// that were already queued there. An item may also queue itself.
#[test]
fn an_item_queued_by_another_one_comes_last() {
    on_each_executor(|executor| {
        let queue = kernel::bh("q").build_on(executor).unwrap();
        let cpu = executor.cpus().iter().last().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(what)
        };
        let (door, again, child) = (Door::default(), queue.clone(), note("child"));
        let (wait, first) = (door.clone(), note("first"));
        let child = Mutex::new(Some(child));
        let work = Work::with_handle(move |this| {
            wait.wait_unguarded();
            first();
            if let Some(child) = child.lock().unwrap().take() {
                drop(again.item(child).on_cpu(cpu).spawn().unwrap());
                assert_eq!(again.item(this).on_cpu(cpu).enqueue(), Ok(true));
            }
        });
        queue.item(&work).on_cpu(cpu).enqueue().unwrap();
        drop(queue.item(note("second")).on_cpu(cpu).spawn().unwrap());
        door.open();
        queue.flush().unwrap();
        work.flush().unwrap();
        assert_eq!(*order.lock().unwrap(), ["first", "second", "child", "first"]);
    });
}

/// spec: Q1.3 (bh: no max_active), O2.4: a snapshot counts all items of a long backlog.
#[test]
fn a_snapshot_counts_a_long_backlog() {
    const ITEMS: usize = 5000;
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (waits, begins) = (door.clone(), begun.clone());
    let first = queue.spawn(move || {
        begins.open();
        waits.wait_unguarded();
    });
    begun.wait_unguarded();
    (1..ITEMS).for_each(|_| queue.spawn_detached(|| ()).unwrap());
    let shown = executor.dump().queue("q").cloned().unwrap();
    assert_eq!((shown.len, shown.active, shown.inactive), (ITEMS, ITEMS, 0));
    assert_eq!((shown.shards[0].active, queue.len()), (Some(ITEMS), ITEMS));
    door.open();
    first.unwrap().join().unwrap();
    queue.flush().unwrap();
}

/// spec: Q1.3 (bh: no max_active): each issuer's items keep their order across all queues, however long the backlog is,
/// and while it shrinks and grows.
#[test]
fn a_long_backlog_keeps_its_order() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queues = ["one", "two"].map(|name| kernel::bh(name).build_on(&executor).unwrap());
    assert_eq!(queues[0].max_active(), None);
    let (door, last) = (Door::default(), Arc::new([const { AtomicUsize::new(0) }; 3]));
    let wait = door.clone();
    drop(queues[0].spawn(move || wait.wait_unguarded()).unwrap());
    let (each, swaps) = (stress(20_000), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for issuer in 0..3 {
            let (queues, last, swaps, door) = (&queues, &last, &swaps, &door);
            scope.spawn(move || {
                for n in 1..=each {
                    let (last, swaps) = (Arc::clone(last), Arc::clone(swaps));
                    let item = move || {
                        let before = last[issuer].swap(n, Ordering::SeqCst);
                        swaps.fetch_add(usize::from(before != n - 1), Ordering::SeqCst);
                    };
                    drop(queues[n % 2].spawn(item).unwrap());
                    if n == each.min(1000) {
                        assert_eq!(queues.each_ref().map(|queue| queue.is_congested(0)), [Ok(false); 2]);
                        door.open();
                    }
                }
            });
        }
    });
    queues.iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(last.each_ref().map(|last| last.load(Ordering::SeqCst)), [each; 3]);
    assert_eq!(swaps.load(Ordering::SeqCst), 0);
}

/// spec: Q1.4 (bh: no concurrency management): while an item blocks, with or without a guard, no other item starts on
/// its context. Items of the other priority, of other CPUs and of other kinds of queues start.
#[test]
fn no_item_starts_on_the_context_of_one_that_blocks() {
    let _limit = time_limit();
    let executor = builder("core:2 pu:1").0.build().unwrap();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    for wait in [Door::wait, Door::wait_unguarded] {
        let (door, inside) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let (closed, tell) = (door.clone(), Arc::clone(&inside));
        let blocked = queue
            .item(move || {
                bump(&tell);
                wait(&closed);
            })
            .on_cpu(0)
            .spawn();
        eventually("the item waits", || inside.load(Ordering::SeqCst) == 1);
        let next = queue.item(current_pool).on_cpu(0).spawn().unwrap();
        let urgent = kernel::bh("urgent").high_priority(true).build_on(&executor).unwrap();
        assert_eq!(urgent.item(current_pool).on_cpu(0).spawn().unwrap().join().unwrap(), "bh0H");
        assert_eq!(queue.item(current_pool).on_cpu(1).spawn().unwrap().join().unwrap(), "bh1");
        assert_eq!(executor.run_on_cpu(0, current_pool).unwrap(), "0");
        let next = next.join_timeout(Duration::from_millis(150)).unwrap_err();
        assert_eq!(pool(&executor, "bh0").workers, 1);
        door.open();
        blocked.unwrap().join().unwrap();
        assert_eq!(next.join().unwrap(), "bh0");
    }
}

/// spec: Q1.6, Q2 (a combination that means nothing is a typed error that says why)
#[test]
fn settings_without_a_meaning_for_bh_are_errors() {
    let executor = one_cpu();
    let bh = || kernel::bh("q");
    let one_by_one = "each CPU runs one of its items at a time, in their order";
    for (builder, setting, reason) in [
        (bh().max_active(1), "max_active", one_by_one),
        (bh().max_active_total(5), "max_active_total", one_by_one),
        (bh().cpu_intensive(true), "cpu_intensive", "it exempts items from the count of a per-CPU pool"),
        (bh().power_efficient(true), "power_efficient", "it turns a per-CPU queue into an unbound one"),
        (
            bh().rescuer(true),
            "rescuer",
            "its items run on the one thread of their CPU, in order, and on no other",
        ),
        (
            bh().freezable(true),
            "freezable",
            "its items go to the thread of their CPU at once, and nothing holds them back",
        ),
        (bh().attrs(Attrs::new()), "attrs", "its items run on the CPU that they were queued on"),
    ] {
        match builder.build_on(&executor) {
            Err(BuildQueueError::Contradiction { this, with: "a bh queue", because }) => {
                assert_eq!((this, because), (setting, reason));
            }
            other => panic!("{setting}: {other:?}"),
        }
    }
    assert!(bh().high_priority(true).max_pending(3).build_on(&executor).is_ok());
}

/// spec: Q1.6 (bh), Q3 (max_pending)
#[test]
fn a_bh_queue_may_be_bounded() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = kernel::bh("q").max_pending(2).build_on(&executor).unwrap();
    let (door, inside) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, tell) = (door.clone(), Arc::clone(&inside));
    let first = queue.spawn(move || {
        bump(&tell);
        wait.wait_unguarded();
    });
    eventually("the item began", || inside.load(Ordering::SeqCst) == 1);
    let refused = queue.items((0..3).map(|n| move || n)).spawn().unwrap_err();
    assert_eq!((refused.error, refused.accepted()), (QueueError::Full, 2));
    door.open();
    first.unwrap().join().unwrap();
    queue.flush().unwrap();
}

/// spec: Q1.4, F5: an item may wait for items of other contexts, but not for items that its own context would have to
/// run.
#[test]
fn waiting_for_the_own_context_is_detected() {
    let _limit = time_limit();
    let executor = builder("core:2 pu:1").0.build().unwrap();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let mine = queue.clone();
    let other = kernel::bh("other").build_on(&executor).unwrap();
    let item = queue
        .item(move || {
            let elsewhere = mine.item(|| 7).on_cpu(1).spawn().unwrap().join().unwrap();
            assert_eq!(elsewhere, 7);
            assert_eq!(mine.flush(), Err(WaitError::WouldDeadlock));
            let behind = mine.item(|| ()).on_cpu(0).spawn().unwrap();
            assert!(matches!(behind.join(), Err(JoinError::WouldDeadlock)));
            let work = Work::new(|| ());
            mine.item(&work).on_cpu(0).enqueue().unwrap();
            assert_eq!(work.flush(), Err(WaitError::WouldDeadlock));
            // The other queue shares the context.
            assert_eq!(other.flush(), Ok(()), "the other queue is empty");
            let theirs = Work::new(|| ());
            other.item(&theirs).on_cpu(0).enqueue().unwrap();
            assert_eq!(theirs.flush_timeout(Duration::from_secs(9)), Err(WaitError::WouldDeadlock));
            let elsewhere = Work::new(|| ());
            other.item(&elsewhere).on_cpu(1).enqueue().unwrap();
            elsewhere.flush().unwrap();
            let behind = other.item(|| ()).on_cpu(0).spawn().unwrap();
            assert_eq!(other.flush(), Err(WaitError::WouldDeadlock));
            assert!(matches!(behind.join(), Err(JoinError::WouldDeadlock)));
            assert_eq!(other.item(|| 8).on_cpu(1).spawn().unwrap().join().unwrap(), 8);
        })
        .on_cpu(0)
        .spawn();
    item.unwrap().join().unwrap();
    queue.flush().unwrap();
}

/// spec: W9, W2, F3, Q1.6: bh items panic, are cancelled, coalesce, and end with their queue and executor as all other
/// items do.
#[test]
fn bh_items_behave_as_all_items() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let panicked = queue.item(|| panic!("no luck")).on_cpu(0).spawn().unwrap().join();
    assert!(matches!(panicked, Err(JoinError::Panicked(_))));

    let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (door.clone(), Arc::clone(&runs));
    let work = Work::new(move || {
        bump(&count);
        wait.wait_unguarded();
    });
    queue.item(&work).on_cpu(0).enqueue().unwrap();
    eventually("the item runs", || work.is_running());
    assert_eq!([(); 3].map(|()| queue.item(&work).on_cpu(0).enqueue()), [Ok(true), Ok(false), Ok(false)]);
    assert!(work.cancel());
    assert_eq!(queue.item(&work).on_cpu(1).enqueue(), Ok(true));
    let cancelled = queue.item(|| unreachable!("the item was cancelled")).on_cpu(0).spawn().unwrap();
    assert!(cancelled.cancel());
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(work.cancel_and_wait(), Ok(false));

    let (last, count) = (queue.item(|| "last").on_cpu(1).spawn().unwrap(), Arc::clone(&runs));
    drop(queue.item(move || bump(&count)).on_cpu(0).spawn().unwrap());
    drop((queue, executor));
    assert_eq!(last.join().unwrap(), "last");
    eventually("all threads have ended", || no_thread_of(&prefix));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

/// spec: Q1.6, P1: a context whose thread cannot be made gets one thread later, and never a second one.
#[test]
fn a_context_that_cannot_be_made_is_made_later() {
    let _limit = time_limit();
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&attempts);
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.before_spawn(move |name| {
        if name.contains("/bh") && count.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(std::io::Error::other("not now"));
        }
        Ok(())
    });
    let executor = executor.build().unwrap();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let handles = queue.items((0..100).map(|n| move || n)).spawn().unwrap();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>(), 4950);
    for _ in 0..stress(200) {
        drop(queue.spawn(|| cmwq::blocking(|| ())).unwrap());
        queue.flush().unwrap();
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    let contexts = threads_of(&prefix).into_iter().filter(|name| name.contains("/bh"));
    assert_eq!(contexts.collect::<Vec<_>>(), [format!("{prefix}/bh0")]);
}

/// spec: Q1.6, E2 (the cap on threads): an idle context gives its thread up for another pool, and gets one again later.
#[test]
fn contexts_take_part_in_the_cap() {
    let _limit = time_limit();
    let executor = builder("core:2 pu:1").0.max_threads(1).build().unwrap();
    let (bh, plain) = (kernel::bh("bh"), WorkQueue::per_cpu("plain"));
    let queues = [bh, plain].map(|queue| queue.build_on(&executor).unwrap());
    for round in 0..stress(30) {
        let name =
            queues[round % 2].item(current_pool).on_cpu(round / 2 % 2).spawn().unwrap().join().unwrap();
        assert_eq!(name.starts_with("bh"), round % 2 == 0);
        assert!(executor.dump().threads <= 1);
    }
}

/// spec: Q1.3, W8: contexts fall asleep, and are woken by batches, timers and requeues from many threads.
#[test]
fn no_bh_item_is_left_behind() {
    let _limit = time_limit();
    let executor = cpus(3);
    let queues = [kernel::bh("one"), kernel::bh("two").high_priority(true), WorkQueue::per_cpu("three")]
        .map(|queue| queue.build_on(&executor).unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let expected = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (queues, runs, expected) = (&queues, &runs, &expected);
            scope.spawn(move || {
                for round in 0..stress(300) {
                    let queue = &queues[(thread + round) % 3];
                    let next = queues[(thread + round + 1) % 3].clone();
                    let items = round % 4;
                    expected.fetch_add(2 * items, Ordering::SeqCst);
                    let batch = (0..items).map(|_| {
                        let (runs, next) = (Arc::clone(runs), next.clone());
                        move || {
                            bump(&runs);
                            let runs = Arc::clone(&runs);
                            drop(next.spawn(move || bump(&runs)).unwrap());
                        }
                    });
                    drop(queue.items(batch).spawn().unwrap());
                    if round % 10 == 0 {
                        queue.flush().unwrap();
                    }
                }
            });
        }
    });
    // The second flush covers the items that the first items have queued.
    for queue in queues.iter().chain(&queues) {
        queue.flush().unwrap();
    }
    assert_eq!(runs.load(Ordering::SeqCst), expected.load(Ordering::SeqCst));
}

/// A logger that sends each error message of the process to a channel.
struct Errors(Mutex<mpsc::Sender<String>>);

impl log::Log for Errors {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            let careless = text.contains("careless");
            // The logger itself enters a guard on the context's thread. The executor must not report this guard.
            let _sent = cmwq::blocking(|| self.0.lock().unwrap().send(text));
            assert!(!careless, "a logger that panics does no harm");
        }
    }

    fn flush(&self) {}
}

/// spec: Q1.4 (bh: a blocking guard is a reported error in debug builds, D): the report names the queue and the item's
/// type. It is logged once for each type. The guard never panics, and has no other effect.
#[test]
fn a_guard_in_a_bh_item_is_reported_once() {
    static LOGGER: OnceLock<Errors> = OnceLock::new();
    let _limit = time_limit();
    let (send, errors) = mpsc::channel();
    let logger = LOGGER.get_or_init(|| Errors(Mutex::new(send)));
    log::set_logger(logger).unwrap();
    log::set_max_level(log::LevelFilter::Error);

    struct Cautious;
    impl Cautious {
        fn guard(self) -> u32 {
            cmwq::blocking(|| cmwq::blocking(|| 7))
        }
    }
    let executor = one_cpu();
    let queue = kernel::bh("careless").build_on(&executor).unwrap();
    let guarded = || move || Cautious.guard();
    for _ in 0..3 {
        assert_eq!(queue.spawn(guarded()).unwrap().join().unwrap(), 7);
    }
    WorkQueue::per_cpu("careful").build_on(&executor).unwrap().spawn(guarded()).unwrap().join().unwrap();
    log::set_max_level(log::LevelFilter::Off);
    let reports: Vec<String> = errors.try_iter().filter(|error| error.contains("careless")).collect();
    let expected = usize::from(cfg!(debug_assertions));
    assert_eq!(reports.len(), expected, "{reports:?}");
    for report in reports {
        assert!(report.contains("a_guard_in_a_bh_item_is_reported_once"), "{report}");
    }
}
