//! Cancelling an item, disabling it, and waiting for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cmwq::{EnableError, QueueError, WaitError, Work, WorkQueue};
use fastrand::Rng;

use crate::support::{
    Door, all_kinds, begun_on, bump, counting, cpus, eventually, falls_asleep, on_each_executor, one_cpu,
    stress, thread_id, time_limit,
};

const SHORT: Duration = Duration::from_millis(2);

/// spec: F3.1 (cancel: true if it was pending; does not wait)
#[test]
fn a_cancel_removes_a_pending_item_and_leaves_a_running_one_alone() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let (work, door, runs) = begun_on(&queue);
        assert!(!work.cancel(), "the item runs and is not pending");
        assert_eq!(queue.enqueue(&work), Ok(true));
        assert!(work.cancel());
        assert!(!work.cancel() && work.is_running());
        door.open();
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// spec: F3.2 (cancel_and_wait also waits for the running one)
#[test]
fn a_synchronous_cancel_waits_for_the_run() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (work, door, runs) = begun_on(&queue);
            assert_eq!(queue.enqueue(&work), Ok(true));
            let ended = Arc::new(AtomicBool::new(false));
            let opener = {
                let (ended, work) = (Arc::clone(&ended), work.clone());
                std::thread::spawn(move || {
                    eventually("the cancel waits", || !work.is_pending());
                    ended.store(true, Ordering::SeqCst);
                    door.open();
                })
            };
            assert_eq!(work.cancel_and_wait(), Ok(true), "the item was also pending");
            assert!(ended.load(Ordering::SeqCst), "the cancel did not wait");
            assert!(!work.is_running() && !work.is_pending());
            assert_eq!(work.cancel_and_wait(), Ok(false), "nothing to cancel or to wait for");
            opener.join().unwrap();
            queue.flush().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 1);
            assert_eq!(queue.enqueue(&work), Ok(true), "the item can be queued again");
            queue.flush().unwrap();
        }
    });
}

/// spec: F3.2 (keeps requeues out while it waits): the call ends even an item that queues itself in each run.
#[test]
fn a_synchronous_cancel_ends_an_item_that_queues_itself() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (runs, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (again, count, no) = (queue.clone(), Arc::clone(&runs), Arc::clone(&refused));
            let work = Work::with_handle(move |this| {
                bump(&count);
                match again.enqueue(this) {
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error, QueueError::Disabled);
                        bump(&no);
                    }
                }
            });
            for _ in 0..stress(50) {
                assert_eq!(queue.enqueue(&work), Ok(true));
                let before = runs.load(Ordering::SeqCst);
                eventually("the item runs again and again", || runs.load(Ordering::SeqCst) > before);
                work.cancel_and_wait().unwrap();
                let after = runs.load(Ordering::SeqCst);
                assert!(!work.is_pending() && !work.is_running());
                std::thread::yield_now();
                assert_eq!(runs.load(Ordering::SeqCst), after, "the item ran after the cancel");
            }
            assert!(refused.load(Ordering::SeqCst) <= stress(50));
        }
    });
}

/// spec: F6.1 (cancel_and_wait, disable_and_wait, flush): a wait that times out has no effect on the run.
#[test]
fn waits_that_time_out_leave_the_run_alone() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let (work, door, runs) = begun_on(&queue);
        assert_eq!(work.flush_timeout(SHORT), Err(WaitError::TimedOut));
        queue.enqueue(&work).unwrap();
        assert_eq!(work.flush_timeout(SHORT), Err(WaitError::TimedOut));
        assert!(work.is_pending(), "a flush cancels nothing");
        assert_eq!(work.cancel_and_wait_timeout(SHORT), Err(WaitError::TimedOut));
        assert!(!work.is_pending() && work.is_running() && !work.is_disabled());
        assert_eq!(queue.enqueue(&work), Ok(true), "queueing is permitted again");
        assert_eq!(work.disable_and_wait_timeout(SHORT), Err(WaitError::TimedOut));
        assert!(!work.is_pending() && work.is_disabled(), "the item is disabled although the wait timed out");
        assert_eq!(queue.enqueue(&work), Err(QueueError::Disabled));
        door.open();
        assert_eq!(work.disable_and_wait(), Ok(false));
        assert_eq!((work.enable(), work.enable()), (Ok(false), Ok(true)));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// spec: F3.3 (disable, enable, with a depth; queueing a disabled item is an error; unbalanced enable is one)
