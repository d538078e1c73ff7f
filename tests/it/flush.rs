//! Flushing a queue: a flush waits for the items queued before it, and only for those.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{Executor, QueueError, WaitError, Work, WorkQueue};

use crate::support::{
    Door, PROGRESS, SOON, burn, cpus, falls_asleep, holds_within, nap, on_each_executor, one_cpu, stress,
    thread_id, time_limit,
};

fn all_kinds(executor: &Executor) -> [WorkQueue; 5] {
    [
        WorkQueue::builder("n"),
        WorkQueue::per_cpu("p"),
        WorkQueue::unbound("u").max_active(1),
        WorkQueue::ordered("o"),
        WorkQueue::per_cpu("t").max_active_total(2),
    ]
    .map(|queue| queue.build_on(executor).unwrap())
}

/// spec: F1.1 (waits for every item queued before the call), W4.2 (everything in the run is seen after)
#[test]
fn a_flush_waits_for_everything_queued_before() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let count = stress(40);
            let done: Arc<Vec<AtomicU32>> = Arc::new((0..count).map(|_| AtomicU32::new(0)).collect());
            for n in 0..count {
                let done = Arc::clone(&done);
                let item = move || {
                    if n % 10 == 0 {
                        cmwq::blocking::thread::sleep(Duration::from_micros(300));
                    }
                    done[n].store(1, Ordering::Relaxed);
                    assert_ne!(n % 10, 5, "on purpose");
                };
                drop(queue.spawn(item).unwrap());
            }
            queue.flush().unwrap();
            assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
            // A flush of an empty queue returns at once.
            (0..3).for_each(|_| queue.flush().unwrap());
        }
    });
}

/// spec: F1.1: a flush returns at once if no item was ever queued.
#[test]
fn a_flush_of_an_unused_queue_returns_at_once() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            queue.flush().unwrap();
            queue.clone().flush().unwrap();
        }
        assert_eq!(executor.dump().threads, 0);
    });
}

/// Flushes in another thread, and returns once that thread sleeps in the flush.
fn flush_elsewhere(queue: &WorkQueue) -> std::thread::JoinHandle<()> {
    let (tell, told) = mpsc::channel();
    let queue = queue.clone();
    let thread = std::thread::spawn(move || {
        tell.send(thread_id()).unwrap();
        queue.flush().unwrap();
    });
    falls_asleep("the flush sleeps", told.recv().unwrap());
    thread
}

/// spec: F1.2 (not for later ones)
#[test]
fn a_flush_does_not_wait_for_later_items() {
    let _limit = time_limit();
    let executor = cpus(2);
    for queue in [WorkQueue::builder("q"), WorkQueue::per_cpu("q"), WorkQueue::unbound("q")] {
        let queue = queue.build_on(&executor).unwrap();
        let (earlier, later) = (Door::default(), Door::default());
        let wait = earlier.clone();
        let first = queue.spawn(move || wait.wait()).unwrap();
        let flush = flush_elsewhere(&queue);
        // These items end only after the flush has returned.
        let handles: Vec<_> = (0..6)
            .map(|_| {
                let wait = later.clone();
                queue.spawn(move || wait.wait()).unwrap()
            })
            .collect();
        assert!(!flush.is_finished(), "the flush waits for the first item");
        earlier.open();
        flush.join().unwrap();
        later.open();
        first.join().unwrap();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

/// spec: F1.2: in an ordered queue with a backlog, a flush ends before the items run that were queued after its call.
#[test]
fn a_flush_ends_in_the_middle_of_a_backlog() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let (first, second) = (Door::default(), Door::default());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = |door: Option<&Door>| {
        let (runs, door) = (Arc::clone(&runs), door.cloned());
        move || {
            door.iter().for_each(Door::wait);
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    drop(queue.spawn(counted(Some(&first))).unwrap());
    (0..5).for_each(|_| drop(queue.spawn(counted(None)).unwrap()));
    let flush = flush_elsewhere(&queue);
    drop(queue.spawn(counted(Some(&second))).unwrap());
    drop(queue.spawn(counted(None)).unwrap());
    first.open();
    flush.join().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 6);
    second.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 8);
}

/// spec: F1.2 (not live-locked by a stream of new ones)
#[test]
fn a_stream_of_new_items_does_not_hold_a_flush_up() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let stop = Arc::new(AtomicBool::new(false));
            let (again, over) = (queue.clone(), Arc::clone(&stop));
            let endless = Work::with_handle(move |this| {
                if !over.load(Ordering::SeqCst) {
                    again.enqueue(this).unwrap();
                }
                burn(Duration::from_micros(20));
            });
            queue.enqueue(&endless).unwrap();
            let (steady, over) = (queue.clone(), Arc::clone(&stop));
            let stream = std::thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    steady.spawn(|| ()).unwrap().join().unwrap();
                }
            });
            (0..5).for_each(|_| queue.flush().unwrap());
            stop.store(true, Ordering::SeqCst);
            stream.join().unwrap();
            queue.flush().unwrap();
        }
    });
}

