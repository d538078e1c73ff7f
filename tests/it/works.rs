//! Reusable items: coalescing, non-reentrance, cancelling, panics.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use cmwq::{Work, WorkQueue};
use fastrand::Rng;

use crate::support::{
    Counted, Door, all_kinds, begun_on, bump, counting, cpus, eventually, on_each_executor, one_cpu, stress,
    time_limit,
};

/// spec: W2.1 (true = now pending, false = was pending already; is_pending, is_running), W3 (runs again after)
#[test]
fn queueing_coalesces_while_pending_and_not_while_running() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let (work, door, runs) = begun_on(&queue);
        assert!(work.is_running() && !work.is_pending());
        assert_eq!(queue.enqueue(&work), Ok(true), "the item runs, so it is not pending");
        assert_eq!(queue.enqueue(&work), Ok(false));
        assert_eq!(queue.enqueue(&work.clone()), Ok(false), "clones are the same item");
        assert!(work.is_running() && work.is_pending());
        assert_eq!(runs.load(Ordering::SeqCst), 1, "the item was entered twice");
        door.open();
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        eventually("the item is idle", || !work.is_running() && !work.is_pending());
        assert_eq!(queue.enqueue(&work), Ok(true));
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }
}

/// spec: W2.2 (the last submission always gets a run that sees everything written before it), W4.1 (a submission that
/// returned false is seen, too)
#[test]
fn the_last_submission_gets_a_run_that_sees_everything() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let count = stress(1500);
        let written: Arc<[AtomicUsize; 3]> = Arc::default();
        let seen: Arc<[AtomicUsize; 3]> = Arc::default();
        let (writes, sights) = (Arc::clone(&written), Arc::clone(&seen));
        let work = Work::new(move || {
            for (written, seen) in writes.iter().zip(sights.iter()) {
                seen.store(written.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        std::thread::scope(|scope| {
            for (issuer, written) in written.iter().enumerate() {
                let (queues, work) = (&queues, &work);
                scope.spawn(move || {
                    for n in 1..=count {
                        written.store(n, Ordering::Relaxed);
                        queues[(n + issuer) % queues.len()].enqueue(work).unwrap();
                    }
                });
            }
        });
        // A flush of the queues alone might miss the item, because it may be pending on one queue while it runs on
        // another.
        eventually("the item is idle", || !work.is_pending() && !work.is_running());
        queues.iter().for_each(|queue| queue.flush().unwrap());
        assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed) == count), "{seen:?}");
    });
}

/// spec: W3.1 (at most one worker in the process), W2: each submission that returned true leads to a run of its own.
#[test]
fn an_item_is_never_entered_twice_however_it_is_queued() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let (runs, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, flag) = (Arc::clone(&runs), Arc::clone(&inside));
        let work = Work::new(move || {
            assert!(!flag.swap(true, Ordering::SeqCst), "entered twice");
            let run = count.fetch_add(1, Ordering::SeqCst);
            match run % 3 {
                0 => std::thread::yield_now(),
                1 => cmwq::blocking(std::thread::yield_now),
                _ => {}
            }
            assert!(flag.swap(false, Ordering::SeqCst), "entered twice");
        });
        let accepted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for issuer in 0..4 {
                let (queues, work, accepted) = (&queues, &work, &accepted);
                scope.spawn(move || {
                    for n in 0..stress(800) {
                        let queue = &queues[(n * (issuer + 1)) % queues.len()];
                        accepted.fetch_add(usize::from(queue.enqueue(work).unwrap()), Ordering::SeqCst);
                    }
                });
            }
        });
        eventually("the item is idle", || !work.is_pending() && !work.is_running());
        assert_eq!(runs.load(Ordering::SeqCst), accepted.load(Ordering::SeqCst));
        assert!(!inside.load(Ordering::SeqCst), "a run ended in a panic");
    });
}

