//! Programs with mistakes from other projects: pools, schedulers and caches. The table in the parent module names the
//! issues and pull requests, which are closed. Each program shows its mistake with queues of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use cmwq::blocking::channel::{bounded, unbounded};
use cmwq::blocking::sync::{Condvar, Mutex, RwLock};
use cmwq::blocking::thread::sleep;
use cmwq::testing::{self, advance};
use cmwq::{Work, WorkQueue};

use super::{both, flag, number, queue};
use crate::support::{add, ms, secs};

/// A thread waits for a notification without checking whether it has come already. In the issue, a worker begins to
/// wait after the shutdown has woken all workers.
pub(super) fn a_notification_that_comes_early(mended: bool) {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let other = Arc::clone(&shared);
    let waits = move || {
        let mut ready = shared.0.lock();
        if mended {
            shared.1.wait_while(&mut ready, |ready| !*ready);
        } else {
            shared.1.wait(&mut ready);
        }
    };
    let tells = move || {
        *other.0.lock() = true;
        other.1.notify_one();
    };
    both(waits, tells);
}

/// A producer checks a flag, but sends when the receiver has ended. In the issue, a job is submitted to a pool that has
/// just stopped.
pub(super) fn a_message_after_the_end(mended: bool) {
    let (stop, stopping) = flag();
    let (send, receive) = unbounded();
    let produces = move || {
        if !stopping.load(SeqCst) {
            let sent = send.send(1);
            assert!(mended || sent.is_ok(), "the receiver is gone");
        }
    };
    both(produces, move || {
        stop.store(true, SeqCst);
        drop(receive);
    });
}

/// The program ignores that a cancel came too late, as if the cancel had ended the running item.
pub(super) fn a_cancel_that_comes_too_late(mended: bool) {
    let (uses, used) = number();
    let item = queue()
        .spawn(move || {
            uses.fetch_add(1, SeqCst);
            testing::point();
            uses.fetch_add(1, SeqCst);
        })
        .unwrap();
    if !item.cancel() && mended {
        item.join().unwrap();
    }
    assert_ne!(used.load(SeqCst), 1, "the item is using it");
}

/// Two readers of a cache both miss, and both compute its value.
pub(super) fn a_cache_that_computes_twice(mended: bool) {
    let (computes, computed) = number();
    let cache = Arc::new(RwLock::new(None));
    let get = move || {
        if cache.read().is_some() {
            return;
        }
        let mut entry = cache.write();
        if !mended || entry.is_none() {
            computes.fetch_add(1, SeqCst);
            *entry = Some(7);
        }
    };
    both(get.clone(), get);
    assert_eq!(computed.load(SeqCst), 1);
}

/// The flag that ends a worker is set without the worker's lock. This may happen between the worker's check and its
/// wait.
pub(super) fn a_stop_that_is_set_without_the_lock(mended: bool) {
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Arc::new((Mutex::new(()), Condvar::new()));
    let (stopped, other) = (Arc::clone(&stop), Arc::clone(&shared));
    let worker = move || {
        let mut held = shared.0.lock();
        while !stopped.load(SeqCst) {
            shared.1.wait(&mut held);
        }
    };
    let stops = move || {
        let held = mended.then(|| other.0.lock());
        stop.store(true, SeqCst);
        drop(held);
        other.1.notify_all();
    };
    both(worker, stops);
}

