//! Programs with mistakes that users make.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use cmwq::blocking::channel::{Receiver, Sender, bounded};
use cmwq::blocking::sync::{Condvar, Mutex};
use cmwq::blocking::thread::sleep;
use cmwq::testing;
use cmwq::{Work, WorkQueue};

use super::{both, flag, number, queue};
use crate::support::{add, ms, secs};

/// A thread checks a value and acts on it, but releases the lock between the two.
pub(super) fn a_check_and_an_act_under_two_locks(mended: bool) {
    let (count, made) = number();
    let shared = Arc::new(Mutex::new(None));
    let make = move || {
        let mut value = shared.lock();
        if value.is_none() {
            if !mended {
                drop(value);
                value = shared.lock();
            }
            count.fetch_add(1, SeqCst);
            *value = Some(1);
        }
    };
    both(make.clone(), make);
    assert_eq!(made.load(SeqCst), 1);
}

/// The item is queued before the value that it reads is set.
pub(super) fn an_item_that_is_queued_too_early(mended: bool) {
    let (set, read) = flag();
    let queue = queue();
    if mended {
        set.store(true, SeqCst);
    }
    let item = queue.spawn(move || assert!(read.load(SeqCst))).unwrap();
    set.store(true, SeqCst);
    item.join().unwrap();
}

/// Two threads take two locks in different orders.
pub(super) fn locks_in_different_orders(mended: bool) {
    let (left, right) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
    let (from, to) = (Arc::clone(&left), Arc::clone(&right));
    let one = move || std::mem::swap(&mut *left.lock(), &mut *right.lock());
    let two = move || {
        if mended {
            std::mem::swap(&mut *from.lock(), &mut *to.lock());
        } else {
            std::mem::swap(&mut *to.lock(), &mut *from.lock());
        }
    };
    both(one, two);
}

/// The joiner holds the lock that the item needs.
pub(super) fn a_join_under_a_lock(mended: bool) {
    let total = Arc::new(Mutex::new(0));
    let held = total.lock();
    let item = {
        let total = Arc::clone(&total);
        queue().spawn(move || *total.lock() += 1).unwrap()
    };
    if mended {
        drop(held);
        item.join().unwrap();
    } else {
        item.join().unwrap();
        drop(held);
    }
}

