//! Items that are submitted with a delay.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{JoinError, QueueError, Work, WorkQueue};
use fastrand::Rng;

use crate::support::{
    Bomb, Counted, PATIENCE, SOON, all_kinds, begun_on, builder, bump, counting, cpus, eventually,
    falls_quiet, has_yields, no_thread_of, on_each_executor, one_cpu, stress, time_limit, timers_have_fired,
};

const HOUR: Duration = Duration::from_secs(3600);

/// spec: W5.1 (no earlier than asked)
#[test]
fn an_item_runs_no_earlier_than_asked() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            for millis in [1, 7] {
                let delay = Duration::from_millis(millis);
                let (tell, told) = mpsc::channel();
                let work = Work::new(move || tell.send(Instant::now()).unwrap());
                let armed = Instant::now();
                assert_eq!(queue.item(&work).after(delay).enqueue(), Ok(true));
                let ran = told.recv_timeout(SOON).unwrap();
                assert!(ran >= armed + delay, "{:?} too early", delay - (ran - armed));
            }
        }
    });
}

/// spec: W5.1 (`enqueue` of an item with a delay: false if it was pending), W2 (and without one)
#[test]
fn an_armed_item_is_pending() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let work = Work::new(|| ());
        assert_eq!(queue.item(&work).after(HOUR).enqueue(), Ok(true));
        assert_eq!(queue.item(&work).after(Duration::ZERO).enqueue(), Ok(false), "the timer stays as it is");
        assert_eq!(queue.enqueue(&work), Ok(false));
        assert!(work.is_pending() && !work.is_running());
        assert!(work.cancel() && !work.is_pending());
    }
}

/// spec: W5.1 (zero delay queues at once)
#[test]
fn a_zero_delay_queues_at_once() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (_, door, _) = begun_on(&queue);
    let order = Arc::new(Mutex::new(Vec::new()));
    let put = |n| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(n)
    };
    let (first, third) = (Work::new(put(1)), Work::new(put(3)));
    assert_eq!(queue.item(&first).after(Duration::ZERO).enqueue(), Ok(true));
    let second = queue.item(put(2)).after(Duration::ZERO).spawn().unwrap();
    assert_eq!(queue.item(&third).reschedule(), Ok(false), "the item was idle");
    assert!(first.is_pending() && third.is_pending() && !second.is_finished());
    door.open();
    queue.flush().unwrap();
    second.join().unwrap();
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
}

/// Sets a flag when it is dropped, even if the drop is due to a panic.
struct StopsWhenDropped(Arc<AtomicBool>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// spec: W5.1 (zero delay queues at once): the item is queued when the call returns, even while the manager fires other
/// timers.
#[test]
fn a_zero_delay_leaves_nothing_to_the_manager() {
    let _limit = time_limit();
    let executor = cpus(2);
    let (queue, other) = (WorkQueue::ordered("q"), WorkQueue::ordered("other"));
    let [queue, other] = [queue, other].map(|builder| builder.build_on(&executor).unwrap());
    let (runs, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let work = counting(&runs);
    std::thread::scope(|scope| {
        let _stops = StopsWhenDropped(Arc::clone(&stop));
        scope.spawn(|| {
            let tick = Work::new(|| ());
            while !stop.load(Ordering::Relaxed) {
                other.item(&tick).after(Duration::from_nanos(1)).reschedule().unwrap();
            }
        });
        for n in 1..=stress(if has_yields() { 5_000 } else { 20_000 }) {
            queue.item(&work).reschedule().unwrap();
            queue.flush().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), n, "the flush did not wait");
        }
    });
}

