//! Models of [`RunningCell`](crate::protocol::running::RunningCell) and [`IdleSet`](crate::policy::idle_set::IdleSet):
//! how workers are woken and park.
//!
//! Issuers push items. Meanwhile workers go idle, find at their start that the pool is full, or are woken by
//! reservations that they have made themselves. Every item must run. A lost wake-up shows as a deadlock. In these
//! models, the manager watches only *brisk* pools, whose items are short. The reason is that a push that sets the
//! watched bit is a read-modify-write, so this push would see more than a usual push sees.
//!
//! Red under: `push-without-fence`, `look-without-fence`, `kick-without-cas`, `leave-in-two-steps`,
//! `start-keeps-reservation`, `rest-ignores-owed`, `retarget-without-look`, `cover-without-look`,
//! `short-in-two-steps`, `starves-again-and-again`, `not-brisk-without-fence`,
//! `unwatched-but-checked-soon`.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::pool::Pool;
use super::{Event, check, check_all};
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::running::RunningCell;

fn spawn_worker(pool: &Arc<Pool>, id: u32) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || pool.work(id, || ()))
}

/// An item arrives while the only worker is about to rest.
#[test]
fn an_item_is_pushed_while_the_worker_goes_idle() {
    check_all(|| {
        let pool = Arc::new(Pool::new(Running::managed(1).unwatchable(), 1, 1));
        let worker = spawn_worker(&pool, pool.start_one());
        pool.push();
        worker.join().unwrap();
        pool.assert_quiet();
    });
}

/// A burst of items wakes one worker, and that worker runs all items of the burst.
#[test]
fn all_items_of_a_burst_run() {
    check(4, || {
        let pool = Arc::new(Pool::new(Running::managed(1).unwatchable(), 1, 2));
        let worker = spawn_worker(&pool, 0);
        pool.push();
        pool.push();
        worker.join().unwrap();
        pool.assert_quiet();
    });
}

/// Two issuers push items while the only worker runs. The worker takes these items, or is woken for them.
#[test]
fn two_items_are_pushed_while_the_worker_goes_idle() {
    check(3, || {
        let pool = Arc::new(Pool::new(Running::managed(1).unwatchable(), 1, 2));
        let worker = spawn_worker(&pool, pool.start_one());
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        pool.push();
        issuer.join().unwrap();
        worker.join().unwrap();
        pool.assert_quiet();
    });
}

/// A reservation can be made while no worker is idle. Such a reservation waits for a worker, and the next worker that
/// rests uses it.
#[test]
fn two_items_are_pushed_while_two_workers_go_idle() {
    check(2, || {
        let pool = Arc::new(Pool::new(Running::managed(2).unwatchable(), 2, 2));
        let [first, second] = [pool.start_one(), pool.start_one()].map(|id| spawn_worker(&pool, id));
        pool.push();
        pool.push();
        first.join().unwrap();
        second.join().unwrap();
        pool.assert_quiet();
    });
}

/// In a pool without a target, a push can make a reservation while the only worker is busy. The reservation waits until
/// that worker rests.
#[test]
fn a_reservation_waits_for_a_worker_that_rests() {
    check_all(|| {
        let pool = Arc::new(Pool::new(Running::unmanaged().unwatchable(), 1, 1));
        let worker = spawn_worker(&pool, pool.start_one());
        pool.push();
        worker.join().unwrap();
        pool.assert_quiet();
    });
}

/// A pool without a target starts items as soon as possible, and wakes one worker at a time. The first item waits for
/// the second item, so each worker that starts must ensure that the next worker is woken.
#[test]
fn a_pool_without_a_target_starts_every_item() {
    check(2, || {
        let pool = Arc::new(Pool::new(Running::unmanaged().unwatchable(), 2, 2));
        let begun = Arc::new(AtomicU64::new(0));
        let second = Arc::new(Event::new());
        let workers = [0, 1].map(|id| {
            let (pool, begun, second) = (pool.clone(), begun.clone(), second.clone());
            thread::spawn(move || {
                pool.work(id, || match begun.fetch_add(1, Ordering::Relaxed) {
                    0 => second.wait(),
                    _ => second.set(),
                });
            })
        });
        pool.push();
        pool.push();
        for worker in workers {
            worker.join().unwrap();
        }
        pool.assert_quiet();
    });
}

/// One worker runs an item that never ends. Meanwhile, an issuer pushes an item, and another thread calls `makes_room`.
/// Only this call gives the pool room for a second running worker. Either the issuer sees that the pool has room, or
/// the other thread sees the item.
fn an_item_is_pushed_while(makes_room: fn(&Pool)) {
    check(3, move || {
        let pool = Arc::new(Pool::new(Running::managed(1).unwatchable(), 2, 1));
        let busy = pool.start_one();
        let worker = spawn_worker(&pool, 1 - busy);
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        makes_room(&pool);
        issuer.join().unwrap();
        worker.join().unwrap();
        assert!(!pool.list.has_work());
    });
}

/// spec: A5.4
#[test]
fn an_item_is_pushed_while_the_target_is_raised() {
    an_item_is_pushed_while(|pool| pool.retarget(2));
}

/// spec: S5.4
#[test]
fn an_item_is_pushed_while_the_pool_becomes_covered() {
    an_item_is_pushed_while(|pool| pool.cover(true));
}

/// The pool sheds a surplus worker, which leaves the count between two items, while another item arrives.
///
/// spec: A5.4
#[test]
fn an_item_is_pushed_while_the_target_is_lowered() {
    check(1, || {
        let pool = Arc::new(Pool::new(Running::managed(2).unwatchable(), 2, 3));
        pool.list.push();
        pool.list.push();
        let workers = [pool.start_one(), pool.start_one()].map(|id| spawn_worker(&pool, id));
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        pool.retarget(1);
        issuer.join().unwrap();
        for worker in workers {
            worker.join().unwrap();
        }
        pool.assert_quiet();
    });
}