/// spec: F1.4 (concurrent flushes are batched): each flush still waits for the items queued before it.
#[test]
fn concurrent_flushes_each_see_their_own_items() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let queue = &queue;
                    scope.spawn(move || {
                        for n in 0..stress(80) {
                            let done = Arc::new(AtomicUsize::new(0));
                            for _ in 0..3 {
                                let done = Arc::clone(&done);
                                let item = move || crate::support::bump(&done);
                                drop(queue.spawn(item).unwrap());
                            }
                            queue.flush().unwrap();
                            assert_eq!(done.load(Ordering::Relaxed), 3, "flush {n}");
                        }
                    });
                }
            });
        }
    });
}

/// spec: F1.1: cancelled items that still have their places in the queue do not hang a flush, and do not end it early.
#[test]
fn a_flush_passes_cancelled_items() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    for _ in 0..10 {
        let door = Door::default();
        let wait = door.clone();
        drop(queue.spawn(move || wait.wait()).unwrap());
        let one_shot = queue.spawn(|| unreachable!("the item was cancelled")).unwrap();
        let work = Work::new(|| unreachable!("the item was cancelled"));
        assert_eq!(queue.enqueue(&work), Ok(true));
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        drop(queue.spawn(move || flag.store(true, Ordering::Relaxed)).unwrap());
        assert!(one_shot.cancel() && work.cancel());
        let flush = flush_elsewhere(&queue);
        door.open();
        flush.join().unwrap();
        assert!(ran.load(Ordering::Relaxed));
    }
}

/// spec: F1.4: a handle may be dropped while the queue is flushed through another handle.
#[test]
fn a_queue_may_be_dropped_while_it_is_flushed() {
    let _limit = time_limit();
    for _ in 0..stress(20) {
        let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
        let door = Door::default();
        let wait = door.clone();
        drop(queue.spawn(move || wait.wait()).unwrap());
        let flushes = [flush_elsewhere(&queue), flush_elsewhere(&queue)];
        drop(queue);
        door.open();
        flushes.into_iter().for_each(|flush| flush.join().unwrap());
    }
}

/// spec: F1.1, W2 (false: was pending already): if a thread finds an item pending and then flushes, the flush waits for
/// the run of that item.
#[test]
fn a_flush_waits_for_an_item_that_another_thread_is_queueing() {
    let _limit = time_limit();
    // Each issuer has its own CPU. In this many rounds, an issuer is sometimes preempted in the middle of a submission.
    let executor = Executor::builder().progress_check(PROGRESS).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let work = {
        let (asked, answered) = (Arc::clone(&asked), Arc::clone(&answered));
        Work::new(move || {
            answered.fetch_max(asked.load(Ordering::Relaxed), Ordering::Relaxed);
        })
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    queue.enqueue(&work).unwrap();
                }
            });
        }
        for round in 1..=stress(50_000) {
            asked.store(round, Ordering::Relaxed);
            queue.enqueue(&work).unwrap();
            queue.flush().unwrap();
            let answered = answered.load(Ordering::Relaxed);
            if answered < round {
                over.store(true, Ordering::Relaxed);
                panic!("the flush of round {round} returned after round {answered} only");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Flushes its queue when it is dropped, and sends the result.
struct FlushOnDrop(WorkQueue, mpsc::Sender<Result<(), cmwq::WaitError>>);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.1.send(self.0.flush()).unwrap();
    }
}

