//! Draining and destroying a queue: only its own items may queue to it until it is empty.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{Executor, JoinError, QueueError, WaitError, Work, WorkQueue, WorkQueueBuilder};

use crate::support::{
    Door, SOON, builder, bump, cpus, eventually, holds_within, no_thread_of, on_each_executor, one_cpu,
    stress, time_limit, timers_have_fired,
};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 4] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];

const MOMENT: Duration = Duration::from_millis(5);

fn refusal(queue: &WorkQueue) -> Option<QueueError> {
    queue.spawn(|| ()).err().map(|refused| refused.error)
}

/// Waits until the queue refuses items from outside.
fn begins_to_refuse(queue: &WorkQueue, error: QueueError) {
    eventually("items from outside are refused", || refusal(queue) == Some(error));
}

/// spec: F4.1 (chained queueing until empty): the drain waits for a chain of items, each of which queues the next one.
#[test]
fn a_drain_waits_for_items_that_its_items_queue() {
    fn step(queue: WorkQueue, left: usize, runs: Arc<AtomicUsize>) {
        bump(&runs);
        if left > 0 {
            let next = queue.clone();
            drop(queue.spawn(move || step(next, left - 1, runs)).unwrap());
        }
    }
    on_each_executor(|executor| {
        for kind in KINDS {
            let queue = kind("q").max_pending(1000).build_on(executor).unwrap();
            let runs = Arc::new(AtomicUsize::new(0));
            for _ in 0..4 {
                let (next, runs) = (queue.clone(), Arc::clone(&runs));
                drop(queue.spawn(move || step(next, stress(20), runs)).unwrap());
            }
            queue.drain().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 4 * (stress(20) + 1));
            assert!(queue.is_empty());
            queue.spawn(|| ()).unwrap().join().unwrap();
            queue.drain().unwrap();
        }
    });
}

/// spec: F4.2 (others get Err(Draining), the refused item stays usable): the issuer gets a refused closure back, a
/// refused reusable item is unchanged, and a pending item stays pending.
#[test]
fn a_drain_refuses_items_from_outside_and_leaves_them_unchanged() {
    let _limit = time_limit();
    let executor = cpus(2);
    let (queue, other) = (WorkQueue::ordered("q"), WorkQueue::unbound("other"));
    let (queue, other) = (queue.build_on(&executor).unwrap(), other.build_on(&executor).unwrap());
    let door = Door::default();
    let wait = door.clone();
    let busy = queue.spawn(move || wait.wait()).unwrap();
    let (pending, cancelled, idle) = (Work::new(|| ()), Work::new(|| ()), Work::new(|| ()));
    assert!(queue.enqueue(&pending).unwrap() && queue.enqueue(&cancelled).unwrap());
    assert!(cancelled.cancel());
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain());
        begins_to_refuse(&queue, QueueError::Draining);
        let refused = queue.spawn(|| 7).unwrap_err();
        assert_eq!((refused.into_closure())(), 7);
        assert!(!queue.enqueue(&pending).unwrap(), "the item was pending already");
        assert_eq!(
            queue.enqueue(&cancelled),
            Err(QueueError::Draining),
            "the place of a cancelled item is not used again"
        );
        assert_eq!(queue.enqueue(&idle), Err(QueueError::Draining));
        assert!(!idle.is_pending() && !cancelled.is_pending());
        let again = queue.clone();
        let by_an_item = other.spawn(move || refusal(&again)).unwrap().join().unwrap();
        assert_eq!(by_an_item, Some(QueueError::Draining), "an item of another queue is an outsider");
        assert!(other.enqueue(&idle).unwrap(), "another queue accepts the item");
        door.open();
        drain.join().unwrap().unwrap();
    });
    busy.join().unwrap();
    assert!(queue.enqueue(&cancelled).unwrap());
    queue.flush().unwrap();
}

/// spec: F4.4, F6.2: after the drain has timed out, the queue accepts items again. It times out because an item queues
/// itself again and again.
#[test]
fn a_drain_that_runs_out_of_time_takes_itself_back() {
    let _limit = time_limit();
    for kind in KINDS {
        let queue = kind("q").build_on(&cpus(2)).unwrap();
        let stop = Arc::new(AtomicUsize::new(0));
        let (again, stopped) = (queue.clone(), Arc::clone(&stop));
        let restless = Work::with_handle(move |this| {
            if stopped.load(Ordering::SeqCst) == 0 {
                cmwq::blocking::thread::sleep(Duration::from_micros(100));
                assert!(again.enqueue(this).unwrap());
            }
        });
        assert!(queue.enqueue(&restless).unwrap());
        assert_eq!(queue.drain_timeout(MOMENT), Err(WaitError::TimedOut));
        queue.spawn(|| ()).unwrap().join().unwrap();
        stop.store(1, Ordering::SeqCst);
        queue.drain().unwrap();
    }
}

