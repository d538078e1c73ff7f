//! Locks and condition variables whose waits let another item start.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cmwq::blocking::sync::{
    Condvar, MappedMutexGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, MutexGuard, RwLock,
    RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use cmwq::{CancelToken, WorkQueue};

use super::{keeps_the_next_waiting, waits_for_the_next};
use crate::support::{Door, SOON, bump, cpus, eventually, is_asleep, stress, thread_id, time_limit};

/// Runs an item that waits for the lock with `locks`, while another thread holds it. The next item tells this thread to
/// release the lock.
#[track_caller]
fn waits_for_the_holder<L: Send + Sync + 'static, R: Send + 'static>(
    lock: L,
    hold: fn(&L, &dyn Fn()),
    locks: fn(&L) -> R,
) -> R {
    let lock = Arc::new(lock);
    let (door, (held, is_held)) = (Door::default(), mpsc::channel());
    let (holders, wait) = (Arc::clone(&lock), door.clone());
    let holder = std::thread::spawn(move || {
        hold(&holders, &|| {
            held.send(()).unwrap();
            wait.wait_unguarded();
        });
    });
    is_held.recv().unwrap();
    let result = waits_for_the_next(move || locks(&lock), move || door.open());
    holder.join().unwrap();
    result
}

fn soon() -> Instant {
    Instant::now() + SOON
}

/// spec: C7.2: an item that waits for a mutex, in any way, lets the next item start.
#[test]
fn a_contended_mutex_lets_another_item_start() {
    let _limit = time_limit();
    let ways: [fn(&Mutex<u32>) -> u32; 4] = [
        |mutex| *mutex.lock(),
        |mutex| *mutex.try_lock_for(SOON).unwrap(),
        |mutex| *mutex.try_lock_until(soon()).unwrap(),
        |mutex| MutexGuard::map(mutex.lock(), |value| value).to_owned(),
    ];
    for way in ways {
        let hold = |mutex: &Mutex<u32>, wait: &dyn Fn()| {
            let mut value = mutex.lock();
            wait();
            *value = 7;
        };
        assert_eq!(waits_for_the_holder(Mutex::new(3), hold, way), 7);
        let fair = |mutex: &Mutex<u32>, wait: &dyn Fn()| {
            let mut value = mutex.lock();
            wait();
            *value = 8;
            MutexGuard::unlock_fair(value);
        };
        assert_eq!(waits_for_the_holder(Mutex::new(3), fair, way), 8);
    }
}

/// spec: C7.2: an item that waits for a reader-writer lock, in any way, lets the next item start.
#[test]
fn a_contended_rwlock_lets_another_item_start() {
    let _limit = time_limit();
    type Lock = RwLock<u32>;
    let ways: [fn(&Lock) -> u32; 13] = [
        |lock| *lock.read(),
        |lock| *lock.read_recursive(),
        |lock| *lock.write(),
        |lock| *lock.upgradable_read(),
        |lock| *lock.try_read_for(SOON).unwrap(),
        |lock| *lock.try_read_until(soon()).unwrap(),
        |lock| *lock.try_read_recursive_for(SOON).unwrap(),
        |lock| *lock.try_read_recursive_until(soon()).unwrap(),
        |lock| *lock.try_write_for(SOON).unwrap(),
        |lock| *lock.try_write_until(soon()).unwrap(),
        |lock| *lock.try_upgradable_read_for(SOON).unwrap(),
        |lock| *lock.try_upgradable_read_until(soon()).unwrap(),
        |lock| *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()),
    ];
    for way in ways {
        let write = |lock: &Lock, wait: &dyn Fn()| {
            let mut value = lock.write();
            wait();
            *value = 7;
        };
        assert_eq!(waits_for_the_holder(Lock::new(3), write, way), 7);
    }
    let upgrades: [fn(&Lock) -> u32; 3] = [
        |lock| *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()),
        |lock| *RwLockUpgradableReadGuard::try_upgrade_for(lock.upgradable_read(), SOON).unwrap(),
        |lock| *RwLockUpgradableReadGuard::try_upgrade_until(lock.upgradable_read(), soon()).unwrap(),
    ];
    for upgrade in upgrades {
        let read = |lock: &Lock, wait: &dyn Fn()| {
            let value = lock.read();
            wait();
            RwLockReadGuard::unlock_fair(value);
        };
        assert_eq!(waits_for_the_holder(Lock::new(3), read, upgrade), 3);
    }
}

