//! Batches of items: their order, refusals in the middle, and the workers that they wake.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::kernel::{self, ExecutorExt, WorkQueueBuilderExt};
use cmwq::{
    AffinityScope, Attrs, CancelToken, EnqueueBatchError, JoinError, QueueError, WhenFull, Work, WorkQueue,
};

use crate::support::{
    Counted, Door, builder, bump, counting, cpus, current_pool, eventually, held, on_each_executor, one_cpu,
    one_cpu_unseen, pool, stress, time_limit, unseen,
};

/// Returns an item that counts its runs. It also counts that its closure is dropped, whether the item ran or not.
fn counted_item(runs: &Arc<AtomicUsize>, drops: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let (runs, counted) = (Arc::clone(runs), Counted(Arc::clone(drops)));
    move || {
        bump(&runs);
        drop(counted);
    }
}

/// spec: W8.1 (closures): the handles are in the order of the closures. One batch is empty, and one has more items than
/// the 256 that one step admits.
#[test]
fn a_batch_of_closures_gives_a_handle_for_each() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound, WorkQueue::ordered] {
            let queue = kind("q").build_on(executor).unwrap();
            for count in [0, 1, 2, 255, 256, 257, 2000] {
                let handles = queue.items((0..count).map(|n| move || n)).spawn().unwrap();
                let results: Vec<usize> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
                assert!(results.iter().copied().eq(0..count), "{count}");
            }
        }
    });
}

/// spec: W8.1, Q4: the items of a batch run in the batch's order. They run after the items that were queued before the
/// batch, and before those that were queued after it.
#[test]
fn a_batch_keeps_its_place_in_an_ordered_queue() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").build_on(executor).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let push = |n| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(n)
        };
        drop(queue.spawn(push(0)).unwrap());
        drop(queue.items((1..600).map(push)).spawn().unwrap());
        drop(queue.spawn(push(600)).unwrap());
        queue.flush().unwrap();
        assert!(order.lock().unwrap().iter().copied().eq(0..=600));
    });
}

/// spec: W8.1 (reusable items): the result counts the items that were not yet pending. Each of them runs once.
#[test]
fn a_batch_of_reusable_items_coalesces() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let wait = door.clone();
    let busy = queue.spawn(move || wait.wait()).unwrap();
    let works: Vec<Work> = (0..300)
        .map(|_| {
            let runs = Arc::clone(&runs);
            Work::new(move || bump(&runs))
        })
        .collect();
    assert_eq!(queue.enqueue(&works[7]), Ok(true));
    let one_twice: Vec<Work> = works.iter().chain(&works[..1]).cloned().collect();
    assert_eq!(queue.items(&one_twice).enqueue(), Ok(299));
    assert_eq!(queue.items(&works).enqueue(), Ok(0));
    assert_eq!(queue.items(&[]).enqueue(), Ok(0));
    door.open();
    busy.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 300);
    assert_eq!(queue.items(&works[..1]).enqueue(), Ok(1));
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 301);
}

/// spec: W8.2, Q3 (max_pending): the items that were accepted before the refusal stay queued, and the issuer gets the
/// other closures back.
#[test]
fn a_batch_is_cut_where_the_queue_is_full() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(5).build_on(&executor).unwrap();
    let door = Door::default();
    let (wait, began) = (door.clone(), Arc::new(AtomicUsize::new(0)));
    let tell = Arc::clone(&began);
    let busy = queue.spawn(move || {
        bump(&tell);
        wait.wait();
    });
    eventually("the first item began", || began.load(Ordering::SeqCst) == 1);

    let refused = queue.items((0..8).map(|n| move || n)).spawn().unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    assert_eq!(
        refused.to_string(),
        "5 of 8 items were accepted: the queue is full; try again when it has run something"
    );
    assert_eq!(refused.accepted(), 5);
    let (accepted, closures) = refused.into_parts();
    assert_eq!((accepted.len(), closures.len()), (5, 3));
    let works: Vec<Work> = (0..4).map(|_| Work::new(|| ())).collect();
    let error = queue.items(&works).enqueue().unwrap_err();
    assert!(matches!(error, EnqueueBatchError { error: QueueError::Full, index: 0, newly_pending: 0, .. }));

    door.open();
    busy.unwrap().join().unwrap();
    let accepted: Vec<usize> = accepted.into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(accepted, [0, 1, 2, 3, 4]);
    let again = queue.items(closures).spawn().unwrap();
    let again: Vec<usize> = again.into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(again, [5, 6, 7]);
}

