//! Blocking guards: nested, crossed, forgotten, kept, unwound, and outside of workers. Detection is off, so that only
//! guards let other items start.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cmwq::observe::WorkerState;
use cmwq::{BlockingGuard, Executor, MayBlockGuard, WhenFull, WorkQueue, blocking};

use crate::support::{
    Crowd, Door, a_blocked_item_lets_another_one_in, builder, burn, eventually, has_no_elsewhere, held,
    no_thread_of, one_cpu_unseen, own_status, pool, time_limit, unseen,
};

thread_local! {
    static KEPT: RefCell<Vec<BlockingGuard>> = const { RefCell::new(Vec::new()) };
    static MAY_BLOCK: Cell<Option<MayBlockGuard>> = const { Cell::new(None) };
}

/// Asserts that the count of running workers is right. Items that do not block then run one at a time, and the count of
/// an idle pool is zero.
fn check_count(executor: &Executor, queue: &WorkQueue) {
    let crowd = Arc::new(Crowd::default());
    let handles: Vec<_> = (0..20)
        .map(|_| {
            let crowd = Arc::clone(&crowd);
            let item = move || {
                crowd.enter();
                burn(Duration::from_micros(100));
                crowd.leave();
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(crowd.peak(), 1, "one runs at a time");
    eventually("no worker counts as running", || {
        let pool = pool(executor, "0");
        pool.running == 0 && pool.waking == 0 && pool.idle == pool.workers
    });
    a_blocked_item_lets_another_one_in(queue);
}

/// spec: C2.1
#[test]
fn a_guard_lets_another_item_start() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (send, receive) = mpsc::channel();
    let waits = queue.spawn(move || blocking(|| receive.recv().unwrap())).unwrap();
    let sends = queue.spawn(move || send.send(7).unwrap()).unwrap();
    assert_eq!(waits.join().unwrap(), 7);
    sends.join().unwrap();
    check_count(&executor, &queue);
}

/// spec: C1.1, S1.2 (`Detection::Off`): without a guard, the other items of the CPU wait.
#[test]
fn without_a_guard_the_next_item_waits() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let door = Door::default();
    let wait = door.clone();
    let first = queue.spawn(move || wait.wait_unguarded()).unwrap();
    let second = queue.spawn(|| ()).unwrap();
    let second = second.join_timeout(Duration::from_millis(30)).unwrap_err();
    door.open();
    first.join().unwrap();
    second.join().unwrap();
}

/// spec: C2.2 (nesting is free)
#[test]
fn guards_may_be_nested_and_left_in_any_order() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let nested = || {
        blocking(|| blocking(|| drop(BlockingGuard::enter())));
        let (one, two, three) = (BlockingGuard::enter(), BlockingGuard::enter(), BlockingGuard::enter());
        drop(one);
        drop(three);
        drop(two);
        let again = BlockingGuard::enter();
        blocking(|| ());
        drop(again);
    };
    (0..10).for_each(|_| queue.spawn(nested).unwrap().join().unwrap());
    check_count(&executor, &queue);
    // As long as one of its guards is left, the worker does not count as running.
    let (behind, door) = (queue.clone(), Door::default());
    let opens = door.clone();
    let outer = queue.spawn(move || {
        let (outer, inner) = (BlockingGuard::enter(), BlockingGuard::enter());
        drop(outer);
        drop(behind.spawn(move || opens.open()).unwrap());
        door.wait_unguarded();
        drop(inner);
    });
    outer.unwrap().join().unwrap();
    check_count(&executor, &queue);
}

/// spec: C2.2: a guard that an item leaks ends with the item.
#[test]
fn a_forgotten_guard_ends_with_its_item() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for panics in [false, true] {
        let forgets = move || {
            (0..3).for_each(|_| std::mem::forget(BlockingGuard::enter()));
            assert!(!panics, "on purpose");
        };
        (0..5).for_each(|_| drop(queue.spawn(forgets).unwrap().join()));
        check_count(&executor, &queue);
    }
}