/// spec: C7.3: an item that waits for a notification, in any way, lets the next item start.
#[test]
fn waiting_for_a_notification_lets_another_item_start() {
    let _limit = time_limit();
    type Pair = (Mutex<bool>, Condvar);
    let ways: [fn(&Pair); 6] = [
        |(mutex, condvar)| {
            let mut happened = mutex.lock();
            while !*happened {
                condvar.wait(&mut happened);
            }
        },
        |(mutex, condvar)| {
            let mut happened = mutex.lock();
            while !*happened {
                assert!(!condvar.wait_for(&mut happened, SOON).timed_out());
            }
        },
        |(mutex, condvar)| {
            let mut happened = mutex.lock();
            while !*happened {
                assert!(!condvar.wait_until(&mut happened, soon()).timed_out());
            }
        },
        |(mutex, condvar)| condvar.wait_while(&mut mutex.lock(), |happened| !*happened),
        |(mutex, condvar)| {
            let timeout = if cfg!(target_pointer_width = "64") { Duration::MAX } else { SOON };
            assert!(!condvar.wait_while_for(&mut mutex.lock(), |happened| !*happened, timeout).timed_out());
        },
        |(mutex, condvar)| {
            assert!(!condvar.wait_while_until(&mut mutex.lock(), |happened| !*happened, soon()).timed_out());
        },
    ];
    for way in ways {
        for all in [false, true] {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let other = Arc::clone(&pair);
            waits_for_the_next(
                move || {
                    way(&pair);
                    assert!(pair.0.try_lock().is_some(), "the wait has unlocked the mutex");
                },
                move || {
                    *other.0.lock() = true;
                    let woken = if all { other.1.notify_all() } else { usize::from(other.1.notify_one()) };
                    assert!(woken <= 1);
                },
            );
        }
    }
}

/// spec: C7.2 (guard only when contended).
#[test]
fn an_uncontended_lock_enters_no_guard() {
    let _limit = time_limit();
    keeps_the_next_waiting(|| {
        let (mutex, lock, condvar) = (Mutex::new(0), RwLock::new(0), Condvar::new());
        for _ in 0..100 {
            let mut value = mutex.lock();
            *value += 1;
            MutexGuard::bump(&mut value);
            MutexGuard::unlocked(&mut value, || assert!(!mutex.is_locked()));
            assert!(mutex.is_locked() && mutex.try_lock().is_none());
            condvar.wait_while(&mut value, |value| *value == 0);
            drop(value);
            *mutex.try_lock_for(SOON).unwrap() += 1;
            *mutex.try_lock_until(soon()).unwrap() += 1;

            let first = lock.read();
            let (recursive, upgradable) = (lock.read_recursive(), lock.upgradable_read());
            assert!(lock.try_write().is_none() && lock.try_upgradable_read().is_none());
            drop((first, recursive));
            // In a build for ThreadSanitizer, each upgrade enters a guard.
            let mut value = if cfg!(cmwq_tsan) {
                drop(upgradable);
                lock.write()
            } else {
                RwLockUpgradableReadGuard::upgrade(upgradable)
            };
            *value += 1;
            RwLockWriteGuard::bump(&mut value);
            assert!(lock.is_locked_exclusive() && lock.try_read().is_none());
            let upgradable = RwLockWriteGuard::downgrade_to_upgradable(value);
            let mut read = RwLockUpgradableReadGuard::downgrade(upgradable);
            RwLockReadGuard::bump(&mut read);
            drop(read);
            drop(RwLockWriteGuard::downgrade(lock.write()));
            let mut upgradable = lock.try_upgradable_read_for(SOON).unwrap();
            RwLockUpgradableReadGuard::bump(&mut upgradable);
            RwLockUpgradableReadGuard::unlock_fair(upgradable);
            drop((lock.try_read_for(SOON).unwrap(), lock.try_read_recursive_for(SOON).unwrap()));
            RwLockWriteGuard::unlock_fair(lock.try_write_for(SOON).unwrap());
            assert!(!lock.is_locked());
        }
        assert_eq!((mutex.into_inner(), lock.into_inner()), (300, 100));
    });
}

