//! Shutting an executor down: every accepted item runs in time, or its owner is told that it was dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{
    BuildQueueError, Executor, JoinError, QueueError, ScopeError, ShutdownError, Work, WorkQueue,
    WorkQueueBuilder,
};
use fastrand::Rng;

use crate::support::{
    Bomb, Door, SOON, builder, bump, cpus, eventually, nap, no_thread_of, on_each_executor, stress,
    ten_counted, time_limit, unseen,
};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 4] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];

const MOMENT: Duration = Duration::from_millis(5);

fn refusal(queue: &WorkQueue) -> Option<QueueError> {
    queue.spawn(|| ()).err().map(|refused| refused.error)
}

/// spec: E5.1 (runs accepted items, ends the threads): during the shutdown, items may queue further items to any queue.
#[test]
fn a_shutdown_runs_everything_and_ends_all_threads() {
    on_each_executor(|executor| {
        let queues = KINDS.map(|kind| kind("q").max_pending(10_000).build_on(executor).unwrap());
        let runs = Arc::new(AtomicUsize::new(0));
        for n in 0..stress(200) {
            let (next, counted) = (queues[(n + 1) % 4].clone(), Arc::clone(&runs));
            let item = move || {
                let counted_again = Arc::clone(&counted);
                cmwq::blocking::thread::sleep(Duration::from_micros(20));
                drop(next.spawn(move || bump(&counted_again)).unwrap());
                bump(&counted);
            };
            drop(queues[n % 4].spawn(item).unwrap());
        }
        let report = executor.shutdown(SOON).unwrap();
        assert!(report.is_complete() && report.queues.is_empty(), "{report}");
        assert_eq!(runs.load(Ordering::SeqCst), 2 * stress(200));
        assert_eq!(executor.dump().threads, 0);
        assert!(queues.iter().all(|queue| queue.is_empty() && refusal(queue) == Some(QueueError::ShutDown)));
    });
}

/// spec: E5.3 (accepted items have run, were cancelled, or are in the report): threads arm timers while a shutdown or a
/// destroy closes the queues. Each timer is refused, or it is given up and counted. No timer stays armed when there is
/// no manager to fire it.
#[test]
fn a_timer_armed_at_the_last_moment_is_counted_or_refused() {
    let _limit = time_limit();
    let mut random = Rng::with_seed(7);
    for n in 0..stress(120) {
        let executor = builder("core:2 pu:1").0.build().unwrap();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let armed = AtomicUsize::new(0);
        let arm = || {
            let mut handles = Vec::new();
            while let Ok(handle) = queue.item(|| ()).after(Duration::from_secs(3600)).spawn() {
                handles.push(handle);
                bump(&armed);
            }
            handles
        };
        let arm_items = || {
            let mut works = Vec::new();
            loop {
                let work = Work::new(|| ());
                if queue.item(&work).after(Duration::from_secs(3600)).enqueue().is_err() {
                    assert!(!work.is_pending(), "a refused item is unchanged");
                    return works;
                }
                works.push(work);
                bump(&armed);
            }
        };
        let (report, handles, works) = std::thread::scope(|scope| {
            let (one_shots, items) = (scope.spawn(arm), scope.spawn(arm_items));
            let some = random.usize(..200);
            eventually("some timers are armed", || armed.load(Ordering::SeqCst) >= some);
            let report = if n % 2 == 0 {
                executor.shutdown(SOON).unwrap().queues.iter().map(|queue| queue.timers).sum()
            } else {
                queue.destroy().unwrap()
            };
            (report, one_shots.join().unwrap(), items.join().unwrap())
        });
        for handle in &handles {
            assert!(handle.is_finished(), "a timer stays armed, and its owner is not told");
        }
        assert!(works.iter().all(|work| !work.is_pending()));
        assert_eq!(report, handles.len() + works.len());
    }
}

