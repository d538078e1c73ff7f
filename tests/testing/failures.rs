//! The failures that a run finds and reports: endless waits, items that do not end, waits and threads that do not
//! belong to the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cmwq::blocking::channel::{bounded, unbounded};
use cmwq::blocking::sync::{Condvar, Mutex};
use cmwq::blocking::thread::Builder;
use cmwq::testing::{self, Faults, Setup};
use cmwq::{Executor, Work, WorkQueue, blocking};

use super::support::{assert_says, message, ms, secs};

/// spec: T2.3 (who waits for whom: locks)
#[test]
fn two_items_that_want_each_others_lock_are_told() {
    let told = message(|| {
        testing::explore(200, || {
            let queue = WorkQueue::unbound("pairs").build().unwrap();
            let locks = Arc::new((Mutex::new(1), Mutex::new(2)));
            let other = Arc::clone(&locks);
            let one = queue.spawn(move || *locks.0.lock() += *locks.1.lock()).unwrap();
            let two = queue.spawn(move || *other.1.lock() += *other.0.lock()).unwrap();
            one.join().unwrap();
            two.join().unwrap();
        });
    });
    assert_says(
        &told,
        &[
            "all threads wait for ever",
            "of queue \"pairs\", waits for a lock (of cmwq/u",
            "in a circle: cmwq/u",
        ],
    );
}

/// spec: T2.3 (items, queues, channels)
#[test]
fn waits_without_an_end_are_told_with_their_reasons() {
    let told = message(|| {
        testing::run(|| {
            let queue = WorkQueue::new("stuck");
            let (send, receive) = unbounded::<()>();
            let waits = queue.spawn(move || receive.recv()).unwrap();
            let joins = queue.spawn(move || waits.join().unwrap()).unwrap();
            _ = joins.join();
            drop(send);
        });
    });
    assert_says(
        &told,
        &[
            "all threads wait for ever",
            "waits for item testing::failures::waits_without_an_end_are_told_with_their_reasons",
            "of queue \"stuck\", waits for a message of a channel",
            "(of cmwq/u",
        ],
    );
    let told = message(|| {
        testing::run(|| {
            let queue = WorkQueue::new("flushed");
            let never = Arc::new(Mutex::new(()));
            let held = never.lock();
            let item = Arc::clone(&never);
            queue.spawn_detached(move || drop(item.lock())).unwrap();
            queue.flush().unwrap();
            drop(held);
        });
    });
    assert_says(
        &told,
        &["waits for the items of queue \"flushed\" (of cmwq/u", "waits for a lock (of ", "in a circle"],
    );
}

/// spec: T2.3 (threads, tasks and tokens; beside a condition, and beside a periodic item)
#[test]
fn waits_for_threads_tasks_and_tokens_are_told() {
    let told = message(|| {
        testing::run(|| {
            let token = cmwq::CancelToken::new();
            let waits = blocking::thread::spawn(move || token.wait());
            let polls = blocking::thread::spawn(|| blocking::block_on(std::future::pending::<()>()));
            WorkQueue::new("joins").spawn(move || waits.join().unwrap()).unwrap().join().unwrap().unwrap();
            polls.join().unwrap();
        });
    });
    assert_says(
        &told,
        &[
            "all threads wait for ever",
            "of queue \"joins\", waits for the end of a thread (of spawned thread 1)",
            "spawned thread 1 waits for the cancel of a token",
            "spawned thread 2 waits for a wake-up of its task",
        ],
    );
    let circle = |queue: &WorkQueue| {
        let locks = Arc::new((Mutex::new(1), Mutex::new(2)));
        for turns in [false, true] {
            let locks = Arc::clone(&locks);
            let takes_both = move || {
                let (first, second) = if turns { (&locks.1, &locks.0) } else { (&locks.0, &locks.1) };
                let held = first.lock();
                blocking::thread::sleep(ms(1));
                *second.lock() += *held;
            };
            queue.spawn_detached(takes_both).unwrap();
        }
    };
    let told = message(|| {
        testing::run(move || {
            let queue = WorkQueue::new("pairs");
            circle(&queue);
            testing::run_until(|| queue.is_empty());
        });
    });
    assert_says(&told, &["the condition never holds", "waits for a lock (of cmwq/u", "in a circle: cmwq/u"]);
    let told = message(|| {
        Setup::new().max_steps(1000).run(move || {
            let queue = WorkQueue::new("pairs");
            let _ticks = queue.item(|| ()).spawn_every(ms(1)).unwrap();
            circle(&queue);
            queue.flush().unwrap();
        });
    });
    assert_says(&told, &["time passes, but this wait does not end", "in a circle: cmwq/u"]);
    let told = message(|| {
        Setup::new().max_steps(1000).run(|| {
            let _ticks = WorkQueue::new("ticks").item(|| ()).spawn_every(ms(1)).unwrap();
            testing::run_until(|| false);
        });
    });
    assert_says(&told, &["although the clock has moved 1000 times"]);
}