/// spec: W3.2 (requeued from inside itself, also onto another queue)
#[test]
fn an_item_may_queue_itself_again_anywhere() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let (runs, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, flag, targets) = (Arc::clone(&runs), Arc::clone(&inside), queues.clone());
        let rounds = stress(800);
        let work = Work::with_handle(move |this| {
            assert!(!flag.swap(true, Ordering::SeqCst));
            let run = count.fetch_add(1, Ordering::SeqCst) + 1;
            if run < rounds {
                assert_eq!(targets[run % 4].enqueue(this), Ok(true));
                assert_eq!(targets[(run + 1) % 4].enqueue(this), Ok(false), "the item is pending");
            }
            flag.store(false, Ordering::SeqCst);
        });
        assert_eq!(queues[0].enqueue(&work), Ok(true));
        eventually("all rounds are run", || runs.load(Ordering::SeqCst) == rounds);
        eventually("the item is idle", || !work.is_pending() && !work.is_running());
        assert!(!inside.load(Ordering::SeqCst));
    });
}

/// spec: W3.2 (onto another queue: it runs there, in that queue's slot and order, after the present run)
#[test]
fn an_item_queued_elsewhere_while_it_runs_takes_that_queues_slot_and_place() {
    let _limit = time_limit();
    let executor = cpus(2);
    let first = WorkQueue::per_cpu("first").build_on(&executor).unwrap();
    for second in [WorkQueue::ordered("second"), WorkQueue::per_cpu("second").max_active_total(1)] {
        let second = second.build_on(&executor).unwrap();
        let (log, door) = (Arc::new(Mutex::new(Vec::new())), Door::default());
        let (notes, wait) = (Arc::clone(&log), door.clone());
        let work = Work::new(move || {
            notes.lock().unwrap().push("item");
            wait.wait();
        });
        assert_eq!(first.enqueue(&work), Ok(true));
        eventually("the item began", || log.lock().unwrap().len() == 1);
        let note = |text| {
            let log = Arc::clone(&log);
            move || log.lock().unwrap().push(text)
        };
        let before = second.spawn(note("before")).unwrap();
        assert_eq!(second.enqueue(&work), Ok(true));
        let after = second.spawn(note("after")).unwrap();
        before.join().unwrap();
        // The item holds the slot of the second queue, but cannot use it before its current run ends.
        let after = after.join_timeout(std::time::Duration::from_millis(20)).unwrap_err();
        assert_eq!(*log.lock().unwrap(), ["item", "before"]);
        door.open();
        after.join().unwrap();
        assert_eq!(*log.lock().unwrap(), ["item", "before", "item", "after"]);
    }
}

/// spec: W2.3, W9.4 (an item may drop its own last handle)
#[test]
fn an_item_whose_handles_are_gone_still_runs_and_is_dropped_once() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (drops, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (capture, count) = (Counted(Arc::clone(&drops)), Arc::clone(&runs));
            let own: Arc<Mutex<Option<Work>>> = Arc::default();
            let slot = Arc::clone(&own);
            let work = Work::new(move || {
                let _used = &capture;
                count.fetch_add(1, Ordering::SeqCst);
                drop(slot.lock().unwrap().take());
            });
            *own.lock().unwrap() = Some(work.clone());
            assert_eq!(queue.enqueue(&work), Ok(true));
            drop(work);
            queue.flush().unwrap();
            // The flush has waited for the run. The run has dropped the handle, and the worker drops the entry's
            // reference before it reports the end of the run.
            assert_eq!((runs.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (1, 1));
        }
    });
}

/// spec: W9.1 (a panic is contained, the item stays usable)
#[test]
fn an_item_that_panicked_can_be_queued_again() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let runs = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&runs);
            let work =
                Work::new(move || assert_ne!(count.fetch_add(1, Ordering::SeqCst) % 2, 0, "on purpose"));
            for n in 1..=4 {
                assert_eq!(queue.enqueue(&work), Ok(true));
                queue.flush().unwrap();
                assert_eq!(runs.load(Ordering::SeqCst), n);
                eventually("the item is idle", || !work.is_running());
            }
        }
    });
}