/// spec: W8.2: a batch of reusable items is cut at the first item that does not fit. The error names that item.
#[test]
fn a_batch_of_reusable_items_is_cut_at_the_first_that_does_not_fit() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(3).build_on(&executor).unwrap();
    let (door, began) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, tell) = (door.clone(), Arc::clone(&began));
    let busy = queue.spawn(move || {
        bump(&tell);
        wait.wait();
    });
    eventually("the first item began", || began.load(Ordering::SeqCst) == 1);
    let works: Vec<Work> = (0..5).map(|_| Work::new(|| ())).collect();
    assert_eq!(queue.enqueue(&works[1]), Ok(true));
    let error = queue.items(&works).enqueue().unwrap_err();
    assert!(
        matches!(error, EnqueueBatchError { error: QueueError::Full, index: 3, newly_pending: 2, .. }),
        "the second item was pending before: {error:?}"
    );
    assert_eq!(works.iter().map(Work::is_pending).collect::<Vec<_>>(), [true, true, true, false, false]);
    door.open();
    busy.unwrap().join().unwrap();
    queue.flush().unwrap();
    assert_eq!(queue.items(&works[error.index..]).enqueue(), Ok(2));
    queue.flush().unwrap();
}

/// spec: W8.5, B2.1: a batch of reusable items that waits for room has woken the workers that make this room. The
/// issuer is a thread of its own, or an item of another queue that has declared that it blocks.
#[test]
fn a_batch_of_reusable_items_waits_for_its_own_items() {
    on_each_executor(|executor| {
        for when_full in [WhenFull::Wait, WhenFull::CallerRuns] {
            for count in [3, 600] {
                let queue = WorkQueue::builder("q").max_pending(2).when_full(when_full);
                let queue = queue.build_on(executor).unwrap();
                let runs = Arc::new(AtomicUsize::new(0));
                let works: Vec<Work> = (0..count).map(|_| counting(&runs)).collect();
                assert_eq!(queue.items(&works).enqueue(), Ok(count));
                queue.flush().unwrap();
                assert_eq!(runs.load(Ordering::SeqCst), count, "{when_full:?}");

                let own = queue.clone();
                let issuer = move || cmwq::blocking(|| own.items(&works).enqueue());
                let other = WorkQueue::builder("other").build_on(executor).unwrap();
                assert_eq!(other.spawn(issuer).unwrap().join().unwrap(), Ok(count));
                queue.flush().unwrap();
                assert_eq!(runs.load(Ordering::SeqCst), 2 * count, "{when_full:?}");
            }
        }
    });
}

/// spec: W8.2: if the iterator panics, no item is queued, and all closures are dropped. The iterator may use the queue
/// and wait for its items.
#[test]
fn the_iterator_of_a_batch_is_user_code() {
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let item = || counted_item(&runs, &drops);
        let panics = (0..10).map(|n| {
            assert!(n < 5, "no luck");
            item()
        });
        assert!(catch_unwind(AssertUnwindSafe(|| queue.items(panics).spawn())).is_err());
        queue.flush().unwrap();
        assert_eq!((runs.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (0, 5));

        let queues = (0..10).map(|_| {
            queue.spawn(item()).unwrap().join().unwrap();
            item()
        });
        drop(queue.items(queues).spawn().unwrap());
        queue.flush().unwrap();
        assert_eq!((runs.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (20, 25));
    });
}

