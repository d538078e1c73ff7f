//! Scopes: items that borrow, and the ends of scopes. Examples that must not compile are in `src/queue/scope.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cmwq::{JoinError, QueueError, ScopedJoinHandle, WorkQueue};

use crate::support::{
    Bomb, Counted, Door, SOON, builder, bump, cpus, eventually, on_each_executor, one_cpu, stress, time_limit,
};

/// Runs `code`, which must panic, and returns the text of the payload.
fn panic_of<R>(code: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(code)).err().expect("it panics");
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    // The payload may be a `Bomb`, whose drop panics.
    std::mem::forget(payload);
    text.unwrap_or_else(|| "no text".to_owned())
}

fn assert_send_sync<T: Send + Sync>(_: &T) {}

/// spec: W7.1 (borrowed data; returns when all are done), W4
#[test]
fn items_borrow_and_are_done_when_the_scope_returns() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            let queue = kind("q").build_on(executor).unwrap();
            for _ in 0..stress(10) {
                let from: Vec<usize> = (0..50).collect();
                let mut to = vec![0; 50];
                let sum = queue
                    .try_scope(|s| {
                        assert_send_sync(s);
                        for (to, from) in to.chunks_mut(7).zip(from.chunks(7)) {
                            s.spawn(|| to.copy_from_slice(from)).unwrap();
                        }
                        let handle = s.spawn(|| from.iter().sum::<usize>()).unwrap();
                        assert_send_sync(&handle);
                        handle.join().unwrap()
                    })
                    .unwrap();
                assert_eq!((sum, to), (1225, from));
            }
        }
    });
}

/// spec: W7.1: an item's result may borrow data from outside of the scope, and may outlive the scope.
#[test]
fn a_result_may_borrow_data_that_outlives_the_scope() {
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let text = String::from("one two three");
    let words = queue
        .try_scope(|s| s.spawn(|| text.split(' ').collect::<Vec<_>>()).unwrap().join())
        .unwrap()
        .unwrap();
    assert_eq!(words, ["one", "two", "three"]);
    assert_eq!(queue.try_scope(|_| ()), Ok(()), "without items");
}

/// spec: W7.1: on queues with more than one slot, items may spawn items into their own scope, and may open scopes
/// themselves.
#[test]
fn scopes_may_be_nested_and_items_may_spawn() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound] {
            let queue = kind("q").build_on(executor).unwrap();
            let count = AtomicUsize::new(0);
            let outer = queue.try_scope(|s| {
                for _ in 0..5 {
                    s.spawn(|| {
                        bump(&count);
                        s.spawn(|| bump(&count)).unwrap();
                        let mut own = [0; 4];
                        let inner = queue.try_scope(|t| {
                            for (n, place) in own.iter_mut().enumerate() {
                                t.spawn(move || *place = n).unwrap();
                            }
                        });
                        inner.unwrap();
                        assert_eq!(own, [0, 1, 2, 3]);
                        count.fetch_add(own.len(), Ordering::SeqCst);
                    })
                    .unwrap();
                }
            });
            outer.unwrap();
            assert_eq!(count.into_inner(), 5 * (1 + 1 + 4));
        }
    });
}

/// spec: W7.5 (waiting), C2: while an item waits for the end of its scope, its worker counts as blocked, and another
/// worker runs the scope's items.
#[test]
fn a_scope_inside_an_item_waits_under_a_guard() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in [WorkQueue::builder("q"), WorkQueue::per_cpu("q")] {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let threads = queue.spawn(move || {
            let opener = std::thread::current().id();
            let mut item = None;
            inner.try_scope(|s| drop(s.spawn(|| item = Some(std::thread::current().id())))).unwrap();
            (opener, item.unwrap())
        });
        let (opener, item) = threads.unwrap().join().unwrap();
        assert_ne!(opener, item, "no other item runs on the waiter's stack");
    }
}

