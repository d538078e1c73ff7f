//! Fork and join: an item that passes two closures to `join` uses a second CPU if there is one.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::{Executor, JoinError, WorkQueue, join};

use crate::support::{
    Bomb, Counted, Crowd, Door, SOON, all_kinds, begun_on, builder, bump, burn, cpus, current_pool,
    eventually, falls_asleep, nap, on_each_executor, one_cpu, stress, thread_id, time_limit, unseen,
};

/// Adds the numbers of a range. Halves the range again and again, and forks once for each pair of halves.
fn sum(from: u64, to: u64) -> u64 {
    if to - from <= 4 {
        return (from..to).sum();
    }
    let middle = from + (to - from) / 2;
    let (left, right) = join(|| sum(from, middle), || sum(middle, to));
    left + right
}

/// Makes an executor with two CPUs in one pod. Detection is off, so only guards free a CPU.
fn two_cpus() -> Executor {
    unseen(builder("l3:1 core:2 pu:1").0).build().unwrap()
}

/// Runs an item that forks `second`. The item's first closure waits until another worker runs `second`, and `second`
/// has called its argument. Returns the result of `second`.
fn forked<T: Send + 'static>(
    queue: &WorkQueue,
    first: impl FnOnce() + Send + 'static,
    second: impl FnOnce(&dyn Fn()) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let item = move || {
        let taken = Door::default();
        let waits = || {
            taken.wait();
            first();
        };
        join(waits, || second(&|| taken.open())).1
    };
    queue.spawn(item).unwrap().join()
}

/// spec: W7.8: on every kind of queue, both closures are called once, and both results are returned.
#[test]
fn both_results_are_returned() {
    on_each_executor(|executor| {
        for queue in
            all_kinds(executor).into_iter().chain([cmwq::kernel::bh("b").build_on(executor).unwrap()])
        {
            for to in 0..stress(20) as u64 {
                assert_eq!(
                    queue.spawn(move || sum(0, to * 50)).unwrap().join().unwrap(),
                    (0..to * 50).sum::<u64>()
                );
            }
        }
    });
}

/// spec: W7.8: the closures may borrow from the caller, and the caller need not be an item.
#[test]
fn outside_of_items_one_closure_is_called_after_the_other() {
    let (mut left, mut right) = (1, String::from("a"));
    let caller = thread::current().id();
    let order = Mutex::new(Vec::new());
    let threads = join(
        || {
            left += 1;
            order.lock().unwrap().push(1);
            thread::current().id()
        },
        || {
            right.push('b');
            order.lock().unwrap().push(2);
            thread::current().id()
        },
    );
    assert_eq!((left, right.as_str(), threads), (2, "ab", (caller, caller)));
    assert_eq!(*order.lock().unwrap(), [1, 2]);
}

/// spec: W7.13: a fork that a worker takes is an item of the same queue: it is counted, has a slot, and knows its
/// queue.
#[test]
fn a_fork_that_was_taken_is_an_item_of_the_queue() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("forks").max_active(2).build_on(&executor).unwrap();
    let pool = forked(&queue, || (), {
        let queue = queue.clone();
        move |taken| {
            assert_eq!(cmwq::current_queue_name().as_deref(), Some("forks"));
            assert_eq!(queue.running(), 2);
            assert!(queue.flush().is_err(), "it would wait for itself");
            taken();
            current_pool()
        }
    });
    assert!(pool.unwrap().starts_with('u'));
    queue.flush().unwrap();
    assert_eq!((queue.counters().started, queue.counters().completed), (2, 2));
}

/// spec: W7.13: a fork never makes more items active than the limit permits. If no slot is free, the joining thread
/// calls the fork.
#[test]
fn forks_obey_the_limit() {
    let executor = cpus(4);
    for limit in [1, 2, 3] {
        let queue = WorkQueue::builder("few").max_active(limit).build_on(&executor).unwrap();
        for _ in 0..stress(20) {
            let crowd = Arc::new(Crowd::default());
            let inside = Arc::clone(&crowd);
            let work = move || {
                inside.enter();
                burn(Duration::from_micros(50));
                inside.leave();
            };
            // Each CPU has this limit. So the test has only one item at a time.
            let item =
                queue.spawn(move || join(|| join(&work, &work), || join(&work, || join(&work, &work))));
            item.unwrap().join().unwrap();
            assert!(crowd.peak() <= limit, "{} of {limit}", crowd.peak());
        }
    }
}

