//! Tests of what threads do with a pool: when they take the pool's lock, and which thread gives up the pool's entries.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::engine::queue::workqueue::QueueKind;
use crate::policy::attrs::PoolAttrs;
use crate::policy::idle_set::Wake;
use crate::policy::late::LATE;
use crate::policy::quota::Quota;
use crate::policy::room::Shortage;
use crate::policy::time::Time;
use crate::sys::machine::{Config, locks_taken, run};
use crate::sys::wait::Until;
use crate::sys::{clock, thread};
use crate::{
    AffinityScope, Detection, Executor, JoinError, TopologySource, Work, WorkQueue, blocking, may_block,
};
use testkit::{SOON, eventually};

use super::worker_pool::*;

/// The number of items in a batch. A batch may push more items than this at once, and more items than this may be
/// active.
const ITEMS: usize = 200;

/// Makes an executor without detection. The executor's pools know only the blocks that items declare.
fn executor(machine: &str) -> Executor {
    let builder = Executor::builder().topology(TopologySource::Synthetic(machine.into()));
    builder.detection(Detection::Off).hog_threshold(None).build().unwrap()
}

/// spec: C2.6 (no wait for a lock of the executor while nothing is pending): an item enters and leaves guards of both
/// kinds, and takes no lock of this crate meanwhile. So the item waits for no lock, no matter which locks other threads
/// hold.
#[test]
fn a_guard_takes_no_lock_while_nothing_is_pending() {
    let taken_by = |action: &dyn Fn()| {
        let before = locks_taken();
        action();
        locks_taken() - before
    };
    for builder in [WorkQueue::per_cpu("p"), WorkQueue::builder("n"), WorkQueue::unbound("u")] {
        let executor = executor("l3:2 core:1 pu:1");
        let queue = builder.build_on(&executor).unwrap();
        let item = queue.spawn(move || {
            taken_by(&|| {
                blocking(|| may_block(|| blocking(|| ())));
                may_block(|| ());
            })
        });
        assert_eq!(item.unwrap().join().unwrap(), 0, "a guard takes a lock: {}", queue.name());
        let pools = executor.inner.upkeep.pools.all();
        assert_eq!(taken_by(&|| drop(pools[0].state.lock())), 1, "locks are counted");
    }
}

/// Checks that all items of a batch are on the worklist before the issuer takes the pool's lock to wake a worker.
#[track_caller]
fn is_pushed_whole(pool: &Pool, batch: impl FnOnce() + Send) {
    eventually("all workers are idle", || {
        let counts = pool.counts().0;
        let (running, waking) = (counts.running.running(), counts.running.waking());
        (running, waking, counts.creating) == (0, 0, false) && counts.idle == counts.workers
    });
    std::thread::scope(|scope| {
        let state = pool.state.lock();
        let issuer = scope.spawn(batch);
        eventually("all items are pushed", || pool.pending() == ITEMS);
        drop(state);
        issuer.join().unwrap();
    });
}

/// spec: W8.6 (one wake-up decision for a batch): the issuer pushes all items of a batch before it takes the pool's
/// lock to wake a worker.
#[test]
fn a_batch_is_pushed_before_a_worker_is_woken() {
    let executor = executor("core:1 pu:1");
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    let pools = executor.inner.upkeep.pools.all();
    let [pool] = &pools[..] else { panic!("one pool: {pools:?}") };
    is_pushed_whole(pool, || drop(queue.items((0..ITEMS).map(|_| || ())).spawn().unwrap()));
    queue.flush().unwrap();
    is_pushed_whole(pool, || queue.items((0..ITEMS).map(|_| || ())).spawn_detached().unwrap());
    queue.flush().unwrap();
    let works: Vec<_> = (0..ITEMS).map(|_| Work::new(|| ())).collect();
    is_pushed_whole(pool, || assert_eq!(queue.items(&works).enqueue(), Ok(ITEMS)));
    queue.flush().unwrap();
}

/// spec: E2.5 (work waits, never for ever): after a pool has waited for a thread and got one, its next wait begins at
/// zero.
#[test]
fn a_pool_that_gets_a_thread_begins_its_wait_anew() {
    let executor = executor("core:1 pu:1");
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    let pools = executor.inner.upkeep.pools.all();
    let (pool, begun, refused) = (&pools[0], 7, clock::now());
    // The manager may still make a spare worker, and thereby end a wait. So a wait begins and ends under one lock.
    let is_stuck = |times: &[Time]| {
        let mut state = pool.state.lock();
        times.iter().map(|&at| state.famine.refused(begun, at)).collect::<Vec<_>>()
    };
    assert_eq!(is_stuck(&[refused, refused + SOON]), [false, true]);
    pool.has_room();
    assert_eq!(is_stuck(&[refused + SOON]), [false]);
}