/// spec: E5.2 (refuses new work): issuers get closures back, reusable items stay as they were, and no queue can be
/// built any more.
#[test]
fn a_shut_down_executor_refuses_everything() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:2 core:2 pu:1");
    let executor = builder.build().unwrap();
    let (queue, unused) = (WorkQueue::builder("q"), WorkQueue::ordered("unused"));
    let (queue, unused) = (queue.build_on(&executor).unwrap(), unused.build_on(&executor).unwrap());
    queue.spawn(|| ()).unwrap().join().unwrap();
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    eventually("all threads ended", || no_thread_of(&prefix));
    for queue in [&queue, &unused] {
        assert_eq!((queue.spawn(|| 7).unwrap_err().into_closure())(), 7);
        let work = Work::new(|| ());
        assert_eq!(queue.enqueue(&work), Err(QueueError::ShutDown));
        assert_eq!(queue.item(&work).after(MOMENT).enqueue(), Err(QueueError::ShutDown));
        assert_eq!(queue.item(|| ()).after(MOMENT).spawn().unwrap_err().error, QueueError::ShutDown);
        assert!(!work.is_pending());
        assert_eq!((queue.flush(), queue.drain(), queue.destroy()), (Ok(()), Ok(()), Ok(0)));
        assert_eq!(refusal(queue), Some(QueueError::Destroyed));
    }
    assert_eq!(WorkQueue::builder("late").build_on(&executor).unwrap_err(), BuildQueueError::ShutDown);
    let again = executor.shutdown(SOON).unwrap();
    assert!(again.is_complete() && again.queues.is_empty(), "a second shutdown has nothing to do");
    executor.freeze_begin();
    assert!(!executor.freeze_busy());
    assert_eq!(
        refusal(executor.events()),
        Some(QueueError::ShutDown),
        "the system queues exist and refuse items"
    );
}

/// spec: E5.1: an executor that was never used is shut down at once.
#[test]
fn an_unused_executor_is_shut_down_at_once() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    eventually("the manager ended", || no_thread_of(&prefix));
}

/// spec: E5.3 (reports unfinished items: queue names and counts), F6.2: when the time is over, running items continue.
/// Items that have not begun are dropped, and their owners are told.
#[test]
fn a_shutdown_that_runs_out_of_time_drops_items_that_have_not_begun() {
    let _limit = time_limit();
    // With a limit of 1, the items that have not begun wait for a slot. With 256, they wait on the worklist, because an
    // item holds the CPU.
    for limit in [1, 256] {
        for (n, kind) in KINDS.into_iter().enumerate() {
            let (builder, prefix) = builder("core:1 pu:1");
            let executor = unseen(builder).build().unwrap();
            let queue = kind("stuck").max_pending(100).build_on(&executor).unwrap();
            // Without a limit of 1, an unbound queue would start as many items as it has slots.
            let _unless_ordered = queue.set_max_active(if n == 2 { 1 } else { limit });
            let (door, began) = (Door::default(), Arc::new(AtomicBool::new(false)));
            let (wait, begins) = (door.clone(), Arc::clone(&began));
            let running = queue.spawn(move || {
                begins.store(true, Ordering::SeqCst);
                wait.wait_unguarded();
            });
            eventually("the first one runs", || began.load(Ordering::SeqCst));
            let (handles, drops) = ten_counted(&queue);
            let work = Work::new(|| unreachable!("the item was dropped"));
            assert!(queue.enqueue(&work).unwrap());
            let cancelled = queue.spawn(|| unreachable!("the item was cancelled")).unwrap();
            assert!(cancelled.cancel());
            let timer = queue.item(|| unreachable!("the timer was given up")).after(SOON).spawn().unwrap();

            let report = executor.shutdown(4 * MOMENT).unwrap();
            assert!(!report.is_complete());
            let of_queue = &report.queues[0];
            assert_eq!((report.queues.len(), of_queue.name.as_str(), of_queue.timers), (1, "stuck", 1));
            assert_eq!((of_queue.dropped, of_queue.running), (11, 1), "{report}");
            assert!(report.threads > 0);

            assert_eq!(drops.load(Ordering::SeqCst), 10);
            assert!(handles.into_iter().all(|handle| matches!(handle.join(), Err(JoinError::Cancelled))));
            assert!(matches!(timer.join(), Err(JoinError::Cancelled)));
            assert!(!work.is_pending() && !work.is_running());
            assert_eq!(work.flush(), Ok(false));
            assert_eq!(refusal(&queue), Some(QueueError::ShutDown));
            door.open();
            running.unwrap().join().unwrap();
            assert_eq!(queue.flush(), Ok(()));
            eventually("all threads ended", || no_thread_of(&prefix));
        }
    }
}

/// spec: W7.7 (items that a timed-out shutdown drops count as done, and the scope reports it), E5: the scope returns
/// when its running items have ended, and reports how many of its items never ran. These items have not changed the
/// data that they borrowed.
#[test]
fn a_scope_reports_items_that_a_shutdown_dropped() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor = builder("core:1 pu:1").0.build().unwrap();
        let queue = kind("q").max_pending(100).build_on(&executor).unwrap();
        let _unless_ordered = queue.set_max_active(1);
        let (door, begun) = (Door::default(), AtomicBool::new(false));
        let mut squares = [0; 4];
        let result = queue.try_scope(|s| {
            let running = s.spawn(|| {
                begun.store(true, Ordering::SeqCst);
                door.wait_unguarded();
                "ran"
            });
            eventually("the first one runs", || begun.load(Ordering::SeqCst));
            for (n, square) in squares.iter_mut().enumerate() {
                drop(s.spawn(move || *square = n * n).unwrap());
            }
            let report = executor.shutdown(MOMENT).unwrap();
            assert_eq!((report.queues[0].dropped, report.queues[0].running), (4, 1), "{report}");
            assert_eq!(s.spawn(|| ()).unwrap_err(), QueueError::ShutDown);
            door.open();
            assert_eq!(running.unwrap().join().unwrap(), "ran");
        });
        assert_eq!(result, Err(ScopeError::Dropped { items: 4 }));
        assert_eq!(squares, [0; 4]);
    }
}