/// spec: C2.2: a guard that outlives its item has no effect when a later item or the end of the thread drops it.
#[test]
fn a_guard_that_outlives_its_item_does_nothing() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = unseen(builder).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let keep = || KEPT.with_borrow_mut(|kept| kept.push(BlockingGuard::enter()));
    let drop_all = || drop(KEPT.take());
    for _ in 0..5 {
        queue.spawn(keep).unwrap().join().unwrap();
        queue.spawn(keep).unwrap().join().unwrap();
        // Another item drops the kept guards under a guard of its own. The item must stay blocked under this guard.
        let (behind, door) = (queue.clone(), Door::default());
        let opens = door.clone();
        let item = queue.spawn(move || {
            let _own = BlockingGuard::enter();
            drop_all();
            drop(behind.spawn(move || opens.open()).unwrap());
            door.wait_unguarded();
        });
        item.unwrap().join().unwrap();
        check_count(&executor, &queue);
    }
    // Some guards are kept until their threads end.
    (0..4).for_each(|_| queue.spawn(keep).unwrap().join().unwrap());
    drop((queue, executor));
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: C2.2: an item lends its thread to several items. Each guard belongs to the item that has entered it, even if
/// another item on the thread drops it.
#[test]
fn a_guard_on_a_lent_thread_belongs_to_its_item() {
    let _limit = time_limit();
    // This queue stays full, so its issuers run its items.
    let other = one_cpu_unseen();
    let (busy, door) = held(&WorkQueue::builder("busy").build_on(&other).unwrap());
    let full = WorkQueue::builder("full").max_pending(1).when_full(WhenFull::CallerRuns);
    let full = full.build_on(&other).unwrap();
    let pending = full.spawn(|| ()).unwrap();
    let keep = || KEPT.with_borrow_mut(|kept| kept.push(BlockingGuard::enter()));
    for by_outer in [false, true] {
        let executor = one_cpu_unseen();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let (behind, lends) = (queue.clone(), full.clone());
        let outer = queue.spawn(move || {
            lends.spawn(keep).unwrap().join().unwrap();
            // Another item drops the kept guard under a guard of its own. The worker must stay blocked.
            let drops = move || {
                let _own = BlockingGuard::enter();
                drop(KEPT.take());
                let next = Door::default();
                let opens = next.clone();
                drop(behind.spawn(move || opens.open()).unwrap());
                next.wait_unguarded();
            };
            if by_outer { drops() } else { lends.spawn(drops).unwrap().join().unwrap() }
        });
        outer.unwrap().join().unwrap();
        check_count(&executor, &queue);
    }
    // An inner item drops guards of its outer item, which then counts again.
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (lends, whole) = (full.clone(), executor.clone());
    let outer = queue.spawn(move || {
        let is_so = move |running: usize, state: WorkerState| {
            let pool = pool(&whole, "0");
            pool.running == running && pool.worker_details.iter().any(|worker| worker.state == state)
        };
        MAY_BLOCK.set(Some(MayBlockGuard::enter()));
        keep();
        assert!(is_so(0, WorkerState::Blocked));
        let drops = move || {
            drop(KEPT.take());
            assert!(is_so(1, WorkerState::MayBlock));
            drop(MAY_BLOCK.take());
            assert!(is_so(1, WorkerState::Running));
        };
        lends.spawn(drops).unwrap().join().unwrap();
    });
    outer.unwrap().join().unwrap();
    check_count(&executor, &queue);
    door.open();
    busy.join().unwrap();
    pending.join().unwrap();
}

/// spec: C2.2, W9.1: a panic ends the guards that it unwinds.
#[test]
fn a_panic_under_a_guard_leaves_it() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..5 {
        let error =
            queue.spawn(|| blocking(|| blocking(|| panic!("on purpose")))).unwrap().join().unwrap_err();
        assert_eq!(error.to_string(), "the item panicked: on purpose");
        let caught = || {
            let result = std::panic::catch_unwind(|| blocking(|| panic!("on purpose")));
            assert!(result.is_err());
            burn(Duration::from_micros(50));
        };
        queue.spawn(caught).unwrap().join().unwrap();
    }
    check_count(&executor, &queue);
}

/// spec: C2.3 (on a thread that is no worker it is a no-op)
#[test]
fn outside_of_workers_a_guard_does_nothing() {
    let _guard = BlockingGuard::enter();
    assert_eq!(blocking(|| blocking(|| 3)), 3);
    std::mem::forget(BlockingGuard::enter());
    std::thread::spawn(|| KEPT.with_borrow_mut(|kept| kept.push(BlockingGuard::enter()))).join().unwrap();
}