#[test]
fn a_disabled_item_is_refused_until_it_was_enabled_as_often() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        assert_eq!(work.enable(), Err(EnableError::NotDisabled));
        assert!(!work.disable(), "the item was not pending");
        assert!(!work.disable());
        for _ in 0..2 {
            assert_eq!(queue.enqueue(&work), Err(QueueError::Disabled));
            assert_eq!(queue.item(&work).after(SHORT).enqueue(), Err(QueueError::Disabled));
            assert_eq!(queue.item(&work).after(SHORT).reschedule(), Err(QueueError::Disabled));
        }
        assert_eq!(work.enable(), Ok(false), "one more `enable` is needed");
        assert_eq!(queue.enqueue(&work), Err(QueueError::Disabled));
        assert_eq!(work.enable(), Ok(true));
        assert_eq!(work.enable(), Err(EnableError::NotDisabled));
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 0, "a refused submission leads to no run");
        assert_eq!(queue.enqueue(&work), Ok(true));
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// spec: F3.3 (disable cancels), W2 (enable, then enqueue)
#[test]
fn disabling_cancels_a_pending_item_and_enabling_may_queue_it() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (_, door, _) = begun_on(&queue);
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    queue.enqueue(&work).unwrap();
    assert!(work.disable(), "the item was pending");
    assert_eq!(work.disable_and_wait(), Ok(false));
    assert_eq!(work.enable(), Ok(false), "one more `enable` is needed");
    assert!(!work.is_pending());
    assert_eq!((work.enable(), queue.enqueue(&work)), (Ok(true), Ok(true)));
    assert!(work.is_pending());
    assert_eq!(work.enable(), Err(EnableError::NotDisabled));
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// spec: F3.3: an item may disable itself. Then its submissions are refused, and its run ends as usual.
#[test]
fn an_item_may_disable_itself() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let (tell, told) = mpsc::channel();
    let again = queue.clone();
    let work = Work::with_handle(move |this| {
        again.enqueue(this).unwrap();
        let was_pending = this.disable();
        tell.send((was_pending, again.enqueue(this))).unwrap();
    });
    queue.enqueue(&work).unwrap();
    assert_eq!(told.recv().unwrap(), (true, Err(QueueError::Disabled)));
    assert!(work.flush().is_ok());
    assert!(!work.is_running() && work.is_disabled());
}

/// spec: F5.4 (cancel_and_wait, disable_and_wait and flush of the running item): if an item calls one of these
/// functions for itself, the call returns an error and changes nothing.
#[test]
fn an_item_cannot_wait_for_its_own_run() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let (tell, told) = mpsc::channel();
    let again = queue.clone();
    let runs = AtomicUsize::new(0);
    let work = Work::with_handle(move |this| {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            again.enqueue(this).unwrap();
            let answers = [this.cancel_and_wait(), this.disable_and_wait(), this.flush()];
            tell.send((answers, this.is_pending(), this.is_disabled())).unwrap();
        } else {
            tell.send(([Ok(true); 3], false, false)).unwrap();
        }
    });
    queue.enqueue(&work).unwrap();
    assert_eq!(told.recv().unwrap(), ([Err(WaitError::WouldDeadlock); 3], true, false));
    assert_eq!(told.recv().unwrap().0, [Ok(true); 3], "its submission was not cancelled");
}