/// spec: F4, F5.5: an item cannot drain or destroy its own queue, because it would wait for itself.
#[test]
fn an_item_cannot_drain_or_destroy_its_own_queue() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor = cpus(2);
        let queue = kind("q").build_on(&executor).unwrap();
        let own = queue.clone();
        let answers = queue.spawn(move || (own.drain(), own.destroy())).unwrap().join().unwrap();
        assert_eq!(answers, (Err(WaitError::WouldDeadlock), Err(WaitError::WouldDeadlock)));
        let other = WorkQueue::builder("other").build_on(&executor).unwrap();
        let drained = queue.clone();
        assert_eq!(other.spawn(move || drained.drain()).unwrap().join().unwrap(), Ok(()));
        queue.spawn(|| ()).unwrap().join().unwrap();
    }
}

/// spec: F4.1: drains may overlap. Items from outside are refused until the last drain has ended.
#[test]
fn drains_may_overlap() {
    let _limit = time_limit();
    let queue = WorkQueue::unbound("q").build_on(&cpus(2)).unwrap();
    let door = Door::default();
    let wait = door.clone();
    drop(queue.spawn(move || wait.wait()).unwrap());
    std::thread::scope(|scope| {
        let long = scope.spawn(|| queue.drain());
        begins_to_refuse(&queue, QueueError::Draining);
        assert_eq!(queue.drain_timeout(MOMENT), Err(WaitError::TimedOut));
        assert_eq!(refusal(&queue), Some(QueueError::Draining), "the other drain goes on");
        let third = scope.spawn(|| queue.drain());
        door.open();
        long.join().unwrap().unwrap();
        third.join().unwrap().unwrap();
    });
    assert_eq!(refusal(&queue), None);
}

/// spec: F4.2 (a timer that fires during a drain is held until it ends)
#[test]
fn a_timer_that_fires_during_a_drain_is_held() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let door = Door::default();
    let wait = door.clone();
    drop(queue.spawn(move || wait.wait()).unwrap());
    let captured = Arc::new(());
    let inside = Arc::clone(&captured);
    let (work, cancelled) =
        (Work::new(|| ()), Work::new(move || unreachable!("{inside:?}: the item was cancelled")));
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain());
        begins_to_refuse(&queue, QueueError::Draining);
        assert!(queue.item(&work).after(MOMENT).enqueue().unwrap(), "arming a timer is permitted");
        assert!(queue.item(&cancelled).after(MOMENT).enqueue().unwrap());
        assert_eq!(
            queue.item(&work).reschedule(),
            Err(QueueError::Draining),
            "a zero delay queues the item at once"
        );
        let later = queue.item(|| 7).after(MOMENT).spawn().unwrap();
        timers_have_fired(&executor, MOMENT);
        assert!(!later.is_finished() && work.is_pending());
        assert!(cancelled.cancel(), "a held item can be cancelled");
        drop(cancelled);
        assert_eq!(Arc::strong_count(&captured), 1, "the held timer is gone");
        door.open();
        drain.join().unwrap().unwrap();
        assert_eq!(later.join().unwrap(), 7);
        work.flush().unwrap();
    });
}

/// spec: F4.2 (a timer that fires during a drain is held): an item of the drained queue can flush the held item. The
/// flush queues the held item at once, so both the flush and the drain end.
#[test]
fn an_item_of_a_drained_queue_can_flush_an_item_whose_timer_is_held() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (door, work) = (Door::default(), Work::new(|| ()));
    let (opened, held) = (door.clone(), work.clone());
    let item = queue.spawn(move || {
        opened.wait();
        held.flush()
    });
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| queue.drain());
        begins_to_refuse(&queue, QueueError::Draining);
        assert!(queue.item(&work).after(MOMENT).enqueue().unwrap());
        timers_have_fired(&executor, MOMENT);
        assert!(work.is_pending());
        door.open();
        assert_eq!(item.unwrap().join().unwrap(), Ok(true));
        drain.join().unwrap().unwrap();
    });
}