/// spec: W5.1 (equal deadlines in the order they were armed): the items of an ordered queue run in the order in which
/// their timers fire. Each half of the timers is armed for the same moment, as exactly as the clock permits.
#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let until = Instant::now() + Duration::from_millis(500);
    let works: Vec<Work> = (0..200)
        .map(|n: u64| {
            let order = Arc::clone(&order);
            // The first hundred items are due a second after the others.
            let late = Duration::from_millis(if n < 100 { 1000 } else { 0 });
            let work = Work::new(move || order.lock().unwrap().push(n));
            queue
                .item(&work)
                .after(until.saturating_duration_since(Instant::now()) + late)
                .enqueue()
                .unwrap();
            work
        })
        .collect();
    eventually("all ran", || order.lock().unwrap().len() == works.len());
    let order = order.lock().unwrap();
    // Each delay is shorter than the one before by the time that has passed. So the deadlines of a half differ only by
    // the clock's steps.
    assert!(order[..100].iter().all(|n| *n >= 100), "{order:?}");
    assert!(order[100..].iter().all(|n| *n < 100), "{order:?}");
}

/// spec: Q3.4, W5.2: while an ordered queue runs nothing, the places that one item takes stay within the queue's bound.
#[test]
fn an_item_that_is_moved_again_and_again_stays_within_the_bound() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").max_pending(5).build_on(&one_cpu()).unwrap();
    let (_, door, _) = begun_on(&queue);
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    assert_eq!(queue.item(&work).reschedule(), Ok(false));
    for _ in 1..5 {
        assert_eq!(queue.item(&work).reschedule(), Ok(true));
    }
    for _ in 0..3 {
        assert_eq!(queue.item(&work).reschedule(), Err(QueueError::Full));
        assert_eq!(
            queue.item(&work).after(Duration::from_nanos(1)).reschedule(),
            Err(QueueError::Full),
            "the timer adds a place when it fires"
        );
        assert!(work.is_pending(), "the item stays pending");
    }
    assert!(work.cancel());
    assert_eq!(queue.item(&work).after(HOUR).enqueue(), Err(QueueError::Full));
    assert_eq!((queue.len(), queue.item(&work).after(HOUR).reschedule()), (6, Err(QueueError::Full)));
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(queue.item(&work).reschedule(), Ok(false), "there is room again");
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // The flush may return shortly before the last slot is free.
    eventually("every place was given back", || queue.is_empty());
}

/// spec: Q3.4, W5.2: in a queue where a moved item keeps its place, moving it takes no second place.
#[test]
fn an_item_that_keeps_its_place_needs_no_room() {
    let _limit = time_limit();
    let queue = WorkQueue::unbound("q").max_active(1).max_pending(2).build_on(&one_cpu()).unwrap();
    let (_, door, _) = begun_on(&queue);
    let (first, runs) = (Work::new(|| ()), Arc::new(AtomicUsize::new(0)));
    let work = counting(&runs);
    assert_eq!((queue.enqueue(&first), queue.enqueue(&work)), (Ok(true), Ok(true)));
    for _ in 0..10 {
        assert_eq!(queue.item(&work).reschedule(), Ok(true));
    }
    assert_eq!(queue.len(), 3);
    let late = Work::new(|| ());
    assert_eq!(queue.item(&late).reschedule(), Err(QueueError::Full), "the item has no place");
    assert_eq!(
        queue.item(&late).after(Duration::from_nanos(1)).reschedule(),
        Ok(false),
        "timers are not counted"
    );
    eventually("the timer fired", || queue.len() == 4);
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(queue.enqueue(&work), Ok(true), "every place was given back");
    queue.flush().unwrap();
}