/// Returns the word of a pool of two CPUs that is *brisk* (its items are short), and in which one worker runs.
fn brisk_with_a_worker() -> Arc<RunningCell> {
    let running = Arc::new(RunningCell::new(Running::managed(2)));
    let Kick::Wake(reserved) = running.pushed() else { panic!("the pool is empty") };
    assert!(running.start(reserved) && running.brisk());
    running
}

/// A brisk pool leaves new items, which are usually short, to its running workers. But the present item of its only
/// running worker turns out to be long. An issuer leaves an item to this worker while the manager notes that the pool
/// is not brisk any more. One of these two threads wakes another worker.
///
/// spec: C3.4
#[test]
fn an_item_that_is_left_to_a_worker_meets_the_end_of_briskness() {
    check_all(|| {
        let (running, pushed) = (brisk_with_a_worker(), Arc::new(AtomicU64::new(0)));
        let issuer = {
            let (running, pushed) = (running.clone(), pushed.clone());
            thread::spawn(move || {
                pushed.fetch_add(1, Ordering::Release);
                matches!(running.pushed(), Kick::Wake(_))
            })
        };
        assert!(running.not_brisk());
        let sees_item = pushed.load(Ordering::Acquire) > 0;
        let wakes = sees_item && matches!(running.pushed(), Kick::Wake(_));
        assert!(issuer.join().unwrap() || wakes, "the item waits until the long item ends");
    });
}

/// A new manager does not know that its predecessor watched the brisk pool. Meanwhile a worker finds that the pool's
/// items are short, and leaves an item to the running workers. If no thread wakes a worker for this item, the pool is
/// brisk, and the worker that left the item tells the new manager of the pool.
///
/// spec: C3.4
#[test]
fn short_items_meet_the_end_of_the_watch() {
    check_all(|| {
        let (running, pushed) = (brisk_with_a_worker(), Arc::new(AtomicU64::new(0)));
        let worker = {
            let (running, pushed) = (running.clone(), pushed.clone());
            thread::spawn(move || {
                let tells = running.brisk();
                pushed.fetch_add(1, Ordering::Release);
                (tells, matches!(running.pushed(), Kick::Wake(_)))
            })
        };
        running.unwatch();
        let wakes = matches!(running.look(|| pushed.load(Ordering::Acquire) > 0), Kick::Wake(_));
        let (tells, worker_wakes) = worker.join().unwrap();
        assert!(wakes || worker_wakes || running.load().is_brisk() && tells, "the item waits for ever");
        assert!(tells || !running.load().is_brisk(), "the pool is brisk, and the manager does not check it");
    });
}

/// A worker runs. The pool has asked for a second worker, but the manager has no room for it. While the manager notes
/// this, the first worker leaves the count although work is pending. Either the manager sees that no worker runs, or
/// the first worker tells the manager that the pool starves.
///
/// spec: E2.5 (work waits, never for ever)
#[test]
fn the_manager_learns_that_a_pool_begins_to_starve() {
    check_all(|| {
        let running = Arc::new(RunningCell::new(Running::managed(1).unwatchable()));
        let reserve = || match running.pushed() {
            Kick::Wake(reserved) => reserved,
            other => panic!("an empty pool reserves a worker, not {other:?}"),
        };
        assert!(running.start(reserve()));
        // The worker blocks, another worker is reserved, and the first worker comes back before the second worker can
        // be made.
        running.leave();
        let _owed = reserve();
        running.come_back();
        let worker = {
            let running = running.clone();
            thread::spawn(move || {
                running.leave();
                running.look(|| true) == Kick::Starve
            })
        };
        let is_known = running.short();
        let is_told = worker.join().unwrap();
        assert!(is_known || is_told, "the pool starves, and the manager does not know");
    });
}

/// A pool has asked for two workers. The manager has no room for one of them, and the other worker is on its way. An
/// issuer finds that no worker runs, and tells the manager. The manager sees that the other worker is on its way, and
/// again sets the *short* bit, which marks a pool that was refused a worker. Meanwhile the other worker starts, and
/// leaves the count of running workers. In the end, either the manager knows that no worker runs, or this worker tells
/// the manager again. The issuer tells the manager only once.
///
/// spec: E2.5 (work waits, never for ever)
#[test]
fn a_worker_on_its_way_passes_the_news_on() {
    check_all(|| {
        let running = Arc::new(RunningCell::new(Running::managed(2).unwatchable()));
        let reserve = || match running.pushed() {
            Kick::Wake(reserved) => reserved,
            other => panic!("an empty pool reserves a worker, not {other:?}"),
        };
        let (_owed, coming) = (reserve(), reserve());
        // In a real pool, the idle set knows which workers are on their way, and the pool's lock protects the idle set.
        let on_its_way = Arc::new(Mutex::new(true));
        assert!(running.short());
        let worker = {
            let (running, on_its_way) = (running.clone(), on_its_way.clone());
            thread::spawn(move || {
                *on_its_way.lock().unwrap() = false;
                assert!(running.start(coming));
                running.leave();
                running.look(|| true) == Kick::Starve
            })
        };
        let tells = running.look(|| true) == Kick::Starve;
        let is_known = tells && {
            let on_its_way = on_its_way.lock().unwrap();
            running.short() && !*on_its_way
        };
        if tells {
            assert_ne!(running.look_further(|| true), Kick::Starve, "the manager was told a moment ago");
        }
        let is_told = worker.join().unwrap();
        assert!(is_known || is_told, "the pool starves, and the manager does not know");
    });
}
