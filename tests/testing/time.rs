//! Virtual time: timers, sleeps, and the functions that let time pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cmwq::testing::{self, Setup, advance, pending_timers, run_until, run_until_idle};
use cmwq::{Executor, ShutdownError, Work, WorkQueue, blocking, clock};

use super::support::{add, message, ms, secs};

/// spec: T1.1 (an hour of debounce and periodic logic with 60 firings)
#[test]
fn an_hour_of_timers_takes_milliseconds() {
    let begin = Instant::now();
    let fired = testing::run(|| {
        let queue = WorkQueue::new("hour");
        let fired = Arc::new(AtomicU32::new(0));
        let (saves, ticks) = (Arc::clone(&fired), Arc::clone(&fired));
        let save = Work::new(move || add(&saves));
        let tick = queue.item(move || add(&ticks)).spawn_every(secs(120)).unwrap();
        let end = clock::now() + secs(3600);
        while clock::now() < end {
            // There are three changes, ten seconds apart, and one save, a minute after the last change.
            for _change in 0..3 {
                queue.item(&save).after(secs(60)).reschedule().unwrap();
                advance(secs(10));
            }
            advance(secs(90));
        }
        assert_eq!(tick.runs(), 30);
        fired.load(Relaxed)
    });
    assert_eq!(fired, 60);
    // On an idle machine, this takes 10 ms.
    assert!(begin.elapsed() < secs(5), "{:?}", begin.elapsed());
}

/// spec: T1.4
#[test]
fn time_passes_only_when_all_threads_wait() {
    testing::run(|| {
        let begin = clock::now();
        let queue = WorkQueue::new("naps");
        let nap = queue.spawn(|| blocking::thread::sleep(secs(5))).unwrap();
        run_until_idle();
        assert!(!nap.is_finished());
        assert_eq!(clock::now(), begin);
        nap.join().unwrap();
        assert_eq!(clock::now() - begin, secs(5));
        let timer = queue.item(clock::now).after(secs(7)).spawn().unwrap();
        assert_eq!(pending_timers(), [secs(7)]);
        advance(secs(6));
        assert_eq!((pending_timers(), timer.is_finished()), (vec![secs(1)], false));
        advance(secs(1));
        assert!(timer.is_finished() && pending_timers().is_empty());
        assert_eq!(timer.join().unwrap() - begin, secs(12));
    });
}

/// spec: T1.4
#[test]
fn a_condition_is_met_or_told_to_be_out_of_reach() {
    testing::run(|| {
        let begin = clock::now();
        let tick = WorkQueue::new("ticks").item(|| ()).spawn_every(ms(250)).unwrap();
        run_until(|| tick.runs() == 8);
        assert_eq!(clock::now() - begin, secs(2));
        run_until(|| true);
        assert_eq!(clock::now() - begin, secs(2));
    });
    let told = message(|| testing::run(|| run_until(|| false)));
    assert!(told.contains("the condition never holds"), "{told}");
}

/// spec: T1.1: times in reports are those of the virtual clock, so they are the same in each run.
#[test]
fn reports_show_the_time_of_the_run() {
    let times = || {
        testing::run(|| {
            let executor = Executor::global();
            let shown = || (executor.dump().time, executor.monitor().sample().time);
            let begin = shown();
            advance(secs(7));
            let end = shown();
            assert_eq!((end.0 - begin.0, end.1 - begin.1), (secs(7), secs(7)));
            end
        })
    };
    assert_eq!(times(), times());
}

/// spec: T1.4: outside of a run, there is no virtual time.
#[test]
fn time_passes_by_itself_outside_of_a_run() {
    let told = message(|| advance(secs(1)));
    assert!(told.contains("only a thread of a test run"), "{told}");
    let (real, own) = (Instant::now(), clock::now());
    assert!(own - real < secs(60));
    testing::point();
}