/// spec: W8.5 (one wake-up decision): the woken worker wakes the next one, until a managed pod has all of its workers,
/// and an unmanaged pod has a worker for each item.
#[test]
fn one_wake_up_leads_to_every_worker() {
    let _limit = time_limit();
    let executor = unseen(builder("l3:1 core:8 pu:1").0).build().unwrap();
    for (kind, workers) in [(WorkQueue::builder as fn(&'static str) -> _, 8), (WorkQueue::unbound, 20)] {
        for _ in 0..stress(20) {
            let queue = kind("q").build_on(&executor).unwrap();
            let (door, inside) = (Door::default(), Arc::new(AtomicUsize::new(0)));
            let items = (0..20).map(|_| {
                let (door, inside) = (door.clone(), Arc::clone(&inside));
                move || {
                    bump(&inside);
                    door.wait_unguarded();
                    current_pool()
                }
            });
            let handles = queue.items(items).spawn().unwrap();
            eventually("all workers have come", || inside.load(Ordering::SeqCst) >= workers);
            door.open();
            let name = handles.into_iter().map(|handle| handle.join().unwrap()).last().unwrap();
            assert_eq!(pool(&executor, &name).pending, 0);
        }
    }
}

/// spec: W8.5: several threads queue batches to pools whose workers fall asleep between two batches.
#[test]
fn no_item_of_a_batch_is_left_behind() {
    on_each_executor(|executor| {
        let queues = [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound, WorkQueue::ordered]
            .map(|kind| kind("q").max_pending(400).build_on(executor).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let queues = &queues;
                scope.spawn(move || {
                    let works: Vec<Work> = (0..20).map(|_| Work::new(|| ())).collect();
                    for round in 0..stress(100) {
                        let queue = &queues[(round + thread) % 4];
                        let handles = match queue.items((0..round % 300).map(|n| move || n)).spawn() {
                            Ok(handles) => handles,
                            Err(refused) => refused.into_parts().0,
                        };
                        let _may_be_full = queue.items(&works).enqueue();
                        let sum: usize = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
                        assert!(sum <= 300 * 300);
                    }
                });
            }
        });
        queues.iter().for_each(|queue| queue.flush().unwrap());
    });
}

/// spec: W8.3: all items run on every kind of queue. They run in order on the kinds that keep an order. The worker
/// drops the results, which need not be `Send`.
#[test]
fn a_batch_without_handles_runs() {
    on_each_executor(|executor| {
        let kinds =
            [WorkQueue::ordered, WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound, kernel::bh];
        for (index, kind) in kinds.into_iter().enumerate() {
            let queue = kind("q").build_on(executor).unwrap();
            for count in [0, 1, 255, 256, 257, 2000] {
                let order = Arc::new(Mutex::new(Vec::new()));
                let push = |n| {
                    let order = Arc::clone(&order);
                    move || {
                        order.lock().unwrap().push(n);
                        std::rc::Rc::new(n)
                    }
                };
                queue.items((0..count).map(push)).spawn_detached().unwrap();
                queue.flush().unwrap();
                let mut order = std::mem::take(&mut *order.lock().unwrap());
                if index > 0 {
                    order.sort_unstable();
                }
                assert!(order.into_iter().eq(0..count), "{count}");
            }
        }
    });
}