/// Two waiters of different conditions share a condition variable, and only one of them is notified.
pub(super) fn a_notification_of_the_wrong_waiter(mended: bool) {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let waits = |for_number: i32| {
        let shared = Arc::clone(&shared);
        move || shared.1.wait_while(&mut shared.0.lock(), |number| *number < for_number)
    };
    let queue = queue();
    let waiters = [queue.spawn(waits(1)).unwrap(), queue.spawn(waits(2)).unwrap()];
    for _step in 0..2 {
        *shared.0.lock() += 1;
        let _woken = if mended { shared.1.notify_all() } else { usize::from(shared.1.notify_one()) };
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

/// A thread stores a value after it has queued the item that reads it. So the item may never see the last value.
pub(super) fn a_value_that_is_stored_after_its_submission(mended: bool) {
    let (stored, read) = number();
    let (sees, seen) = number();
    let (queue, show) = (queue(), Work::new(move || sees.store(read.load(SeqCst), SeqCst)));
    for value in 1..=2 {
        if mended {
            stored.store(value, SeqCst);
            queue.enqueue(&show).unwrap();
        } else {
            queue.enqueue(&show).unwrap();
            stored.store(value, SeqCst);
        }
    }
    queue.flush().unwrap();
    assert_eq!(seen.load(SeqCst), 2);
}

/// Two items send to each other before either receives, and the channels become full.
pub(super) fn channels_that_fill_each_other(mended: bool) {
    let room = if mended { 2 } else { 1 };
    let ((to_left, left), (to_right, right)) = (bounded(room), bounded(room));
    let talk = |send: Sender<u32>, receive: Receiver<u32>| {
        move || {
            (0..2).for_each(|n| send.send(n).unwrap());
            (0..2).for_each(|_| assert!(receive.recv().is_ok()));
        }
    };
    both(talk(to_left, right), talk(to_right, left));
}

/// The program expects the items of a parallel queue to run in the order of submission.
pub(super) fn an_order_that_only_ordered_queues_have(mended: bool) {
    let queue = if mended { WorkQueue::ordered("in order").build().unwrap() } else { queue() };
    let lines = Arc::new(Mutex::new(Vec::new()));
    for n in 0..3 {
        let lines = Arc::clone(&lines);
        queue.spawn_detached(move || lines.lock().push(n)).unwrap();
    }
    queue.flush().unwrap();
    assert_eq!(*lines.lock(), [0, 1, 2]);
}

/// The answer and the timeout of a request both complete it.
pub(super) fn an_answer_and_a_timeout_at_once(mended: bool) {
    let (completes, completed) = number();
    let done = Arc::new(AtomicBool::new(false));
    let complete = move || {
        let is_done = if mended { done.swap(true, SeqCst) } else { done.load(SeqCst) };
        testing::point();
        if !is_done {
            done.store(true, SeqCst);
            completes.fetch_add(1, SeqCst);
        }
    };
    let queue = queue();
    queue.item(complete.clone()).after(ms(5)).spawn_detached().unwrap();
    queue.item(complete).after(ms(5)).spawn_detached().unwrap();
    testing::advance(ms(5));
    assert_eq!(completed.load(SeqCst), 1);
}

/// The program forgets that a periodic item may still be running after its cancel.
pub(super) fn a_tick_that_outlives_its_cancel(mended: bool) {
    let (open, is_open) = flag();
    open.store(true, SeqCst);
    let queue = queue();
    let tick = move || {
        testing::point();
        assert!(is_open.load(SeqCst), "it is closed");
    };
    let ticks = queue.item(tick).spawn_every(ms(10)).unwrap();
    sleep(ms(10));
    if mended {
        ticks.cancel_and_wait().unwrap();
    } else {
        ticks.cancel();
    }
    open.store(false, SeqCst);
}

/// The program uses a flush, which does not wait for items that are queued after its call.
pub(super) fn a_flush_instead_of_a_drain(mended: bool) {
    let (counts, counted) = number();
    let queue = queue();
    let again = queue.clone();
    queue
        .spawn_detached(move || {
            let counts = Arc::clone(&counts);
            again.spawn_detached(move || add(&counts)).unwrap();
        })
        .unwrap();
    if mended {
        queue.drain().unwrap();
    } else {
        queue.flush().unwrap();
    }
    assert_eq!(counted.load(SeqCst), 1);
}

/// The program takes each submission of a reusable item for a run of its own.
pub(super) fn a_submission_that_is_taken_for_a_run(mended: bool) {
    let (runs, ran) = number();
    let (queue, work) = (queue(), Work::new(move || add(&runs)));
    let accepted = (0..3).filter(|_| queue.enqueue(&work).unwrap()).count() as u32;
    queue.flush().unwrap();
    assert_eq!(ran.load(SeqCst), if mended { accepted } else { 3 });
}

/// Two items both see that the service has not started.
pub(super) fn a_service_that_starts_twice(mended: bool) {
    let (starts, started) = number();
    let (queue, is_started) = (queue(), Arc::new(AtomicBool::new(false)));
    let begin = {
        let queue = queue.clone();
        move || {
            let was_started = if mended { is_started.swap(true, SeqCst) } else { is_started.load(SeqCst) };
            if !was_started {
                queue.spawn_detached(move || add(&starts)).unwrap();
                is_started.store(true, SeqCst);
            }
        }
    };
    both(begin.clone(), begin);
    queue.drain().unwrap();
    assert_eq!(started.load(SeqCst), 1);
}

/// A debouncer that saves the first change and not the last one.
pub(super) fn a_debouncer_that_saves_too_early(mended: bool) {
    let (changes, value) = number();
    let (saves, saved) = number();
    let (queue, save) = (queue(), Work::new(move || saves.store(value.load(SeqCst), SeqCst)));
    for change in 1..=3 {
        changes.store(change, SeqCst);
        let submission = queue.item(&save).after(secs(2));
        let _new = if mended { submission.reschedule().unwrap() } else { submission.enqueue().unwrap() };
        sleep(secs(1));
    }
    assert_eq!(saved.load(SeqCst), 0, "the user still types");
    sleep(secs(2));
    assert_eq!(saved.load(SeqCst), 3);
}

/// A join has a timeout that is too short, because the item waits behind a longer item.
pub(super) fn a_timeout_behind_other_work(mended: bool) {
    let queue = WorkQueue::builder("slow").max_active_total(if mended { 2 } else { 1 }).build().unwrap();
    queue.spawn_detached(|| sleep(secs(3))).unwrap();
    let answer = queue.spawn(|| sleep(secs(1))).unwrap();
    assert!(answer.join_timeout(secs(2)).is_ok(), "the answer is late");
}

/// Each of two items waits for the other one to begin, but the queue runs only one item at a time.
pub(super) fn items_that_wait_for_each_other_in_a_narrow_queue(mended: bool) {
    let queue = WorkQueue::builder("narrow").max_active_total(if mended { 2 } else { 1 }).build().unwrap();
    let ((here, is_here), (there, is_there)) = (bounded(1), bounded(1));
    let one = queue
        .spawn(move || {
            here.send(()).unwrap();
            is_there.recv().unwrap();
        })
        .unwrap();
    let two = queue
        .spawn(move || {
            there.send(()).unwrap();
            is_here.recv().unwrap();
        })
        .unwrap();
    one.join().unwrap();
    two.join().unwrap();
}
