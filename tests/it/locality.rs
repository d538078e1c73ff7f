//! Non-strict scopes: an item starts in its issuer's pod if this pod has room, and otherwise in another pod.
//!
//! The machine has two pods of one CPU each. An item holds the home pod, and waits for a second item. So only the other
//! pod can run this second item. If it does not start there, the test fails in [`joined`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use cmwq::observe::PoolSnapshot;
use cmwq::{AffinityScope, Attrs, Executor, JoinHandle, WorkQueue, blocking};

use crate::support::{
    Door, SOON, builder, current_pool, eventually, falls_asleep, falls_quiet, has_no_elsewhere, own_nice,
    own_status, pool, statuses_of, time_limit, unseen,
};

/// Makes an executor with two pods of one CPU each. Also returns the prefix of its threads' names.
fn two_pods() -> (Executor, String) {
    let (builder, prefix) = builder("l3:2 core:1 pu:1");
    (unseen(builder).build().unwrap(), prefix)
}

fn queue(executor: &Executor, strict: bool) -> WorkQueue {
    WorkQueue::builder("q").attrs(Attrs::new().strict(strict)).build_on(executor).unwrap()
}

/// Runs the closure on a thread that stays on the CPU of the first pod.
fn at_home<R: Send>(issuer: impl FnOnce() -> R + Send) -> R {
    let mut issuer = Some(issuer);
    loop {
        let at_home =
            || is_at_home().then(|| issuer.take().expect("no attempt before this one was at home")());
        if let Some(result) = std::thread::scope(|scope| scope.spawn(at_home).join().unwrap()) {
            return result;
        }
    }
}

/// Binds the calling thread to the CPU of the first pod, and returns whether that worked. On systems where threads
/// cannot be bound, returns whether the thread's home is the first pod.
fn is_at_home() -> bool {
    let (probe, _) = two_pods();
    if probe.dump().portable {
        let strict = queue(&probe, true);
        let name = strict.spawn(current_pool).unwrap().join().unwrap();
        return pool(&probe, &name).cpus.to_string() == "0";
    }
    let first = core_affinity::get_core_ids().into_iter().flatten().min_by_key(|cpu| cpu.id);
    core_affinity::set_for_current(first.unwrap())
}

/// Returns the CPUs of the pod in which the calling item runs.
fn here(executor: &Executor) -> String {
    pool(executor, &current_pool()).cpus.to_string()
}

/// Returns the result of an item that has to end soon.
#[track_caller]
fn joined<T>(item: JoinHandle<T>) -> T {
    match item.join_timeout(SOON) {
        Ok(result) => result.unwrap(),
        Err(_) => panic!(
            "the item does not end: it, or an item that it waits for, stays in a pod that cannot run it"
        ),
    }
}

/// Submits an item with `begin` that holds its pod until the door opens. Returns when the item has begun.
fn hold(begin: impl FnOnce(Box<dyn FnOnce() + Send>) -> JoinHandle<()>) -> (Door, JoinHandle<()>) {
    let (door, (began, begun)) = (Door::default(), mpsc::channel());
    let wait = door.clone();
    let item = begin(Box::new(move || {
        began.send(()).unwrap();
        wait.wait_unguarded();
    }));
    begun.recv_timeout(SOON).expect("the item began");
    (door, item)
}

/// spec: A2.2 (starts in c's pod when that pod has a CPU free for it): if the system does not run the pod's worker in
/// time, the pod counts as having no free CPU, and the item may start elsewhere.
#[test]
fn an_item_starts_at_home_while_its_pod_is_free() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    for strict in [false, true] {
        let queue = queue(&executor, strict);
        let elsewhere = at_home(|| {
            let round = |_| {
                let rests = |pool: &PoolSnapshot| pool.waking == 0 && pool.idle == pool.workers;
                eventually("no worker is about to look for work", || executor.dump().pools.iter().all(rests));
                let executor = executor.clone();
                let queued = Instant::now();
                let item = queue.spawn(move || (queued.elapsed(), here(&executor))).unwrap();
                let (waited, pod) = item.join().unwrap();
                let late = waited >= Duration::from_micros(200);
                assert!(pod == "0" || late && !strict, "in pod {pod} after {waited:?}, strict: {strict}");
                u64::from(pod != "0")
            };
            (0..50).map(round).sum::<u64>()
        });
        let counters = queue.counters();
        assert_eq!((counters.home(), counters.away, counters.stolen), (50 - elsewhere, 0, elsewhere));
    }
}