/// spec: W5.1 (reschedule): in each state of the item, the result says whether the item was pending.
#[test]
fn moving_an_item_replaces_its_pending_run() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        assert_eq!(queue.item(&work).after(HOUR).reschedule(), Ok(false), "the item was idle");
        assert_eq!(queue.item(&work).after(HOUR).reschedule(), Ok(true), "the item was armed");
        assert_eq!(queue.item(&work).reschedule(), Ok(true), "from an hour to now");
        eventually("the item ran", || runs.load(Ordering::SeqCst) == 1);
        eventually("the item is idle", || !work.is_running());

        let blocked = WorkQueue::ordered("blocked").build_on(&one_cpu()).unwrap();
        let (_, door, _) = begun_on(&blocked);
        blocked.enqueue(&work).unwrap();
        assert_eq!(
            queue.item(&work).after(Duration::from_millis(1)).reschedule(),
            Ok(true),
            "the item was queued elsewhere"
        );
        eventually("the item ran here", || runs.load(Ordering::SeqCst) == 2);
        door.open();
        blocked.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 2, "the item ran on the former queue");

        let (busy, door, begun) = begun_on(&queue);
        assert_eq!(queue.item(&busy).reschedule(), Ok(false), "the item runs, and is not pending");
        assert!(busy.is_pending());
        door.open();
        eventually("the item ran again", || begun.load(Ordering::SeqCst) == 2);
    }
}

/// spec: W5.1 (debounced): of many calls before the item runs, only the last one takes effect.
#[test]
fn an_item_that_is_moved_again_and_again_runs_once() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    for _ in 0..1_000 {
        queue.item(&work).after(HOUR).reschedule().unwrap();
    }
    queue.item(&work).after(Duration::from_millis(5)).reschedule().unwrap();
    eventually("the item ran", || runs.load(Ordering::SeqCst) > 0);
    timers_have_fired(&executor, Duration::from_millis(5));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!work.is_pending());
}

/// spec: W5.3 (cancelled timers are gone), F3 (cancel of an armed item)
#[test]
fn a_cancelled_timer_does_not_fire() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    let ways: [fn(&Work) -> bool; 4] = [
        Work::cancel,
        |work| work.cancel_and_wait().unwrap(),
        |work| work.disable() && work.enable().unwrap(),
        |work| work.disable_and_wait().unwrap() && work.enable().unwrap(),
    ];
    for cancel in ways {
        queue.item(&work).after(PATIENCE).enqueue().unwrap();
        assert!(cancel(&work) && !work.is_pending());
    }
    timers_have_fired(&executor, PATIENCE);
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// spec: W5.4 (flush of an armed item fires it now)
#[test]
fn a_flush_of_an_armed_item_fires_it_now() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let runs = Arc::new(AtomicUsize::new(0));
            let work = counting(&runs);
            queue.item(&work).after(HOUR).enqueue().unwrap();
            assert_eq!(work.flush(), Ok(true));
            assert_eq!(runs.load(Ordering::SeqCst), 1);
            assert_eq!(work.flush(), Ok(false));
        }
    });
}

/// spec: F1 (armed timers are not queued): a flush of the queue does not wait for them.
#[test]
fn a_flush_of_the_queue_does_not_wait_for_timers() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let work = Work::new(|| ());
    queue.item(&work).after(HOUR).enqueue().unwrap();
    let later = queue.item(|| ()).after(HOUR).spawn().unwrap();
    queue.flush().unwrap();
    assert!(work.cancel() && later.cancel());
}

/// spec: W5.1 (one-shots)
#[test]
fn a_closure_runs_later_and_is_joined() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let delay = Duration::from_millis(2);
            let armed = Instant::now();
            let later = queue.item(Instant::now).after(delay).spawn().unwrap();
            assert!(later.join().unwrap() >= armed + delay);
            let panics = queue.item(|| panic!("on purpose")).after(delay).spawn().unwrap();
            assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
            let patient = queue.item(|| ()).after(HOUR).spawn().unwrap();
            let patient = patient.join_timeout(Duration::from_millis(1)).unwrap_err();
            assert!(patient.cancel() && !patient.cancel());
            assert!(matches!(patient.join(), Err(JoinError::Cancelled)));
            // A closure whose handle is dropped runs, too.
            let (tell, told) = mpsc::channel();
            drop(queue.item(move || tell.send(()).unwrap()).after(delay).spawn().unwrap());
            told.recv_timeout(SOON).unwrap();
        }
    });
}

