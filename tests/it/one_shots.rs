//! One-shots: results, panics, cancelling, and the threads that drop closures and results.

use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cmwq::{JoinError, JoinHandle, Work, WorkQueue};
use testkit::spin;

use crate::support::{
    Bomb, Counted, Door, SOON, builder, current_pool, eventually, on_each_executor, one_cpu, one_cpu_unseen,
    stress, time_limit,
};

/// Makes an ordered queue on one CPU. An item holds its only slot until the door opens.
fn held() -> (WorkQueue, Door) {
    let queue = WorkQueue::ordered("held").build_on(&one_cpu()).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (wait, tell) = (door.clone(), begun.clone());
    drop(queue.spawn(move || {
        tell.open();
        wait.wait();
    }));
    begun.wait();
    (queue, door)
}

fn assert_send<T: Send + Sync>() {}

/// spec: W4.1, W4.2, W1.1 (join, is_finished)
#[test]
fn a_join_returns_the_result_and_shows_all_that_the_run_did() {
    assert_send::<JoinHandle<Vec<u8>>>();
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            let queue = kind("q").build_on(executor).unwrap();
            for n in 0..stress(30) {
                let seen = Arc::new(AtomicUsize::new(0));
                let written = Arc::clone(&seen);
                written.store(n, Ordering::Relaxed);
                let handle = queue.spawn(move || {
                    let before = written.load(Ordering::Relaxed);
                    written.store(before + 1, Ordering::Relaxed);
                    vec![before; 3]
                });
                assert_eq!(handle.unwrap().join().unwrap(), [n; 3]);
                assert_eq!(seen.load(Ordering::Relaxed), n + 1);
            }
        }
    });
}

/// spec: W1.1 (Err holding the panic payload), W9.3 (the panic handler sees queue, item type and payload), E2.7
#[test]
fn a_panic_reaches_the_handler_and_then_the_joiner() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&reports);
    let handler = move |report: &cmwq::PanicReport<'_>| {
        let payload = report.payload.downcast_ref::<&str>().copied().unwrap_or("something else");
        list.lock().unwrap().push((report.queue.to_owned(), report.item_type, payload.to_owned()));
        panic!("the handler panics, too");
    };
    let executor = builder("core:1 pu:1").0.panic_handler(handler).build().unwrap();
    let queue = WorkQueue::per_cpu("risky").build_on(&executor).unwrap();
    let error = queue.spawn(|| panic!("oh no")).unwrap().join().unwrap_err();
    assert_eq!(error.to_string(), "the item panicked: oh no");
    let error = queue.spawn(|| panic_any(17_u64)).unwrap().join().unwrap_err();
    let JoinError::Panicked(payload) = error else { panic!("{error:?}") };
    assert_eq!(*payload.into_inner().downcast::<u64>().unwrap(), 17);
    queue.enqueue(&Work::new(|| panic!("reusable"))).unwrap();
    queue.flush().unwrap();
    // The worker survives the panic.
    assert_eq!(queue.spawn(|| 4).unwrap().join().unwrap(), 4);
    let reports = reports.lock().unwrap();
    let payloads: Vec<_> = reports.iter().map(|(_, _, payload)| payload.as_str()).collect();
    assert_eq!(payloads, ["oh no", "something else", "reusable"]);
    assert!(reports.iter().all(|(queue, item, _)| queue == "risky" && item.contains("a_panic_reaches")));
}

