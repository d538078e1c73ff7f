//! Workers that the detector must not take for asleep, or does not check. The former wait for a CPU. The latter are
//! sleepers that delay no item, workers that do not count, and all workers if detection is off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cmwq::kernel;
use cmwq::{Detection, WorkQueue, blocking};

use crate::detection::{WAYS, check_count, comes_to_rest, looking, modes, sees};
use crate::support::{
    Crowd, Door, Spawns, builder, burn, eventually, falls_quiet_but_for, nap, pool, time_limit,
};

/// After this time, a test concludes that an event does not happen.
const MOMENT: Duration = Duration::from_millis(50);

/// spec: S1.2 (choice on the builder): with detection off, the manager searches for neither sleepers nor hogs.
#[test]
fn without_detection_the_next_item_waits() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for (_, start) in WAYS {
        let (block, end) = start();
        let first = queue.spawn(block).unwrap();
        let second = queue.spawn(|| ()).unwrap().join_timeout(MOMENT).unwrap_err();
        end();
        first.join().unwrap();
        second.join().unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let its_over = Arc::clone(&over);
    let spins = move || {
        while !its_over.load(Ordering::SeqCst) {
            burn(Duration::from_millis(1));
        }
    };
    let first = queue.spawn(spins).unwrap();
    let second = queue.spawn(|| ()).unwrap().join_timeout(2 * MOMENT).unwrap_err();
    over.store(true, Ordering::SeqCst);
    first.join().unwrap();
    second.join().unwrap();
    check_count(&executor, &queue);
}

/// spec: S1.4 (preemption told apart): a worker that waits for a CPU that other threads use does not count as asleep.
/// The test permits some exceptions, because an item that computes may wait for a page.
#[test]
fn a_worker_that_waits_for_a_cpu_is_not_taken_for_asleep() {
    let _limit = time_limit();
    let Some(cpu) = core_affinity::get_core_ids().and_then(|cpus| cpus.into_iter().min_by_key(|cpu| cpu.id))
    else {
        return;
    };
    for mode in modes() {
        let builder = builder("core:1 pu:1").0.detection(mode).hog_threshold(None);
        let executor = builder.build().unwrap();
        if !sees(&executor) {
            return;
        }
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let over = &AtomicBool::new(false);
        let overtaken = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let _where_it_may = core_affinity::set_for_current(cpu);
                    while !over.load(Ordering::SeqCst) {
                        burn(Duration::from_micros(100));
                    }
                });
            }
            let round = |_| {
                let ended = Arc::new(AtomicBool::new(false));
                let ends = Arc::clone(&ended);
                let first = queue.spawn(move || {
                    burn(Duration::from_millis(8));
                    ends.store(true, Ordering::SeqCst);
                });
                let second = queue.spawn(move || !ended.load(Ordering::SeqCst)).unwrap();
                first.unwrap().join().unwrap();
                usize::from(second.join().unwrap())
            };
            let overtaken: usize = (0..10).map(round).sum();
            over.store(true, Ordering::SeqCst);
            overtaken
        });
        assert!(overtaken <= 3, "{mode}: {overtaken} of 10 were replaced while they had work to do");
        check_count(&executor, &queue);
    }
}

/// spec: S1.5 (only suspect pools are watched): the manager does not check workers that sleep as long as no item waits.
#[test]
fn sleepers_that_delay_no_item_are_not_looked_at() {
    let _limit = time_limit();
    for mode in modes() {
        let (builder, prefix) = builder("core:2 pu:1");
        let executor = builder.detection(mode).build().unwrap();
        let doors: Vec<_> = [WorkQueue::per_cpu("p"), WorkQueue::builder("n"), WorkQueue::unbound("u")]
            .into_iter()
            .map(|queue| {
                let door = Door::default();
                let wait = door.clone();
                let item = queue.build_on(&executor).unwrap().spawn(move || wait.wait_unguarded()).unwrap();
                (door, item)
            })
            .collect();
        // While a worker is active, the manager still checks the process's CPUs two or three times a second.
        falls_quiet_but_for(&prefix, 5);
        for (door, item) in doors {
            door.open();
            item.join().unwrap();
        }
    }
}

/// spec: S1.6, Q1 (bh: no concurrency management): an item that sleeps in a bh context is not replaced, so the next
/// item waits.
#[test]
fn a_sleeper_in_a_bh_context_is_not_replaced() {
    let _limit = time_limit();
    let Some(executor) = looking(Detection::Auto) else { return };
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let (block, end) = WAYS[3].1();
    let first = queue.spawn(block).unwrap();
    let second = queue.spawn(|| ()).unwrap().join_timeout(MOMENT).unwrap_err();
    end();
    first.join().unwrap();
    second.join().unwrap();
    comes_to_rest(&executor);
}

/// spec: S1.6, C4, C5: the manager does not check workers that do not count. Workers of plain unbound queues do not
/// count, nor do workers with CPU-intensive items.
#[test]
fn sleepers_that_do_not_count_are_left_alone() {
    let _limit = time_limit();
    let Some(executor) = looking(Detection::Auto) else { return };
    let managed = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let others = [
        WorkQueue::unbound("u").max_active_total(2),
        WorkQueue::per_cpu("c").cpu_intensive(true).max_active(2),
    ];
    for queue in others.map(|queue| queue.build_on(&executor).unwrap()) {
        for _ in 0..10 {
            let crowd = Arc::new(Crowd::default());
            let items: Vec<_> = (0..8)
                .map(|_| {
                    let crowd = Arc::clone(&crowd);
                    let item = move || {
                        crowd.enter();
                        nap(Duration::from_millis(1));
                        blocking::thread::sleep(Duration::from_millis(1));
                        crowd.leave();
                    };
                    queue.spawn(item).unwrap()
                })
                .collect();
            items.into_iter().for_each(|item| item.join().unwrap());
            assert!(crowd.peak() <= 2);
        }
        check_count(&executor, &managed);
    }
}

/// spec: S1.6, P2: a rescuer runs one item after the other, even if the items sleep. The pool's running count is right
/// afterwards.
#[test]
fn rescuers_may_sleep() {
    let _limit = time_limit();
    let spawns = Spawns::failing(..);
    let executor = builder("core:1 pu:1").0.before_spawn(spawns.hook()).build().unwrap();
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    let crowd = Arc::new(Crowd::default());
    let nap = || {
        let crowd = Arc::clone(&crowd);
        move || {
            crowd.enter();
            nap(Duration::from_millis(10));
            crowd.leave();
        }
    };
    let items: Vec<_> = (0..5).map(|_| queue.spawn(nap()).unwrap()).collect();
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!((queue.counters().rescued, crowd.peak()), (5, 1));
    spawns.recover();
    queue.spawn(|| ()).unwrap().join().unwrap();
    eventually("a worker is there", || pool(&executor, "0").workers > 0);
    check_count(&executor, &queue);
}