/// spec: W5.3 (cancelling): cancelling a timer drops at once all that it holds: the closure, the queue, the executor.
#[test]
fn a_cancelled_timer_keeps_nothing_alive() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (closure, item) = (Counted(Arc::clone(&dropped)), Counted(Arc::clone(&dropped)));
    let shot = queue.item(move || drop(closure)).after(HOUR).spawn().unwrap();
    let work = Work::new(move || assert_eq!(item.0.load(Ordering::SeqCst), 0));
    queue.item(&work).after(HOUR).enqueue().unwrap();
    let (fire, fired) = mpsc::channel();
    queue.item(move || fire.send(()).unwrap()).after(Duration::from_millis(5)).spawn_detached().unwrap();
    drop((queue, executor));
    fired.recv_timeout(SOON).unwrap();
    assert!(!no_thread_of(&prefix), "armed timers keep the executor");
    assert!(shot.cancel());
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "the closure is dropped at once");
    assert!(work.cancel());
    drop(work);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    eventually("the executor ends", || no_thread_of(&prefix));
}

/// spec: W5.3 (cancelling): a cancelled timer is gone even if the destructor of its closure panics.
#[test]
fn a_cancelled_timer_is_gone_even_if_a_destructor_panics() {
    let _limit = time_limit();
    for stops in [false, true] {
        let (builder, prefix) = builder("core:1 pu:1");
        let executor = builder.build().unwrap();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let bomb = Bomb;
        let shot = queue.item(move || drop(bomb)).after(HOUR).spawn().unwrap();
        drop((queue, executor));
        let cancel = || if stops { shot.stop() } else { shot.cancel() };
        assert!(catch_unwind(AssertUnwindSafe(cancel)).is_err(), "the destructor panics");
        eventually("the executor ends", || no_thread_of(&prefix));
        assert!(matches!(shot.join(), Err(JoinError::Cancelled)));
    }
}

/// spec: E5 (dropping handles loses no accepted work), W5.3: an armed item runs even when all handles are gone.
#[test]
fn armed_items_run_when_every_handle_is_gone() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let (work, count) = (counting(&runs), Arc::clone(&runs));
    queue.item(&work).after(Duration::from_millis(5)).enqueue().unwrap();
    drop(queue.item(move || bump(&count)).after(Duration::from_millis(5)).spawn().unwrap());
    drop((queue, executor, work));
    eventually("both ran", || runs.load(Ordering::SeqCst) == 2);
    eventually("the executor ends", || no_thread_of(&prefix));
}

/// spec: W5.3 (in an hour): a distant timer causes no wake-up.
#[test]
fn an_armed_timer_wakes_no_thread_before_it_is_due() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    let works: Vec<Work> = (0..100).map(|_| Work::new(|| ())).collect();
    for (n, work) in (0..).zip(&works) {
        queue.item(work).after(HOUR + Duration::from_secs(n)).enqueue().unwrap();
    }
    falls_quiet(&prefix);
    works.iter().for_each(|work| assert!(work.cancel()));
}

/// spec: W5.2 (100 000 timers): a third of the armed timers is cancelled, and a third is moved. Each item of the last
/// third runs once.
#[test]
fn very_many_timers_are_armed_moved_and_cancelled() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    // In a build with yields, each operation takes many times as long.
    let count = stress(if has_yields() { 10_000 } else { 100_000 });
    let mut random = Rng::with_seed(5);
    let works: Vec<Work> = (0..count).map(|_| counting(&runs)).collect();
    for work in &works {
        let delay = Duration::from_millis(1 + random.u64(..300));
        assert_eq!(queue.item(work).after(delay).enqueue(), Ok(true));
    }
    let mut cancelled = 0;
    for (n, work) in works.iter().enumerate() {
        match n % 3 {
            0 => cancelled += usize::from(work.cancel()),
            // Some of these items have run already, and run a second time.
            1 => {
                cancelled += usize::from(
                    queue.item(work).after(Duration::from_micros(random.u64(..500))).reschedule().unwrap(),
                );
            }
            _ => {}
        }
    }
    let moved = (0..works.len()).filter(|n| n % 3 == 1).count();
    eventually("all have run", || works.iter().all(|work| !work.is_pending() && !work.is_running()));
    assert_eq!(runs.load(Ordering::SeqCst), count + moved - cancelled);
}