/// spec: F5.3 (flush): a cancelled item holds its slot while its captured values are dropped.
#[test]
fn a_flush_in_the_destructor_of_a_cancelled_item_learns_that_it_would_deadlock() {
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let door = Door::default();
    let inside = door.clone();
    let busy = queue.spawn(move || inside.wait()).unwrap();
    let (tell, told) = mpsc::channel();
    let bomb = FlushOnDrop(queue.clone(), tell);
    let work = Work::new(move || {
        let _captured = &bomb;
    });
    queue.enqueue(&work).unwrap();
    assert!(work.cancel());
    drop(work);
    door.open();
    busy.join().unwrap();
    let answer = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(answer, Err(cmwq::WaitError::WouldDeadlock));
}

/// spec: F1.5 (exactly the items queued before its own call, beside other flushes): a flush that begins beside an
/// earlier one does not wait for items queued after its own call, even if the earlier flush has timed out.
#[test]
fn a_flush_beside_another_one_does_not_wait_for_later_items() {
    let _limit = time_limit();
    let executor = cpus(2);
    for queue in
        [WorkQueue::builder("q"), WorkQueue::per_cpu("q"), WorkQueue::unbound("q"), WorkQueue::ordered("q")]
    {
        let queue = queue.build_on(&executor).unwrap();
        for first_gives_up in [false, true] {
            let (earlier, between, later) = (Door::default(), Door::default(), Door::default());
            let item = |door: &Door| {
                let wait = door.clone();
                queue.spawn(move || wait.wait()).unwrap()
            };
            let mut items = vec![item(&earlier)];
            let first = match first_gives_up {
                false => Some(flush_elsewhere(&queue)),
                true => {
                    assert_eq!(queue.flush_timeout(Duration::ZERO), Err(WaitError::TimedOut));
                    None
                }
            };
            items.push(item(&between));
            let second = flush_elsewhere(&queue);
            items.push(item(&later));
            earlier.open();
            first.into_iter().for_each(|flush| flush.join().unwrap());
            assert!(!second.is_finished(), "the second flush waits for the item between the two flushes");
            between.open();
            second.join().unwrap();
            later.open();
            items.into_iter().for_each(|item| item.join().unwrap());
        }
    }
}

/// spec: F1.6, F5.9: an item queued after a flush may join the item that flushes. This is no deadlock.
#[test]
fn a_later_item_may_join_the_flusher() {
    let _limit = time_limit();
    let executor = cpus(2);
    for queue in all_kinds(&executor) {
        let others = WorkQueue::builder("flushers").build_on(&executor).unwrap();
        let door = Door::default();
        let wait = door.clone();
        let earlier = queue.spawn(move || wait.wait()).unwrap();
        let first = flush_elsewhere(&queue);
        let (tell, told) = mpsc::channel();
        let flushed = queue.clone();
        let flusher = others.spawn(move || {
            tell.send(thread_id()).unwrap();
            flushed.flush()
        });
        falls_asleep("the flush sleeps", told.recv().unwrap());
        let flusher = flusher.unwrap();
        let later = queue.spawn(move || flusher.join().unwrap()).unwrap();
        door.open();
        assert_eq!(later.join().unwrap(), Ok(()));
        first.join().unwrap();
        earlier.join().unwrap();
    }
}

