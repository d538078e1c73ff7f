//! The manager under a cap on threads, and beside user code that runs on its thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{Attrs, CpuSet, Executor, WorkQueue};

use crate::support::{Door, SOON, builder, eventually, time_limit};

/// Makes a queue with a pool of its own for the given CPU.
fn queue_of(executor: &Executor, cpu: usize) -> WorkQueue {
    let attrs = Attrs::new().cpus(CpuSet::single(cpu));
    WorkQueue::unbound(format!("of {cpu}")).attrs(attrs).build_on(executor).unwrap()
}

/// spec: E2.5 (max threads): a pool with work gets a thread before a pool that only needs a spare.
#[test]
fn at_the_cap_work_comes_before_spares() {
    let _limit = time_limit();
    let executor = builder("pu:3").0.max_threads(3).build().unwrap();
    let (busy, needy, rich) = (queue_of(&executor, 0), queue_of(&executor, 1), queue_of(&executor, 2));
    rich.spawn(|| ()).unwrap().join().unwrap();
    eventually("a worker and a spare", || executor.dump().pools.iter().any(|pool| pool.idle >= 2));
    let door = Door::default();
    let inside = door.clone();
    let held = busy.spawn(move || inside.wait()).unwrap();
    // The rich pool's idle workers give their threads up for the needy pool, although the busy pool lacks a spare.
    let served = needy.spawn(|| ()).unwrap().join_timeout(SOON);
    assert!(served.is_ok(), "the item waited behind a spare: {}", executor.dump());
    assert!(!held.is_finished());
    door.open();
    held.join().unwrap();
}

/// spec: E2.5 (max threads): when a thread ends, another pool makes one at once. If the creation failed first, each
/// turn would take a second longer.
#[test]
fn at_the_cap_pools_take_turns_without_a_pause() {
    let _limit = time_limit();
    let executor = builder("pu:2").0.max_threads(2).build().unwrap();
    let queues = [queue_of(&executor, 0), queue_of(&executor, 1)];
    let begin = Instant::now();
    for turn in 0..20 {
        queues[turn % 2].spawn(|| ()).unwrap().join().unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?} for 20 turns", begin.elapsed());
}

/// Hooks run on the manager's thread. A hook that waits may consume a wake-up that is meant for the manager. Still, no
/// request is lost.
#[test]
fn a_waiting_hook_loses_no_request() {
    let _limit = time_limit();
    let spawned = AtomicUsize::new(0);
    let (answer, wait_for_answer) = mpsc::sync_channel::<()>(1);
    let wait_for_answer = Mutex::new(wait_for_answer);
    let inside = Arc::new(AtomicUsize::new(0));
    let is_inside = Arc::clone(&inside);
    let hook = move |name: &str| {
        if !name.contains("manager") && spawned.fetch_add(1, Ordering::Relaxed) == 1 {
            inside.store(1, Ordering::Relaxed);
            let _answer = wait_for_answer.lock().unwrap().recv_timeout(SOON);
        }
        Ok(())
    };
    let executor = builder("pu:2").0.before_spawn(hook).build().unwrap();
    let (first, second) = (queue_of(&executor, 0), queue_of(&executor, 1));
    first.spawn(|| ()).unwrap().join().unwrap();
    eventually("the hook waits", || is_inside.load(Ordering::Relaxed) == 1);
    let item = second.spawn(|| ()).unwrap();
    answer.send(()).unwrap();
    assert!(item.join_timeout(SOON).is_ok(), "the request was lost: {}", executor.dump());
}