/// spec: W7.13: a worker takes the fork of an item whose queue has lost its last handle.
#[test]
fn a_fork_of_a_queue_without_handles_is_taken() {
    let _limit = time_limit();
    let executor = two_cpus();
    let queue = WorkQueue::builder("dropped").build_on(&executor).unwrap();
    let (begins, begun) = mpsc::channel();
    let dropped = Door::default();
    let waits = dropped.clone();
    let item = queue.spawn(move || {
        begins.send(()).unwrap();
        cmwq::blocking(|| waits.wait());
        let taken = Door::default();
        join(|| taken.wait(), || taken.open());
    });
    let item = item.unwrap();
    begun.recv_timeout(SOON).unwrap();
    drop(queue);
    dropped.open();
    item.join_timeout(SOON).unwrap_or_else(|_| panic!("the item hangs")).unwrap();
}

/// spec: W7.13: if the queue's limit is reached, the item's thread calls both closures.
#[test]
fn without_a_free_slot_the_item_calls_both_closures() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("two").max_active(2).build_on(&executor).unwrap();
    let (work, door, _) = begun_on(&queue);
    let threads = queue.spawn(|| join(|| thread::current().id(), || thread::current().id())).unwrap();
    let (first, second) = threads.join().unwrap();
    assert_eq!(first, second);
    door.open();
    work.flush().unwrap();
}

/// spec: W7.8: the joining thread takes back a fork that no worker has taken.
#[test]
fn a_fork_without_a_free_cpu_is_a_call() {
    let queue = WorkQueue::builder("one").build_on(&one_cpu()).unwrap();
    let ids = queue.spawn(|| join(|| thread::current().id(), || thread::current().id())).unwrap().join();
    let (first, second) = ids.unwrap();
    assert_eq!(first, second);
    assert_eq!(queue.counters().started, 1);
}

/// spec: W7.5, W7.14: a thread that waits for a fork runs no other item. So while an item joins, it may hold a lock
/// that other items need.
#[test]
fn a_joining_thread_runs_no_other_item() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("locks").build_on(&executor).unwrap();
    let lock = Arc::new(Mutex::new(0_u64));
    for _ in 0..stress(50) {
        let items: Vec<_> = (0..8)
            .map(|_| {
                let lock = Arc::clone(&lock);
                queue.spawn(move || {
                    // The wait for the lock is declared with a guard, so another item runs.
                    let mut total = cmwq::blocking(|| lock.lock().unwrap());
                    *total += sum(0, 300);
                })
            })
            .collect();
        items.into_iter().for_each(|item| item.unwrap().join().unwrap());
    }
    assert_eq!(*lock.lock().unwrap(), stress(50) as u64 * 8 * (0..300).sum::<u64>());
}

/// Calls `code`, which panics with a text. Returns the text.
fn panic_of(code: impl FnOnce()) -> &'static str {
    *catch_unwind(AssertUnwindSafe(code)).unwrap_err().downcast::<&str>().unwrap()
}

/// spec: W7.15: `join` passes on a panic of either closure after the other closure has ended.
#[test]
fn a_panic_is_passed_on_after_both_closures_are_over() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("panics").build_on(&executor).unwrap();
    let check = || {
        let (drops, runs) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&drops));
        let first = || {
            panic_of(|| {
                join(
                    || panic_any("first"),
                    || {
                        bump(&runs);
                        drop(counted);
                    },
                );
            })
        };
        assert_eq!(first(), "first");
        assert!(drops.load(Ordering::SeqCst) == 1 && runs.load(Ordering::SeqCst) <= 1);
        let runs = AtomicUsize::new(0);
        assert_eq!(panic_of(|| _ = join(|| bump(&runs), || panic_any("second"))), "second");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(panic_of(|| _ = join::<_, _, (), ()>(|| panic_any("one"), || panic_any("two"))), "one");
    };
    check();
    for _ in 0..stress(50) {
        queue.spawn(check).unwrap().join().unwrap();
    }
    // From here on, another worker has taken the fork.
    let fork = forked(
        &queue,
        || (),
        |taken| {
            taken();
            panic_any("taken")
        },
    );
    match fork {
        Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("taken")),
        other => panic!("{:?}", other.map(|(): ()| ())),
    }
    let fork = forked(
        &queue,
        || panic_any("waits"),
        |taken| {
            taken();
            burn(Duration::from_millis(2));
        },
    );
    assert!(matches!(fork, Err(JoinError::Panicked(panic)) if panic.message() == Some("waits")));
    assert_eq!(queue.spawn(|| sum(0, 1000)).unwrap().join().unwrap(), 499_500);
}

