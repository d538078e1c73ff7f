//! The counters of a queue: the numbers of its items.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cmwq::observe::WorkerState;
use cmwq::{Counters, Executor, JoinHandle, Work, WorkQueue};
use testkit::spin;

use crate::support::{
    Door, SOON, Spawns, a_blocked_item_lets_another_one_in, all_kinds, begun_on, builder, bump, burn, cpus,
    eventually, falls_quiet, has_yields, held, is_portable, on_each_executor, one_cpu, one_cpu_unseen,
    stress, stretch, time_limit, unseen,
};

/// Asserts that the time found differs from the expected one by at most the tolerance.
#[track_caller]
fn is_about(found: Duration, expected: Duration, tolerance: Duration) {
    assert!(found.abs_diff(expected) <= tolerance, "{found:?}, and not {expected:?}");
}

/// spec: O1.1 (started, completed): after a thread has joined or flushed an item, it finds the item counted.
#[test]
fn an_item_is_in_flight_from_its_beginning_to_its_end() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            assert_eq!(queue.counters(), Counters::default(), "{}", queue.name());
            let door = Door::default();
            let (begin, begun) = std::sync::mpsc::channel();
            let inside = door.clone();
            let item = queue.spawn(move || {
                begin.send(()).unwrap();
                inside.wait();
            });
            begun.recv().unwrap();
            let counters = queue.counters();
            assert_eq!((counters.started, counters.completed, counters.in_flight()), (1, 0, 1));
            door.open();
            item.unwrap().join().unwrap();
            let counters = queue.counters();
            assert_eq!((counters.started, counters.completed, counters.in_flight()), (1, 1, 0));
            assert_eq!(counters.home() + counters.away + counters.stolen, 1);
        }
    });
}

/// spec: O1.7 (panicked)
#[test]
fn an_item_that_panics_has_completed() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for n in 0..6 {
            let item = queue.spawn(move || assert!(n % 3 != 0, "on purpose"));
            assert_eq!(item.unwrap().join().is_err(), n % 3 == 0);
        }
        let counters = queue.counters();
        assert_eq!((counters.started, counters.completed, counters.panicked), (6, 6, 2));
    });
}

/// spec: O1.7 (cancelled): a cancelled item counts when a worker reaches its place, on either list.
#[test]
fn a_cancelled_item_is_counted_when_its_place_is_reached() {
    let _limit = time_limit();
    for limited in [1, 256] {
        let executor = one_cpu_unseen();
        let queue = WorkQueue::per_cpu("q").max_active(limited).build_on(&executor).unwrap();
        let (holder, door) = held(&queue);
        let one_shots: Vec<JoinHandle<()>> = (0..3).map(|_| queue.spawn(|| ()).unwrap()).collect();
        let works: Vec<Work> = (0..3).map(|_| Work::new(|| ())).collect();
        works.iter().for_each(|work| assert_eq!(queue.enqueue(work), Ok(true)));
        assert!(one_shots[1].cancel() && works[2].cancel());
        assert_eq!(queue.counters().cancelled, 0, "its place has not been reached");
        door.open();
        queue.flush().unwrap();
        let counters = queue.counters();
        assert_eq!((counters.started, counters.cancelled), (1 + 4, 2));
        holder.join().unwrap();
    }
}

/// spec: O1.7 (cancelled): an item that was cancelled and queued again at the same place counts twice, because it was
/// queued twice.
#[test]
fn every_submission_is_counted_though_two_share_a_place() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (_holder, door) = held(&queue);
    let work = Work::new(|| ());
    for n in 0..5 {
        assert_eq!(queue.enqueue(&work), Ok(true), "{n}");
        assert!(work.cancel());
    }
    assert_eq!(queue.enqueue(&work), Ok(true));
    // The item's submission is replaced, which adds another submission.
    assert!(queue.item(&work).reschedule().unwrap());
    door.open();
    queue.flush().unwrap();
    work.flush().unwrap();
    let counters = queue.counters();
    assert_eq!((counters.started, counters.cancelled), (2, 6));
}

