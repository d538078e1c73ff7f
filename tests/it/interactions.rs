//! Interactions: operations of one part of an executor in the middle of operations of another part.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{JoinError, QueueError, ShutdownError, WaitError, Work, WorkQueue};
use fastrand::Rng;

use crate::support::{Door, SOON, builder, cpus, eventually, no_thread_of, one_cpu, stress, time_limit};

const LONG: Duration = Duration::from_secs(3600);

/// spec: E5.1 (runs accepted items), Q5: during a shutdown, an item uses a system queue for the first time, and the
/// first worker of this queue's pool cannot be made at once. The shutdown still runs the new item.
#[test]
fn an_item_queued_to_a_new_queue_during_a_shutdown_runs() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let refused = AtomicBool::new(false);
    let refuses_the_first_per_cpu_worker = move |name: &str| {
        let refuses = name.contains("/0:") && !refused.swap(true, Ordering::SeqCst);
        if refuses { Err(io::Error::from_raw_os_error(libc::EAGAIN)) } else { Ok(()) }
    };
    let executor = builder.before_spawn(refuses_the_first_per_cpu_worker).build().unwrap();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (door, ran) = (Door::default(), Arc::new(AtomicBool::new(false)));
    let (wait, runs, own) = (door.clone(), Arc::clone(&ran), executor.clone());
    let item = queue.spawn(move || {
        wait.wait();
        own.events().spawn(move || runs.store(true, Ordering::SeqCst)).map_err(|refused| refused.error)
    });
    let refused = || queue.spawn(|| ()).is_err_and(|refused| refused.error == QueueError::ShutDown);
    let report = std::thread::scope(|scope| {
        let shutdown = scope.spawn(|| executor.shutdown(SOON).unwrap());
        eventually("the shutdown has begun", refused);
        door.open();
        shutdown.join().unwrap()
    });
    let accepted = item.unwrap().join().unwrap().unwrap();
    assert!(report.is_complete(), "{report}");
    assert!(matches!(accepted.join_timeout(SOON), Ok(Ok(()))), "the item was accepted and lost");
    assert!(ran.load(Ordering::SeqCst));
    drop((executor, queue));
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: F5.9: a running item with an armed timer is pending on no queue, so it may flush another queue.
#[test]
fn an_armed_item_may_flush_the_queue_it_was_on_before() {
    let _limit = time_limit();
    let executor = cpus(2);
    let here = WorkQueue::builder("here").build_on(&executor).unwrap();
    let there = WorkQueue::builder("there").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let (own, target) = (here.clone(), there.clone());
    let work = Work::with_handle(move |this| {
        assert_eq!(target.enqueue(this), Ok(true));
        assert!(this.cancel());
        assert_eq!(own.item(this).after(LONG).enqueue(), Ok(true));
        tell.send(target.flush()).unwrap();
        assert!(this.cancel());
    });
    here.enqueue(&work).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Ok(()));
    here.flush().unwrap();
}

/// spec: F5.4 (waiting, from the item that holds the only slot, for an item that needs that slot), W5 (flush of an
/// armed item): the wait is refused, and the timer stays armed.
#[test]
fn the_holder_of_the_only_slot_cannot_flush_an_item_armed_for_it() {
    let _limit = time_limit();
    let executor = one_cpu();
    for patient in [true, false] {
        let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
        let work = Work::new(|| ());
        queue.item(&work).after(LONG).enqueue().unwrap();
        let armed = work.clone();
        let item = queue.spawn(move || match patient {
            true => armed.flush(),
            false => armed.flush_timeout(Duration::from_millis(50)),
        });
        assert_eq!(item.unwrap().join().unwrap(), Err(WaitError::WouldDeadlock));
        queue.flush().unwrap();
        assert!(work.cancel(), "the item is still armed");
    }
}

/// spec: E5.3, F4.3 (cancels its armed timers): a timer that is armed just before its queue ends is cancelled, and its
/// joiner is told, like those of earlier timers.
#[test]
fn a_timer_that_is_armed_while_its_queue_ends_does_not_fire() {
    let _limit = time_limit();
    for round in 0..stress(60) {
        let executor = one_cpu();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let armed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let issuers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut handles = Vec::new();
                        while let Ok(handle) = queue.item(|| ()).after(LONG).spawn() {
                            handles.push(handle);
                            armed.fetch_add(1, Ordering::Relaxed);
                        }
                        handles
                    })
                })
                .collect();
            eventually("timers are armed", || armed.load(Ordering::Relaxed) > 10);
            if round % 2 == 0 {
                assert!(executor.shutdown(SOON).unwrap().is_complete());
            } else {
                queue.destroy().unwrap();
            }
            for handle in issuers.into_iter().flat_map(|issuer| issuer.join().unwrap()) {
                let answer = handle.join_timeout(Duration::from_secs(2));
                assert!(matches!(answer, Ok(Err(JoinError::Cancelled))), "{answer:?}");
            }
        });
    }
}