/// spec: W1.3 (cancel)
#[test]
fn a_cancelled_item_never_runs_and_its_closure_is_dropped_at_once() {
    let (queue, door) = held();
    let drops = Arc::new(AtomicUsize::new(0));
    let capture = Counted(Arc::clone(&drops));
    let handle = queue.spawn(move || drop(capture)).unwrap();
    assert!(!handle.is_finished());
    assert!(handle.cancel());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    assert!(handle.is_finished());
    assert!(!handle.cancel(), "once");
    door.open();
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    queue.flush().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

/// spec: W1.3 (cancel of an item that has begun or ended)
#[test]
fn an_item_that_has_begun_is_not_cancelled() {
    let queue = WorkQueue::per_cpu("q").build_on(&one_cpu()).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (wait, tell) = (door.clone(), begun.clone());
    let handle = queue.spawn(move || {
        tell.open();
        wait.wait();
        5
    });
    let handle = handle.unwrap();
    begun.wait();
    assert!(!handle.cancel());
    door.open();
    eventually("the item ended", || handle.is_finished());
    assert!(!handle.cancel());
    assert_eq!(handle.join().unwrap(), 5);
}

/// spec: W1.2 (join_timeout)
#[test]
fn a_join_that_times_out_gives_the_handle_back() {
    let (queue, door) = held();
    let handle = queue.spawn(|| 8).unwrap();
    let handle = handle.join_timeout(Duration::ZERO).unwrap_err();
    let handle = handle.join_timeout(Duration::from_millis(5)).unwrap_err();
    door.open();
    assert_eq!(handle.join_timeout(SOON).unwrap().unwrap(), 8);
    let handle = queue.spawn(|| 9).unwrap();
    assert_eq!(handle.join_timeout(Duration::MAX).unwrap().unwrap(), 9);
    // The item is cancelled while no thread waits for it. The cancellation is visible at once.
    let (queue, door) = held();
    let handle = queue.spawn(|| 9).unwrap();
    assert!(handle.cancel());
    assert!(matches!(handle.join_timeout(Duration::ZERO), Ok(Err(JoinError::Cancelled))));
    door.open();
}

/// spec: W1.4 (dropping the handle detaches): the result is dropped by the worker.
#[test]
fn a_detached_item_runs_and_its_result_is_dropped_by_the_worker() {
    struct Tell(mpsc::Sender<String>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(current_pool()).unwrap();
        }
    }
    let (queue, door) = held();
    let (tell, told) = mpsc::channel();
    drop(queue.spawn(move || Tell(tell)).unwrap());
    door.open();
    assert!(told.recv_timeout(SOON).unwrap().starts_with('u'));
}

/// spec: W1.4, W9: the closure and the result are each dropped exactly once, in whatever order the item is run,
/// cancelled, joined and detached.
#[test]
fn closure_and_result_are_dropped_exactly_once_on_every_path() {
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").max_active(2).max_pending(64).build_on(executor).unwrap();
        let (closures, results) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (mut made, mut begun) = (0, 0);
        let count = stress(2000);
        let results_made = Arc::new(AtomicUsize::new(0));
        for n in 0..count {
            let (closure, result) = (Counted(Arc::clone(&closures)), Arc::clone(&results));
            let results_made = Arc::clone(&results_made);
            let item = move || {
                let _closure = closure;
                assert_ne!(n % 7, 3, "on purpose");
                results_made.fetch_add(1, Ordering::SeqCst);
                Counted(result)
            };
            made += 1;
            let Ok(handle) = queue.spawn(item) else { continue };
            begun += 1;
            match n % 6 {
                0 => drop(handle),
                1 => drop(handle.cancel()),
                2 => drop(handle.join()),
                3 => drop(handle.join_timeout(Duration::from_micros(10))),
                4 => {
                    handle.cancel();
                    drop(handle.join());
                }
                _ => {
                    std::thread::yield_now();
                    drop(handle);
                }
            }
        }
        assert!(begun > 0);
        queue.flush().unwrap();
        eventually("all closures are dropped", || closures.load(Ordering::SeqCst) == made);
        let made = || results_made.load(Ordering::SeqCst);
        eventually("all results are dropped", || results.load(Ordering::SeqCst) == made());
    });
}

