//! Concurrency management: how many items run, and which workers are woken, kept or shed.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{Executor, WorkQueue, blocking};

use crate::support::{
    Crowd, Door, builder, burn, current_pool, eventually, holds_within, on_each_executor,
    on_each_executor_unseen, one_cpu, one_cpu_unseen, pool, stress, time_limit, unseen,
};

/// Counts the items that run at the same time, in a `Crowd` for each pool.
#[derive(Clone, Default)]
struct Crowds(Arc<Mutex<HashMap<String, Arc<Crowd>>>>);

impl Crowds {
    fn here(&self) -> Arc<Crowd> {
        Arc::clone(self.0.lock().unwrap().entry(current_pool()).or_default())
    }

    fn peaks(&self) -> HashMap<String, usize> {
        self.0.lock().unwrap().iter().map(|(pool, crowd)| (pool.clone(), crowd.peak())).collect()
    }
}

/// spec: C1.1 (a per-CPU pool runs one item at a time while that item is runnable): the limit holds for all queues that
/// share the pool together.
#[test]
fn a_per_cpu_pool_runs_one_item_at_a_time() {
    on_each_executor_unseen(|executor| {
        let queues =
            [WorkQueue::per_cpu("a"), WorkQueue::per_cpu("b").max_active(3), WorkQueue::per_cpu("c")];
        let queues = queues.map(|queue| queue.build_on(executor).unwrap());
        let crowds = Crowds::default();
        for n in 0..stress(1000) {
            let crowds = crowds.clone();
            let item = move || {
                let crowd = crowds.here();
                crowd.enter();
                burn(Duration::from_micros(20));
                if n % 4 == 0 {
                    // An item that yields the CPU does not block.
                    std::thread::yield_now();
                }
                crowd.leave();
            };
            drop(queues[n % 3].spawn(item).unwrap());
        }
        queues.iter().for_each(|queue| queue.flush().unwrap());
        assert!(crowds.peaks().values().all(|peak| *peak == 1), "{:?}", crowds.peaks());
    });
}

/// spec: C1.2, C2 (when the last running worker blocks and work is pending, another worker starts at once)
#[test]
fn when_the_running_worker_blocks_the_next_item_starts() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound] {
            let queue = kind("q").build_on(executor).unwrap();
            let (door, crowd) = (Door::default(), Arc::new(Crowd::default()));
            let handles: Vec<_> = (0..24)
                .map(|_| {
                    let (door, crowd) = (door.clone(), Arc::clone(&crowd));
                    let item = move || {
                        crowd.enter();
                        door.wait();
                        crowd.leave();
                    };
                    queue.spawn(item).unwrap()
                })
                .collect();
            eventually("all of them wait inside", || crowd.inside() == 24);
            door.open();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        }
    });
}

/// spec: C3.2 (a worker keeps one idle spare before it starts working, so a block costs a wake-up)
#[test]
fn while_one_works_an_idle_spare_stands_by() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound] {
            let queue = kind("q").build_on(executor).unwrap();
            let (door, name) = (Door::default(), Arc::new(Mutex::new(String::new())));
            let (wait, tell) = (door.clone(), Arc::clone(&name));
            let handle = queue.spawn(move || {
                *tell.lock().unwrap() = current_pool();
                wait.wait_unguarded();
            });
            eventually("the item began", || !name.lock().unwrap().is_empty());
            let name = name.lock().unwrap().clone();
            eventually("a spare is there", || {
                let pool = pool(executor, &name);
                pool.idle >= 1 && pool.workers > pool.idle
            });
            door.open();
            handle.unwrap().join().unwrap();
        }
    });
}

/// spec: C3.2: once a pool has enough workers, blocking makes no more threads.
#[test]
fn a_warm_pool_makes_no_more_threads() {
    let _limit = time_limit();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let (builder, _) = builder("core:1 pu:1");
    let builder = builder.on_thread_start(move || crate::support::bump(&count));
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let settled = || {
        let pool = pool(&executor, "0");
        pool.idle == pool.workers && !pool.creating && pool.waking == 0
    };
    // Two items that block one after the other need two workers, and the pool keeps a spare.
    let round = || {
        let (one, two) = (Door::default(), Door::default());
        let (wait, opens) = (one.clone(), two.clone());
        let first = queue.spawn(move || {
            wait.wait();
            opens.open();
        });
        let second = queue.spawn(move || {
            one.open();
            two.wait();
        });
        first.unwrap().join().unwrap();
        second.unwrap().join().unwrap();
        eventually("all are idle", settled);
    };
    (0..20).for_each(|_| round());
    let warm = made.load(Ordering::SeqCst);
    (0..200).for_each(|_| round());
    let most = 4;
    assert!(warm <= most && made.load(Ordering::SeqCst) <= most, "{warm}, {made:?}");
}