/// spec: W7.2, W7.3 (propagates panics), W9: if the body of a scope panics, the panic is passed on after the items have
/// ended. It takes precedence over their panics.
#[test]
fn a_body_that_panics_waits_for_its_items() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let (door, done) = (Door::default(), AtomicUsize::new(0));
        let text = panic_of(|| {
            queue.try_scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        door.wait();
                        bump(&done);
                    })
                    .unwrap();
                }
                s.spawn(|| panic!("the item")).unwrap();
                let open = door.clone();
                queue.item(move || open.open()).after(Duration::from_millis(2)).spawn_detached().unwrap();
                panic!("the body");
            })
        });
        assert_eq!((text.as_str(), done.load(Ordering::SeqCst)), ("the body", 3));
    });
}

/// spec: W7.2 (propagates panics): if an item panics and is not joined, the scope panics at its end, whether and when
/// the item's handle was dropped.
#[test]
fn a_panic_of_an_item_that_is_not_joined_surfaces_at_the_end() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let others = AtomicUsize::new(0);
    let text = panic_of(|| {
        queue.try_scope(|s| {
            s.spawn(|| panic!("alone")).unwrap();
            s.spawn(|| bump(&others)).unwrap();
        })
    });
    assert_eq!((text.as_str(), others.into_inner()), ("alone", 1));
    // The handle is dropped after the item has ended.
    let text = panic_of(|| {
        queue.try_scope(|s| {
            let handle = s.spawn(|| panic!("dropped late")).unwrap();
            eventually("the item ended", || handle.is_finished());
            drop(handle);
        })
    });
    assert_eq!(text, "dropped late");
    // The payload of the panic is leaked with the handle, but the scope still reports the panic.
    let text = panic_of(|| queue.try_scope(|s| std::mem::forget(s.spawn(|| panic!("leaked")).unwrap())));
    assert_eq!(text, "an item of the scope panicked");
    let text = panic_of(|| queue.try_scope(|s| drop(s.spawn(|| panic_any(17)).unwrap())));
    assert_eq!(text, "no text");
    // Several items panic, some with a payload whose destructor panics. The scope rethrows one of the payloads.
    let text = panic_of(|| {
        queue.try_scope(|s| {
            for _ in 0..20 {
                s.spawn(|| panic!("many")).unwrap();
            }
        })
    });
    assert_eq!(text, "many");
    assert_eq!(queue.spawn(|| 4).unwrap().join().unwrap(), 4);
}

/// spec: W7.2 (propagates panics): a joiner gets the panic, and the scope does not rethrow it.
#[test]
fn a_panic_that_was_joined_goes_to_the_joiner_only() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for _ in 0..stress(20) {
            let ended = queue.try_scope(|s| {
                let (one, other) = (s.spawn(|| panic!("one")).unwrap(), s.spawn(|| panic!("other")).unwrap());
                let Err(JoinError::Panicked(panic)) = one.join() else { unreachable!("the item panicked") };
                assert_eq!(panic.message(), Some("one"));
                let Ok(Err(JoinError::Panicked(_))) = other.join_timeout(SOON) else {
                    unreachable!("the item panicked")
                };
                "well"
            });
            assert_eq!(ended, Ok("well"));
        }
    });
}

/// spec: W7.2, W9: a scope ends even if destructors of closures, results and panic payloads panic.
#[test]
fn panicking_destructors_do_not_keep_a_scope_from_ending() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let door = Door::default();
    let ended = queue.try_scope(|s| {
        s.spawn(|| door.wait()).unwrap();
        // The handle is dropped before the item runs, so the worker will drop the result.
        drop(s.spawn(|| Bomb).unwrap());
        std::mem::forget(s.spawn(|| Bomb).unwrap());
        door.open();
    });
    assert_eq!(ended, Ok(()), "the panic of a result's destructor is not reported");
    let text = panic_of(|| queue.try_scope(|s| drop(s.spawn(|| panic_any(Bomb)).unwrap())).map_err(|_| ()));
    assert_eq!(text, "no text");
    let door = Door::default();
    let text = panic_of(|| {
        queue.try_scope(|s| {
            s.spawn(|| door.wait()).unwrap();
            let bomb = Bomb;
            let handle = s.spawn(move || drop(bomb)).unwrap();
            let cancelled = catch_unwind(AssertUnwindSafe(|| handle.cancel()));
            door.open();
            assert!(cancelled.is_err(), "a closure that the caller drops panics in the caller");
            panic!("after the cancel");
        })
    });
    assert_eq!(text, "after the cancel");
}