/// spec: O1.7 (cancelled): a cancelled item counts at once if a worker had popped its entry.
#[test]
fn an_entry_that_a_worker_has_popped_is_counted_at_once() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (work, door, _) = begun_on(&queue);
    assert_eq!(queue.enqueue(&work), Ok(true));
    // Another worker pops the entry and leaves it to the running item. Then no entry of the queue waits to be popped.
    let behind = queue.spawn(|| ()).unwrap();
    behind.join().unwrap();
    eventually("only the item's worker is busy", || {
        let dump = executor.dump();
        let workers = dump.pools.iter().flat_map(|pool| &pool.worker_details);
        workers.filter(|worker| worker.state != WorkerState::Idle).count() == 1
    });
    assert!(work.cancel());
    door.open();
    queue.flush().unwrap();
    let counters = queue.counters();
    assert_eq!((counters.started, counters.completed, counters.cancelled), (2, 2, 1));
}

/// spec: O1.13: each way to submit counts the items that it refuses for lack of room. A call that waits for room counts
/// none.
#[test]
fn refused_items_and_permits_are_counted() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").max_pending(2).build_on(executor).unwrap();
        let (holder, door) = held(&queue);
        let places = [(); 2].map(|()| queue.try_reserve().unwrap());
        let mut expected = 0;
        let mut counts = |items, what, is_refused: bool| {
            expected += items;
            assert!(is_refused, "{what}");
            assert_eq!(queue.counters().refused, expected, "{what}");
        };
        counts(1, "spawn", queue.spawn(|| ()).is_err());
        counts(1, "spawn_detached", queue.spawn_detached(|| ()).is_err());
        counts(1, "item", queue.item(|| ()).named("n").spawn().is_err());
        counts(1, "a detached item", queue.item(|| ()).within(SOON).spawn_detached().is_err());
        counts(3, "items", queue.items([|| (); 3]).spawn().is_err());
        counts(3, "detached items", queue.items([|| (); 3]).spawn_detached().is_err());
        let works = [(); 2].map(|()| Work::new(|| ()));
        counts(1, "enqueue", queue.enqueue(&works[0]).is_err());
        counts(1, "an enqueued item", queue.item(&works[0]).enqueue().is_err());
        counts(1, "reschedule", queue.item(&works[0]).reschedule().is_err());
        counts(2, "enqueued items", queue.items(&works).enqueue().is_err());
        counts(1, "try_reserve", queue.try_reserve().is_err());
        counts(1, "reserve_timeout", queue.reserve_timeout(Duration::from_millis(1)).is_err());
        queue.scope(|s| {
            counts(1, "spawn of a scope", s.spawn(|| ()).is_err());
            counts(1, "try_spawn of a scope", s.try_spawn(|| ()).is_err());
            counts(1, "an item of a scope", s.item(|| ()).spawn().is_err());
            counts(1, "an item of a scope, returned", s.item(|| ()).try_spawn().is_err());
        });
        counts(1, "for_each", queue.for_each(0..3, |_| ()).is_err());
        counts(1, "map", queue.map(0..3, |_| ()).next().unwrap().is_err());
        drop(places);
        door.open();
        holder.join().unwrap();
        queue.for_each(0..9, |_| ()).unwrap();
        counts(0, "calls that wait", queue.map(0..9, |n| n).all(|result| result.is_ok()));
        queue.destroy().unwrap();
        counts(0, "an error for another reason", queue.spawn(|| ()).is_err());
    });
}

/// spec: O1.2: an item that a shutdown gives up counts neither as started nor as cancelled. An item that was cancelled
/// before the shutdown counts as cancelled.
#[test]
fn items_given_up_are_in_no_count() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (_holder, door) = held(&queue);
    let items: Vec<_> = (0..5).map(|_| queue.spawn(|| ()).unwrap()).collect();
    assert!(items[0].cancel() && items[3].cancel());
    let report = executor.shutdown(Duration::from_millis(1)).unwrap();
    door.open();
    let dropped: usize = report.queues.iter().map(|queue| queue.dropped).sum();
    assert_eq!(dropped, 3, "{report}");
    eventually("the item that ran has ended", || queue.counters().completed == 1);
    let counters = queue.counters();
    assert_eq!((counters.started, counters.cancelled), (1, 2));
}

