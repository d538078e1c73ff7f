//! The system queues that every executor has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cmwq::kernel::{self, ExecutorBuilderExt, ExecutorExt};
use cmwq::{Executor, WorkQueue};

use crate::support::{
    Door, builder, bump, current_pool, eventually, no_thread_of, on_each_executor, one_cpu, time_limit,
};

type Choice = fn(&Executor) -> &WorkQueue;

/// For each system queue: its function, its name, and the pools that run its items on an executor with one CPU. The
/// first pool is that of a default executor, and the second one that of a power-efficient executor.
const QUEUES: [(Choice, &str, [&str; 2]); 9] = [
    (Executor::events, "events", ["0", "0"]),
    (Executor::events_highpri, "events_highpri", ["0H", "0H"]),
    (Executor::events_long, "events_long", ["0", "0"]),
    (Executor::events_unbound, "events_unbound", ["u", "u"]),
    (Executor::events_freezable, "events_freezable", ["0", "0"]),
    (Executor::events_power_efficient, "events_power_efficient", ["0", "u"]),
    (Executor::events_freezable_power_efficient, "events_freezable_power_efficient", ["0", "u"]),
    (Executor::events_bh, "events_bh", ["bh0", "bh0"]),
    (Executor::events_bh_highpri, "events_bh_highpri", ["bh0H", "bh0H"]),
];

/// spec: Q5.1: the system queues have their names, and run their items in the right pools.
#[test]
fn every_executor_has_the_system_queues() {
    let _limit = time_limit();
    for power_efficient in [false, true] {
        let executor = builder("core:1 pu:1").0.power_efficient(power_efficient).build().unwrap();
        for (choose, name, pools) in QUEUES {
            let queue = choose(&executor);
            assert_eq!(queue.name(), name);
            let pool = queue.spawn(current_pool).unwrap().join().unwrap();
            let unbound = pool.starts_with('u');
            let kind = if unbound { "u" } else { &pool };
            assert_eq!(kind, pools[usize::from(power_efficient)], "{name}");
        }
    }
}

/// spec: Q5.2 (made lazily): each system queue is made once, by its first caller. All clones of an executor have the
/// same system queues, and other executors have queues of their own.
#[test]
fn a_system_queue_is_made_once_for_each_executor() {
    let _limit = time_limit();
    let (executor, other) = (one_cpu(), one_cpu());
    for (choose, name, _) in QUEUES {
        let here = |queue: &WorkQueue| std::ptr::from_ref(queue) as usize;
        let asked: Vec<usize> = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| here(choose(&executor.clone())))).collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        assert!(asked.iter().all(|queue| *queue == here(choose(&executor))), "{name}");
        assert_ne!(here(choose(&executor)), here(choose(&other)), "{name}");
    }
    assert!(executor.dump().pools.is_empty(), "a queue without items costs no pool");
}

/// spec: Q5.1: a flush of one queue does not wait for the items of another.
#[test]
fn system_queues_are_flushed_separately() {
    let _limit = time_limit();
    let executor = one_cpu();
    let door = Door::default();
    let wait = door.clone();
    let long = executor.events_long().spawn(move || wait.wait()).unwrap();
    drop(executor.events().spawn(|| ()).unwrap());
    executor.events().flush().unwrap();
    assert!(!long.is_finished());
    door.open();
    executor.events_long().flush().unwrap();
}

/// spec: Q5.2, E1: system queues do not keep their executor alive, but their accepted items still run.
#[test]
fn an_executor_ends_with_its_system_queues() {
    let _limit = time_limit();
    let runs = Arc::new(AtomicUsize::new(0));
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    for (choose, ..) in QUEUES {
        for _ in 0..10 {
            let runs = Arc::clone(&runs);
            drop(choose(&executor).spawn(move || bump(&runs)).unwrap());
        }
    }
    drop(executor);
    eventually("all items have run", || runs.load(Ordering::SeqCst) == 10 * QUEUES.len());
    eventually("all threads have ended", || no_thread_of(&prefix));
}

/// spec: Q5.2, E1: an item on a system queue may hold the last handle of this queue's executor.
#[test]
fn an_item_of_a_system_queue_may_hold_the_last_executor() {
    on_each_executor(|executor| {
        let cpus = executor.cpus().len();
        let (builder, prefix) = builder(&format!("core:{cpus} pu:1"));
        let mine = builder.build().unwrap();
        let inside = mine.clone();
        let item = mine.events().spawn(move || {
            let again = inside.events().spawn(|| 7).unwrap();
            drop(inside);
            again.join().unwrap()
        });
        drop(mine);
        assert_eq!(item.unwrap().join().unwrap(), 7);
        eventually("all threads have ended", || no_thread_of(&prefix));
    });
}

/// spec: Q5.1: the functions of `cmwq::kernel` return the queues of the global executor.
#[test]
fn the_global_system_queues_are_those_of_the_global_executor() {
    let _limit = time_limit();
    let queues: [fn() -> &'static WorkQueue; 9] = [
        kernel::events,
        kernel::events_highpri,
        kernel::events_long,
        kernel::events_unbound,
        kernel::events_freezable,
        kernel::events_power_efficient,
        kernel::events_freezable_power_efficient,
        kernel::events_bh,
        kernel::events_bh_highpri,
    ];
    for (queue, (choose, name, _)) in queues.into_iter().zip(QUEUES) {
        assert!(std::ptr::eq(queue(), choose(Executor::global())), "{name}");
        assert_eq!(queue().spawn(cmwq::current_queue_name).unwrap().join().unwrap().as_deref(), Some(name));
    }
}