/// spec: F1.2 (not for later ones): an item that is cancelled before a flush and queued again while the flush waits is
/// a later item, although its former place has not been reached. However often the item is cancelled and queued again,
/// it gets only one more place.
#[test]
fn an_item_queued_again_while_a_flush_waits_is_later() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queues = [
        WorkQueue::builder("n").max_active(1),
        WorkQueue::per_cpu("p").max_active(1),
        WorkQueue::unbound("u").max_active(1),
        WorkQueue::per_cpu("t").max_active_total(1),
        WorkQueue::ordered("o"),
    ];
    let is_ordered = |queue: &WorkQueue| queue.name() == "o";
    let delay = Duration::from_millis(1);
    let after = WorkQueue::builder("after").build_on(&executor).unwrap();
    let fired = |queue: &WorkQueue, work: &Work| {
        let queued = queue.item(work).after(delay).enqueue();
        // Timers fire in the order of their deadlines.
        after.item(|| ()).after(delay).spawn().unwrap().join().unwrap();
        queued
    };
    type Again<'a> = &'a dyn Fn(&WorkQueue, &Work) -> Result<bool, QueueError>;
    let ways: [Again<'_>; 3] = [
        &|queue, work| queue.enqueue(work),
        &|queue, work| queue.item(work).reschedule().map(|was_pending| !was_pending),
        &fired,
    ];
    for queue in queues {
        let queue = queue.build_on(&executor).unwrap();
        for again in ways {
            let (earlier, later) = (Door::default(), Door::default());
            let wait = earlier.clone();
            drop(queue.spawn(move || wait.wait()).unwrap());
            let (wait, runs) = (later.clone(), Arc::new(AtomicUsize::new(0)));
            let ran = Arc::clone(&runs);
            let work = Work::new(move || {
                wait.wait();
                crate::support::bump(&ran);
            });
            assert_eq!(queue.enqueue(&work), Ok(true));
            assert!(work.cancel());
            let flush = flush_elsewhere(&queue);
            for n in 0..20 {
                assert_eq!(again(&queue, &work), Ok(true));
                let is_there = holds_within(SOON, || queue.len() >= 3);
                assert!(is_there && (queue.len() == 3 || is_ordered(&queue)), "{} places", queue.len());
                assert!(n == 19 || work.cancel());
            }
            earlier.open();
            flush.join().unwrap();
            later.open();
            let _waited = work.flush().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 1);
            queue.flush().unwrap();
        }
    }
}

/// Queues an item and cancels it. Returns a closure that queues it again. The run that this closure queues ends only
/// after the door is open.
fn queued_and_cancelled(queue: &WorkQueue, door: &Door) -> impl FnOnce() {
    let (queue, wait, waits) = (queue.clone(), door.clone(), Arc::new(AtomicBool::new(false)));
    let does = Arc::clone(&waits);
    let work = Work::new(move || {
        if does.load(Ordering::Relaxed) {
            wait.wait();
        }
    });
    queue.enqueue(&work).unwrap();
    let _pending = work.cancel_and_wait().unwrap();
    move || {
        waits.store(true, Ordering::Relaxed);
        assert_eq!(queue.enqueue(&work), Ok(true));
    }
}

/// spec: F1.6: many flushes overlap. After each flush has begun, two items are queued that end only after the flush.
/// One of them was queued and cancelled before the flush.
#[test]
fn no_flush_hangs_among_later_items_that_wait_for_it() {
    let _limit = time_limit();
    for executor in [one_cpu(), cpus(2)] {
        for queue in [WorkQueue::builder("n"), WorkQueue::per_cpu("p"), WorkQueue::unbound("u")] {
            let queue = queue.build_on(&executor).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|| {
                        for round in 0..stress(2) {
                            let done = Arc::new(AtomicUsize::new(0));
                            for _ in 0..3 {
                                let done = Arc::clone(&done);
                                drop(queue.spawn(move || crate::support::bump(&done)).unwrap());
                            }
                            let (held, over) = (Door::default(), Door::default());
                            let (wait, end) = (held.clone(), over.clone());
                            drop(queue.spawn(move || wait.wait()).unwrap());
                            let again = queued_and_cancelled(&queue, &over);
                            let flush = flush_elsewhere(&queue);
                            again();
                            drop(queue.spawn(move || end.wait()).unwrap());
                            if round % 4 == 0 {
                                let answer = queue.flush_timeout(Duration::from_micros(20));
                                assert_eq!(answer, Err(WaitError::TimedOut));
                            }
                            held.open();
                            flush.join().unwrap();
                            assert_eq!(done.load(Ordering::Relaxed), 3, "round {round}");
                            over.open();
                        }
                    });
                }
            });
            queue.flush().unwrap();
        }
    }
}