/// spec: A3.1 (no CPU idles while items wait in another pod)
#[test]
fn an_item_behind_one_that_waits_for_it_starts_in_the_other_pod() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    for round in 1..=20 {
        let (first, second) = at_home(|| {
            let (door, first) = hold(|item| queue.spawn(item).unwrap());
            let executor = executor.clone();
            let second = queue.spawn(move || {
                let pod = here(&executor);
                door.open();
                pod
            });
            (first, second.unwrap())
        });
        let second = joined(second);
        joined(first);
        assert!(
            second == "1" || queue.counters().stolen >= round,
            "the item could not start in the full pod 0"
        );
    }
}

/// spec: A2.3 (strict: it never leaves)
#[test]
fn a_strict_item_waits_for_its_pod() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, true);
    at_home(|| {
        let (door, first) = hold(|item| queue.spawn(item).unwrap());
        let its_executor = executor.clone();
        let second = queue.spawn(move || here(&its_executor)).unwrap();
        assert!(second.join_timeout(Duration::from_millis(50)).is_err(), "pod 0 is full");
        door.open();
        first.join().unwrap();
    });
    queue.flush().unwrap();
    assert_eq!((queue.counters().home(), queue.counters().stolen), (2, 0));
}

/// spec: A3.1: an item is queued while both pods are full. The pod whose item ends or blocks takes it.
#[test]
fn a_pod_that_gets_room_takes_items_that_wait_elsewhere() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    for ends in [true, false] {
        let (held, (item_door, item)) = at_home(|| {
            let (block, blocked) = (Door::default(), Door::default());
            let (its_block, its_blocked) = (block.clone(), blocked.clone());
            let (went, begun) = mpsc::channel();
            let there = queue
                .item(move || {
                    went.send(()).unwrap();
                    its_block.wait_unguarded();
                    if !ends {
                        blocking(|| its_blocked.wait_unguarded());
                    }
                })
                .on_cpu(1)
                .spawn();
            begun.recv_timeout(SOON).unwrap();
            let (door, home) = hold(|item| queue.spawn(item).unwrap());
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let open_home = door.clone();
            let waits = queue
                .spawn(move || {
                    flag.store(true, Ordering::SeqCst);
                    open_home.open();
                })
                .unwrap();
            let waits = waits.join_timeout(Duration::from_millis(5)).expect_err("both pods are full");
            assert!(!ran.load(Ordering::SeqCst));
            block.open();
            ((there.unwrap(), home), (blocked, waits))
        });
        joined(item);
        item_door.open();
        joined(held.0);
        joined(held.1);
    }
    assert!(queue.counters().stolen >= 2);
}

/// spec: A3.1: an item starts elsewhere if a worker that returns from a block fills the item's pod first.
#[test]
fn items_of_a_pod_filled_by_returning_workers_start_elsewhere() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    for _ in 0..20 {
        at_home(|| {
            // The first item blocks under a guard. Then it holds its pod until the second item has run.
            let (sleep, hold) = (Door::default(), Door::default());
            let (its_sleep, its_hold) = (sleep.clone(), hold.clone());
            let (went, begun) = mpsc::channel();
            let first = queue
                .spawn(move || {
                    blocking(|| {
                        went.send(()).unwrap();
                        its_sleep.wait_unguarded();
                    });
                    its_hold.wait_unguarded();
                })
                .unwrap();
            begun.recv_timeout(SOON).unwrap();
            sleep.open();
            let open = hold.clone();
            let second = queue.spawn(move || open.open()).unwrap();
            joined(first);
            joined(second);
        });
    }
}