/// spec: W7.3 (sound when leaked): leaked handles do not hang the scope, and do not end it early.
#[test]
fn a_scope_whose_handles_are_leaked_ends_when_its_items_do() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let mut values = [0; 16];
        let ended = queue.try_scope(|s| {
            for value in &mut values {
                std::mem::forget(s.spawn(|| {
                    cmwq::blocking::thread::sleep(Duration::from_micros(100));
                    *value += 1;
                    value
                }));
            }
        });
        ended.unwrap();
        assert_eq!(values, [1; 16]);
    });
}

/// spec: W7.3: results that borrow are dropped before the scope ends. The worker drops them, or the thread that drops
/// the handle.
#[test]
fn results_are_dropped_before_the_scope_ends() {
    struct Sees<'a>(&'a AtomicUsize);
    impl Drop for Sees<'_> {
        fn drop(&mut self) {
            std::thread::yield_now();
            bump(self.0);
        }
    }
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").build_on(executor).unwrap();
        for n in 0..stress(200) {
            let drops = AtomicUsize::new(0);
            let ended = queue.try_scope(|s| {
                let handle = s.spawn(|| Sees(&drops)).unwrap();
                match n % 4 {
                    0 => drop(handle),
                    1 => drop(handle.join()),
                    // Another item drops the handle.
                    2 => drop(s.spawn(move || drop(handle)).unwrap()),
                    _ => {
                        let _kept_to_the_end_of_the_body = handle;
                        std::thread::yield_now();
                    }
                }
            });
            ended.unwrap();
            assert_eq!(drops.into_inner(), 1);
        }
    });
}

/// spec: W7.6: a cancelled item counts as done, and is not reported.
#[test]
fn a_cancelled_item_counts_as_done() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").build_on(executor).unwrap();
        let (drops, door) = (Arc::new(AtomicUsize::new(0)), Door::default());
        let ended = queue.try_scope(|s| {
            s.spawn(|| door.wait()).unwrap();
            let capture = Counted(Arc::clone(&drops));
            let handle = s.spawn(move || drop(capture)).unwrap();
            assert!(s.spawn(|| ()).unwrap().join_timeout(Duration::ZERO).is_err(), "the slot is taken");
            assert!(handle.cancel() && handle.is_finished() && !handle.cancel());
            assert_eq!(drops.load(Ordering::SeqCst), 1);
            door.open();
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        });
        assert_eq!(ended, Ok(()));
    });
}

/// spec: W7.6, W1: a cancel may race with the item's run. In either case, the scope counts the item once.
#[test]
fn cancelling_races_with_the_run() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for _ in 0..stress(100) {
            let runs = AtomicUsize::new(0);
            let cancelled = queue.try_scope(|s| {
                let handles: Vec<_> = (0..6).map(|_| s.spawn(|| bump(&runs)).unwrap()).collect();
                handles.iter().filter(|handle| handle.cancel()).count()
            });
            assert_eq!(runs.into_inner() + cancelled.unwrap(), 6);
        }
    });
}