/// Two workers of a pool are on their way, and the first of them is late. No thread is left for the first worker, and
/// the work for which it was requested is gone. Therefore the manager has to check earlier than planned whether the
/// second worker is late.
#[test]
fn a_worker_for_which_there_is_no_room_may_bring_the_next_check_forward() {
    run(Config::new(2), || {
        let executor = executor("l3:2 core:1 pu:1");
        let attrs = PoolAttrs {
            managed: true,
            scope: AffinityScope::Cache,
            strict: false,
            nice: 0,
            cpus: executor.inner.cpus.clone(),
        };
        let choice = executor.inner.pool_for(&QueueKind::Unbound(attrs), 0, &mut None);
        let (pool, now) = (&choice.pool, clock::now());
        let reserved = pool.running.reserve().expect("the pool has room");
        let mut state = pool.state.lock();
        state.late.woke(now);
        state.late.woke(now);
        assert!(state.late.look(now + SOON));
        assert_eq!(state.idle_set.kick(reserved, None, clock::now), Wake::Create);
        let known = state.unknown_deadline();
        drop(state);
        pool.tell_deadline(known);
        assert!(known > Some(now + LATE));
        assert_eq!(pool.no_room(now), Shortage::None);
        assert_eq!(pool.state.lock().known_deadlines.all().last(), Some(&(now + LATE)));
        drop(choice);
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// spec: E5.3 (returns what did not finish in time): until the thread that abandons a pool has emptied the pool, no
/// other thread takes an entry. If another thread took an entry, a shutdown could report the entry's item as running.
/// After the pool is emptied, a thread that pushes an entry leaves no entry on the worklist.
#[test]
fn an_abandoned_pool_is_emptied_by_one_thread_first() {
    let executor = executor("core:1 pu:1");
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (begin, begun) = mpsc::channel();
    let (open, door) = mpsc::channel::<()>();
    let holds = queue.spawn(move || {
        begin.send(()).unwrap();
        door.recv().unwrap_err();
    });
    begun.recv().unwrap();
    let spawn = || queue.spawn(|| ()).unwrap();
    let mut items = vec![spawn(), spawn(), spawn()];
    let pools = executor.inner.upkeep.pools.all();
    let pool = &pools[0];
    assert_eq!(pool.abandon().len(), 0);
    pool.look();
    items.push(spawn());
    assert_eq!(pool.pending(), 4, "the entries are left to the thread that abandons the pool");
    pool.empty();
    assert_eq!(pool.pending(), 0);
    items.push(spawn());
    assert_eq!(pool.pending(), 0, "no other thread would give up this entry");
    assert!(items.into_iter().all(|item| matches!(item.join(), Err(JoinError::Cancelled))));
    drop(open);
    holds.unwrap().join().unwrap();
}

/// spec: E2.5 (work waits, never for ever), A3: while a thread makes the manager, no pool gets a new worker. A pool
/// that offers its items in this time gets no helper. The offer ends nevertheless, and the items run once the manager
/// exists.
#[test]
fn offers_end_although_no_worker_can_be_made() {
    run(Config::new(2), || {
        let executor = executor("l3:2 core:1 pu:1");
        let manager = &executor.inner.core.manager;
        manager.hide();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let mut items = vec![queue.spawn(|| ()).unwrap()];
        let pools = executor.inner.upkeep.pools.all();
        let home = pools.iter().find(|pool| pool.pending() == 1).expect("it has no worker");
        // The thread that makes the manager holds this reservation.
        let reserved = home.running.reserve().expect("the pool has room");
        items.extend([(); 3].map(|()| queue.spawn(|| ()).unwrap()));
        assert_eq!(home.pending(), 4);
        home.drop_reservation(reserved);
        pools.iter().for_each(|pool| pool.look());
        assert!(items.iter().all(|item| !item.is_finished()));
        manager.appear();
        items.into_iter().for_each(|item| item.join().unwrap());
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// spec: E5.3 (drops unfinished items), A3: the two marks of an abandoned pool are set in one critical section. If a
/// thread found the mark of the sideline without the mark of the running word, a sibling could offer its work to this
/// pool, be refused, and offer the work again from inside of the refused offer, until the stack overflowed.
#[test]
fn a_thread_with_the_lock_finds_both_marks_of_an_abandoned_pool_or_none() {
    for seed in 0..100 {
        run(Config::new(2).seed(seed), || {
            let executor = executor("core:1 pu:1");
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            queue.spawn(|| ()).unwrap().join().unwrap();
            let pool = Arc::clone(&executor.inner.upkeep.pools.all()[0]);
            let its_pool = Arc::clone(&pool);
            let abandon = move || assert!(its_pool.abandon().is_empty());
            let abandons = thread::spawn("abandons".to_owned(), None, abandon).unwrap();
            let mut is_abandoned = false;
            while !is_abandoned {
                let state = pool.state.lock();
                is_abandoned = state.sideline.is_abandoned();
                let word = pool.running.load();
                drop(state);
                assert_eq!(is_abandoned, word.is_abandoned(), "one mark without the other, seed {seed}");
            }
            thread::join(abandons, Until::FOREVER).unwrap();
            pool.empty();
            executor.shutdown(Duration::MAX).unwrap();
        });
    }
}

/// spec: S5.4 (a quota ends the cover): a check of a pool sees whether a quota gives the pool fewer CPUs than it has.
#[test]
fn a_check_sees_whether_a_quota_limits_the_pool() {
    run(Config::new(4), || {
        let executor = executor("l3:1 core:4 pu:1");
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        queue.spawn(|| ()).unwrap().join().unwrap();
        let pool = Arc::clone(&executor.inner.upkeep.pools.all()[0]);
        let environment = &executor.inner.core.environment;
        for (quota, target, is_limited) in [
            (None, 4, false),
            (Quota::new(200_000, 100_000), 2, true),
            (Quota::new(900_000, 100_000), 4, false),
        ] {
            if let Some(changed) = environment.present().cpus.seen(None, quota) {
                pool.adapt(&environment.change(changed));
            }
            let look = pool.observe().0;
            assert_eq!((look.cpus, look.is_limited), (Some(target), is_limited), "{quota:?}");
        }
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
    });
}