/// spec: E5.3: if a running item is pending again, its worker drops the pending run when the current run ends.
#[test]
fn an_item_that_is_queued_again_while_it_runs_is_dropped_when_it_returns() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor = cpus(2);
        let (queue, other) = (kind("q"), WorkQueue::unbound("other"));
        let (queue, other) = (queue.build_on(&executor).unwrap(), other.build_on(&executor).unwrap());
        let (door, began) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let (wait, begins) = (door.clone(), Arc::clone(&began));
        let work = Work::new(move || {
            bump(&begins);
            wait.wait();
        });
        assert!(queue.enqueue(&work).unwrap());
        eventually("the item runs", || began.load(Ordering::SeqCst) == 1);
        assert!(other.enqueue(&work).unwrap());
        eventually("a worker has popped the entry, and left it to the runner", || {
            let pools = executor.dump().pools;
            let busy: usize = pools.iter().map(|pool| pool.workers - pool.idle).sum();
            busy == 1 && pools.iter().all(|pool| pool.pending == 0 && pool.waking == 0)
        });
        let report = executor.shutdown(MOMENT).unwrap();
        assert!(!report.is_complete());
        door.open();
        eventually("the queues are empty", || queue.is_empty() && other.is_empty());
        assert_eq!(began.load(Ordering::SeqCst), 1);
        assert!(!work.is_pending());
    }
}

/// spec: E5.2, F5: an item cannot shut its own executor down, because it would wait for itself.
#[test]
fn an_item_cannot_shut_its_own_executor_down() {
    let _limit = time_limit();
    let (executor, other) = (cpus(2), cpus(2));
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let own = executor.clone();
    let answer = queue.spawn(move || own.shutdown(SOON)).unwrap().join().unwrap();
    assert_eq!(answer, Err(ShutdownError::WouldDeadlock));
    queue.spawn(|| ()).unwrap().join().unwrap();
    let elsewhere = WorkQueue::builder("q").build_on(&other).unwrap();
    let report = elsewhere.spawn(move || executor.shutdown(SOON)).unwrap().join().unwrap().unwrap();
    assert!(report.is_complete());
}

/// spec: E5.1, F7: a shutdown thaws the frozen queues, which run their items.
#[test]
fn a_shutdown_thaws_frozen_queues() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor = cpus(2);
        let queue = kind("q").freezable(true).build_on(&executor).unwrap();
        executor.freeze_begin();
        let runs = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let runs = Arc::clone(&runs);
            drop(queue.spawn(move || bump(&runs)).unwrap());
        }
        drop(queue);
        assert!(executor.shutdown(SOON).unwrap().is_complete());
        assert_eq!(runs.load(Ordering::SeqCst), 20);
    }
}

/// spec: E5.1, W5: a shutdown drops and counts armed timers, and ends periodic items.
#[test]
fn armed_timers_are_given_up_and_counted() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:2 pu:1");
    let executor: Executor = builder.build().unwrap();
    let queue = WorkQueue::builder("timed").build_on(&executor).unwrap();
    let work = Work::new(|| unreachable!("the timer is due in an hour"));
    assert!(queue.item(&work).after(Duration::from_secs(3600)).enqueue().unwrap());
    let later = queue.item(|| ()).after(Duration::from_secs(3600)).spawn().unwrap();
    let every = queue.item(|| ()).spawn_every(Duration::from_micros(50)).unwrap();
    eventually("the periodic function is called", || every.runs() > 3);
    let report = executor.shutdown(SOON).unwrap();
    assert!(report.is_complete(), "{report}");
    assert!((2..=4).contains(&report.queues[0].timers), "{report}");
    assert!(!work.is_pending());
    assert!(matches!(later.join(), Err(JoinError::Cancelled)));
    let runs = every.runs();
    eventually("all threads ended", || no_thread_of(&prefix));
    assert_eq!(every.runs(), runs);
}