/// When a latch opens, it wakes only one of the threads that wait for it.
pub(super) fn a_latch_that_wakes_one_waiter(mended: bool) {
    let latch = Arc::new((Mutex::new(2), Condvar::new()));
    let queue = queue();
    let waits = |latch: &Arc<(Mutex<u32>, Condvar)>| {
        let latch = Arc::clone(latch);
        move || latch.1.wait_while(&mut latch.0.lock(), |left| *left > 0)
    };
    let waiters = [queue.spawn(waits(&latch)).unwrap(), queue.spawn(waits(&latch)).unwrap()];
    for _part in 0..2 {
        let mut left = latch.0.lock();
        *left -= 1;
        if *left == 0 {
            let _woken = if mended { latch.1.notify_all() } else { usize::from(latch.1.notify_one()) };
        }
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

/// A wait for all jobs checks the number of running jobs, and not the number of submitted jobs.
pub(super) fn a_wait_that_counts_running_jobs_only(mended: bool) {
    let (ends, ended) = number();
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let queue = queue();
    for _job in 0..2 {
        let (ends, shared) = (Arc::clone(&ends), Arc::clone(&shared));
        if mended {
            *shared.0.lock() += 1;
        }
        let job = move || {
            if !mended {
                *shared.0.lock() += 1;
            }
            add(&ends);
            *shared.0.lock() -= 1;
            shared.1.notify_all();
        };
        queue.spawn_detached(job).unwrap();
    }
    shared.1.wait_while(&mut shared.0.lock(), |jobs| *jobs > 0);
    assert_eq!(ended.load(SeqCst), 2);
}

/// Items fill a pool, and each of them waits for another item of the same pool.
pub(super) fn items_that_wait_for_items_behind_them(mended: bool) {
    let narrow = WorkQueue::builder("narrow").max_active_total(2).build().unwrap();
    let inner = if mended { queue() } else { narrow.clone() };
    let (begins, begun) = number();
    let outer: Vec<_> = (0..2)
        .map(|_| {
            let (inner, begins) = (inner.clone(), Arc::clone(&begins));
            let waits = move || {
                add(&begins);
                inner.spawn(|| 1).unwrap().join().unwrap()
            };
            narrow.spawn(waits).unwrap()
        })
        .collect();
    let sum: u32 = outer.into_iter().map(|item| item.join().unwrap()).sum();
    assert_eq!((sum, begun.load(SeqCst)), (2, 2));
}

/// A periodic item sends to a receiver that has stopped receiving but still exists. So the item's last run never ends.
pub(super) fn a_tick_for_a_receiver_that_has_stopped(mended: bool) {
    let (send, receive) = bounded(1);
    let ticks = queue().item(move || _ = send.send(())).spawn_every(ms(10)).unwrap();
    receive.recv().unwrap();
    sleep(ms(50));
    let _kept = (!mended).then_some(receive);
    ticks.cancel_and_wait().unwrap();
}

/// A task that will run again overwrites a cancellation that came at the end of its run.
pub(super) fn a_cancellation_that_is_overwritten(mended: bool) {
    const RUNS: u32 = 0;
    const WAITS: u32 = 1;
    const CANCELLED: u32 = 2;
    let state = Arc::new(AtomicU32::new(WAITS));
    let (counts, counted) = number();
    let (queue, of_task) = (queue(), Arc::clone(&state));
    let again = queue.clone();
    let task = Work::with_handle(move |own| {
        if of_task.compare_exchange(WAITS, RUNS, SeqCst, SeqCst).is_err() {
            return;
        }
        add(&counts);
        let goes_on = if mended {
            of_task.compare_exchange(RUNS, WAITS, SeqCst, SeqCst).is_ok()
        } else {
            let is_cancelled = of_task.load(SeqCst) == CANCELLED;
            testing::point();
            of_task.store(WAITS, SeqCst);
            !is_cancelled
        };
        if goes_on {
            again.item(own).after(secs(1)).enqueue().unwrap();
        }
    });
    queue.enqueue(&task).unwrap();
    state.store(CANCELLED, SeqCst);
    task.cancel();
    advance(secs(10));
    assert!(counted.load(SeqCst) <= 1, "a cancelled task runs again");
    task.cancel();
}

/// A connection ends after its timer was started, but before the connection has recorded the timer. So the timer is not
/// cancelled.
pub(super) fn a_timer_that_is_noted_too_late(mended: bool) {
    #[derive(Default)]
    struct Connection {
        is_closed: bool,
        timer: Option<Work>,
    }
    let connection = Arc::new(Mutex::new(Connection::default()));
    let (fires, fired) = number();
    let (other, queue) = (Arc::clone(&connection), queue());
    let starts = move || {
        let held = connection.lock();
        if held.is_closed {
            return;
        }
        let held = mended.then_some(held);
        let timer = Work::new(move || add(&fires));
        queue.item(&timer).after(secs(1)).enqueue().unwrap();
        held.unwrap_or_else(|| connection.lock()).timer = Some(timer);
    };
    let closes = move || {
        let mut held = other.lock();
        held.is_closed = true;
        _ = held.timer.take().map(|timer| timer.cancel());
    };
    both(starts, closes);
    advance(secs(2));
    assert_eq!(fired.load(SeqCst), 0, "the connection is closed");
}

/// A thread that takes the last entry cancels the timer. But another thread has just started this timer for a new
/// entry.
pub(super) fn a_timer_that_is_cancelled_for_another_entry(mended: bool) {
    let entries = Arc::new(Mutex::new(1));
    let is_armed = Arc::new(AtomicBool::new(true));
    let timer = {
        let (entries, is_armed) = (Arc::clone(&entries), Arc::clone(&is_armed));
        Work::new(move || {
            let mut held = entries.lock();
            is_armed.store(false, SeqCst);
            *held = 0;
        })
    };
    let queue = queue();
    queue.item(&timer).after(secs(60)).enqueue().unwrap();
    let takes = {
        let (entries, is_armed, timer) = (Arc::clone(&entries), Arc::clone(&is_armed), timer.clone());
        move || {
            let mut held = entries.lock();
            *held -= 1;
            if *held == 0 {
                let _held = mended.then_some(held);
                is_armed.store(false, SeqCst);
                timer.cancel();
            }
        }
    };
    let (left, own) = (Arc::clone(&entries), queue.clone());
    let adds = move || {
        let mut held = entries.lock();
        *held += 1;
        let _held = mended.then_some(held);
        if !is_armed.swap(true, SeqCst) {
            own.item(&timer).after(secs(1)).reschedule().unwrap();
        }
    };
    both(takes, adds);
    advance(secs(61));
    assert_eq!(*left.lock(), 0, "an entry is never served");
}

/// A joiner waits until no job is left. But a job of the next wave arrives before the joiner checks.
pub(super) fn a_wave_that_hides_the_end_of_another(mended: bool) {
    #[derive(Default)]
    struct Jobs {
        left: u32,
        wave: u32,
    }
    let jobs = Arc::new((Mutex::new(Jobs::default()), Condvar::new()));
    let queue = queue();
    let post = {
        let (jobs, queue) = (Arc::clone(&jobs), queue.clone());
        move |time| {
            jobs.0.lock().left += 1;
            let jobs = Arc::clone(&jobs);
            let job = move || {
                sleep(time);
                let mut held = jobs.0.lock();
                held.left -= 1;
                held.wave += u32::from(held.left == 0);
                jobs.1.notify_all();
            };
            queue.spawn_detached(job).unwrap();
        }
    };
    post(secs(1));
    let joiners = [(); 2].map(|()| {
        let (jobs, post) = (Arc::clone(&jobs), post.clone());
        let joins = move || {
            let mut held = jobs.0.lock();
            let wave = held.wave;
            jobs.1.wait_while(&mut held, |jobs| jobs.left > 0 && !(mended && jobs.wave != wave));
            drop(held);
            post(secs(60));
        };
        queue.spawn(joins).unwrap()
    });
    testing::run_until_idle();
    sleep(secs(2));
    assert!(joiners.iter().all(|joiner| joiner.is_finished()), "a joiner waits for the second wave");
}

/// A pool stops because its count was zero, although another job has come since then. The mistake needs three orders of
/// events: a job ends before the next one is counted, the joiner waits before the pool stops, and the pool stops before
/// a later job begins.
pub(super) fn a_pool_that_stops_before_its_last_job(mended: bool) {
    let ((left, of_joiner), (counts, counted)) = (number(), number());
    let ((joins, is_joined), (stops, has_stopped)) = (flag(), flag());
    let (tell, told) = unbounded();
    let queue = queue();
    for _job in 0..3 {
        left.fetch_add(1, SeqCst);
        let (left, counts, tell) = (Arc::clone(&left), Arc::clone(&counts), tell.clone());
        let (is_joined, stops, has_stopped) =
            (Arc::clone(&is_joined), Arc::clone(&stops), Arc::clone(&has_stopped));
        let job = move || {
            if !has_stopped.load(SeqCst) {
                add(&counts);
            }
            if left.fetch_sub(1, SeqCst) == 1 {
                testing::point();
                if is_joined.load(SeqCst) && (!mended || left.load(SeqCst) == 0) {
                    stops.store(true, SeqCst);
                    tell.send(()).unwrap();
                }
            }
        };
        queue.spawn_detached(job).unwrap();
    }
    joins.store(true, SeqCst);
    if of_joiner.load(SeqCst) > 0 {
        told.recv().unwrap();
    }
    queue.drain().unwrap();
    assert_eq!(counted.load(SeqCst), 3, "a job is lost");
}