/// spec: W8.3, Q3 (max_pending): the issuer gets back the items that do not fit, and the rest of the iterator.
#[test]
fn a_batch_without_handles_is_cut() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(300).build_on(&executor).unwrap();
    let (door, began) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, tell) = (door.clone(), Arc::clone(&began));
    let busy = queue.spawn(move || {
        bump(&tell);
        wait.wait();
    });
    eventually("the item began", || began.load(Ordering::SeqCst) == 1);
    let (order, drops) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let item = |n| {
        let (order, counted) = (Arc::clone(&order), Counted(Arc::clone(&drops)));
        move || {
            order.lock().unwrap().push(n);
            drop(counted);
        }
    };
    let refused = queue.items((0..1000).map(item)).spawn_detached().unwrap_err();
    assert_eq!((refused.error, refused.accepted()), (QueueError::Full, 300));
    assert_eq!(
        refused.to_string(),
        "300 of 1000 items were accepted: the queue is full; try again when it has run something"
    );
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    door.open();
    busy.unwrap().join().unwrap();
    queue.flush().unwrap();
    let (accepted, rest) = refused.into_parts();
    assert_eq!((accepted, rest.len()), (300, 700));
    let mut rest = rest.into_iter();
    while rest.len() > 0 {
        queue.items(rest.by_ref().take(300)).spawn_detached().unwrap();
        queue.flush().unwrap();
    }
    assert!(order.lock().unwrap().iter().copied().eq(0..1000));
    assert_eq!(drops.load(Ordering::SeqCst), 1000);
    let none = queue.items(std::iter::empty::<fn()>()).spawn_detached();
    assert!(none.is_ok());
}

/// spec: W8.3: if the iterator panics, only whole blocks of 256 items are queued, and each other closure is dropped.
/// The iterator may use the queue.
#[test]
fn the_iterator_of_a_batch_without_handles_is_user_code() {
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let item = || counted_item(&runs, &drops);
        let panics = (0..600).map(|n| {
            assert!(n < 300, "no luck");
            item()
        });
        assert!(catch_unwind(AssertUnwindSafe(|| queue.items(panics).spawn_detached())).is_err());
        queue.flush().unwrap();
        assert_eq!((runs.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (256, 300));

        let queues = (0..600).map(|n| {
            if n % 100 == 0 {
                queue.flush().unwrap();
                queue.spawn(item()).unwrap().join().unwrap();
            }
            item()
        });
        queue.items(queues).spawn_detached().unwrap();
        queue.flush().unwrap();
        assert_eq!((runs.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (862, 906));
    });
}

/// spec: W8.4, F4: while a queue drains, only its own items can queue batches to it.
#[test]
fn a_batch_of_a_draining_queue_comes_from_its_own_items() {
    on_each_executor(|executor| {
        for limit in [1, 3, 300] {
            let queue = WorkQueue::per_cpu("q").max_active(limit).build_on(executor).unwrap();
            let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
            let (wait, own, bumps) = (door.clone(), queue.clone(), Arc::clone(&runs));
            let item = move || {
                wait.wait();
                let items = || {
                    let bumps = Arc::clone(&bumps);
                    (0..300).map(move |_| {
                        let bumps = Arc::clone(&bumps);
                        move || bump(&bumps)
                    })
                };
                own.items(items()).spawn_detached().unwrap();
                drop(own.items(items()).spawn().unwrap());
            };
            let own_item = queue.spawn(item).unwrap();
            std::thread::scope(|scope| {
                let drain = scope.spawn(|| queue.drain().unwrap());
                eventually("the queue drains", || queue.spawn(|| ()).is_err());
                let refused = queue.items((0..5).map(|n| move || n)).spawn_detached().unwrap_err();
                assert_eq!((refused.error, refused.accepted()), (QueueError::Draining, 0));
                assert_eq!(
                    queue.items((0..5).map(|n| move || n)).spawn().unwrap_err().into_parts().1.len(),
                    5
                );
                door.open();
                drain.join().unwrap();
            });
            own_item.join().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 600);
        }
    });
}