/// spec: T2.3 (waits of the test's own thread, beside a periodic item): each time the clock is about to move on, the
/// thread looks again, or performs a chore of the executor. But its wait does not end.
#[test]
fn waits_of_the_tests_own_thread_beside_a_periodic_item_are_told() {
    let told = |waits: fn()| {
        message(move || {
            Setup::new().max_steps(1000).run(move || {
                let _ticks = WorkQueue::new("ticks").item(|| ()).spawn_every(ms(1)).unwrap();
                waits();
            });
        })
    };
    let receives = told(|| {
        let (_send, receive) = unbounded::<()>();
        _ = receive.recv();
    });
    let locks = told(|| {
        let lock = Mutex::new(());
        let _held = lock.lock();
        drop(lock.lock());
    });
    let parks = told(|| {
        let never = AtomicBool::new(false);
        while !never.load(Relaxed) {
            blocking::thread::park();
        }
    });
    // While the manager of an executor is missing, waiting threads have the chore to make it.
    let has_chores = message(|| {
        let faults = Faults::new().no_threads_during(secs(1)..secs(100_000));
        Setup::new().max_steps(1000).faults(faults).run(|| {
            let executor = Executor::builder().build().unwrap();
            let queue = WorkQueue::builder("ticks").build_on(&executor).unwrap();
            let _ticks = queue.item(|| ()).spawn_every(ms(100)).unwrap();
            testing::advance(secs(1));
            _ = WorkQueue::new("starves").spawn(|| ()).unwrap().join();
        });
    });
    let all = [
        (receives, "main waits for a message of a channel"),
        (locks, "main waits for a lock (of main)"),
        (parks, "main waits for an unpark"),
        (has_chores, "main waits for item testing::failures"),
    ];
    for (told, wait) in all {
        assert_says(&told, &["time passes, but this wait does not end", wait]);
    }
}

/// spec: T2.4 (an item that waits for a time again and again): the item sleeps for short times, or for so long that the
/// virtual clock reaches the end of time.
#[test]
fn an_item_that_sleeps_again_and_again_is_told() {
    for sleep in [ms(1), Duration::MAX] {
        let told = message(|| {
            Setup::new().max_steps(1000).run(move || {
                let sleeps = move || {
                    loop {
                        blocking::thread::sleep(sleep);
                    }
                };
                WorkQueue::new("sleepers").spawn_detached(sleeps).unwrap();
                testing::run_until_idle();
            });
        });
        assert_says(&told, &["the test has ended, but not these threads", "of queue \"sleepers\""]);
    }
}

/// spec: T2.4 (an item that waits for a message that never comes)
#[test]
fn an_item_that_outlives_its_test_is_told() {
    let told = message(|| {
        testing::run(|| {
            let (send, receive) = bounded::<()>(1);
            let reads = move || while receive.recv().is_ok() {};
            WorkQueue::new("readers").spawn_detached(reads).unwrap();
            testing::run_until_idle();
            std::mem::forget(send);
        });
    });
    assert_says(
        &told,
        &["the test has ended, but not these threads", "of queue \"readers\"", "a message of a channel"],
    );
}

/// spec: T2.4 (no time passes)
#[test]
fn an_item_that_spins_on_operations_is_told() {
    let told = message(|| {
        testing::run(|| {
            let queue = WorkQueue::new("spins");
            let later = queue.item(|| ()).after(secs(1)).spawn().unwrap();
            queue.spawn(move || while !later.is_finished() {}).unwrap().join().unwrap();
        });
    });
    assert_says(
        &told,
        &["steps were taken, and no time passes", "of queue \"spins\"", "does not come to an end"],
    );
    let told = message(|| {
        testing::run(|| {
            WorkQueue::new("spins").scope(|s| {
                let later = s.spawn(|| blocking::thread::sleep(secs(1))).unwrap();
                s.spawn(move || while !later.is_finished() {}).unwrap();
            });
        });
    });
    assert_says(&told, &["steps were taken, and no time passes", "of queue \"spins\""]);
    // While an item queues itself again and again, the virtual clock never moves.
    let told = message(|| {
        testing::run(|| {
            let queue = WorkQueue::new("circles");
            let again = queue.clone();
            let work = Work::with_handle(move |own| assert!(again.enqueue(own).is_ok()));
            queue.enqueue(&work).unwrap();
            blocking::thread::sleep(secs(1));
        });
    });
    assert_says(&told, &["steps were taken, and no time passes"]);
}

/// spec: T2.4 (an item that computes)
#[test]
fn an_item_that_computes_for_ever_is_told() {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let told = message(|| {
        Setup::new().patience(ms(300)).run(move || {
            let computes = move || while !stop.load(Relaxed) {};
            WorkQueue::new("loops").spawn(computes).unwrap().join().unwrap();
        });
    });
    stops.store(true, Relaxed);
    assert_says(&told, &["of queue \"loops\", does not come to an end: it has taken no step for"]);
}