/// spec: C3.3 (workers returning from a block may overshoot and are shed at the end of their item)
#[test]
fn returning_workers_overshoot_and_are_shed() {
    let _limit = time_limit();
    for round in 0..stress(5) {
        let executor = one_cpu_unseen();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let (door, inside) = (Door::default(), Arc::new(Crowd::default()));
        let blocked: Vec<_> = (0..8)
            .map(|n| {
                let (door, inside) = (door.clone(), Arc::clone(&inside));
                let item = move || {
                    inside.enter();
                    door.wait();
                    burn(Duration::from_micros(200 * (n + round as u64 % 3)));
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        eventually("all of them wait inside", || inside.inside() == 8);
        let runnable = Arc::new(Crowd::default());
        let later: Vec<_> = (0..40)
            .map(|n| {
                let (runnable, door) = (Arc::clone(&runnable), door.clone());
                let item = move || {
                    runnable.enter();
                    if n == 3 {
                        door.open();
                    }
                    burn(Duration::from_micros(50));
                    runnable.leave();
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        blocked.into_iter().chain(later).for_each(|handle| handle.join().unwrap());
        assert_eq!(runnable.peak(), 1, "a worker took an item while more than one ran");
        eventually("the count is right", || pool(&executor, "0").running == 0);
    }
}

/// spec: C4.1 (cpu_intensive items do not count while they run), Q2.1
#[test]
fn cpu_intensive_items_do_not_keep_others_from_running() {
    on_each_executor(|executor| {
        let heavy = WorkQueue::per_cpu("heavy").cpu_intensive(true).build_on(executor).unwrap();
        let light = WorkQueue::per_cpu("light").build_on(executor).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let inside = Arc::new(Crowd::default());
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                let (stop, inside) = (Arc::clone(&stop), Arc::clone(&inside));
                let item = move || {
                    inside.enter();
                    while !stop.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    // A guard inside such an item changes nothing.
                    blocking(|| ());
                };
                heavy.spawn(item).unwrap()
            })
            .collect();
        eventually("all hogs share the CPUs", || inside.inside() == 4);
        (0..4).for_each(|_| light.spawn(|| ()).unwrap().join().unwrap());
        stop.store(true, Ordering::SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

/// spec: C4.2 (their start is still regulated, timeline d)
#[test]
fn the_start_of_cpu_intensive_items_is_regulated() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let light = WorkQueue::per_cpu("light").build_on(&executor).unwrap();
    let heavy = WorkQueue::per_cpu("heavy").cpu_intensive(true).build_on(&executor).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (wait, tell) = (door.clone(), begun.clone());
    let runs = light.spawn(move || {
        tell.open();
        wait.wait_unguarded();
    });
    begun.wait();
    let starts = heavy.spawn(|| ()).unwrap();
    let starts = starts.join_timeout(Duration::from_millis(30)).unwrap_err();
    door.open();
    runs.unwrap().join().unwrap();
    starts.join().unwrap();
    eventually("the count is right", || pool(&executor, "0").running == 0);
}

/// spec: C5.1 (managed unbound: at most as many runnable items per pod as the pod has CPUs)
#[test]
fn a_managed_pod_runs_as_many_items_as_it_has_cpus() {
    on_each_executor_unseen(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let crowds = Crowds::default();
        for n in 0..stress(1500) {
            let crowds = crowds.clone();
            let item = move || {
                let crowd = crowds.here();
                crowd.enter();
                burn(Duration::from_micros(30));
                if n % 3 == 0 {
                    std::thread::yield_now();
                }
                crowd.leave();
            };
            drop(queue.spawn(item).unwrap());
        }
        queue.flush().unwrap();
        for (name, peak) in crowds.peaks() {
            let target = pool(executor, &name).target.unwrap();
            assert!(peak <= target, "{peak} items at once in pool {name} of {target} CPUs");
        }
    });
}

/// spec: C5.1: the items use all CPUs of the pod, and blocked items do not count.
#[test]
fn a_managed_pod_uses_all_of_its_cpus() {
    let _limit = time_limit();
    for count in [1, 2, 8] {
        let executor = unseen(builder(&format!("l3:1 core:{count} pu:1")).0)
            .random_placement(count as u64)
            .build()
            .unwrap();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let (door, blocked) = (Door::default(), Arc::new(Crowd::default()));
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let (door, blocked) = (door.clone(), Arc::clone(&blocked));
                let item = move || {
                    blocked.enter();
                    door.wait();
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        eventually("ten are blocked", || blocked.inside() == 10);
        // There is one more item than there are CPUs, so the last item has to wait.
        let (running, free) = (Arc::new(Crowd::default()), Door::default());
        let spinning: Vec<_> = (0..=count)
            .map(|_| {
                let (running, free) = (Arc::clone(&running), free.clone());
                let item = move || {
                    running.enter();
                    free.wait_unguarded();
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        eventually("as many items run as there are CPUs", || running.inside() == count);
        assert!(!holds_within(Duration::from_millis(30), || running.inside() > count));
        free.open();
        door.open();
        waiting.into_iter().chain(spinning).for_each(|handle| handle.join().unwrap());
    }
}

/// spec: C5.4 (plain unbound starts items as soon as possible, up to max_active)
#[test]
fn a_plain_unbound_queue_starts_everything_up_to_max_active() {
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").max_active_total(20).build_on(executor).unwrap();
        let (door, crowd) = (Door::default(), Arc::new(Crowd::default()));
        let handles: Vec<_> = (0..30)
            .map(|_| {
                let (door, crowd) = (door.clone(), Arc::clone(&crowd));
                let item = move || {
                    crowd.enter();
                    // The item waits without a guard, so it counts as running.
                    door.wait_unguarded();
                    crowd.leave();
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        eventually("max_active have started", || crowd.inside() == 20);
        door.open();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(crowd.peak(), 20);
    });
}

/// Gives the pool at least `count` workers, which are busy at the same time and then idle.
fn crowd_of_workers(queue: &WorkQueue, count: usize) {
    let (door, crowd) = (Door::default(), Arc::new(Crowd::default()));
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let (door, crowd) = (door.clone(), Arc::clone(&crowd));
            let item = move || {
                crowd.enter();
                door.wait();
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    eventually("all of them wait inside", || crowd.inside() == count);
    door.open();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn idle_of(executor: &Executor) -> (usize, usize) {
    let pool = pool(executor, "0");
    (pool.workers, pool.idle)
}

/// spec: C8.1 (kept for the idle timeout and culled beyond 2 + busy/4)
#[test]
fn idle_workers_are_culled_down_to_two() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.idle_timeout(Duration::from_millis(40)).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..2 {
        crowd_of_workers(&queue, 12);
        eventually("two are left", || idle_of(&executor) == (2, 2) && executor.dump().threads == 2);
        assert_eq!(queue.spawn(|| 1).unwrap().join().unwrap(), 1);
    }
}

/// spec: C8.1, E2.4: one more idle worker stays for every `idle_ratio` busy ones.
#[test]
fn busy_workers_keep_idle_ones() {
    let _limit = time_limit();
    for (ratio, kept) in [(4, 4), (2, 6), (100, 2)] {
        let builder = builder("core:1 pu:1").0.idle_timeout(Duration::from_millis(20));
        let executor = builder.idle_ratio(NonZeroUsize::new(ratio).unwrap()).build().unwrap();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let (door, crowd) = (Door::default(), Arc::new(Crowd::default()));
        let busy: Vec<_> = (0..9)
            .map(|_| {
                let (door, crowd) = (door.clone(), Arc::clone(&crowd));
                let item = move || {
                    crowd.enter();
                    door.wait();
                };
                queue.spawn(item).unwrap()
            })
            .collect();
        eventually("nine are busy", || crowd.inside() == 9);
        crowd_of_workers(&queue, 15);
        // With nine busy workers, idle ones stay as long as (idle - 2) * ratio < 9: 2 + 9/4 or 2 + 9/2.
        let limit = if ratio == 100 { 2 } else { 2 + 9_usize.div_ceil(ratio) - 1 };
        assert_eq!(limit, kept);
        eventually("the other idle workers ended", || idle_of(&executor) == (9 + kept, kept));
        door.open();
        busy.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

/// spec: C8.1 (kept for the idle timeout)
#[test]
fn idle_workers_stay_until_the_timeout() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    crowd_of_workers(&queue, 12);
    eventually("all are idle", || idle_of(&executor).0 >= 12 && idle_of(&executor).0 == idle_of(&executor).1);
    assert!(!holds_within(Duration::from_millis(100), || idle_of(&executor).0 < 12));
}