/// spec: W8.4, Q3 (max_active), F8: threads queue batches and single items while the limit changes. No more items are
/// active than the limit allows, and all items run.
#[test]
fn batches_beside_single_items_keep_the_limit() {
    on_each_executor(|executor| {
        let queue = WorkQueue::unbound("q").max_active_total(4).build_on(executor).unwrap();
        let (active, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let item = || {
            let (active, runs) = (Arc::clone(&active), Arc::clone(&runs));
            move || {
                assert!(active.fetch_add(1, Ordering::SeqCst) < 4, "more items are active than allowed");
                active.fetch_sub(1, Ordering::SeqCst);
                bump(&runs);
            }
        };
        let rounds = stress(60);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        queue.items((0..round % 40).map(|_| item())).spawn_detached().unwrap();
                        drop(queue.spawn(item()).unwrap());
                        queue.items((0..3).map(|_| item())).spawn().unwrap().pop().unwrap().join().unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..rounds {
                    queue.set_max_active(1 + round % 4).unwrap();
                    std::thread::yield_now();
                }
            });
        });
        queue.flush().unwrap();
        let expected: usize = (0..rounds).map(|round| round % 40 + 4).sum();
        assert_eq!(runs.load(Ordering::SeqCst), 2 * expected);
    });
}

/// spec: W8.4, F1, F7, Q4: flushes, freezes and attribute changes happen while batches come. All items run, and those
/// of each issuer run in the order in which it queued them.
#[test]
fn batches_go_on_while_their_queue_changes() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::ordered("q").freezable(true).build_on(&executor).unwrap();
    let (order, over) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
    let batches = stress(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while over.load(Ordering::SeqCst) == 0 {
                n += 1;
                let scopes = [AffinityScope::Cpu, AffinityScope::Cache, AffinityScope::System];
                queue.apply_attrs(Attrs::new().scope(scopes[n % 3])).unwrap();
                executor.freeze_begin();
                executor.thaw();
                queue.flush().unwrap();
            }
        });
        for batch in 0..batches {
            let item = |n| {
                let order = Arc::clone(&order);
                move || order.lock().unwrap().push(batch * 300 + n)
            };
            queue.items((0..300).map(item)).spawn_detached().unwrap();
        }
        queue.flush().unwrap();
        assert!(order.lock().unwrap().iter().copied().eq(0..batches * 300));
        over.store(1, Ordering::SeqCst);
    });
}

/// spec: W8.4, E5: a shutdown reports every item that it gives up, including those of batches that arrive at the same
/// moment.
#[test]
fn batches_against_a_shutdown_that_runs_out_of_time() {
    let _limit = time_limit();
    for round in 0..stress(10) {
        let executor = cpus(2);
        let queue = WorkQueue::unbound("q").max_active_total(512).build_on(&executor).unwrap();
        let (door, drops) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let wait = door.clone();
        let stuck = queue.spawn(move || wait.wait()).unwrap();
        let batches = AtomicUsize::new(0);
        let accepted: usize = std::thread::scope(|scope| {
            let issuers = [(); 3].map(|()| {
                scope.spawn(|| {
                    let mut accepted = 0;
                    loop {
                        let item = |_| {
                            let counted = Counted(Arc::clone(&drops));
                            move || drop(counted)
                        };
                        match queue.items((0..400).map(item)).spawn_detached() {
                            Ok(()) => {
                                accepted += 400;
                                bump(&batches);
                            }
                            Err(cut) => {
                                let (came, rest) = cut.into_parts();
                                std::mem::forget(rest);
                                return accepted + came;
                            }
                        }
                    }
                })
            });
            eventually("some batches are accepted", || batches.load(Ordering::SeqCst) >= round % 5);
            executor.shutdown(Duration::ZERO).unwrap();
            issuers.map(|issuer| issuer.join().unwrap()).into_iter().sum()
        });
        eventually("each item has run or was dropped", || drops.load(Ordering::SeqCst) == accepted);
        door.open();
        // The result is ignored, because the shutdown may have given up this item as well.
        drop(stuck.join());
        eventually("the queue is empty", || queue.is_empty());
    }
}

/// spec: W8.3: after the iterator has returned `None`, it is not called again.
#[test]
fn an_iterator_that_has_ended_is_not_called_again() {
    let executor = cpus(1);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let mut asked = 0;
    let closures = std::iter::from_fn(|| {
        asked += 1;
        let runs = Arc::clone(&runs);
        (asked != 3).then_some(move || bump(&runs))
    });
    queue.items(closures).spawn_detached().unwrap();
    queue.flush().unwrap();
    assert_eq!((asked, runs.load(Ordering::SeqCst)), (3, 2));
}