/// spec: E5.2 (runs accepted items): an item runs on one executor, and is pending on another one. It cannot shut the
/// latter down, because it would wait for its own next run.
#[test]
fn an_item_cannot_shut_down_an_executor_on_which_it_is_pending() {
    let _limit = time_limit();
    let (here, there) = (cpus(2), cpus(2));
    let queue = WorkQueue::builder("here").build_on(&here).unwrap();
    let target = WorkQueue::builder("there").build_on(&there).unwrap();
    let (tell, told) = mpsc::channel();
    let (pending_on, executor) = (target.clone(), there.clone());
    let work = Work::with_handle(move |this| {
        assert_eq!(pending_on.enqueue(this), Ok(true));
        tell.send(executor.shutdown(SOON).map(|report| report.to_string())).unwrap();
        this.cancel();
    });
    queue.enqueue(&work).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), Err(ShutdownError::WouldDeadlock));
    queue.flush().unwrap();
    assert_eq!(target.spawn(|| 1).unwrap().join().unwrap(), 1, "the executor still accepts items");
    assert!(there.shutdown(SOON).unwrap().is_complete());
}

/// Sends the name of the thread that drops it.
struct Where(mpsc::Sender<String>);

impl Drop for Where {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let _unless_the_test_is_over = self.0.send(name);
    }
}

/// spec: W5.3, W9: the worker that ran an item drops the item's captured values, even if a timer had the last handle.
/// If the manager dropped them, a destructor that waits for work would hang.
#[test]
fn the_last_handle_of_an_item_is_not_left_to_the_manager() {
    let _limit = time_limit();
    let queue = WorkQueue::per_cpu("q").build_on(&one_cpu()).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    for _ in 0..stress(500) {
        let (tell, told) = mpsc::channel();
        let dropped = Where(tell);
        let work = Work::new(move || {
            let _captured = &dropped;
        });
        queue.item(&work).after(Duration::from_micros(50)).enqueue().unwrap();
        drop(work);
        let thread = told.recv_timeout(SOON).unwrap();
        assert!(!thread.ends_with("/manager"), "{thread}");
    }
}

/// spec: Q3.4 (max_pending): each item takes room once and gives it back once, whether it runs, is cancelled or is
/// moved. So in the end, the queue has as much room as at first.
#[test]
fn the_room_of_a_bounded_queue_is_given_back_on_every_path() {
    let _limit = time_limit();
    const ROOM: usize = 16;
    for round in 0..stress(12) {
        let executor = cpus(2);
        let queue =
            [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered][round % 4]("q");
        let queue = queue.max_pending(ROOM).freezable(true).build_on(&executor).unwrap();
        let works: Vec<Work> = (0..6).map(|_| Work::new(std::thread::yield_now)).collect();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (executor, queue, works) = (&executor, &queue, &works);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(round as u64 * 3 + thread);
                    for _ in 0..1500 {
                        let work = &works[random.usize(..6)];
                        let soon = Duration::from_micros(random.u64(..200));
                        match random.u64(..14) {
                            0 | 1 => drop(queue.enqueue(work)),
                            2 => drop(queue.item(work).after(soon).enqueue()),
                            3 => drop(queue.item(work).after(soon).reschedule()),
                            4 | 5 => drop(work.cancel()),
                            6 => drop(work.cancel_and_wait()),
                            7 => drop(work.flush_timeout(soon)),
                            8 => drop(queue.spawn(|| ())),
                            9 => drop(queue.spawn(|| ()).map(|item| item.cancel())),
                            10 => drop(queue.item(|| ()).after(soon).spawn().map(|item| item.cancel())),
                            11 => drop(queue.items(works).enqueue()),
                            12 => drop(queue.drain_timeout(soon)),
                            _ => {
                                executor.freeze_begin();
                                let _unless_ordered = queue.set_max_active(1 + random.usize(..3));
                                executor.thaw();
                            }
                        }
                    }
                });
            }
        });
        for work in &works {
            work.cancel_and_wait().unwrap();
        }
        // Some timers may still be armed, and cancelled entries may be on lists. The manager fires timers one after the
        // other, so the following timer fires last.
        queue.item(|| ()).after(Duration::from_millis(1)).spawn().unwrap().join().unwrap();
        eventually("the queue is empty", || queue.is_empty());
        executor.freeze_begin();
        let held: Vec<_> = (0..ROOM).map(|_| queue.spawn(|| ()).unwrap()).collect();
        assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full);
        executor.thaw();
        held.into_iter().for_each(|item| item.join().unwrap());
    }
}