/// spec: T1.2 (the engine is the product's: limits, order, flushes, cancellation)
#[test]
fn queues_keep_their_promises() {
    testing::seed(3).run(|| {
        let begin = clock::now();
        let queue = WorkQueue::builder("limited").max_active_total(3).build().unwrap();
        let (active, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        for _item in 0..12 {
            let (active, most) = (Arc::clone(&active), Arc::clone(&most));
            queue
                .spawn_detached(move || {
                    most.fetch_max(active.fetch_add(1, Relaxed) + 1, Relaxed);
                    blocking::thread::sleep(secs(1));
                    active.fetch_sub(1, Relaxed);
                })
                .unwrap();
        }
        let cancelled = queue.spawn(|| unreachable!("it was cancelled")).unwrap();
        assert!(cancelled.cancel());
        queue.flush().unwrap();
        assert_eq!((most.load(Relaxed), clock::now() - begin), (3, secs(4)));
        let late = queue.spawn(|| blocking::thread::sleep(secs(10))).unwrap();
        assert!(queue.flush_timeout(secs(9)).is_err());
        assert!(late.join_timeout(ms(999)).unwrap_err().join_timeout(ms(1)).is_ok());
    });
}

/// spec: T1.2 (concurrency management on virtual CPUs)
#[test]
fn items_share_the_virtual_cpus() {
    for (cpus, expected) in [(1, 8), (2, 4), (4, 2), (8, 1)] {
        let took = Setup::new().cpus(cpus).run(|| {
            let begin = clock::now();
            WorkQueue::new("renders").for_each(0..8, |_| testing::compute(secs(1))).unwrap();
            clock::now() - begin
        });
        assert_eq!(took, secs(expected), "{cpus} CPUs");
    }
    // A blocked item gives its CPU to another item.
    Setup::new().cpus(1).run(|| {
        let begin = clock::now();
        let queue = WorkQueue::new("calls");
        let item = || {
            testing::compute(ms(5));
            blocking::thread::sleep(ms(10));
        };
        let items: Vec<_> = (0..3).map(|_| queue.spawn(item).unwrap()).collect();
        items.into_iter().for_each(|item| item.join().unwrap());
        assert_eq!(clock::now() - begin, ms(25));
    });
}

/// spec: T1.2 (the global executor is the run's own)
#[test]
fn a_run_has_its_own_global_executor() {
    let outside = Executor::global();
    let inside = testing::run(|| {
        let global = Executor::global();
        assert_eq!(global.cpus().len(), 2);
        assert_eq!(global.shutdown(Duration::ZERO), Err(ShutdownError::Global));
        assert_eq!(cmwq::kernel::events().spawn(|| 1).unwrap().join().unwrap(), 1);
        global
    });
    assert_ne!(outside, inside);
    testing::run(|| {
        let global = Executor::builder().thread_name_prefix("mine").build_global().unwrap();
        assert!(Executor::builder().build_global().is_err());
        let name = || std::thread::current().name().unwrap_or_default().to_owned();
        assert!(WorkQueue::new("named").spawn(name).unwrap().join().unwrap().starts_with("mine/"));
        let report = global.shutdown(secs(1)).unwrap();
        assert!(report.is_complete(), "{report}");
        assert!(WorkQueue::new("late").spawn(|| ()).is_err());
    });
    assert_eq!(outside, Executor::global());
}

/// spec: T1.6 (ordinary executors in the same process notice nothing)
#[test]
fn ordinary_executors_go_on_beside_a_run() {
    let executor = Executor::builder().build().unwrap();
    let queue = WorkQueue::builder("ordinary").build_on(&executor).unwrap();
    let counted = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&counted);
    let ticks = queue.item(move || add(&counts)).spawn_every(ms(1)).unwrap();
    let begin = Instant::now();
    while counted.load(Relaxed) < 20 {
        assert!(begin.elapsed() < secs(60), "the ordinary timer fires in real time");
        testing::run(|| {
            WorkQueue::new("virtual").item(|| ()).after(secs(3600)).spawn().unwrap().join().unwrap();
        });
        assert_eq!(queue.spawn(|| 7).unwrap().join().unwrap(), 7);
    }
    drop(ticks);
    assert!(executor.shutdown(secs(60)).unwrap().is_complete());
}

/// spec: T1.7 (a run ends as a process does)
#[test]
fn a_run_ends_with_its_closure() {
    let ran = Arc::new(AtomicU32::new(0));
    let items = Arc::clone(&ran);
    testing::run(move || {
        let queue = WorkQueue::builder("left").max_active_total(1).build().unwrap();
        let count = |items: &Arc<AtomicU32>| {
            let items = Arc::clone(items);
            move || add(&items)
        };
        let begun = count(&items);
        queue
            .spawn_detached(move || {
                blocking::thread::sleep(secs(1));
                begun();
            })
            .unwrap();
        run_until_idle();
        queue.spawn_detached(count(&items)).unwrap();
        queue.item(count(&items)).after(secs(1)).spawn_detached().unwrap();
        let every = queue.item(count(&items)).spawn_every(secs(5)).unwrap();
        every.detach();
    });
    assert_eq!(ran.load(Relaxed), 1, "the item that had begun has ended, and no other has begun");
    assert_eq!(Arc::strong_count(&ran), 1, "everything was dropped");
}

/// spec: T1.7 (a run ends as a process does): an item that ends after the closure still has the run's global executor,
/// which is shut down by then.
#[test]
fn late_code_finds_the_global_executor_shut_down() {
    let ended = Arc::new(AtomicU32::new(0));
    let ends = Arc::clone(&ended);
    testing::run(move || {
        let late = move || {
            blocking::thread::sleep(secs(1));
            assert!(WorkQueue::new("late").spawn_detached(|| ()).is_err());
            add(&ends);
        };
        WorkQueue::new("slow").spawn_detached(late).unwrap();
        run_until_idle();
    });
    assert_eq!(ended.load(Relaxed), 1);
}

/// spec: T1.4: a long time with many timers may pass, if the test permits enough steps.
#[test]
fn a_long_time_passes_if_it_is_permitted() {
    let ticks = |setup: Setup| {
        setup.run(|| {
            let ticks = WorkQueue::new("ticks").item(|| ()).spawn_every(ms(50)).unwrap();
            advance(secs(60));
            ticks.runs()
        })
    };
    let told = message(|| _ = ticks(Setup::new().max_steps(1000)));
    assert!(told.contains("time passes, but this wait does not end"), "{told}");
    assert_eq!(ticks(Setup::new().max_steps(10_000)), 1200);
    assert_eq!(message(|| drop(Setup::new().max_steps(0))), "a run takes at least one step");
}