/// spec: W9.2 (the worker lives on, accounting completes): this holds if the destructor of a closure, a result or a
/// panic payload panics.
#[test]
fn panicking_destructors_do_no_harm() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    for queue in [WorkQueue::per_cpu("q"), WorkQueue::ordered("q"), WorkQueue::builder("q")] {
        let queue = queue.max_pending(5).build_on(&executor).unwrap();
        for _ in 0..4 {
            let capture = Bomb;
            let error = queue.spawn(move || drop(capture)).unwrap().join().unwrap_err();
            assert_eq!(error.to_string(), "the item panicked: a bomb went off");
            // The handles are dropped before the items run, so the worker drops the results and the panic payloads.
            let door = Door::default();
            let wait = door.clone();
            drop(queue.spawn(move || wait.wait_unguarded()).unwrap());
            drop(queue.spawn(|| Bomb).unwrap());
            drop(queue.spawn(|| panic_any(Bomb)).unwrap());
            queue.enqueue(&Work::new(|| panic_any(Bomb))).unwrap();
            let capture = Bomb;
            queue
                .enqueue(&Work::new(move || {
                    let _used = &capture;
                }))
                .unwrap();
            door.open();
            queue.flush().unwrap();
        }
        assert_eq!(queue.spawn(|| 6).unwrap().join().unwrap(), 6);
    }
    let pool = crate::support::pool(&executor, "0");
    assert_eq!(pool.running.min(1), pool.running, "{pool}");
}

/// spec: W9.2: the destructor of the panic payload panics, and then that of the function's captured value.
#[test]
fn two_panicking_destructors_in_a_row_do_no_harm() {
    struct Relentless;
    impl Drop for Relentless {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let queue = WorkQueue::per_cpu("q").build_on(&one_cpu_unseen()).unwrap();
    let capture = Relentless;
    let work = Work::new(move || {
        let _used = &capture;
        panic_any(Relentless)
    });
    let door = Door::default();
    let wait = door.clone();
    drop(queue.spawn(move || wait.wait_unguarded()).unwrap());
    queue.enqueue(&work).unwrap();
    // The test drops its handle here, so the worker drops the last one, and with it the function.
    drop(work);
    door.open();
    queue.flush().unwrap();
    assert_eq!(queue.spawn(|| 6).unwrap().join().unwrap(), 6);
}

/// spec: W1.3: a cancel races with the run, and either the cancel or the run takes effect.
#[test]
fn a_cancel_that_races_with_the_run_wins_or_loses() {
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let (mut cancelled, count) = (0, stress(1500));
        for _ in 0..count {
            let counter = Arc::clone(&runs);
            let handle = queue.spawn(move || counter.fetch_add(1, Ordering::SeqCst)).unwrap();
            let won = handle.cancel();
            cancelled += usize::from(won);
            assert_eq!(matches!(handle.join(), Err(JoinError::Cancelled)), won);
        }
        assert_eq!(runs.load(Ordering::SeqCst) + cancelled, count);
    });
}

/// spec: C8.2, W4.2 (waits that end while the waiting thread or the worker is still awake, or just when it sleeps)
#[test]
fn short_waits_of_each_kind_end_and_show_all_that_the_run_did() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("short").build_on(executor).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let work = Work::new(move || _ = counted.fetch_add(1, Ordering::Relaxed));
        for round in 0..stress(400) {
            let pause = Duration::from_micros((round % 40) as u64);
            let item = move || {
                spin(pause);
                round
            };
            assert_eq!(queue.spawn(item).unwrap().join().unwrap(), round);
            let mut borrowed = 0;
            queue.scope(|s| drop(s.spawn(|| borrowed = round)));
            assert_eq!(borrowed, round);
            queue.enqueue(&work).unwrap();
            match round % 3 {
                0 => queue.flush().unwrap(),
                1 => _ = work.flush().unwrap(),
                _ => _ = work.flush_timeout(SOON).unwrap(),
            }
            assert_eq!(runs.load(Ordering::Relaxed), round + 1);
            if round % 8 == 0 {
                // In this time, the worker goes to sleep, or is about to.
                spin(Duration::from_micros(20));
            }
        }
    });
}