/// spec: C7.2: time-outs are reported, inside and outside of items.
#[test]
fn timeouts_are_reported() {
    let _limit = time_limit();
    let check = || {
        let shortly = Duration::from_millis(5);
        let (mutex, lock, condvar) = (Mutex::new(0), RwLock::new(0), Condvar::new());
        let mut held = mutex.lock();
        assert!(mutex.try_lock_for(shortly).is_none() && mutex.try_lock_until(Instant::now()).is_none());
        assert!(condvar.wait_for(&mut held, shortly).timed_out());
        assert!(condvar.wait_until(&mut held, Instant::now()).timed_out());
        assert!(condvar.wait_while_for(&mut held, |_| true, shortly).timed_out());
        assert!(condvar.wait_while_until(&mut held, |_| true, Instant::now() + shortly).timed_out());
        assert!(!condvar.wait_while_until(&mut held, |_| false, Instant::now()).timed_out());
        assert!(mutex.try_lock().is_none(), "the mutex is locked after each wait");
        assert!(!condvar.notify_one() && condvar.notify_all() == 0);

        let (upgradable, read) = (lock.upgradable_read(), lock.read());
        assert!(lock.try_write_for(shortly).is_none() && lock.try_write_until(Instant::now()).is_none());
        assert!(lock.try_upgradable_read_for(shortly).is_none());
        assert!(lock.try_upgradable_read_until(Instant::now()).is_none());
        let Err(upgradable) = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, shortly) else {
            panic!("there is a reader")
        };
        let Err(upgradable) = RwLockUpgradableReadGuard::try_upgrade_until(upgradable, Instant::now()) else {
            panic!("there is a reader")
        };
        drop(read);
        let write = RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap();
        assert!(lock.try_read_for(shortly).is_none() && lock.try_read_recursive_for(shortly).is_none());
        assert!(lock.try_read_until(Instant::now()).is_none());
        assert!(lock.try_read_recursive_until(Instant::now()).is_none());
        drop(write);
        assert!(!lock.is_locked());
    };
    check();
    waits_for_the_next(check, || ());
}

/// spec: C7.3: a condition variable can be used with only one mutex at a time. A wait with a second mutex panics, and
/// does not damage this mutex.
#[test]
fn a_condition_variable_refuses_a_second_mutex() {
    let _limit = time_limit();
    let shared = Arc::new((Mutex::new(false), Mutex::new(3), Condvar::new()));
    let waits = Arc::clone(&shared);
    waits_for_the_next(
        move || waits.2.wait_while(&mut waits.0.lock(), |happened| !*happened),
        move || {
            let (first, second, condvar) = &*shared;
            let wait = || condvar.wait_for(&mut second.lock(), Duration::from_micros(1));
            // The first item holds its mutex until it waits, so this lock shows that it waits.
            drop(first.lock());
            assert!(std::panic::catch_unwind(AssertUnwindSafe(wait)).is_err());
            assert_eq!(*second.try_lock().expect("its guard has unlocked it"), 3);
            *first.lock() = true;
            assert!(condvar.notify_one());
            assert!(condvar.wait_for(&mut second.lock(), Duration::from_micros(1)).timed_out());
        },
    );
}

