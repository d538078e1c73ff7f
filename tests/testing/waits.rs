//! While a thread waits in a function of the crate, the other threads of the run continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use cmwq::blocking::channel::{RecvTimeoutError, SendTimeoutError, bounded, unbounded};
use cmwq::blocking::sync::{Condvar, Mutex, RwLock, RwLockUpgradableReadGuard};
use cmwq::blocking::{block_on, thread};
use cmwq::testing::{self, Setup, explore, run_until_idle};
use cmwq::{JoinError, WorkQueue, clock};

use super::support::{message, ms, secs};

/// spec: T1.3 (locks)
#[test]
fn threads_wait_for_locks_in_virtual_time() {
    explore(40, || {
        let queue = WorkQueue::unbound("locks").build().unwrap();
        let sum = Arc::new(Mutex::new(0));
        let begin = clock::now();
        let add = |sum: &Arc<Mutex<u32>>| {
            let sum = Arc::clone(sum);
            move || {
                let mut sum = sum.lock();
                let before = *sum;
                thread::sleep(secs(1));
                *sum = before + 1;
            }
        };
        (0..4).map(|_| queue.spawn(add(&sum)).unwrap()).for_each(drop);
        run_until_idle();
        assert!(sum.try_lock_for(ms(900)).is_none());
        assert_eq!(clock::now() - begin, ms(900));
        queue.flush().unwrap();
        assert_eq!((*sum.lock(), clock::now() - begin), (4, secs(4)));
    });
}