/// spec: E5.3, W9: destructors of dropped items may panic, and may drop the last handles of the queue and the executor.
#[test]
fn destructors_of_dropped_items_may_panic() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let door = Door::default();
    let (wait, (begins, begun)) = (door.clone(), mpsc::channel());
    let busy = queue.spawn(move || {
        begins.send(()).unwrap();
        wait.wait();
    });
    begun.recv().unwrap();
    for _ in 0..3 {
        let captured = (Bomb, queue.clone(), executor.clone());
        drop(queue.spawn(move || drop(captured)).unwrap());
    }
    drop(queue);
    let report = executor.shutdown(MOMENT).unwrap();
    assert_eq!((report.queues[0].dropped, report.queues[0].running), (3, 1), "{report}");
    drop(executor);
    door.open();
    busy.unwrap().join().unwrap();
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: E5.3 (accounting): several threads queue items, some of which are stuck, while the executor shuts down. Each
/// accepted item has run, was cancelled, or was dropped, whether or not the shutdown ends in time.
#[test]
fn a_shutdown_under_load_accounts_for_everything() {
    let _limit = time_limit();
    for round in 0..stress(30) {
        let (builder, prefix) = builder(["core:1 pu:1", "l3:2 core:2 pu:1"][round % 2]);
        let executor = builder.random_placement(round as u64).build().unwrap();
        let queues = KINDS.map(|kind| kind("q").build_on(&executor).unwrap());
        for queue in &queues {
            let _unless_ordered = queue.set_max_active([0, 2][round % 2]);
        }
        let in_time = round % 3 == 0;
        let (runs, accepted, cancelled) =
            (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
        let pending_works: Vec<_> = (0..8)
            .map(|_| {
                let runs = Arc::clone(&runs);
                Work::new(move || bump(&runs))
            })
            .collect();
        let (door, lost) = (Door::default(), AtomicUsize::new(0));
        let report = std::thread::scope(|scope| {
            let issuers: Vec<_> = (0..3)
                .map(|issuer| {
                    let (queues, pending_works, runs, door) = (&queues, &pending_works, &runs, &door);
                    let (accepted, cancelled, lost) = (&accepted, &cancelled, &lost);
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(issuer + 10 * round as u64);
                        let mut handles = Vec::new();
                        for n in 0.. {
                            let queue = &queues[random.usize(..4)];
                            if random.u64(..3) == 0 {
                                match queue.enqueue(&pending_works[random.usize(..8)]) {
                                    Ok(true) => bump(accepted),
                                    Ok(false) => {}
                                    Err(error) => {
                                        assert_eq!(error, QueueError::ShutDown);
                                        break;
                                    }
                                }
                                continue;
                            }
                            let (runs, door) = (Arc::clone(runs), door.clone());
                            let is_stuck = !in_time && n % 20 == 19;
                            let item = move || {
                                bump(&runs);
                                if is_stuck {
                                    door.wait();
                                }
                            };
                            match queue.spawn(item) {
                                Ok(handle) => handles.push(handle),
                                Err(refused) => {
                                    assert_eq!(refused.error, QueueError::ShutDown);
                                    break;
                                }
                            }
                            bump(accepted);
                            if n % 50 == 0 {
                                nap(Duration::from_micros(50));
                            }
                        }
                        for (n, handle) in handles.into_iter().enumerate() {
                            if n % 7 == 0 && handle.cancel() {
                                bump(cancelled);
                                continue;
                            }
                            match handle.join() {
                                Ok(()) => {}
                                Err(JoinError::Cancelled) => bump(lost),
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            eventually("some are accepted", || accepted.load(Ordering::SeqCst) >= 100 * (round % 5));
            let began = Instant::now();
            let report = executor.shutdown(if in_time { SOON } else { 2 * MOMENT }).unwrap();
            assert!(began.elapsed() < SOON);
            assert!(!in_time || report.is_complete(), "{report}");
            door.open();
            issuers.into_iter().for_each(|issuer| issuer.join().unwrap());
            report
        });
        eventually("the queues are empty", || queues.iter().all(WorkQueue::is_empty));
        eventually("all threads ended", || no_thread_of(&prefix));
        let (runs, accepted) = (runs.load(Ordering::SeqCst), accepted.load(Ordering::SeqCst));
        let (cancelled, lost) = (cancelled.load(Ordering::SeqCst), lost.load(Ordering::SeqCst));
        let dropped: usize = report.queues.iter().map(|queue| queue.dropped).sum();
        let running: usize = report.queues.iter().map(|queue| queue.running).sum();
        let gone = accepted - runs - cancelled;
        assert!(gone >= lost, "a join said that a run was dropped");
        assert!((dropped..=dropped + running).contains(&gone), "{gone} of {accepted} did not run: {report}");
        assert!(pending_works.iter().all(|work| !work.is_pending()));
    }
}