/// spec: F4.3 (destroy drains, cancels its armed timers and tells how many; later queueing is Err(Destroyed))
#[test]
fn a_destroyed_queue_has_run_everything_and_accepts_nothing() {
    on_each_executor(|executor| {
        for kind in KINDS {
            let queue = kind("q").build_on(executor).unwrap();
            let runs = Arc::new(AtomicUsize::new(0));
            let (again, counted) = (queue.clone(), Arc::clone(&runs));
            let twice = move || {
                let counted_again = Arc::clone(&counted);
                again.spawn(move || bump(&counted_again)).unwrap().cancel();
                bump(&counted);
            };
            drop(queue.spawn(twice).unwrap());
            let work = Work::new(|| unreachable!("the timer is due in an hour"));
            let hour = Duration::from_secs(3600);
            assert!(queue.item(&work).after(hour).enqueue().unwrap());
            let later = queue.item(|| ()).after(hour).spawn().unwrap();
            let cancelled = queue.item(|| ()).after(hour).spawn().unwrap();
            assert!(cancelled.cancel());
            assert_eq!(queue.destroy(), Ok(2), "the item and the closure");
            assert!(runs.load(Ordering::SeqCst) > 0 && queue.is_empty() && !work.is_pending());
            assert!(matches!(later.join(), Err(JoinError::Cancelled)));
            assert_eq!(refusal(&queue), Some(QueueError::Destroyed));
            assert_eq!(queue.enqueue(&work), Err(QueueError::Destroyed));
            assert_eq!(queue.item(&work).after(hour).enqueue(), Err(QueueError::Destroyed));
            assert_eq!(queue.item(|| ()).after(hour).spawn().unwrap_err().error, QueueError::Destroyed);
            assert_eq!(queue.clone().destroy(), Ok(0), "a second call has no effect");
            assert_eq!((queue.flush(), queue.drain()), (Ok(()), Ok(())));
            let other = WorkQueue::builder("other").build_on(executor).unwrap();
            assert!(
                other.item(&work).after(hour).enqueue().unwrap() && work.cancel(),
                "another queue accepts the item"
            );
        }
    });
}

/// spec: F4.4, F6.2: after a destroy has timed out, the queue still refuses items from outside, and `destroy` may be
/// called again.
#[test]
fn a_destroy_that_runs_out_of_time_may_be_called_again() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let (door, chained) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, again, runs) = (door.clone(), queue.clone(), Arc::clone(&chained));
    let busy = queue.spawn(move || {
        wait.wait();
        again.spawn(move || bump(&runs)).map(drop).is_ok()
    });
    let timer = queue.item(|| ()).after(Duration::from_secs(3600)).spawn().unwrap();
    assert_eq!(queue.destroy_timeout(MOMENT), Err(WaitError::TimedOut));
    assert!(matches!(timer.join(), Err(JoinError::Cancelled)), "the joiner learns of it at once");
    assert_eq!(refusal(&queue), Some(QueueError::Destroyed));
    door.open();
    assert_eq!(queue.destroy(), Ok(1));
    assert!(busy.unwrap().join().unwrap(), "chained queueing was accepted to the end");
    assert_eq!(chained.load(Ordering::SeqCst), 1);
}

/// spec: F4.3 (exactly): many threads queue while the queue is destroyed. When destroy returns, every accepted item has
/// run, and no item is accepted after it.
#[test]
fn destroy_is_exact_under_load() {
    let _limit = time_limit();
    for round in 0..stress(40) {
        let executor = cpus(2 + round % 3);
        let queue = KINDS[round % 4]("q").build_on(&executor).unwrap();
        let (runs, accepted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (counted, again) = (Arc::clone(&runs), queue.clone());
                    let work = Work::new(move || bump(&counted));
                    for n in 0.. {
                        let (counted, again) = (Arc::clone(&runs), again.clone());
                        let item = move || {
                            // This item belongs to the queue, so the queue never refuses the items that it submits.
                            let counted_again = Arc::clone(&counted);
                            if n % 3 == 0 {
                                drop(again.spawn(move || bump(&counted_again)).unwrap());
                            }
                            bump(&counted);
                        };
                        match queue.spawn(item) {
                            Ok(handle) => {
                                drop(handle);
                                accepted.fetch_add(if n % 3 == 0 { 2 } else { 1 }, Ordering::SeqCst);
                            }
                            Err(refused) => {
                                assert_eq!(refused.error, QueueError::Destroyed);
                                break;
                            }
                        }
                        match queue.enqueue(&work) {
                            Ok(true) => bump(&accepted),
                            Ok(false) => {}
                            Err(error) => {
                                assert_eq!(error, QueueError::Destroyed);
                                break;
                            }
                        }
                    }
                });
            }
            eventually("items run", || runs.load(Ordering::SeqCst) >= 100);
            assert_eq!(queue.destroy(), Ok(0));
            let ran = runs.load(Ordering::SeqCst);
            assert!(queue.is_empty());
            assert_eq!(refusal(&queue), Some(QueueError::Destroyed));
            std::thread::yield_now();
            assert_eq!(runs.load(Ordering::SeqCst), ran, "an item ran after the end");
        });
        assert_eq!(runs.load(Ordering::SeqCst), accepted.load(Ordering::SeqCst));
    }
}