/// spec: T1.3 (readers and writers)
#[test]
fn readers_share_and_writers_exclude() {
    explore(40, || {
        let queue = WorkQueue::unbound("shelf").build().unwrap();
        let shelf = Arc::new(RwLock::new(Vec::new()));
        let begin = clock::now();
        for _reader in 0..3 {
            let shelf = Arc::clone(&shelf);
            queue
                .spawn_detached(move || {
                    let books = shelf.read();
                    let before = books.len();
                    thread::sleep(secs(1));
                    assert_eq!(books.len(), before);
                })
                .unwrap();
        }
        for book in 0..2 {
            let shelf = Arc::clone(&shelf);
            queue
                .spawn_detached(move || {
                    let books = shelf.upgradable_read();
                    thread::sleep(secs(1));
                    RwLockUpgradableReadGuard::upgrade(books).push(book);
                })
                .unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(shelf.read().len(), 2);
        assert!(clock::now() - begin <= secs(4));
    });
}

/// spec: T1.3 (condition variables)
#[test]
fn notifications_wake_in_virtual_time() {
    explore(40, || {
        let queue = WorkQueue::new("conditions");
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waits = {
            let shared = Arc::clone(&shared);
            queue.spawn(move || {
                let mut number = shared.0.lock();
                shared.1.wait_while(&mut number, |number| *number < 3);
                *number
            })
        };
        for _step in 0..3 {
            thread::sleep(secs(1));
            *shared.0.lock() += 1;
            shared.1.notify_one();
        }
        assert_eq!(waits.unwrap().join().unwrap(), 3);
        let begin = clock::now();
        assert!(shared.1.wait_for(&mut shared.0.lock(), secs(2)).timed_out());
        assert!(shared.1.wait_until(&mut shared.0.lock(), clock::now() + secs(2)).timed_out());
        assert_eq!(clock::now() - begin, secs(4));
        assert!(!shared.1.notify_one(), "no thread waits");
    });
}

/// spec: T1.3 (channels)
#[test]
fn messages_and_ends_of_channels_wake() {
    explore(40, || {
        let queue = WorkQueue::new("channels");
        let (send, receive) = bounded(1);
        let sum = queue.spawn(move || receive.iter().sum::<u32>()).unwrap();
        let sends = queue.spawn(move || (1..=10).try_for_each(|n| send.send(n))).unwrap();
        sends.join().unwrap().unwrap();
        assert_eq!(sum.join().unwrap(), 55);
        let (send, receive) = unbounded::<u32>();
        let begin = clock::now();
        assert_eq!(receive.recv_timeout(secs(2)), Err(RecvTimeoutError::Timeout));
        assert_eq!(receive.recv_deadline(clock::now() + secs(1)), Err(RecvTimeoutError::Timeout));
        let later = queue.item(move || drop(send)).after(secs(3)).spawn().unwrap();
        assert!(receive.recv().is_err());
        assert_eq!(clock::now() - begin, secs(6));
        later.join().unwrap();
        let (send, receive) = bounded(1);
        send.send(1).unwrap();
        assert_eq!(send.send_timeout(2, secs(1)), Err(SendTimeoutError::Timeout(2)));
        drop(receive);
        assert_eq!(send.send_timeout(3, secs(1)), Err(SendTimeoutError::Disconnected(3)));
        assert_eq!(clock::now() - begin, secs(7));
    });
}

/// spec: T1.3: a receiver notices the end of a channel without room, which programs use as a signal to stop.
#[test]
fn a_channel_without_room_transmits_its_end() {
    explore(20, || {
        let (stop, stopped) = bounded::<()>(0);
        let waits = WorkQueue::new("stops").spawn(move || stopped.recv().is_err()).unwrap();
        run_until_idle();
        drop(stop);
        assert!(waits.join().unwrap());
    });
}

/// spec: T1.3 (threads, sleeps and parks)
#[test]
fn spawned_threads_belong_to_the_run() {
    explore(40, || {
        let begin = clock::now();
        let sleeper = thread::spawn(|| {
            thread::sleep(secs(60));
            "slept"
        });
        assert!(!sleeper.is_finished());
        assert_eq!(sleeper.join().unwrap(), "slept");
        assert_eq!(clock::now() - begin, secs(60));
        assert!(thread::spawn(|| panic!("on purpose")).join().is_err());
        let flag = Arc::new(AtomicBool::new(false));
        let parked = {
            let flag = Arc::clone(&flag);
            thread::spawn(move || {
                while !flag.load(Relaxed) {
                    thread::park();
                }
            })
        };
        thread::sleep(secs(1));
        flag.store(true, Relaxed);
        parked.thread().unpark();
        parked.join().unwrap();
        thread::park_timeout(secs(1));
        assert!(clock::now() - begin <= secs(62));
    });
}

/// spec: T1.3 (scopes, maps, joins, tasks)
#[test]
fn waits_for_items_of_all_kinds() {
    explore(40, || {
        let queue = WorkQueue::new("waits");
        let sum = AtomicU32::new(0);
        queue.scope(|scope| {
            for n in 1..=4 {
                let sum = &sum;
                let item = scope.spawn(move || {
                    thread::sleep(secs(u64::from(n)));
                    sum.fetch_add(n, Relaxed)
                });
                drop(item.unwrap());
            }
        });
        assert_eq!(sum.load(Relaxed), 10);
        assert_eq!(queue.map(0..10, |n| n * n).sum::<Result<u32, _>>().unwrap(), 285);
        let slow = queue.spawn(|| thread::sleep(secs(5))).unwrap();
        block_on(slow).unwrap();
        let panics = queue.spawn(|| panic!("on purpose")).unwrap();
        assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
        queue.drain().unwrap();
    });
}

/// spec: T1.1: each run has a clock of its own, although the runs share a process.
#[test]
fn runs_beside_each_other_have_their_own_clocks() {
    let runs: Vec<_> = (1..=4)
        .map(|hours| {
            std::thread::spawn(move || {
                testing::seed(hours).run(move || {
                    let begin = clock::now();
                    thread::sleep(secs(3600 * hours));
                    clock::now() - begin
                })
            })
        })
        .collect();
    for (hours, run) in (1..).zip(runs) {
        assert_eq!(run.join().unwrap(), secs(3600 * hours));
    }
}

/// spec: T1.3 (condition variables): if a wait times out just when a notification comes, another thread, which waits
/// without a timeout, gets the notification.
#[test]
fn a_notification_at_the_moment_of_a_timeout_is_not_lost() {
    explore(200, || {
        let queue = WorkQueue::unbound("timeouts").build().unwrap();
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let waits = |timeout: Option<std::time::Duration>| {
            let shared = Arc::clone(&shared);
            let wait = move || match timeout {
                Some(timeout) => shared.1.wait_for(&mut shared.0.lock(), timeout).timed_out(),
                None => {
                    shared.1.wait(&mut shared.0.lock());
                    false
                }
            };
            queue.spawn(wait).unwrap()
        };
        let first = waits(Some(secs(1)));
        run_until_idle();
        let second = waits(None);
        run_until_idle();
        thread::sleep(secs(1));
        shared.1.notify_one();
        if !first.join().unwrap() {
            shared.1.notify_one();
        }
        assert!(!second.join().unwrap());
    });
}

/// spec: T1.3: while a thread polls with waits of zero, the other threads continue. If it never ends, the run reports
/// it.
#[test]
fn waits_of_zero_let_others_go_on() {
    let polls = || {
        let queue = WorkQueue::unbound("polls").build().unwrap();
        let (send, receive) = unbounded();
        let mut joined = Err(queue.spawn(move || send.send(7)).unwrap());
        let receives = queue.spawn(move || {
            loop {
                if let Ok(message) = receive.recv_timeout(Duration::ZERO) {
                    return message;
                }
            }
        });
        while let Err(item) = joined {
            joined = item.join_timeout(Duration::ZERO);
        }
        assert_eq!(receives.unwrap().join().unwrap(), 7);
        // The condition holds only after an item has locked the mutex.
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let sets = Arc::clone(&shared);
        queue.spawn_detached(move || *sets.0.lock() = true).unwrap();
        let mut is_set = shared.0.lock();
        while !*is_set {
            assert!(shared.1.wait_for(&mut is_set, Duration::ZERO).timed_out());
        }
        *is_set = false;
        let sets = Arc::clone(&shared);
        queue.spawn_detached(move || *sets.0.lock() = true).unwrap();
        let past = clock::now();
        while !*is_set {
            assert!(shared.1.wait_until(&mut is_set, past).timed_out());
        }
    };
    testing::run(polls);
    Setup::new().cpus(1).run(polls);
    Setup::new().explore(20, polls);
    let told = message(|| {
        Setup::new().max_steps(10_000).run(|| {
            let (_send, receive) = unbounded::<()>();
            while receive.recv_timeout(Duration::ZERO).is_err() {}
        });
    });
    assert!(told.contains("10000 steps were taken, and no time passes"), "{told}");
    let told = message(|| {
        Setup::new().max_steps(10_000).run(|| {
            let (mutex, condvar) = (Mutex::new(()), Condvar::new());
            let mut guard = mutex.lock();
            while condvar.wait_for(&mut guard, Duration::ZERO).timed_out() {}
        });
    });
    assert!(told.contains("10000 steps were taken, and no time passes"), "{told}");
}