/// spec: C7.2: a panic unlocks the lock, and the lock is not poisoned.
#[test]
fn a_panic_poisons_nothing() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let shared = Arc::new((Mutex::new(0), RwLock::new(0), Condvar::new()));
    for round in 1..=10 {
        let locks = Arc::clone(&shared);
        let panics = queue.spawn(move || {
            let (mut value, mut other) = (locks.0.lock(), locks.1.write());
            *value += 1;
            *other += 1;
            if round % 2 == 0 {
                locks.2.wait_while(&mut value, |_| panic!("in the condition"));
            }
            panic!("under two locks");
        });
        assert!(panics.unwrap().join().is_err());
        assert_eq!((*shared.0.try_lock().unwrap(), *shared.1.try_read().unwrap()), (round, round));
    }
}

/// Two numbers, which differ while a writer holds the lock.
type Pair = (usize, usize);

/// spec: C7.2: a lock excludes both workers and other threads.
#[test]
fn locks_exclude() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").max_active(16).build_on(&executor).unwrap();
    let rounds = stress(500);
    let shared = Arc::new((Mutex::new((0, 0)), RwLock::new((0, 0)), AtomicUsize::new(0)));
    let body = move |shared: &(Mutex<Pair>, RwLock<Pair>, AtomicUsize)| {
        let write = |pair: &mut Pair| {
            assert_eq!(pair.0, pair.1);
            pair.0 += 1;
            std::hint::black_box(&pair);
            pair.1 += 1;
        };
        for round in 0..rounds {
            let mut pair = shared.0.lock();
            write(&mut pair);
            if round % 16 == 0 {
                std::thread::yield_now();
                MutexGuard::unlock_fair(pair);
            } else {
                drop(pair);
            }
            if round % 4 == 0 {
                write(&mut shared.1.write());
                bump(&shared.2);
            } else if round % 4 == 1 {
                let pair = shared.1.upgradable_read();
                assert_eq!(pair.0, pair.1);
                write(&mut RwLockUpgradableReadGuard::upgrade(pair));
                bump(&shared.2);
            } else {
                let pair = shared.1.read();
                assert_eq!(pair.0, pair.1);
            }
        }
    };
    let items: Vec<_> = (0..6)
        .map(|_| {
            let shared = Arc::clone(&shared);
            queue.spawn(move || body(&shared)).unwrap()
        })
        .collect();
    std::thread::scope(|scope| drop(scope.spawn(|| body(&shared))));
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!(shared.0.lock().0, 7 * rounds);
    assert_eq!(shared.1.read().1, shared.2.load(Ordering::SeqCst));
}

/// spec: C7.2: a writer sees that readers have released an upgradable lock, even if a thread waits for the lock.
/// ThreadSanitizer runs this test.
#[test]
fn no_reader_of_an_upgradable_lock_sees_the_next_write() {
    let _limit = time_limit();
    let (lock, rounds) = (RwLock::new((0, 0)), stress(500));
    let write = |mut pair: RwLockWriteGuard<'_, Pair>| {
        assert_eq!(pair.0, pair.1);
        pair.0 += 1;
        std::hint::black_box(&pair);
        pair.1 += 1;
    };
    let writes = || (0..rounds).for_each(|_| write(lock.write()));
    std::thread::scope(|scope| {
        let waits = scope.spawn(writes);
        let reads = scope.spawn(|| {
            for round in 0..rounds {
                let mut pair = lock.upgradable_read();
                assert_eq!(pair.0, pair.1);
                match round % 3 {
                    0 => drop(pair),
                    1 => RwLockUpgradableReadGuard::unlock_fair(pair),
                    _ => RwLockUpgradableReadGuard::bump(&mut pair),
                }
            }
        });
        while !(waits.is_finished() && reads.is_finished()) {
            lock.try_write().into_iter().for_each(write);
        }
    });
}