/// spec: W5.2 (races with firing, without loss or double run): timers of a few hundred microseconds race with cancels,
/// moves and flushes by other threads. Each accepted submission was either run or cancelled.
#[test]
fn a_timer_either_fires_or_is_cancelled() {
    on_each_executor(|executor| {
        let queues = all_kinds(executor);
        let runs = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..4).map(|_| counting(&runs)).collect();
        let totals = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|seed| {
                    let (queues, works) = (&queues, &works);
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(seed);
                        let (mut accepted, mut taken_back) = (0, 0);
                        for _ in 0..stress(400) {
                            let work = &works[random.usize(..4)];
                            let queue = &queues[random.usize(..4)];
                            let delay = Duration::from_micros(random.u64(..300));
                            match random.u64(..6) {
                                0 => taken_back += usize::from(work.cancel()),
                                1 => taken_back += usize::from(work.cancel_and_wait().unwrap_or(false)),
                                2 => {
                                    // The call is refused while another thread waits in `cancel_and_wait`.
                                    if let Ok(was_pending) = queue.item(work).after(delay).reschedule() {
                                        accepted += 1;
                                        taken_back += usize::from(was_pending);
                                    }
                                }
                                3 => drop(work.flush().unwrap()),
                                _ => {
                                    accepted +=
                                        usize::from(queue.item(work).after(delay).enqueue() == Ok(true));
                                }
                            }
                        }
                        (accepted, taken_back)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        works.iter().for_each(|work| assert!(work.flush().is_ok()));
        queues.iter().for_each(|queue| queue.flush().unwrap());
        let (accepted, taken_back) = totals.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!(runs.load(Ordering::SeqCst), accepted - taken_back);
    });
}

/// spec: Q3, W5.1: an armed item is queued when its delay ends, even if the queue is full then.
#[test]
fn a_timer_fires_into_a_full_queue() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let (busy, door, _) = begun_on(&queue);
    let waiting = queue.spawn(|| ()).unwrap();
    let (work, count) = (counting(&runs), Arc::clone(&runs));
    queue.item(&work).after(Duration::from_millis(2)).enqueue().unwrap();
    let later = queue.item(move || bump(&count)).after(Duration::from_millis(2)).spawn().unwrap();
    assert!(queue.spawn(|| ()).is_err(), "the queue is full");
    timers_have_fired(&executor, Duration::from_millis(2));
    assert_eq!(queue.len(), 4, "both timers fired while the queue was full");
    assert!(queue.spawn(|| ()).is_err(), "the queue holds more than its bound");
    door.open();
    later.join().unwrap();
    waiting.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    queue.spawn(|| ()).unwrap().join().unwrap();
    drop(busy);
}

/// spec: W3, W5.1: a timer that fires while its item runs leads to one more run, after the current one.
#[test]
fn a_timer_may_fire_while_its_item_runs() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (work, door, runs) = begun_on(&queue);
            assert_eq!(queue.item(&work).after(Duration::from_millis(1)).enqueue(), Ok(true));
            timers_have_fired(executor, Duration::from_millis(1));
            assert_eq!(queue.len(), 2, "the timer fired while the item ran");
            assert!(work.is_running() && work.is_pending());
            assert_eq!(runs.load(Ordering::SeqCst), 1, "the item was entered twice");
            door.open();
            eventually("the item ran again", || runs.load(Ordering::SeqCst) == 2);
        }
    });
}