/// spec: A3.3 (items of a chosen CPU live on lists without stealing): an item of a named CPU stays in its pod, but
/// items behind it on the list may move to another pod.
#[test]
fn a_placed_item_stays_in_its_pod_and_holds_no_other_item_there() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    at_home(|| {
        let (door, first) = hold(|item| queue.item(item).on_cpu(0).spawn().unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let placed = |n: usize| {
            let (executor, order) = (executor.clone(), Arc::clone(&order));
            let item = move || {
                order.lock().unwrap().push(n);
                here(&executor)
            };
            queue.item(item).on_cpu(0).spawn().unwrap()
        };
        let stay: Vec<_> = (0..3).map(placed).collect();
        let its_executor = executor.clone();
        let leaves = queue.spawn(move || here(&its_executor)).unwrap();
        let last = placed(3);
        assert_eq!(joined(leaves), "1", "only pod 1 had room");
        assert!(stay.iter().all(|item| !item.is_finished()) && !last.is_finished());
        door.open();
        first.join().unwrap();
        for item in stay.into_iter().chain([last]) {
            assert_eq!(item.join().unwrap(), "0");
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    });
}

/// spec: A3.8 (elsewhere only when its own pod cannot take it): items that must stay in a full pod wake no worker of
/// another pod.
#[test]
fn placed_items_wake_no_worker_of_another_pod() {
    let _limit = time_limit();
    let (executor, prefix) = two_pods();
    let queue = queue(&executor, false);
    at_home(|| {
        let (door, first) = hold(|item| queue.item(item).on_cpu(0).spawn().unwrap());
        eventually("a spare is there", || {
            let pools = executor.dump().pools;
            pools
                .iter()
                .all(|pool| !pool.creating && pool.waking == 0 && (pool.running == 0 || pool.idle > 0))
        });
        // The test waits until the spare sleeps, because an idle worker that is awake would check for work.
        let workers = statuses_of(&prefix, "State").into_iter().filter(|(_, name, _)| name.contains("/u"));
        workers.for_each(|(thread, ..)| falls_asleep("the worker sleeps", thread as u32));
        let before = executor.dump().threads;
        let stay: Vec<_> = (0..8).map(|_| queue.item(|| ()).on_cpu(0).spawn().unwrap()).collect();
        // The manager handles requests in order. So once it has made the rescuer, it has handled earlier requests.
        let _built = WorkQueue::builder("rescued").rescuer(true).build_on(&executor).unwrap();
        assert_eq!(executor.dump().threads, before, "{}", executor.dump());
        door.open();
        first.join().unwrap();
        stay.into_iter().for_each(|item| item.join().unwrap());
    });
}

/// spec: A3.3 (displacement): while a long item from another pod holds a pod, the pod's own items start in other pods.
#[test]
fn an_item_whose_pod_was_given_to_a_stolen_one_goes_elsewhere_in_turn() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    at_home(|| {
        let (door, home) = hold(|item| queue.item(item).on_cpu(0).spawn().unwrap());
        // The long item can only start in pod 1, and holds it. The item that it queues also belongs to pod 1.
        let (its_queue, its_executor, (tell, told)) = (queue.clone(), executor.clone(), mpsc::channel());
        let (long_door, long) = hold(|wait| {
            let item = move || {
                tell.send(its_queue.spawn(move || here(&its_executor)).unwrap()).unwrap();
                wait();
            };
            queue.spawn(item).unwrap()
        });
        let displaced = told.recv_timeout(SOON).unwrap();
        door.open();
        home.join().unwrap();
        assert_eq!(joined(displaced), "0", "only pod 0 had room, after the first item had ended");
        long_door.open();
        long.join().unwrap();
    });
}

/// spec: A3 (elsewhere after the bound): an item starts in another pod if the worker of its own pod is late.
#[test]
fn an_item_whose_worker_does_not_come_starts_elsewhere() {
    let _limit = time_limit();
    let (builder, _) = builder("l3:2 core:1 pu:1");
    let (door, first) = (Door::default(), Arc::new(OnceLock::new()));
    // The first worker that is made is the worker of the home pod. The hook delays this worker.
    let (wait, asked_for) = (door.clone(), Arc::clone(&first));
    let asks = move |name: &str| {
        if !name.ends_with("/manager") {
            asked_for.get_or_init(|| name.to_owned());
        }
        Ok(())
    };
    let starts = move || {
        if std::thread::current().name() == first.get().map(String::as_str) {
            wait.wait_unguarded();
        }
    };
    let executor = unseen(builder.before_spawn(asks).on_thread_start(starts)).build().unwrap();
    let queue = queue(&executor, false);
    let its_executor = executor.clone();
    let item = at_home(|| queue.spawn(move || here(&its_executor)).unwrap());
    assert_eq!(joined(item), "1");
    assert_eq!((queue.counters().home(), queue.counters().stolen), (0, 1));
    door.open();
}

/// Sets the flag when it is dropped, even if the drop is due to a panic.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes a queue whose workers have the lowest priority. While another thread uses their CPU, they rarely get it.
fn queue_of_patient_workers(executor: &Executor) -> WorkQueue {
    let queue = WorkQueue::builder("q").attrs(Attrs::new().nice(19)).build_on(executor).unwrap();
    // This makes the workers of both pools.
    for cpu in [0, 1] {
        queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    }
    queue
}

/// Queues one item after the other until one was stolen. Some items may run at home, because another process may also
/// use the sibling pod's CPU. `round` runs one item, and returns how long it waited.
fn until_one_is_stolen(executor: &Executor, queue: &WorkQueue, mut round: impl FnMut() -> Duration) {
    let (begin, mut waited) = (Instant::now(), Vec::new());
    let is_stolen = || queue.counters().stolen > 0 || executor.dump().portable;
    while waited.len() < 30 || !is_stolen() {
        waited.push(round());
        assert!(begin.elapsed() < SOON || is_stolen(), "no item was stolen: {waited:?}");
    }
    waited.sort();
    let (median, longest) = (waited[waited.len() / 2], waited[waited.len() - 1]);
    println!("waited {median:?} (median), {longest:?} at most; {:?}", queue.counters());
}