/// spec: W7.15, W9: destructors of closures and results may panic.
#[test]
fn destructors_that_panic_end_nothing() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("bombs").build_on(&executor).unwrap();
    for _ in 0..stress(20) {
        let item = queue.spawn(|| {
            let bomb = Bomb;
            let dropped = panic_of(|| _ = join::<_, _, (), ()>(|| panic_any("first"), move || drop(bomb)));
            assert_eq!(dropped, "first");
            let dropped = panic_of(|| drop(join::<_, _, Bomb, ()>(|| Bomb, || panic_any("second"))));
            assert_eq!(dropped, "second");
        });
        item.unwrap().join().unwrap();
    }
    queue.flush().unwrap();
}

/// spec: W7.13, I3.1: if the item is cancelled, a fork that a worker has taken sees this.
#[test]
fn a_fork_has_the_token_of_its_item() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("cancels").build_on(&executor).unwrap();
    let (begins, begun) = mpsc::channel();
    let item = queue.spawn(move || {
        let taken = Door::default();
        let second = || {
            taken.open();
            begins.send(()).unwrap();
            while !cmwq::is_cancelled() {
                thread::yield_now();
            }
            cmwq::cancel_token().is_cancelled()
        };
        join(|| taken.wait(), second).1
    });
    let item = item.unwrap();
    begun.recv().unwrap();
    assert!(!item.stop());
    assert!(item.join().unwrap());
}

thread_local! {
    static REQUEST: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// spec: W7.13, I2.1: a fork that a worker has taken has the values that its item carries.
#[test]
fn a_fork_carries_values() {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            REQUEST.set(self.0);
        }
    }
    let executor = two_cpus();
    let capture = || {
        let request = REQUEST.get();
        move || Restore(REQUEST.replace(request))
    };
    let queue = WorkQueue::builder("carries").carry(capture).build_on(&executor).unwrap();
    REQUEST.set(7);
    let carried = forked(
        &queue,
        || (),
        |taken| {
            taken();
            REQUEST.get()
        },
    );
    REQUEST.set(0);
    assert_eq!(carried.unwrap(), 7);
}

/// spec: W7.8: an item does not fork in a guard, or if its queue is not a managed one.
#[test]
fn an_item_that_uses_no_cpu_does_not_fork() {
    let executor = two_cpus();
    let here = || {
        let (first, second) = join(|| thread::current().id(), || thread::current().id());
        first == second
    };
    let queue = WorkQueue::builder("guards").build_on(&executor).unwrap();
    assert!(queue.spawn(move || cmwq::blocking(here)).unwrap().join().unwrap());
    for queue in
        [WorkQueue::unbound("u"), WorkQueue::per_cpu("p"), WorkQueue::ordered("o"), cmwq::kernel::bh("b")]
    {
        assert!(queue.build_on(&executor).unwrap().spawn(here).unwrap().join().unwrap());
    }
}

/// Divides the work at random, and sometimes blocks or panics.
fn divide(seed: u64, depth: u32) -> u64 {
    let seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let draw = seed >> 33;
    match draw % 64 {
        0 => cmwq::blocking(|| nap(Duration::from_micros(50))),
        1 => burn(Duration::from_micros(20)),
        2 => {
            return catch_unwind(|| join::<_, _, u64, u64>(|| resume_unwind(Box::new(1)), || 2))
                .map_or(1, |_| 0);
        }
        _ => {}
    }
    if depth == 0 {
        return 1;
    }
    let less = depth - 1;
    let (left, right) =
        join(|| divide(seed ^ 1, less), || divide(seed ^ 2, less.saturating_sub((draw % 3) as u32)));
    left + right
}

/// spec: W7.8, W7.13, W7.15 (stress): many items divide their work at the same time, on one pod and on several, while
/// the queue is frozen and thawed, its limit changes, and other items come.
#[test]
fn many_recursions_at_the_same_time() {
    let _limit = time_limit();
    for shape in ["l3:1 core:4 pu:1", "l3:2 core:2 pu:1", "l3:3 core:1 pu:1"] {
        let executor = builder(shape).0.build().unwrap();
        let queue = WorkQueue::builder("divides").max_active(16).build_on(&executor).unwrap();
        let ends = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                let mut step = 0;
                while !ends.load(Ordering::SeqCst) {
                    step += 1;
                    queue.set_max_active([16, 1, 3, 512][step % 4]).unwrap();
                    if step % 5 == 0 {
                        queue.flush().unwrap();
                    }
                    nap(Duration::from_millis(1));
                }
            });
            for round in 0..stress(3) as u64 {
                let items: Vec<_> =
                    (0..20).map(|seed| queue.spawn(move || divide(seed + 100 * round, 9)).unwrap()).collect();
                for (seed, item) in items.into_iter().enumerate() {
                    // The result does not depend on the threads that call the closures.
                    let alone = divide(seed as u64 + 100 * round, 9);
                    assert_eq!(item.join().unwrap(), alone);
                }
            }
            ends.store(true, Ordering::SeqCst);
        });
        queue.flush().unwrap();
        eventually("all items are counted", || {
            let counters = queue.counters();
            counters.started == counters.completed
        });
    }
}