/// spec: W2, F3 (cancel: true if it was pending; does not wait)
#[test]
fn a_cancelled_item_does_not_run_unless_queued_again() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let (work, door, runs) = begun_on(&queue);
        assert!(!work.cancel(), "the item runs, and is not pending");
        assert_eq!(queue.enqueue(&work), Ok(true));
        assert!(work.cancel());
        assert!(!work.cancel(), "once");
        assert!(!work.is_pending());
        assert_eq!(queue.enqueue(&work), Ok(true), "again");
        assert!(work.cancel());
        door.open();
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(queue.enqueue(&work), Ok(true));
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

/// spec: W3.2, F3: a second worker has popped the item's next entry, and left it to the worker that runs the item. A
/// cancel then frees the slot of this entry.
#[test]
fn an_item_cancelled_while_it_waits_for_its_own_run_gives_the_slot_back() {
    let _limit = time_limit();
    let executor = one_cpu();
    let (first, second) = (WorkQueue::per_cpu("a"), WorkQueue::ordered("b").max_pending(2));
    let (first, second) = (first.build_on(&executor).unwrap(), second.build_on(&executor).unwrap());
    for _ in 0..20 {
        let (work, door, runs) = begun_on(&first);
        assert_eq!(second.enqueue(&work), Ok(true));
        let behind = second.spawn(|| ()).unwrap();
        let behind = behind.join_timeout(std::time::Duration::from_millis(2)).unwrap_err();
        assert!(work.cancel());
        behind.join().unwrap();
        door.open();
        first.flush().unwrap();
        second.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// spec: W2.1, F3: however threads race, each accepted submission is either run or cancelled.
#[test]
fn every_accepted_submission_is_run_or_cancelled() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let runs = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..3).map(|_| counting(&runs)).collect();
        let (accepted, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for issuer in 0..3 {
                let (queues, works, accepted, cancelled) = (&queues, &works, &accepted, &cancelled);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(issuer);
                    for _ in 0..stress(2000) {
                        let work = &works[random.usize(..3)];
                        if random.u64(..3) == 0 {
                            cancelled.fetch_add(usize::from(work.cancel()), Ordering::SeqCst);
                        } else {
                            let queue = &queues[random.usize(..4)];
                            accepted.fetch_add(usize::from(queue.enqueue(work).unwrap()), Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        eventually("all are idle", || works.iter().all(|work| !work.is_pending() && !work.is_running()));
        let [accepted, cancelled] = [accepted, cancelled].map(AtomicUsize::into_inner);
        assert_eq!(accepted, runs.load(Ordering::SeqCst) + cancelled);
        queues.iter().for_each(|queue| queue.flush().unwrap());
    });
}

/// spec: W2.6, W3.1, W4 (a run sees the earlier runs): the item's function may count without a lock, because its runs
/// never overlap, even with many queues, CPUs and issuers.
#[test]
fn a_function_may_change_what_it_owns() {
    on_each_executor(|executor| {
        let (tell, told) = mpsc::channel();
        let (mut count, runs) = (0usize, Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&runs);
        let work = Work::new(move || {
            count += 1;
            bump(&counted);
            tell.send(count).unwrap();
        });
        let queues = all_kinds(executor);
        std::thread::scope(|issuers| {
            for issuer in 0..3 {
                let (work, queues) = (&work, &queues);
                issuers.spawn(move || {
                    for n in 0..stress(200) {
                        queues[(n + issuer) % queues.len()].enqueue(work).unwrap();
                    }
                });
            }
        });
        while work.flush().unwrap() {}
        drop(work);
        // The function's own count matches the shared counter in each run, so no run was lost or doubled.
        assert!(told.iter().eq(1..=runs.load(Ordering::SeqCst)));
    });
}

/// spec: W2.6, W9.1: after a panic, later runs call the function with its values as the panic left them.
#[test]
fn a_function_that_has_panicked_is_called_again() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let mut runs = 0;
    let work = Work::with_handle(move |_| {
        runs += 1;
        tell.send(runs).unwrap();
        assert!(runs != 2, "the second run");
    });
    for expected in 1..=3 {
        queue.enqueue(&work).unwrap();
        assert_eq!(told.recv(), Ok(expected));
        work.flush().unwrap();
    }
    assert_eq!(queue.counters().panicked, 1);
}