/// spec: C2.3: guards in hooks and handlers do no harm, although these run on workers outside of items.
#[test]
fn guards_in_hooks_are_harmless() {
    let _limit = time_limit();
    let calls = Arc::new(AtomicUsize::new(0));
    let guarded = || {
        let calls = Arc::clone(&calls);
        move || {
            blocking(|| calls.fetch_add(1, Ordering::SeqCst));
            std::mem::forget(BlockingGuard::enter());
        }
    };
    let (builder, prefix) = builder("core:1 pu:1");
    let handler = guarded();
    let builder = unseen(builder).on_thread_start(guarded()).on_thread_stop(guarded());
    let executor = builder.panic_handler(move |_| handler()).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..3 {
        assert!(queue.spawn(|| panic!("on purpose")).unwrap().join().is_err());
        check_count(&executor, &queue);
    }
    drop((queue, executor));
    eventually("all threads ended", || no_thread_of(&prefix));
    assert!(calls.load(Ordering::SeqCst) >= 5);
}

/// spec: C2.3: guards work in the destructors of captured values, results and panic payloads. A worker runs these
/// outside of the item's function.
#[test]
fn guards_in_destructors_are_harmless() {
    struct Guarded;
    impl Drop for Guarded {
        fn drop(&mut self) {
            blocking(std::thread::yield_now);
            std::mem::forget(BlockingGuard::enter());
        }
    }
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..5 {
        let capture = Guarded;
        drop(queue.spawn(move || drop(capture)).unwrap());
        drop(queue.spawn(|| Guarded).unwrap());
        drop(queue.spawn(|| std::panic::panic_any(Guarded)).unwrap());
        let capture = Guarded;
        queue
            .enqueue(&cmwq::Work::new(move || {
                let _used = &capture;
            }))
            .unwrap();
        queue.flush().unwrap();
        check_count(&executor, &queue);
    }
}

/// spec: C1.2 (another worker starts at once), C5: the replacement starts on the CPU of the blocked worker, even if the
/// replacement last ran on another CPU. On that CPU it might have to wait for a running thread.
#[test]
fn a_replacement_worker_starts_on_the_cpu_of_the_blocked_one() {
    let _limit = time_limit();
    if has_no_elsewhere(&one_cpu_unseen()) {
        return;
    }
    let cpus = core_affinity::get_core_ids().unwrap();
    for _ in 0..5 {
        let executor = unseen(builder("l3:1 core:2 pu:1").0).build().unwrap();
        let (left, taken) = (cpus[0], cpus[1]);
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();

        // Three workers run on the taken CPU, and become idle last. So one of them becomes the replacement, and would
        // start on the taken CPU if the pool did not bind it to the other one.
        let (door, gathered) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let gather = || {
            let (door, gathered) = (door.clone(), Arc::clone(&gathered));
            move || {
                assert!(core_affinity::set_for_current(taken));
                gathered.fetch_add(1, Ordering::SeqCst);
                door.wait();
            }
        };
        let items = queue.items((0..3).map(|_| gather())).spawn().unwrap();
        let are_settled = |busy: usize| {
            executor.dump().pools.iter().all(|pool| !pool.creating && pool.workers - pool.idle <= busy)
        };
        eventually("the items wait, and spares have come", || {
            gathered.load(Ordering::SeqCst) == 3 && are_settled(3)
        });
        door.open();
        items.into_iter().for_each(|item| item.join().unwrap());
        eventually("all are idle", || are_settled(0));

        let over = Arc::new(AtomicBool::new(false));
        let (began, is_over) = (Door::default(), Arc::clone(&over));
        let tell = began.clone();
        let busy = queue.spawn(move || {
            tell.open();
            while !is_over.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        });
        began.wait();
        let behind = queue.clone();
        let blocked = queue.spawn(move || {
            assert!(core_affinity::set_for_current(left));
            let next = behind.spawn(|| own_status("Cpus_allowed_list")).unwrap();
            blocking(|| next.join().unwrap())
        });
        let allowed = blocked.unwrap().join().unwrap();
        over.store(true, Ordering::SeqCst);
        assert_eq!(allowed, "0-1", "the worker was bound to the CPU where it begins, and then unbound");
        busy.unwrap().join().unwrap();
    }
}