/// spec: F1.5, W8: a flush waits for no item of a batch that is queued after the call.
#[test]
fn a_flush_does_not_wait_for_a_later_batch() {
    let _limit = time_limit();
    let executor = cpus(2);
    for queue in all_kinds(&executor) {
        let (earlier, later) = (Door::default(), Door::default());
        let wait = earlier.clone();
        drop(queue.spawn(move || wait.wait()).unwrap());
        let first = flush_elsewhere(&queue);
        let runs = Arc::new(AtomicUsize::new(0));
        let batch = |door: &Door| {
            let item = |_| {
                let (runs, door) = (Arc::clone(&runs), door.clone());
                move || {
                    door.wait();
                    crate::support::bump(&runs);
                }
            };
            (0..20).map(item).collect::<Vec<_>>()
        };
        queue.items(batch(&earlier)).spawn().unwrap();
        let second = flush_elsewhere(&queue);
        queue.items(batch(&later)).spawn().unwrap();
        earlier.open();
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 20);
        later.open();
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 40);
    }
}

/// spec: F1.3, F6: some flushers time out while others wait. The flush then continues for these others.
#[test]
fn a_flush_that_runs_out_of_time_does_not_hold_others_up() {
    let _limit = time_limit();
    let executor = cpus(2);
    for queue in all_kinds(&executor) {
        let (door, ended) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let (wait, ends) = (door.clone(), Arc::clone(&ended));
        let item = queue.spawn(move || {
            wait.wait();
            ends.fetch_add(1, Ordering::SeqCst);
        });
        std::thread::scope(|scope| {
            let patient: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        queue.flush().unwrap();
                        ended.load(Ordering::SeqCst)
                    })
                })
                .collect();
            let hasty: Vec<_> = (0..8)
                .map(|n| {
                    let queue = &queue;
                    scope.spawn(move || queue.flush_timeout(Duration::from_micros(300 * n)))
                })
                .collect();
            for flush in hasty {
                assert_eq!(flush.join().unwrap(), Err(WaitError::TimedOut));
            }
            assert!(patient.iter().all(|flush| !flush.is_finished()));
            door.open();
            assert!(patient.into_iter().all(|flush| flush.join().unwrap() == 1));
        });
        assert_eq!(queue.flush_timeout(Duration::from_secs(20)), Ok(()), "a new flush can begin");
        item.unwrap().join().unwrap();
    }
}

/// spec: F1.3, F7, F8: several threads flush under load, while the limit changes and the queue freezes and thaws. Some
/// have short time-outs. Each flush that succeeds has waited for all earlier items.
#[test]
fn flushes_hold_while_limits_change_and_queues_freeze() {
    let _limit = time_limit();
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").freezable(true).max_active(2).build_on(executor).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let flushers: Vec<_> = (0..3)
                .map(|flusher| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let done = Arc::new(AtomicUsize::new(0));
                        for n in 1..=stress(30) {
                            let counted = Arc::clone(&done);
                            drop(queue.spawn(move || counted.fetch_add(1, Ordering::Relaxed)).unwrap());
                            let in_time = match (flusher + n) % 3 {
                                0 => queue.flush_timeout(Duration::from_micros(20)).is_ok(),
                                _ => queue.flush().is_ok(),
                            };
                            assert!(!in_time || done.load(Ordering::Relaxed) == n);
                            queue.flush().unwrap();
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    executor.freeze_begin();
                    queue.set_max_active(1 + n % 4).unwrap();
                    executor.thaw();
                    nap(Duration::from_micros(50));
                }
            });
            flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
            over.store(true, Ordering::Relaxed);
        });
    });
}