/// spec: A3 (also when the home pod's CPU is taken by a spinning issuer)
#[test]
fn an_item_of_an_issuer_that_goes_on_spinning_starts_elsewhere() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue_of_patient_workers(&executor);
    let round = || {
        let began = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&began);
        let queued = Instant::now();
        let item = queue.spawn(move || flag.store(true, Ordering::SeqCst)).unwrap();
        while !began.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        let waited = queued.elapsed();
        item.join().unwrap();
        waited
    };
    at_home(|| until_one_is_stolen(&executor, &queue, round));
}

/// spec: A3 (another process): an item starts in another pod if another thread uses the CPU of its own pod.
#[test]
fn an_item_whose_cpu_is_taken_by_others_starts_elsewhere() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue_of_patient_workers(&executor);
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbour = move || {
            while !over.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        };
        scope.spawn(move || at_home(neighbour));
        let round = || {
            let item = at_home(|| {
                let queued = Instant::now();
                queue.spawn(move || queued.elapsed()).unwrap()
            });
            item.join().unwrap()
        };
        let _ends = Raised(over);
        until_one_is_stolen(&executor, &queue, round);
    });
}

/// spec: A3.1, W8: the workers of all pods run a batch that is queued from one pod.
#[test]
fn a_batch_queued_from_one_pod_is_run_by_all() {
    let _limit = time_limit();
    let (builder, _) = builder("l3:4 core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = queue(&executor, false);
    for _ in 0..20 {
        // Eight items wait for each other, so each of the eight CPUs must run one of them.
        let inside = Arc::new(AtomicUsize::new(0));
        let item = |_| {
            let inside = Arc::clone(&inside);
            move || {
                inside.fetch_add(1, Ordering::SeqCst);
                eventually("all are inside", || inside.load(Ordering::SeqCst) == 8);
            }
        };
        let items = queue.items((0..8).map(item)).spawn().unwrap();
        items.into_iter().for_each(joined);
    }
}

/// spec: A2.4, A3 (plain unbound: threads move), O1.6: a worker that the system has moved is brought home when it is
/// woken.
#[test]
fn a_worker_that_the_system_has_moved_begins_at_home() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    if has_no_elsewhere(&executor) {
        return;
    }
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    at_home(|| {
        let allowed = || own_status("Cpus_allowed_list");
        let both = queue.spawn(allowed).unwrap().join().unwrap();
        assert_eq!(both, "0-1", "the workers may run on both CPUs");
        for _ in 0..5 {
            // The worker moves itself, as the system might move it.
            let elsewhere = queue.spawn(|| {
                let there = core_affinity::get_core_ids().unwrap().into_iter().max_by_key(|cpu| cpu.id);
                core_affinity::set_for_current(there.unwrap())
            });
            assert!(elsewhere.unwrap().join().unwrap());
            eventually("the pool rests", || {
                executor.dump().pools.iter().all(|pool| pool.idle == pool.workers)
            });
            let now = queue.spawn(allowed).unwrap().join().unwrap();
            assert_eq!(now, "0-1", "the worker is unbound again");
        }
    });
    let counters = queue.counters();
    assert!(counters.brought_back >= 1 && counters.stolen == 0, "{counters:?}");
    assert_eq!(counters.started, 11);
}

/// spec: S1 (an idle executor makes no wake-ups): idle pods do not wake the workers of their sibling pods.
#[test]
fn pods_that_share_work_fall_asleep() {
    let _limit = time_limit();
    let (executor, prefix) = two_pods();
    let queue =
        WorkQueue::builder("q").attrs(Attrs::new().scope(AffinityScope::Cpu)).build_on(&executor).unwrap();
    for _ in 0..100 {
        drop(queue.spawn(|| ()).unwrap());
    }
    queue.flush().unwrap();
    falls_quiet(&prefix);
}

/// spec: A3, A4: items that an attribute change holds back wait until the earlier items have left their pool. They need
/// not wait for a worker of this pool to become free, because this worker may wait for one of them.
#[test]
fn a_full_pod_does_not_hold_back_items_queued_after_a_change() {
    let _limit = time_limit();
    let (executor, _) = two_pods();
    let queue = queue(&executor, false);
    for nice in 1..=10 {
        let items = at_home(|| {
            let (room_there, there) = hold(|item| queue.item(item).on_cpu(1).spawn().unwrap());
            let (door, home) = hold(|item| queue.spawn(item).unwrap());
            let waits = queue.spawn(|| ()).unwrap();
            queue.apply_attrs(Attrs::new().nice(own_nice() + 1 + nice % 2)).unwrap();
            let held = queue.spawn(move || door.open()).unwrap();
            room_there.open();
            [there, home, waits, held]
        });
        for item in items {
            item.join_timeout(SOON).expect("the item ran").unwrap();
        }
    }
}