/// spec: W8.7, I3.5, I3.6: if a batch's token is cancelled or its deadline passes, its items do not run, and their
/// owners are told. This holds for batches with and without a delay, and with and without handles.
#[test]
fn a_batch_may_be_cancelled_or_too_late() {
    on_each_executor(|executor| {
        let hour = Duration::from_secs(3600);
        for delay in [Duration::ZERO, hour] {
            let queue = WorkQueue::builder("q").build_on(executor).unwrap();
            let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let items = || (0..300).map(|_| counted_item(&runs, &drops));
            let token = CancelToken::new();
            let handles = match delay {
                Duration::ZERO => {
                    // Items without a delay begin at once, so the token is cancelled before they are queued.
                    token.cancel();
                    queue.items(items()).token(&token).spawn().unwrap()
                }
                _ => {
                    let handles = queue.items(items()).token(&token).after(delay).spawn().unwrap();
                    queue.items(items()).token(&token).after(delay).named("n").spawn_detached().unwrap();
                    token.cancel();
                    handles
                }
            };
            for handle in handles {
                assert!(matches!(handle.join(), Err(JoinError::Cancelled)), "{delay:?}");
            }
            let late = queue.items(items()).after(delay).deadline(Instant::now()).spawn().unwrap();
            queue.items(items()).after(delay).within(Duration::ZERO).named("n").spawn_detached().unwrap();
            for handle in late {
                assert!(matches!(handle.join(), Err(JoinError::DeadlinePassed)), "{delay:?}");
            }
            let expected = if delay.is_zero() { 900 } else { 1200 };
            eventually("all closures are dropped", || drops.load(Ordering::SeqCst) == expected);
            assert_eq!(queue.destroy(), Ok(0), "no timer is left");
            // If its joiner gives a delayed item up first, the item never enters the queue, and is not counted.
            let expired = queue.counters().expired;
            assert!(expired == 600 || !delay.is_zero() && (300..600).contains(&expired), "{expired}");
            assert_eq!(runs.load(Ordering::SeqCst), 0);
        }
    });
}

/// spec: W8.2, W8.7: if a queue becomes full in the middle of a batch with a token, the issuer gets the other closures
/// back, and the token still cancels the accepted items.
#[test]
fn a_batch_with_a_token_may_be_refused_in_the_middle() {
    let queue = WorkQueue::ordered("q").max_pending(3).build_on(&one_cpu_unseen()).unwrap();
    let (busy, door) = held(&queue);
    let token = CancelToken::new();
    let items = || queue.items((0..5).map(|n| move || n)).token(&token).named("n");
    let refused = items().spawn().unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    let (accepted, closures) = refused.into_parts();
    assert_eq!((accepted.len(), closures.into_iter().map(|f| f()).collect::<Vec<_>>()), (3, vec![3, 4]));
    token.cancel();
    for handle in accepted {
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
    door.open();
    busy.join().unwrap();
    queue.wait_idle().unwrap();

    let (busy, door) = held(&queue);
    let refused = items().spawn_detached().unwrap_err();
    let (accepted, closures) = refused.into_parts();
    assert_eq!((accepted, closures.into_iter().map(|f| f()).collect::<Vec<_>>()), (3, vec![3, 4]));
    door.open();
    busy.join().unwrap();
    queue.destroy().unwrap();
    for delay in [Duration::ZERO, Duration::from_secs(3600)] {
        let refused = items().after(delay).spawn().unwrap_err();
        assert_eq!((refused.error, refused.accepted()), (QueueError::Destroyed, 0));
        assert_eq!(refused.into_parts().1.into_iter().map(|f| f()).sum::<i32>(), 10);
        let refused = items().after(delay).spawn_detached().unwrap_err();
        assert_eq!(refused.into_parts().1.into_iter().map(|f| f()).sum::<i32>(), 10);
    }
}