/// spec: W7.13, E5: a shutdown whose time runs out waits for no fork. If no worker takes a fork, its item calls it.
#[test]
fn a_shutdown_lets_an_item_end_its_forks() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("ends").build_on(&executor).unwrap();
    let (begins, begun) = mpsc::channel();
    let door = Door::default();
    let wait = door.clone();
    let item = queue.spawn(move || {
        begins.send(()).unwrap();
        wait.wait();
        sum(0, 10_000)
    });
    begun.recv().unwrap();
    assert!(!executor.shutdown(Duration::from_millis(1)).unwrap().is_complete());
    door.open();
    assert_eq!(item.unwrap().join().unwrap(), (0..10_000).sum::<u64>());
}

/// spec: W7.13, F5.1: a fork that a worker has taken cannot join its own item, because the item waits for the fork.
#[test]
fn a_fork_does_not_wait_for_its_item() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("selves").build_on(&executor).unwrap();
    let (sends, handle) = mpsc::channel::<cmwq::JoinHandle<()>>();
    let (told, tells) = mpsc::channel();
    let item = queue.spawn(move || {
        let own = handle.recv().unwrap();
        let taken = Door::default();
        let second = || {
            taken.open();
            told.send(own.join()).unwrap();
        };
        join(|| taken.wait(), second);
    });
    sends.send(item.unwrap()).unwrap();
    assert!(matches!(tells.recv().unwrap(), Err(JoinError::WouldDeadlock)));
}

/// spec: W7.13, F5.2: a fork that a worker has taken cannot join an item that needs a slot, if the fork and the item
/// that waits for the fork hold all slots.
#[test]
fn a_fork_and_its_item_may_hold_all_slots() {
    let _limit = time_limit();
    let executor = two_cpus();
    for (slots, would_end) in [(2, false), (3, true)] {
        let queue = WorkQueue::builder("slots").max_active_total(slots).build_on(&executor).unwrap();
        let inner = queue.clone();
        let joined = forked(
            &queue,
            || (),
            move |taken| {
                let joined = inner.spawn(|| ()).unwrap().join_timeout(SOON);
                taken();
                joined.expect("the join ends or is refused")
            },
        );
        match joined.unwrap() {
            Ok(()) => assert!(would_end, "{slots}"),
            Err(error) => {
                assert!(!would_end && matches!(error, JoinError::WouldDeadlock), "{slots}: {error}");
            }
        }
        queue.flush().unwrap();
    }
}

/// spec: F5.9, W7.14: a thread that waits for a fork runs a part of the fork. The thread's item still holds only one
/// slot, so it does not seem to hold the slot of the item that the part joins.
#[test]
fn an_item_whose_thread_runs_a_part_holds_one_slot() {
    let _limit = time_limit();
    let executor = two_cpus();
    let queue = WorkQueue::builder("parts").max_active_total(4).build_on(&executor).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let (wait, begins) = (door.clone(), begun.clone());
    let other = queue.spawn(move || {
        begins.open();
        wait.wait();
    });
    begun.wait();
    let other = other.unwrap();
    let item = queue.spawn(move || {
        let (taken, ran) = (Door::default(), Door::default());
        let joining = thread_id();
        let part = || {
            ran.open();
            other.join_timeout(Duration::ZERO)
        };
        let fork = || {
            taken.open();
            falls_asleep("the item waits for its fork", joining);
            join(|| ran.wait(), part).1
        };
        join(|| taken.wait(), fork).1
    });
    let joined = item.unwrap().join().unwrap();
    let other = joined.expect_err("the other item has not ended, and has the fourth slot");
    door.open();
    other.join().unwrap();
}

/// spec: W7.8: while a queue drains, an item calls both closures itself.
#[test]
fn an_item_of_a_queue_that_drains_does_not_fork() {
    let executor = two_cpus();
    let queue = WorkQueue::builder("drains").build_on(&executor).unwrap();
    let (begins, begun) = mpsc::channel();
    let door = Door::default();
    let wait = door.clone();
    let item = queue.spawn(move || {
        begins.send(()).unwrap();
        wait.wait();
        join(|| thread::current().id(), || thread::current().id())
    });
    begun.recv().unwrap();
    thread::scope(|s| {
        let drain = s.spawn(|| queue.drain());
        eventually("the queue drains", || queue.spawn(|| ()).is_err());
        door.open();
        drain.join().unwrap().unwrap();
    });
    let (first, second) = item.unwrap().join().unwrap();
    assert_eq!(first, second);
}