/// spec: O1.5 (concurrency-management wake-ups): the wake-up is credited to the queue whose item blocks.
#[test]
fn a_wake_up_is_credited_to_the_queue_that_blocks() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = unseen(builder).build().unwrap();
    let [blocks, other] =
        ["blocks", "other"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
    // A new worker looks for work before it first sleeps. So a test with a new worker might see no wake-up.
    other.spawn(|| ()).unwrap().join().unwrap();
    falls_quiet(&prefix);
    a_blocked_item_lets_another_one_in(&blocks);
    other.spawn(|| ()).unwrap().join().unwrap();
    // No item waits, so this guard wakes no worker.
    other.spawn(|| cmwq::blocking(|| ())).unwrap().join().unwrap();
    blocks.flush().unwrap();
    assert_eq!((blocks.counters().concurrency_wakeups, other.counters().concurrency_wakeups), (1, 0));
}

/// spec: O1.5 (undeclared blocks, CPU hogs)
#[cfg(target_os = "linux")]
#[test]
fn offenders_are_credited_to_their_queue() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    if is_portable(&executor) {
        return;
    }
    let queues =
        ["sleeps", "burns", "behind"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
    let [sleeps, burns, behind] = &queues;
    // A new worker looks for work before it first sleeps, and then no queue is credited with a wake-up.
    behind.spawn(|| ()).unwrap().join().unwrap();
    falls_quiet(&prefix);
    let door = Door::default();
    let inside = door.clone();
    let item = sleeps.spawn(move || inside.wait_unguarded()).unwrap();
    behind.spawn(|| ()).unwrap().join().unwrap();
    door.open();
    item.join().unwrap();
    let (stop, burning) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (until, tells) = (Arc::clone(&stop), Arc::clone(&burning));
    let item = burns.spawn(move || {
        tells.store(true, Ordering::SeqCst);
        while !until.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    eventually("the item burns", || burning.load(Ordering::SeqCst));
    behind.spawn(|| ()).unwrap().join().unwrap();
    stop.store(true, Ordering::Relaxed);
    item.unwrap().join().unwrap();
    let [sleeps, burns, behind] = queues.map(|queue| queue.counters());
    assert!(sleeps.undeclared_blocks >= 1 && sleeps.cpu_hogs == 0, "{sleeps:?}");
    assert!(sleeps.concurrency_wakeups >= 1, "{sleeps:?}");
    assert!(burns.cpu_hogs >= 1, "{burns:?}");
    assert_eq!((behind.undeclared_blocks, behind.cpu_hogs), (0, 0));
    let of_types =
        |offenders: Vec<cmwq::Offender>| -> u64 { offenders.iter().map(|type_of| type_of.count).sum() };
    // The next item may begin before the manager has added the offender to its list.
    let blocks = sleeps.undeclared_blocks + burns.undeclared_blocks;
    eventually("the lists agree", || {
        (of_types(executor.hogs()), of_types(executor.undeclared_blockers())) == (burns.cpu_hogs, blocks)
    });
}

/// spec: O1.6 (mayday, rescued): the counters are sums over the CPUs.
#[test]
fn calls_for_help_are_credited_to_the_queue() {
    let _limit = time_limit();
    let spawns = Spawns::failing(..);
    let executor = builder("core:1 pu:1").0.before_spawn(spawns.hook()).build().unwrap();
    let queues =
        ["one", "two"].map(|name| WorkQueue::per_cpu(name).rescuer(true).build_on(&executor).unwrap());
    for queue in &queues {
        queue.spawn(|| ()).unwrap().join().unwrap();
        let counters = queue.counters();
        assert!(counters.rescuer_calls >= 1, "a call may be repeated while the rescuer is on its way");
        assert_eq!((counters.rescued, counters.started, counters.completed), (1, 1, 1));
    }
}

/// spec: O1.3 (nothing is lost): the counts stay when workers and pools end.
#[test]
fn counts_outlive_workers_and_pools() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.idle_timeout(Duration::from_millis(1)).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    for round in 1..=3 {
        for nice in [3, 4] {
            queue.apply_attrs(cmwq::Attrs::new().nice(nice)).unwrap();
            let items: Vec<_> = (0..20).map(|_| queue.spawn(|| cmwq::blocking(|| ())).unwrap()).collect();
            items.into_iter().for_each(|item| item.join().unwrap());
        }
        assert_eq!((queue.counters().started, queue.counters().in_flight()), (round * 40, 0));
    }
    drop(executor);
    let counters = queue.counters();
    assert_eq!((counters.started, counters.completed), (120, 120));
    drop(queue);
    eventually("all threads ended", || crate::support::no_thread_of(&prefix));
}

/// spec: O1.3: a queue with the number of an earlier queue does not inherit its counts.
#[test]
fn a_new_queue_begins_at_zero() {
    let _limit = time_limit();
    let executor = cpus(2);
    for n in 0..stress(200) as u64 {
        let queue = WorkQueue::builder("brief").build_on(&executor).unwrap();
        assert_eq!(queue.counters(), Counters::default());
        for _ in 0..=n % 3 {
            queue.spawn(|| ()).unwrap().join().unwrap();
        }
        assert_eq!(queue.counters().started, 1 + n % 3);
    }
}

/// spec: O1.1 (started − completed = in flight, and every number only grows): the counts are read while work goes on.
#[test]
fn numbers_only_grow_and_agree_while_work_goes_on() {
    let _limit = time_limit();
    let executor = cpus(4);
    let queues = all_kinds(&executor);
    let (running, stop) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for queue in &queues {
            let (running, stop) = (&running, &stop);
            scope.spawn(move || {
                let mut queued = 0;
                while !stop.load(Ordering::Relaxed) {
                    let running = Arc::clone(running);
                    let item = queue.spawn(move || {
                        bump(&running);
                        if queued % 7 == 0 {
                            cmwq::blocking(std::thread::yield_now);
                        }
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                    queued += 1;
                    if queued % 16 == 0 {
                        item.unwrap().join().unwrap();
                    }
                }
                queue.flush().unwrap();
                assert_eq!((queue.counters().started, queue.counters().completed), (queued, queued));
            });
        }
        let mut before: [Counters; 4] = [Counters::default(); 4];
        for _ in 0..stress(2000) {
            for (queue, before) in queues.iter().zip(&mut before) {
                let now = queue.counters();
                assert!(now.started >= now.completed, "{now:?}");
                assert!(now.started >= before.started && now.completed >= before.completed);
                assert!(now.cpu_time >= before.cpu_time, "{now:?} after {before:?}");
                assert!(now.concurrency_wakeups >= before.concurrency_wakeups);
                assert!(now.away + now.stolen >= before.away + before.stolen);
                *before = now;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(queues.iter().map(WorkQueue::counters).sum::<Counters>().in_flight(), 0);
}

/// Returns whether the system reports the CPU time of threads.
#[track_caller]
fn knows_cpu_time(executor: &Executor) -> bool {
    !is_portable(executor)
}

/// spec: O1.4 (CPU time): an item's CPU time is counted while it runs, and stays counted afterwards.
#[test]
fn cpu_time_is_seen_while_it_is_used() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queues = [WorkQueue::per_cpu("burns"), WorkQueue::unbound("burns")]
        .map(|queue| queue.build_on(&executor).unwrap());
    for queue in queues.iter().filter(|_| knows_cpu_time(&executor)) {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let item = queue.spawn(move || {
            while !until.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        eventually("the item has used 30 ms", || queue.counters().cpu_time >= Duration::from_millis(30));
        assert_eq!(queue.counters().completed, 0);
        stop.store(true, Ordering::Relaxed);
        let seen = queue.counters().cpu_time;
        item.unwrap().join().unwrap();
        assert!(queue.counters().cpu_time >= seen);
        queue.spawn(|| burn(Duration::from_millis(20))).unwrap().join().unwrap();
        eventually("the CPU time of the next item is added", || {
            queue.counters().cpu_time >= seen + Duration::from_millis(20)
        });
    }
}

/// spec: O1.4 (CPU time): a worker reads its CPU clock at the latest when it rests.
#[test]
fn a_worker_reports_its_cpu_time_before_it_rests() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queues = [WorkQueue::per_cpu("short"), WorkQueue::unbound("short")]
        .map(|queue| queue.build_on(&executor).unwrap());
    for queue in queues.iter().filter(|_| knows_cpu_time(&executor)) {
        for n in 1..=5 {
            queue.spawn(|| burn(Duration::from_micros(100))).unwrap().join().unwrap();
            let used = n * Duration::from_micros(100);
            eventually("the worker rests, and its CPU time is counted", || queue.counters().cpu_time >= used);
        }
    }
}

/// spec: O1.4 (CPU time): time spent asleep does not count.
#[test]
fn sleeping_items_use_no_cpu_time() {
    let _limit = time_limit();
    let executor = one_cpu();
    let kinds: [fn(&'static str) -> cmwq::WorkQueueBuilder; 2] =
        [|name| WorkQueue::per_cpu(name), |name| WorkQueue::builder(name)];
    for kind in kinds {
        let [burns, sleeps] = ["burns", "sleeps"].map(|name| kind(name).build_on(&executor).unwrap());
        let length = stretch() * Duration::from_millis(1);
        for _ in 0..30 {
            drop(burns.spawn(move || burn(length)).unwrap());
            let nap = || cmwq::blocking::thread::sleep(Duration::from_millis(2));
            drop(sleeps.spawn(nap).unwrap());
            burns.flush().unwrap();
            sleeps.flush().unwrap();
        }
        if knows_cpu_time(&executor) {
            let slack = 15 * length;
            eventually("the CPU time of the last item is counted", || {
                burns.counters().cpu_time >= 28 * length
            });
            is_about(burns.counters().cpu_time, 30 * length, slack);
            is_about(sleeps.counters().cpu_time, Duration::ZERO, slack);
        }
    }
}

/// spec: O1.4 (CPU time): two queues alternate on one worker. Each queue is credited with the time of its own items,
/// whether these are long or short.
#[test]
fn queues_that_alternate_get_their_own_cpu_time() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.build().unwrap();
    let mut lengths = vec![(3000, 0, 40), (400, 20, 300), (40, 2, 3000)];
    if has_yields() || stretch() > 1 {
        // The yields or the emulator add more time to each item than these short items take themselves.
        lengths.pop();
    }
    for (long, short, rounds) in lengths {
        let [longs, shorts] =
            ["longs", "shorts"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
        let begin = Instant::now();
        for _ in 0..rounds {
            for (queue, micros) in [(&longs, long), (&shorts, short)] {
                drop(queue.spawn(move || spin(Duration::from_micros(micros))).unwrap());
            }
        }
        for queue in [&longs, &shorts] {
            queue.flush_timeout(SOON).unwrap();
        }
        if !knows_cpu_time(&executor) {
            return;
        }
        let used = || [&longs, &shorts].map(|queue| queue.counters().cpu_time.as_secs_f64());
        eventually("the worker rests", || {
            used().iter().sum::<f64>() > 0.2 * begin.elapsed().as_secs_f64().min(0.1)
        });
        let [for_long, for_short] = used();
        let share = for_long / (for_long + for_short);
        println!("items of {long} and {short} us: {for_long:.4} s and {for_short:.4} s");
        assert!(share > 0.6, "{share:.3} for items of {long} us, and not {short}");
    }
}

/// spec: O1.4 (CPU time): an item that is found to be long, or that blocks at its end, is credited with its own time
/// after short items.
#[test]
fn a_long_item_among_short_ones_gets_its_own_cpu_time() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let ends_of: [fn(); 2] = [|| cmwq::blocking(|| ()), || cmwq::may_block(|| ())];
    for ends in ends_of {
        let [longs, shorts] =
            ["longs", "shorts"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
        for _ in 0..60 {
            // All items are queued before the worker is free, so the worker does not rest between them.
            let (_holder, door) = held(&shorts);
            for _ in 0..100 {
                drop(shorts.spawn(|| spin(Duration::from_micros(1))).unwrap());
            }
            let long = move || {
                burn(stretch() * Duration::from_millis(2));
                ends();
            };
            drop(longs.spawn(long).unwrap());
            door.open();
            longs.flush().unwrap();
            shorts.flush().unwrap();
        }
        if !knows_cpu_time(&executor) {
            return;
        }
        let used = || [&longs, &shorts].map(|queue| queue.counters().cpu_time.as_secs_f64());
        eventually("the worker rests", || used().iter().sum::<f64>() > 0.06);
        let [for_long, for_short] = used();
        // The share is about 0.2 if the time goes to the wrong queue. Yields make the short items longer.
        assert!(for_long > 0.4 * (for_long + for_short), "{for_long} s, and {for_short} s");
    }
}