/// spec: W7, F5.10: the item that holds the only slot cannot wait for an item that needs that slot.
#[test]
fn the_holder_of_the_only_slot_cannot_spawn_into_its_own_scope() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in [WorkQueue::ordered("q"), WorkQueue::builder("q").max_active(1)] {
        let queue = queue.build_on(&executor).unwrap();
        let (inner, other) = (queue.clone(), WorkQueue::ordered("other").build_on(&executor).unwrap());
        let outer = queue.spawn(move || {
            let mut ran = 0;
            let ended = inner.try_scope(|s| {
                let refused = s.try_spawn(|| ran += 1).unwrap_err();
                assert_eq!(refused.error, QueueError::WouldDeadlock);
                (refused.into_closure())();
                // Other threads cannot spawn into this scope either. But the item may open a scope of another queue.
                std::thread::scope(|threads| {
                    let spawn = || s.spawn(|| ()).unwrap_err();
                    assert_eq!(threads.spawn(spawn).join().unwrap(), QueueError::WouldDeadlock);
                });
            });
            ended.unwrap();
            other.try_scope(|s| drop(s.spawn(|| ran += 1))).unwrap();
            ran
        });
        assert_eq!(outer.unwrap().join().unwrap(), 2);
        // A thread that runs no item of the queue may open a scope. An ordered queue runs the scope's items one at a
        // time, in order.
        let (tell, told) = mpsc::channel();
        let ended = queue.try_scope(|s| {
            for n in 0..5 {
                let tell = &tell;
                s.spawn(move || tell.send(n).unwrap()).unwrap();
            }
        });
        ended.unwrap();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}

/// spec: W7, F5.10: each spawn into a scope looks at the limit that the queue has at this time.
#[test]
fn a_scope_follows_the_limit_of_its_queue() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").max_active(1).build_on(&one_cpu()).unwrap();
    let own = queue.clone();
    let opener = queue.spawn(move || {
        let mut spawns = Vec::new();
        own.scope(|s| {
            for limit in [1, 8, 1, 2] {
                own.set_max_active(limit).unwrap();
                // The item of an earlier spawn may still have its slot.
                eventually("only the opener has a slot", || own.len() == 1);
                spawns.push(s.spawn(|| ()).map(|item| item.join().unwrap()));
            }
        });
        spawns
    });
    let refused = Err(QueueError::WouldDeadlock);
    assert_eq!(opener.unwrap().join().unwrap(), [refused, Ok(()), refused, Ok(())]);
}

/// spec: W7.6, Q3: if an item is refused, the issuer gets its closure back, and the scope does not wait for it.
#[test]
fn a_refused_item_does_not_count() {
    let _limit = time_limit();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&one_cpu()).unwrap();
    let (door, begun) = (Door::default(), Door::default());
    let mut count = 0;
    let ended = queue.try_scope(|s| {
        s.spawn(|| {
            begun.open();
            door.wait();
        })
        .unwrap();
        begun.wait();
        let second: ScopedJoinHandle<'_, ()> = s.spawn(|| ()).unwrap();
        let refused = s.try_spawn(|| count += 1).unwrap_err();
        assert_eq!(refused.error, QueueError::Full);
        (refused.into_closure())();
        door.open();
        second.join().unwrap();
    });
    assert_eq!((ended, count), (Ok(()), 1));
}

/// spec: W7.3, E5: an open scope keeps its queue alive, and the queue keeps its executor alive.
#[test]
fn a_queue_may_go_while_its_scope_is_open() {
    let _limit = time_limit();
    let (executor, prefix) = builder("l3:1 core:2 pu:1");
    let executor = executor.build().unwrap();
    let mut queue = Some(WorkQueue::builder("q").build_on(&executor).unwrap());
    drop(executor);
    let mut values = [1; 8];
    let handle = queue.clone().unwrap();
    handle
        .try_scope(|s| {
            queue = None;
            values.iter_mut().for_each(|value| drop(s.spawn(|| *value += 1).unwrap()));
        })
        .unwrap();
    assert_eq!((values, queue.is_none()), ([2; 8], true));
    drop(handle);
    eventually("its threads end", || crate::support::no_thread_of(&prefix));
}

/// spec: W7.1: many threads that are no workers may have open scopes at the same time.
#[test]
fn scopes_of_many_threads_do_not_disturb_each_other() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for n in 0..stress(50) {
                        let mut values = [n; 5];
                        let ended = queue.try_scope(|s| {
                            for value in &mut values {
                                s.spawn(|| *value += 1).unwrap();
                            }
                        });
                        ended.unwrap();
                        assert_eq!(values, [n + 1; 5]);
                    }
                });
            }
        });
    });
}