/// spec: T1.5 (a real sleep)
#[test]
fn a_real_sleep_is_told() {
    if Executor::global().dump().portable {
        return testkit::skip("portable", "the system does not tell what a thread does");
    }
    let begin = Instant::now();
    let told = message(|| {
        Setup::new().patience(ms(100)).run(|| {
            let sleeps = || std::thread::sleep(Duration::from_secs(100));
            WorkQueue::new("sleeps").spawn(sleeps).unwrap().join().unwrap();
        });
    });
    assert!(begin.elapsed() < secs(60));
    assert_says(&told, &["of queue \"sleeps\", waits outside of the test kit: it sleeps"]);
    // If the system does not show in which function a thread sleeps, the test kit takes short sleeps for computing.
    let said =
        if told.contains("in real time") { "it sleeps in real time" } else { "does not come to an end" };
    let told = message(|| {
        Setup::new().patience(ms(200)).run(|| {
            let polls = || {
                while std::hint::black_box(true) {
                    std::thread::sleep(ms(3));
                }
            };
            WorkQueue::new("polls").spawn(polls).unwrap().join().unwrap();
        });
    });
    assert_says(&told, &["of queue \"polls\"", said]);
}

/// spec: T1.5 (a lock of another crate that is held across a wait)
#[test]
fn a_foreign_lock_held_across_a_wait_is_told() {
    if Executor::global().dump().portable {
        return testkit::skip("portable", "the system does not tell what a thread does");
    }
    let told = message(|| {
        Setup::new().patience(ms(100)).run(|| {
            let queue = WorkQueue::unbound("mixed").build().unwrap();
            let lock = Arc::new(std::sync::Mutex::new(()));
            let item = |lock: &Arc<std::sync::Mutex<()>>| {
                let lock = Arc::clone(lock);
                move || {
                    let _held = lock.lock().unwrap();
                    blocking::thread::sleep(secs(1));
                }
            };
            queue.spawn_detached(item(&lock)).unwrap();
            queue.spawn_detached(item(&lock)).unwrap();
            queue.flush().unwrap();
        });
    });
    assert_says(
        &told,
        &["of queue \"mixed\", waits outside of the test kit", "of queue \"mixed\", waits for a time"],
    );
}

/// spec: T1.5 (a thread of which the run does not know)
#[test]
fn a_foreign_thread_is_told() {
    let told = message(|| {
        testing::run(|| {
            let queue = WorkQueue::new("own");
            let foreign = std::thread::Builder::new().name("stranger".to_owned());
            _ = foreign.spawn(move || queue.spawn_detached(|| ())).unwrap().join();
            testing::run_until_idle();
        });
    });
    assert_says(&told, &["stranger, which is not a thread of this test, uses a queue of this test"]);
}

/// spec: T1.5 (a thread of which the run does not know): the run waits for a message of a thread that the standard
/// library has made. A thread that the crate has made is part of the run.
#[test]
fn a_wait_for_a_foreign_thread_is_told() {
    let told = message(|| {
        testing::run(|| {
            let (send, receive) = unbounded();
            let (go_on, waits) = std::sync::mpsc::channel::<()>();
            let foreign = std::thread::spawn(move || {
                // The sender lives at least until the run has failed.
                _ = waits.recv();
                _ = send.into_inner().send(1);
            });
            let received = receive.recv();
            drop(go_on);
            foreign.join().unwrap();
            _ = received;
        });
    });
    assert_says(&told, &["main waits for a message of a channel", "`cmwq::blocking::thread` has not made"]);
    let (received, name) = testing::run(|| {
        let (send, receive) = unbounded();
        let reader = Builder::new().name("reader".to_owned()).stack_size(64 * 1024);
        let reader = reader.spawn(move || {
            send.send(1).unwrap();
            std::thread::current().name().map(str::to_owned)
        });
        (receive.recv().unwrap(), reader.unwrap().join().unwrap())
    });
    assert_eq!((received, name.as_deref()), (1, Some("reader")));
}

/// spec: T1.5, T2.3: cancellable waits are reported as other waits are.
#[test]
fn cancellable_waits_are_told() {
    let told = message(|| {
        testing::run(|| {
            let (send, _receive) = bounded(0);
            drop(WorkQueue::new("sends").spawn(move || send.send_cancellable(1)).unwrap().join());
        });
    });
    assert_says(&told, &["a channel of capacity 0"]);
    let told = message(|| {
        testing::run(|| {
            let waits = || {
                let (ready, changed) = (Mutex::new(()), Condvar::new());
                _ = changed.wait_cancellable(&mut ready.lock());
            };
            WorkQueue::new("waits").spawn(waits).unwrap().join().unwrap();
        });
    });
    assert_says(&told, &["of queue \"waits\"", "waits for a condition variable"]);
}

/// spec: T1.5 (a queue of another executor)
#[test]
fn a_queue_of_another_executor_is_told() {
    let outside = WorkQueue::new("outside");
    let told = message(|| testing::run(move || drop(outside.spawn(|| ()))));
    assert_says(&told, &["queue \"outside\" does not belong to this test"]);
    let left = testing::run(|| WorkQueue::new("left over"));
    let told = message(|| testing::run(move || drop(left.spawn(|| ()))));
    assert_says(&told, &["queue \"left over\" does not belong to this test"]);
}