/// spec: F5.4 (from the item that holds the only slot, for an item that needs it): the holder of the slot may cancel
/// the item, because the cancel does not wait for the slot.
#[test]
fn the_holder_of_the_only_slot_cannot_flush_an_item_that_needs_it() {
    let _limit = time_limit();
    for builder in [WorkQueue::ordered("q"), WorkQueue::unbound("q").max_active_total(1)] {
        let queue = builder.build_on(&one_cpu()).unwrap();
        let other = Work::new(|| ());
        let own = queue.clone();
        let answers = queue.spawn(move || {
            own.enqueue(&other).unwrap();
            (other.flush(), other.cancel_and_wait(), other.flush())
        });
        let expected = (Err(WaitError::WouldDeadlock), Ok(true), Ok(false));
        assert_eq!(answers.unwrap().join().unwrap(), expected);
    }
}

/// spec: F2.1 (waits for the last submission at call time; false if idle)
#[test]
fn a_flush_of_an_item_waits_for_its_last_submission_only() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let runs = Arc::new(AtomicUsize::new(0));
            let (gate, count, again) = (Door::default(), Arc::clone(&runs), queue.clone());
            let wait = gate.clone();
            let work = Work::with_handle(move |this| match count.fetch_add(1, Ordering::SeqCst) {
                // The first run queues the second one, which waits at the door.
                0 => assert_eq!(again.enqueue(this), Ok(true)),
                _ => wait.wait(),
            });
            assert_eq!(work.flush(), Ok(false));
            let (busy, door, _) = begun_on(&queue);
            queue.enqueue(&work).unwrap();
            let flusher = {
                let work = work.clone();
                std::thread::spawn(move || work.flush())
            };
            door.open();
            // The flusher may have called after the second submission. Then the flush also waits for the second run.
            eventually("the second run began", || runs.load(Ordering::SeqCst) == 2);
            gate.open();
            assert!(flusher.join().unwrap().is_ok());
            queue.flush().unwrap();
            assert_eq!(work.flush_timeout(SHORT), Ok(false));
            drop(busy);
        }
    });
}

/// spec: F2.1 (requeues after the call are not waited for): the flush ends although the item's next run has not ended.
#[test]
fn a_flush_of_an_item_does_not_wait_for_later_submissions() {
    let _limit = time_limit();
    let queue = WorkQueue::unbound("q").build_on(&one_cpu()).unwrap();
    let (work, door, runs) = begun_on(&queue);
    let (waits, is_waiting) = mpsc::channel();
    let flusher = {
        let work = work.clone();
        std::thread::spawn(move || {
            waits.send(thread_id()).unwrap();
            work.flush()
        })
    };
    falls_asleep("the flush sleeps", is_waiting.recv().unwrap());
    let blocked = Door::default();
    let gate = {
        // The only slot of this queue is taken, so the item's next run has to wait on the queue's list.
        let gate = WorkQueue::ordered("gate").build_on(&one_cpu()).unwrap();
        let wait = blocked.clone();
        drop(gate.spawn(move || wait.wait()).unwrap());
        gate
    };
    gate.enqueue(&work).unwrap();
    door.open();
    assert_eq!(flusher.join().unwrap(), Ok(true));
    assert!(work.is_pending() && runs.load(Ordering::SeqCst) == 1);
    blocked.open();
    // The item is still pending, or it has run already. In either case, this flush ends.
    work.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// spec: F2.1, F3: a flush of an item ends when the pending submission is cancelled, when the item is disabled, and
/// when the submission is replaced by a later one.
#[test]
fn a_flush_ends_when_its_submission_is_cancelled() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (_, door, _) = begun_on(&queue);
    let hour = Duration::from_secs(3600);
    let ways: [fn(&WorkQueue, &Work, Duration); 4] = [
        |_, work, _| assert!(work.cancel()),
        |_, work, _| assert_eq!(work.cancel_and_wait(), Ok(true)),
        |_, work, _| assert!(work.disable()),
        |queue, work, hour| assert_eq!(queue.item(work).after(hour).reschedule(), Ok(true)),
    ];
    for take_back in ways {
        let work = Work::new(|| ());
        queue.enqueue(&work).unwrap();
        let (waits, is_waiting) = mpsc::channel();
        let flushers: Vec<_> = (0..3)
            .map(|_| {
                let (work, waits) = (work.clone(), waits.clone());
                std::thread::spawn(move || {
                    waits.send(thread_id()).unwrap();
                    work.flush_timeout(Duration::from_secs(60))
                })
            })
            .collect();
        is_waiting.iter().take(3).for_each(|flusher| falls_asleep("the flush sleeps", flusher));
        take_back(&queue, &work, hour);
        work.cancel();
        for flusher in flushers {
            assert!(flusher.join().unwrap().is_ok(), "the flush was not woken");
        }
    }
    door.open();
}