/// spec: C7.2: `bump` of an upgradable guard lets a thread that waits for the lock have it first. parking_lot is fair
/// from time to time, but rarely twice in a short time. The release by the test's own thread is the first time, so the
/// `bump` that follows is seldom fair by chance.
#[test]
fn a_bump_of_an_upgradable_lock_lets_a_waiting_writer_in() {
    let _limit = time_limit();
    let (rounds, mut yielded) = (stress(50), 0);
    let lock = &RwLock::new(0);
    let until_asleep = |thread: mpsc::Receiver<u32>| {
        let thread = thread.recv().unwrap();
        while !is_asleep(thread) {
            std::thread::yield_now();
        }
    };
    for _ in 0..rounds {
        std::thread::scope(|scope| {
            let held = lock.upgradable_read();
            let (tells, bumper) = mpsc::channel();
            let bumps = scope.spawn(move || {
                tells.send(thread_id()).unwrap();
                let mut held = lock.upgradable_read();
                let before = *held;
                RwLockUpgradableReadGuard::bump(&mut held);
                *held > before
            });
            until_asleep(bumper);
            let (tells, writer) = mpsc::channel();
            scope.spawn(move || {
                tells.send(thread_id()).unwrap();
                *lock.write() += 1;
            });
            until_asleep(writer);
            // Wakes the thread that came first.
            drop(RwLockUpgradableReadGuard::downgrade(held));
            yielded += usize::from(bumps.join().unwrap());
        });
    }
    // A thread may have slept for another reason. In a build for ThreadSanitizer, `bump` is not fair.
    assert!(cfg!(cmwq_tsan) || 2 * yielded >= rounds, "{yielded} of {rounds}");
}

/// spec: C7.3: many threads wait for one `notify_all`, which moves them from the condition variable to the mutex. All
/// of them wake up.
#[test]
fn all_waiters_are_woken() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let shared = Arc::new((Mutex::new((0, false)), Condvar::new(), Condvar::new()));
    let items: Vec<_> = (0..20)
        .map(|_| {
            let shared = Arc::clone(&shared);
            let wait = move || {
                let (state, go, arrived) = &*shared;
                let mut state = state.lock();
                state.0 += 1;
                arrived.notify_one();
                go.wait_while(&mut state, |(_, go)| !*go);
                state.0 -= 1;
            };
            queue.spawn(wait).unwrap()
        })
        .collect();
    let (state, go, arrived) = &*shared;
    let mut guard = state.lock();
    arrived.wait_while(&mut guard, |(waiting, _)| *waiting < 20);
    guard.1 = true;
    assert_eq!(go.notify_all(), 20);
    drop(guard);
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!(state.lock().0, 0);
}

/// spec: C7.3: notifications count a cancellable wait only once, even if its thread cannot lock the mutex yet.
#[test]
fn a_cancellable_wait_is_counted_once() {
    let _limit = time_limit();
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = {
        let shared = Arc::clone(&shared);
        move || {
            let mut begins = shared.0.lock();
            *begins = true;
            CancelToken::new().enter(|| shared.1.wait_cancellable(&mut begins))
        }
    };
    let waits = std::thread::spawn(waits);
    let (begins, condvar) = &*shared;
    // The thread has the mutex from here to its wait.
    eventually("the thread waits", || *begins.lock());
    let held = begins.lock();
    assert!(condvar.notify_one());
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
    drop(held);
    assert_eq!(waits.join().unwrap(), Ok(()));
}

/// Guards can be mapped to parts of the data, under this crate's names.
#[test]
fn guards_can_be_mapped() {
    let (mutex, lock) = (Mutex::new((1, 2)), RwLock::new((1, 2)));
    let mut half: MappedMutexGuard<'_, u32> = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    *half = 5;
    drop(half);
    let mut half: MappedRwLockWriteGuard<'_, u32> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
    *half = 6;
    drop(half);
    let half: MappedRwLockReadGuard<'_, u32> = RwLockReadGuard::map(lock.read(), |pair| &pair.0);
    assert_eq!((mutex.lock().1, *half), (5, 6));
    assert_eq!(
        format!("{mutex:?} {:?}", Condvar::default()),
        "Mutex { data: (1, 5) } Condvar(Condvar { .. })"
    );
}