/// spec: F4.1: the queue is drained while items come from outside and from chains. Every accepted item runs.
#[test]
fn drains_under_load_lose_nothing() {
    let _limit = time_limit();
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        let (runs, accepted, refused) =
            (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let issuers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..stress(150) {
                            let (counted, again) = (Arc::clone(&runs), queue.clone());
                            let item = move || {
                                let counted_again = Arc::clone(&counted);
                                drop(again.spawn(move || bump(&counted_again)).unwrap());
                                bump(&counted);
                            };
                            match queue.spawn(item) {
                                Ok(handle) => {
                                    drop(handle);
                                    accepted.fetch_add(2, Ordering::SeqCst);
                                }
                                Err(_draining) => bump(&refused),
                            }
                        }
                    })
                })
                .collect();
            while !issuers.iter().all(|issuer| issuer.is_finished()) {
                queue.drain().unwrap();
                std::thread::yield_now();
            }
        });
        queue.drain().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), accepted.load(Ordering::SeqCst));
    });
}

/// spec: F4.1, F7: a drain of a frozen queue ends after the thaw.
#[test]
fn a_frozen_queue_is_drained_when_it_has_thawed() {
    let _limit = time_limit();
    let executor: Executor = one_cpu();
    let queue = WorkQueue::builder("q").freezable(true).build_on(&executor).unwrap();
    executor.freeze_begin();
    let handle = queue.spawn(|| ()).unwrap();
    assert_eq!(queue.drain_timeout(MOMENT), Err(WaitError::TimedOut));
    std::thread::scope(|scope| {
        let destroy = scope.spawn(|| queue.destroy());
        begins_to_refuse(&queue, QueueError::Destroyed);
        executor.thaw();
        assert_eq!(destroy.join().unwrap(), Ok(0));
    });
    handle.join().unwrap();
}

/// spec: F4.4, E5: 10 000 queues are made, and end with work in them. Some of the queues are destroyed, and the handles
/// of the others are only dropped.
#[test]
fn ten_thousand_queues_come_and_go_with_work_in_them() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = stress(10_000);
    let began = Instant::now();
    for n in 0..count {
        let queue = KINDS[n % 4]("q").freezable(true).build_on(&executor).unwrap();
        for _ in 0..2 {
            let runs = Arc::clone(&runs);
            drop(queue.spawn(move || bump(&runs)).unwrap());
        }
        if n % 10 == 0 {
            assert_eq!(queue.destroy(), Ok(0));
        }
        if n % 1000 == 0 {
            executor.freeze_begin();
            executor.thaw();
        }
    }
    drop(executor);
    assert!(holds_within(SOON, || runs.load(Ordering::SeqCst) == 2 * count), "some never ran");
    assert!(holds_within(SOON, || no_thread_of(&prefix)), "a thread stays");
    assert!(began.elapsed() < 3 * SOON, "it took {:?}", began.elapsed());
}

/// spec: F4.3, E5: the handle that calls destroy may be the last one.
#[test]
fn the_last_handle_may_be_the_one_that_destroys() {
    let _limit = time_limit();
    let executor = cpus(2);
    for kind in KINDS {
        let queue = kind("q").build_on(&executor).unwrap();
        let (tell, told) = mpsc::channel();
        drop(queue.spawn(move || tell.send(()).unwrap()).unwrap());
        std::thread::spawn(move || queue.destroy().unwrap()).join().unwrap();
        told.try_recv().unwrap();
    }
}