/// spec: Q4.3 (in queueing order): an item that is cancelled and queued again runs after the items that were queued
/// before.
#[test]
fn an_item_queued_again_to_an_ordered_queue_comes_last() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (_, door, _) = begun_on(&queue);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let items: Vec<Work> = (0..4)
        .map(|n| {
            let order = Arc::clone(&order);
            Work::new(move || order.lock().unwrap().push(n))
        })
        .collect();
    items.iter().for_each(|item| assert_eq!(queue.enqueue(item), Ok(true)));
    // The item is cancelled twice, so that its former places on the queue's list are empty.
    for _ in 0..2 {
        assert!(items[1].cancel());
        assert_eq!(queue.enqueue(&items[1]), Ok(true));
    }
    assert!(items[2].cancel());
    door.open();
    queue.flush().unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 3, 1]);
    // The workers have passed over the empty places, so this item can be queued again.
    assert_eq!(queue.enqueue(&items[2]), Ok(true));
    queue.flush().unwrap();
    assert_eq!(order.lock().unwrap().last(), Some(&2));
}

/// spec: F3.3, W3, W4 (seen after a cancel_and_wait that waited for it): many threads queue, cancel and disable the
/// item, and wait for it. Only one run at a time uses the item's data. After a thread has disabled the item and waited,
/// no run uses the data.
#[test]
fn no_run_is_active_after_a_synchronous_disable() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let inside = Arc::new(AtomicUsize::new(0));
        let enter = Arc::clone(&inside);
        let work = Work::new(move || {
            assert_eq!(enter.fetch_add(1, Ordering::Relaxed), 0, "two runs at once");
            std::hint::spin_loop();
            enter.fetch_sub(1, Ordering::Relaxed);
        });
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (queues, work, inside) = (&queues, &work, &inside);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed);
                    for _ in 0..stress(300) {
                        let queue = &queues[random.usize(..4)];
                        match random.u64(..8) {
                            0 => drop(work.cancel()),
                            1 => drop(work.cancel_and_wait().unwrap()),
                            2 => drop(work.flush().unwrap()),
                            3 => {
                                work.disable_and_wait().unwrap();
                                assert_eq!(inside.load(Ordering::Relaxed), 0, "a run is active");
                                work.enable().unwrap();
                            }
                            4 => drop(
                                queue.item(work).after(Duration::from_micros(random.u64(..200))).enqueue(),
                            ),
                            5 => drop(
                                queue.item(work).after(Duration::from_micros(random.u64(..200))).reschedule(),
                            ),
                            _ => drop(queue.enqueue(work)),
                        }
                    }
                });
            }
        });
        assert!(work.flush().is_ok());
        work.disable_and_wait().unwrap();
        queues.iter().for_each(|queue| queue.flush().unwrap());
        assert_eq!(inside.load(Ordering::Relaxed), 0);
    });
}

/// spec: F3.1 (cancel against run): each submission is either run or cancelled, and never both. The test covers items
/// of all kinds of queues.
#[test]
fn a_submission_is_either_run_or_cancelled() {
    let _limit = time_limit();
    for queue in all_kinds(&cpus(4)) {
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        let (mut accepted, mut cancelled) = (0, 0);
        for round in 0..stress(3_000) {
            accepted += usize::from(queue.enqueue(&work).unwrap());
            match round % 3 {
                0 => cancelled += usize::from(work.cancel()),
                1 => cancelled += usize::from(work.cancel_and_wait().unwrap()),
                _ => {}
            }
        }
        work.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst) + cancelled, accepted);
    }
}
