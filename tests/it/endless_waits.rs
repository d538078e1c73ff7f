//! A wait that could never end is an error, not a hang.

use std::sync::mpsc;
use std::time::Duration;

use cmwq::blocking::block_on;
use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{CancelToken, JoinError, JoinHandle, QueueError, WaitError, Work, WorkQueue, WorkQueueBuilder};
use fastrand::Rng;

use crate::support::{
    Door, PATIENCE, SOON, cpus, eventually, falls_asleep, on_each_executor, one_cpu, stress, thread_id,
    time_limit,
};

/// Queues that have one slot for all items of an executor of one CPU.
fn with_one_slot() -> [WorkQueueBuilder; 5] {
    [
        WorkQueue::ordered("ordered"),
        WorkQueue::unbound("unbound").max_active(1),
        WorkQueue::per_cpu("per CPU").max_active(1),
        WorkQueue::builder("managed").max_active_total(1),
        WorkQueue::per_cpu("total").max_active_total(1),
    ]
}

/// spec: F5.1 (join of oneself)
#[test]
fn an_item_that_joins_itself_gets_a_deadlock_error() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            for patient in [true, false] {
                let queue = kind("q").build_on(executor).unwrap();
                let (hand_over, take) = mpsc::channel::<JoinHandle<()>>();
                let (tell, told) = mpsc::channel();
                let item = move || {
                    let own = take.recv().unwrap();
                    let answer = match patient {
                        true => own.join(),
                        false => own.join_timeout(SOON).unwrap(),
                    };
                    tell.send(answer).unwrap();
                };
                hand_over.send(queue.spawn(item).unwrap()).unwrap();
                let answer = told.recv_timeout(SOON).unwrap();
                assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            }
        }
    });
}

/// spec: F5.2 (waiting, from the item that holds the only slot, for an item that needs that slot)
#[test]
fn the_holder_of_the_only_slot_cannot_join_an_item_that_needs_it() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in with_one_slot() {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let (tell, told) = mpsc::channel();
        let outer = move || {
            let run = tell.clone();
            let waiting = inner.spawn(move || run.send("it went on").unwrap()).unwrap();
            let answer = waiting.join();
            assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            let waiting = inner.spawn(|| ()).unwrap();
            let answer = waiting.join_timeout(Duration::ZERO).unwrap();
            assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            // A join of an item that has ended does not wait.
            let cancelled = inner.spawn(|| ()).unwrap();
            assert!(cancelled.cancel());
            assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
            tell.send("the outer item is done").unwrap();
        };
        queue.spawn(outer).unwrap().join().unwrap();
        assert_eq!(told.recv_timeout(SOON).unwrap(), "the outer item is done");
        assert_eq!(told.recv_timeout(SOON).unwrap(), "it went on", "the item was detached");
    }
}

/// spec: F5.9, I3.5: a cancelled token or a deadline ends the wait for an item that has no slot. So the holder of the
/// only slot can join such an item.
#[test]
fn the_holder_of_the_only_slot_can_join_an_item_that_a_token_or_deadline_ends() {
    let _limit = time_limit();
    let executor = one_cpu();
    let soon = Duration::from_millis(50);
    for queue in with_one_slot() {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let outer = move || {
            let unreachable = || -> () { unreachable!("the item has no slot") };
            let cancelled = || {
                let token = CancelToken::new();
                let item = inner.item(unreachable).token(&token).spawn().unwrap();
                token.cancel();
                item
            };
            let late = || inner.item(unreachable).within(soon).spawn().unwrap();
            let joins = [
                JoinHandle::join,
                |item: JoinHandle<()>| item.join_timeout(SOON).unwrap(),
                |item: JoinHandle<()>| item.join_cancellable().unwrap(),
                |item: JoinHandle<()>| block_on(item),
            ];
            (joins.map(|join| join(cancelled())), joins.map(|join| join(late())))
        };
        let (by_token, by_deadline) = queue.spawn(outer).unwrap().join().unwrap();
        assert!(by_token.iter().all(|answer| matches!(answer, Err(JoinError::Cancelled))), "{by_token:?}");
        let are_late = by_deadline.iter().all(|answer| matches!(answer, Err(JoinError::DeadlinePassed)));
        assert!(are_late, "{by_deadline:?}");
    }
}

/// spec: F5.2: an item can join another one that got its slot before the limit was lowered to one. Then it holds the
/// only slot.
#[test]
fn the_only_slot_is_known_after_the_limit_was_lowered() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").max_active(2).build_on(&executor).unwrap();
    let (hand_over, take) = mpsc::channel::<JoinHandle<()>>();
    let (arrives, arrived) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let (own, inner) = (queue.clone(), queue.clone());
    let second = move || {
        let first = take.recv().unwrap();
        let first = first.join_timeout(Duration::ZERO).expect_err("the first item has a slot, too");
        arrives.send(()).unwrap();
        first.join().unwrap();
        eventually("the first item has given its slot back", || inner.len() == 1);
        let answer = inner.spawn(|| ()).unwrap().join();
        assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
        inner.set_max_active(2).unwrap();
        inner.spawn(|| ()).unwrap().join().unwrap();
        tell.send(()).unwrap();
    };
    let first = move || {
        // The second item gets a slot at once. But it begins only when this item waits, after the limit was lowered.
        own.spawn(second).unwrap();
        own.set_max_active(1).unwrap();
        cmwq::blocking(|| arrived.recv()).unwrap();
    };
    hand_over.send(queue.spawn(first).unwrap()).unwrap();
    told.recv_timeout(SOON).unwrap();
}

/// spec: F5.2: the next run of an item has the only slot of another queue. The item can join an item that got a slot of
/// this queue before the limit was lowered to one. It cannot join an item that waits for the slot, not even while the
/// queue is frozen.
#[test]
fn a_slot_for_the_next_run_is_the_only_one_if_no_other_item_has_one() {
    let _limit = time_limit();
    let executor = one_cpu();
    let first = WorkQueue::builder("first").build_on(&executor).unwrap();
    let next = WorkQueue::builder("next").max_active(1).freezable(true).build_on(&executor).unwrap();
    let (hand_over, take) = mpsc::channel::<Work>();
    let (tell, told) = mpsc::channel();
    let (queue, frozen) = (next.clone(), executor.clone());
    let work = Work::new(move || {
        let Ok(own) = take.try_recv() else { return };
        assert!(queue.enqueue(&own).unwrap());
        let is_refused = || {
            let answer =
                cmwq::blocking(|| queue.spawn(|| ()).unwrap().join_timeout(Duration::from_millis(1)));
            matches!(answer, Ok(Err(JoinError::WouldDeadlock)))
        };
        eventually("this item has the only slot for its next run", is_refused);
        frozen.freeze_begin();
        assert!(is_refused(), "after the thaw, the slot is the only one again");
        frozen.thaw();
        queue.set_max_active(2).unwrap();
        let door = Door::default();
        let (begins, begun) = mpsc::channel();
        let other = queue.spawn({
            let door = door.clone();
            move || {
                begins.send(()).unwrap();
                door.wait();
            }
        });
        cmwq::blocking(|| begun.recv()).unwrap();
        queue.set_max_active(1).unwrap();
        let other = other.unwrap().join_timeout(Duration::ZERO).expect_err("the other item has a slot, too");
        door.open();
        other.join().unwrap();
        eventually("this item has the only slot once more", is_refused);
        tell.send(()).unwrap();
    });
    hand_over.send(work.clone()).unwrap();
    first.enqueue(&work).unwrap();
    told.recv_timeout(SOON).unwrap();
    next.flush().unwrap();
}

/// spec: F5.2, F7: a freeze does not make a wait endless, because the executor will thaw. But a freeze gives the queue
/// no further slot.
#[test]
fn the_only_slot_is_known_while_the_queue_is_frozen() {
    let _limit = time_limit();
    let executor = one_cpu();
    for (limit, would_end) in [(1, false), (2, true)] {
        let queue = WorkQueue::builder("q").max_active(limit).freezable(true).build_on(&executor).unwrap();
        let (inner, frozen) = (queue.clone(), executor.clone());
        let outer = queue.spawn(move || {
            frozen.freeze_begin();
            let answer = inner.spawn(|| ()).unwrap().join_timeout(Duration::ZERO);
            frozen.thaw();
            match answer {
                Err(waits) => waits.join().is_ok(),
                Ok(Err(JoinError::WouldDeadlock)) => false,
                Ok(other) => panic!("{other:?}"),
            }
        });
        assert_eq!(outer.unwrap().join().unwrap(), would_end, "{limit}");
    }
}

/// spec: F5.2, C2 (join waits under a guard): a join of an item that has a slot, or can get one, is no deadlock.
#[test]
fn items_may_join_items_that_have_a_slot() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in [
        WorkQueue::per_cpu("q").max_active(2),
        WorkQueue::builder("q").max_active(2),
        WorkQueue::unbound("q").max_active_total(2),
    ] {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let outer = queue.spawn(move || inner.spawn(|| 3).unwrap().join().unwrap() + 1).unwrap();
        assert_eq!(outer.join().unwrap(), 4);
    }
    let queues: Vec<_> = with_one_slot().map(|queue| queue.build_on(&executor).unwrap()).into();
    for (one, other) in queues.iter().zip(queues.iter().skip(1)) {
        let other = other.clone();
        let outer = one.spawn(move || other.spawn(|| 3).unwrap().join().unwrap() + 1).unwrap();
        assert_eq!(outer.join().unwrap(), 4);
    }
}

/// spec: F5.3 (flush of the own queue), F1
#[test]
fn an_item_cannot_flush_its_own_queue_but_any_other() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            let (own, other) =
                (kind("own").build_on(executor).unwrap(), kind("own").build_on(executor).unwrap());
            let (tell, told) = mpsc::channel();
            let (this, that) = (own.clone(), other.clone());
            let flush_both = move || {
                drop(that.spawn(|| ()).unwrap());
                tell.send((this.clone().flush(), that.flush())).unwrap();
            };
            let expected = (Err(WaitError::WouldDeadlock), Ok(()));
            own.spawn(flush_both.clone()).unwrap().join().unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), expected);
            own.enqueue(&Work::new(flush_both)).unwrap();
            own.flush().unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), expected);
        }
    });
}

/// spec: C2.1, F5.9: deep chains of items end, in which each item waits under a guard for an item that it has queued.
#[test]
fn chains_of_waiting_items_resolve() {
    fn chain(queue: &WorkQueue, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = queue.clone();
        queue.spawn(move || chain(&inner, depth - 1)).unwrap().join().unwrap() + 1
    }
    let _limit = time_limit();
    for cpus_of_pools in [1, 2, 8] {
        let executor = cpus(cpus_of_pools);
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound] {
            let queue = kind("q").build_on(&executor).unwrap();
            assert_eq!(chain(&queue, 40), 40);
        }
    }
}

/// spec: F5.3 (flush): an item cannot flush a queue on which its next run is pending.
#[test]
fn an_item_cannot_flush_a_queue_on_which_it_is_pending() {
    on_each_executor(|executor| {
        let here = WorkQueue::builder("here").build_on(executor).unwrap();
        let there = WorkQueue::ordered("there").build_on(executor).unwrap();
        let (tell, told) = mpsc::channel();
        let target = there.clone();
        let work = Work::with_handle(move |this| {
            // The first run queues the item to the other queue and flushes this queue. In a second run, the item would
            // be pending nowhere.
            if target.enqueue(this) == Ok(true) {
                tell.send((target.flush(), this.cancel())).unwrap();
            }
        });
        assert_eq!(here.enqueue(&work), Ok(true));
        let (answer, cancelled) = told.recv_timeout(SOON).unwrap();
        assert_eq!(answer, Err(WaitError::WouldDeadlock));
        assert!(cancelled, "the item was pending on the other queue");
        here.flush().unwrap();
        assert_eq!(there.flush(), Ok(()));
    });
}

// Cycles of several waiting items are found in debug builds. --------------------------------------------------------

/// Makes a channel that passes a handle to the item that will wait with this handle.
fn hand_over<T: Send + 'static>() -> (mpsc::Sender<T>, impl FnOnce() -> T + Send) {
    let (give, take) = mpsc::channel();
    (give, move || cmwq::blocking(|| take.recv_timeout(SOON)).expect("the handle is passed on"))
}

/// Asserts that exactly one of the items that wait for each other was refused.
#[track_caller]
fn assert_one_was_refused(answers: impl IntoIterator<Item = bool>) {
    let refused = answers.into_iter().filter(|refused| *refused).count();
    assert_eq!(refused, 1);
}

fn is_refused<T>(answer: &Result<T, JoinError>) -> bool {
    matches!(answer, Err(JoinError::WouldDeadlock))
}

/// spec: F5.7 (a wait that closes a cycle is reported instead of hanging): the waits are joins.
#[test]
#[cfg(debug_assertions)]
fn items_that_join_each_other_learn_of_the_deadlock() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for length in [2, 3, 5] {
            let (tell, told) = mpsc::channel();
            let (gives, takes): (Vec<_>, Vec<_>) = (0..length).map(|_| hand_over::<JoinHandle<()>>()).unzip();
            let spawn = |take: Box<dyn FnOnce() -> JoinHandle<()> + Send>| {
                let tell = tell.clone();
                queue.spawn(move || tell.send(is_refused(&take().join())).unwrap()).unwrap()
            };
            let mut handles: Vec<_> = takes.into_iter().map(|take| spawn(Box::new(take))).collect();
            // Each item joins the one before it, and the first one joins the last.
            handles.rotate_right(1);
            gives.iter().zip(handles).for_each(|(give, handle)| give.send(handle).unwrap());
            assert_one_was_refused((0..length).map(|_| told.recv_timeout(SOON).unwrap()));
        }
    });
}

/// spec: F5.7 (a wait that closes a cycle): items flush each other's queues, of kinds with one and with several slots.
#[test]
#[cfg(debug_assertions)]
fn items_that_flush_each_others_queues_learn_of_the_deadlock() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::ordered] {
            let (one, other) =
                (kind("one").build_on(executor).unwrap(), kind("other").build_on(executor).unwrap());
            let both = std::sync::Arc::new(std::sync::Barrier::new(2));
            let item = |to_flush: &WorkQueue| {
                let (queue, both) = (to_flush.clone(), both.clone());
                move || {
                    cmwq::blocking(|| both.wait());
                    queue.flush()
                }
            };
            let (a, b) = (one.spawn(item(&other)).unwrap(), other.spawn(item(&one)).unwrap());
            let answers = [a.join().unwrap(), b.join().unwrap()];
            assert_one_was_refused(answers.map(|answer| answer == Err(WaitError::WouldDeadlock)));
        }
    });
}

/// spec: F5.7: an item cannot wait for a second, pending item if the holders of all slots wait for the first.
#[test]
#[cfg(debug_assertions)]
fn waiting_for_an_item_behind_ones_that_wait_for_the_caller_is_refused() {
    let _limit = time_limit();
    let executor = cpus(2);
    for slots in [1, 2] {
        let here = WorkQueue::builder("here").build_on(&executor).unwrap();
        let there = WorkQueue::unbound("there").max_active_total(slots).build_on(&executor).unwrap();
        let (give_pending, pending) = hand_over::<JoinHandle<()>>();
        let first = here.spawn(move || is_refused(&pending().join())).unwrap();
        let (give_first, take_first) = hand_over::<JoinHandle<bool>>();
        let (give_holder, take_holder) = hand_over::<JoinHandle<bool>>();
        let holder = there.spawn(move || is_refused(&take_first().join())).unwrap();
        // If there is a second slot, its holder waits for the holder of the first slot.
        let second = (slots == 2).then(|| there.spawn(move || is_refused(&take_holder().join())).unwrap());
        give_pending.send(there.spawn(|| ()).unwrap()).unwrap();
        give_first.send(first).unwrap();
        match second {
            None => drop(holder.join()),
            Some(second) => {
                give_holder.send(holder).unwrap();
                second.join().unwrap();
            }
        }
        assert_eq!((here.flush(), there.flush()), (Ok(()), Ok(())), "all items ended");
    }
}

/// spec: F5.9: as long as one of the slots may become free, a wait for a pending item is no deadlock.
#[test]
fn waiting_behind_an_item_that_will_end_is_no_deadlock() {
    let _limit = time_limit();
    let executor = cpus(2);
    let here = WorkQueue::builder("here").build_on(&executor).unwrap();
    let there = WorkQueue::unbound("there").max_active_total(2).build_on(&executor).unwrap();
    let (give_pending, pending) = hand_over::<JoinHandle<u32>>();
    let (give_first, take_first) = hand_over::<JoinHandle<u32>>();
    let (waits, is_waiting) = mpsc::channel();
    let tell = waits.clone();
    let first = here.spawn(move || {
        let pending = pending();
        tell.send(thread_id()).unwrap();
        pending.join().unwrap()
    });
    let holder = there.spawn(move || {
        let first = take_first();
        waits.send(thread_id()).unwrap();
        first.join().unwrap()
    });
    let (first, holder) = (first.unwrap(), holder.unwrap());
    let door = Door::default();
    let wait = door.clone();
    let other = there.spawn(move || wait.wait()).unwrap();
    give_pending.send(there.spawn(|| 7).unwrap()).unwrap();
    give_first.send(first).unwrap();
    is_waiting.iter().take(2).for_each(|waiter| falls_asleep("the item waits", waiter));
    door.open();
    assert_eq!((holder.join().unwrap(), other.join().unwrap()), (7, ()));
}

/// spec: W7.5: an item that joins, flushes or drains runs no other item on its stack. Other threads run the pending
/// items, even on one CPU.
#[test]
fn a_wait_inside_an_item_runs_no_other_item() {
    let _limit = time_limit();
    type Wait = fn(&WorkQueue, JoinHandle<()>, &Work);
    let waits: [Wait; 6] = [
        |_, last, _| last.join().unwrap(),
        |_, last, _| assert!(matches!(last.join_timeout(SOON), Ok(Ok(())))),
        |queue, _, _| queue.flush().unwrap(),
        |queue, _, _| queue.flush_timeout(SOON).unwrap(),
        |queue, _, _| queue.drain().unwrap(),
        |_, last, work| {
            work.flush().unwrap();
            last.join().unwrap();
        },
    ];
    let executor = one_cpu();
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound] {
        for wait in waits {
            let [here, there] = ["here", "there"].map(|name| kind(name).build_on(&executor).unwrap());
            let (tell, told) = mpsc::channel();
            let waiter = here.spawn(move || {
                let tells = |tell: &mpsc::Sender<_>| {
                    let tell = tell.clone();
                    move || tell.send(std::thread::current().id()).unwrap()
                };
                drop(there.spawn(tells(&tell)).unwrap());
                let work = Work::new(tells(&tell));
                there.enqueue(&work).unwrap();
                let last = there.spawn(|| ()).unwrap();
                wait(&there, last, &work);
                std::thread::current().id()
            });
            let waiter = waiter.unwrap().join().unwrap();
            let others: Vec<_> = told.iter().collect();
            assert_eq!(others.len(), 2);
            assert!(!others.contains(&waiter), "an item ran on the stack of one that waits");
        }
    }
}

/// spec: F5.7, W7: an open scope counts as a wait for its items.
#[test]
#[cfg(debug_assertions)]
fn an_item_of_a_scope_cannot_wait_for_the_one_that_opened_it() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (give, take) = hand_over::<JoinHandle<bool>>();
    let inner = queue.clone();
    let opener = queue
        .spawn(move || {
            inner.try_scope(|s| s.spawn(|| is_refused(&take().join())).unwrap().join().unwrap()).unwrap()
        })
        .unwrap();
    give.send(opener).unwrap();
    queue.flush().unwrap();

    // If the holder of a slot waits for the opener, the scope also refuses an item that needs this slot.
    let there = WorkQueue::ordered("there").build_on(&executor).unwrap();
    let (give, take) = hand_over::<JoinHandle<cmwq::QueueError>>();
    let ((tell, told), (tell_id, id)) = (mpsc::channel(), mpsc::channel());
    let inner = there.clone();
    let opener = queue.spawn(move || {
        let holder = cmwq::blocking(|| id.recv_timeout(SOON)).unwrap();
        cmwq::blocking(|| falls_asleep("the holder waits for this item", holder));
        let spawn = inner.try_scope(|s| s.spawn(|| ()).map(|item| item.cancel()));
        spawn.unwrap().unwrap_err()
    });
    let holder = there.spawn(move || {
        let opener = take();
        tell_id.send(thread_id()).unwrap();
        tell.send(opener.join().unwrap()).unwrap();
    });
    let holder = holder.unwrap();
    give.send(opener.unwrap()).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), cmwq::QueueError::WouldDeadlock);
    holder.join().unwrap();
}

/// spec: F5.7, F3: of two items that call `cancel_and_wait` for each other, one gets an error.
#[test]
#[cfg(debug_assertions)]
fn reusable_items_that_wait_for_each_other_learn_of_the_deadlock() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for flushes in [true, false] {
            let both = std::sync::Arc::new(std::sync::Barrier::new(2));
            let (tell, told) = mpsc::channel();
            let make = || {
                let (give, take) = mpsc::channel::<Work>();
                let (take, both, tell) = (std::sync::Mutex::new(take), both.clone(), tell.clone());
                let work = Work::new(move || {
                    let other = cmwq::blocking(|| take.lock().unwrap().recv_timeout(SOON)).unwrap();
                    cmwq::blocking(|| both.wait());
                    tell.send(if flushes { other.flush() } else { other.cancel_and_wait() }).unwrap();
                });
                (work, give)
            };
            let ((one, to_one), (other, to_other)) = (make(), make());
            assert_eq!((queue.enqueue(&one), queue.enqueue(&other)), (Ok(true), Ok(true)));
            to_one.send(other).unwrap();
            to_other.send(one).unwrap();
            let answers = [told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap()];
            assert_one_was_refused(answers.map(|answer| answer == Err(WaitError::WouldDeadlock)));
            queue.flush().unwrap();
        }
    });
}

/// spec: F5.6: an item whose next run holds a queue's only slot cannot wait for an item that needs this slot.
#[test]
fn an_item_cannot_wait_behind_its_own_next_run() {
    let _limit = time_limit();
    let executor = cpus(2);
    let here = WorkQueue::builder("here").build_on(&executor).unwrap();
    let there = WorkQueue::ordered("there").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let target = there.clone();
    let work = Work::with_handle(move |this| {
        if target.enqueue(this) == Ok(true) && !this.is_pending() {
            unreachable!("the next run cannot start before this run has ended");
        }
        let mut behind = target.spawn(|| ()).unwrap();
        // The wait only times out until a worker has popped the entry of the next run and left it to this thread.
        let answer = loop {
            match behind.join_timeout(Duration::from_millis(1)) {
                Ok(answer) => break answer,
                Err(handle) => behind = handle,
            }
        };
        this.cancel();
        tell.send(answer).unwrap();
    });
    here.enqueue(&work).unwrap();
    let answer = told.recv_timeout(SOON).unwrap();
    assert!(is_refused(&answer), "{answer:?}");
    here.flush().unwrap();
    there.flush().unwrap();
}

/// spec: F5.6: an item whose next run holds a queue's only slot cannot flush another item that needs this slot.
#[test]
fn an_item_cannot_flush_an_item_behind_its_own_next_run() {
    let _limit = time_limit();
    let executor = cpus(2);
    let here = WorkQueue::builder("here").build_on(&executor).unwrap();
    let there = WorkQueue::ordered("there").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let (target, behind) = (there.clone(), Work::new(|| ()));
    let work = Work::with_handle(move |this| {
        target.enqueue(this).unwrap();
        target.enqueue(&behind).unwrap();
        // The wait only times out until a worker has popped the entry of the next run and left it to this thread.
        let mut answers = std::iter::repeat_with(|| behind.flush_timeout(Duration::from_millis(1)));
        let answer = answers.find(|answer| *answer != Err(WaitError::TimedOut));
        this.cancel();
        tell.send(answer).unwrap();
    });
    here.enqueue(&work).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Some(Err(WaitError::WouldDeadlock))));
    here.flush().unwrap();
    there.flush().unwrap();
}

/// spec: F5.7: a cycle through an armed item, whose timer is held because its queue is drained. The item that waits
/// last is refused.
#[test]
#[cfg(debug_assertions)]
fn a_cycle_through_an_item_whose_timer_is_held_is_refused() {
    let _limit = time_limit();
    let executor = cpus(2);
    let [queue, other] = ["q", "other"].map(|name| WorkQueue::ordered(name).build_on(&executor).unwrap());
    let work = Work::new(|| ());
    assert!(queue.item(&work).after(Duration::from_secs(3600)).enqueue().unwrap());
    let (give, take) = hand_over::<JoinHandle<Result<bool, WaitError>>>();
    let holder = queue.spawn(move || take().join()).unwrap();
    let drained = queue.clone();
    let drains = std::thread::spawn(move || drained.drain());
    eventually("the drain has begun", || {
        queue.spawn(|| ()).is_err_and(|refused| refused.error == QueueError::Draining)
    });
    give.send(other.spawn(move || work.flush()).unwrap()).unwrap();
    let answer = holder.join().unwrap();
    assert!(
        matches!(answer, Err(JoinError::WouldDeadlock) | Ok(Err(WaitError::WouldDeadlock))),
        "{answer:?}"
    );
    drains.join().unwrap().unwrap();
    other.flush().unwrap();
}

/// spec: F5.9: a wait with a timeout ends by itself, so it closes no cycle.
#[test]
fn waits_with_a_timeout_are_not_refused_for_a_cycle() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let (give_one, take_one) = hand_over::<JoinHandle<u32>>();
    let (give_other, take_other) = hand_over::<JoinHandle<u32>>();
    let one = queue.spawn(move || {
        let other = take_other();
        let answer = other.join_timeout(Duration::from_millis(20));
        assert!(answer.is_err(), "the other item waits for this one");
        1
    });
    let other = queue.spawn(move || take_one().join().unwrap() + 1).unwrap();
    give_one.send(one.unwrap()).unwrap();
    give_other.send(other).unwrap();
    queue.flush().unwrap();
}

/// spec: F5.9, I3.5: a deadline ends the join of an item that has not begun, so such a join closes no cycle.
#[test]
fn a_join_that_a_deadline_ends_is_not_refused_for_a_cycle() {
    let _limit = time_limit();
    let executor = cpus(2);
    let [one, other] = ["one", "other"].map(|name| WorkQueue::ordered(name).build_on(&executor).unwrap());
    let (give_late, take_late) = hand_over::<JoinHandle<u32>>();
    let (give_behind, take_behind) = hand_over::<JoinHandle<u32>>();
    let first = one.spawn(move || take_late().join()).unwrap();
    let second = other.spawn(move || take_behind().join()).unwrap();
    // Each of the two items joins an item that is queued behind the other of the two.
    give_behind.send(one.spawn(|| 1).unwrap()).unwrap();
    give_late.send(other.item(|| 2).within(Duration::from_millis(50)).spawn().unwrap()).unwrap();
    assert!(matches!(first.join().unwrap(), Err(JoinError::DeadlinePassed)));
    assert_eq!(second.join().unwrap().unwrap(), 1);
}

/// spec: F5.9, I3.5, W7.6: the deadline of a scope's item ends a join of the item, so this join closes no cycle. After
/// the deadline, the scope does not wait for the item either.
#[test]
fn a_join_in_a_scope_that_a_deadline_ends_is_not_refused_for_a_cycle() {
    let _limit = time_limit();
    let executor = cpus(2);
    let [one, other] = ["one", "other"].map(|name| WorkQueue::ordered(name).build_on(&executor).unwrap());
    let (give_behind, take_behind) = hand_over::<JoinHandle<u32>>();
    let (tell, told) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let second = other.spawn(move || {
        begin.send(()).unwrap();
        take_behind().join()
    });
    begun.recv().unwrap();
    let inner = other.clone();
    let first = one.spawn(move || {
        inner.scope(|s| {
            let late = s.item(|| 2).within(2 * PATIENCE).spawn().unwrap();
            tell.send(thread_id()).unwrap();
            late.join()
        })
    });
    falls_asleep("the first item joins the late one", told.recv().unwrap());
    // The new item is queued behind the first item, and the late item behind the second item.
    give_behind.send(one.spawn(|| 1).unwrap()).unwrap();
    assert!(matches!(first.unwrap().join().unwrap(), Err(JoinError::DeadlinePassed)));
    assert_eq!(second.unwrap().join().unwrap().unwrap(), 1);
}

/// spec: F5.9: after the limit was lowered, a scope would never end without a cancel. Its caller may still wait for
/// another item, and open another scope, because these end.
#[test]
fn a_wait_in_a_scope_that_would_never_end_is_not_refused() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").max_active(2).build_on(&executor).unwrap();
    let elsewhere = WorkQueue::builder("elsewhere").build_on(&executor).unwrap();
    let door = Door::default();
    let opens = door.clone();
    let holder = queue.spawn(move || door.wait()).unwrap();
    eventually("the holder has a slot", || executor.dump().queues.iter().any(|queue| queue.active == 1));
    let (inner, shown) = (queue.clone(), executor.clone());
    let caller = queue.spawn(move || {
        inner.scope(|s| {
            let late = s.spawn(|| ()).unwrap();
            inner.set_max_active(1).unwrap();
            opens.open();
            eventually("only the caller has a slot", || {
                shown.dump().queues.iter().all(|queue| queue.active < 2)
            });
            let awaited = elsewhere.spawn(|| 1).unwrap().join();
            let spawned = elsewhere.scope(|s| s.spawn(|| 2).is_ok());
            assert!(late.cancel());
            (awaited, spawned)
        })
    });
    let (awaited, spawned) = caller.unwrap().join().unwrap();
    assert_eq!((awaited.unwrap(), spawned), (1, true));
    holder.join().unwrap();
}

/// spec: F5.10: after the limit was lowered, a scope would never end without a cancel. An item of another CPU may still
/// join this scope, because it has another slot. An item that needs the lost slot may not.
#[test]
fn an_item_with_a_slot_may_join_a_scope_that_would_never_end() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::per_cpu("q").max_active(2).build_on(&executor).unwrap();
    let door = Door::default();
    let opens = door.clone();
    let holder = queue.item(move || door.wait()).on_cpu(0).spawn().unwrap();
    eventually("the holder has a slot", || executor.dump().queues.iter().any(|queue| queue.active == 1));
    let (inner, shown) = (queue.clone(), executor.clone());
    let opener = move || {
        inner.scope(|s| {
            let late = s.item(|| ()).on_cpu(0).spawn().unwrap();
            inner.set_max_active(1).unwrap();
            opens.open();
            eventually("only the opener has a slot", || {
                shown.dump().queues.iter().all(|queue| queue.active < 2)
            });
            let free = s.item(|| 1).on_cpu(1).spawn().map(|item| item.join().unwrap());
            let blocked = s.item(|| ()).on_cpu(0).spawn().map(drop);
            assert!(late.cancel());
            (free, blocked)
        })
    };
    let answers = queue.item(opener).on_cpu(0).spawn().unwrap().join().unwrap();
    assert_eq!(answers, (Ok(1), Err(QueueError::WouldDeadlock)));
    holder.join().unwrap();
}

/// spec: F5.9: items wait in every way for items of later queues, so there is never a cycle.
#[test]
fn waits_without_a_cycle_are_never_refused() {
    on_each_executor(|executor| {
        let queues: Vec<_> = [
            WorkQueue::builder("0"),
            WorkQueue::unbound("1").max_active_total(3),
            WorkQueue::ordered("2"),
            WorkQueue::per_cpu("3").max_active(2),
            WorkQueue::ordered("4"),
        ]
        .map(|queue| queue.build_on(executor).unwrap())
        .into();
        // An item of one queue waits only for items of later queues.
        fn item(queues: &[WorkQueue], seed: u64) -> usize {
            let mut random = Rng::with_seed(seed);
            let Some((_, later)) = queues.split_first().filter(|(_, later)| !later.is_empty()) else {
                return 1;
            };
            let next = || random.u64(..1 << 40);
            let seeds: Vec<u64> = std::iter::repeat_with(next).take(4).collect();
            let spawn = |n: usize| {
                let at = seeds[n] as usize % later.len();
                let (rest, seed) = (later[at..].to_vec(), seeds[n]);
                (at, move || item(&rest, seed))
            };
            let mut sum = 1;
            match seeds[3] % 4 {
                0 => {
                    let (at, one) = spawn(0);
                    let (other, two) = spawn(1);
                    let handles = [later[at].spawn(one).unwrap(), later[other].spawn(two).unwrap()];
                    sum += handles.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>();
                }
                1 => {
                    let (at, one) = spawn(0);
                    drop(later[at].spawn(one).unwrap());
                    later[at].flush().unwrap();
                }
                2 => {
                    let (at, _) = spawn(0);
                    let items = later[at].try_scope(|s| {
                        let rest = &later[at..];
                        let handles = seeds[..2].iter().map(|seed| s.spawn(|| item(rest, *seed)).unwrap());
                        handles.map(|handle| handle.join().unwrap()).sum::<usize>()
                    });
                    sum += items.unwrap();
                }
                _ => {
                    let (at, one) = spawn(0);
                    let one = std::sync::Mutex::new(Some(one));
                    let work = Work::new(move || {
                        one.lock().unwrap().take().map(|one| one());
                    });
                    later[at].enqueue(&work).unwrap();
                    if seeds[2] % 2 == 0 {
                        work.flush().unwrap();
                    } else {
                        work.cancel_and_wait().unwrap();
                    }
                }
            }
            sum
        }
        for round in 0..stress(4) {
            let handles: Vec<_> = (0..40)
                .map(|n| {
                    let (at, queues) = (n % queues.len(), queues.clone());
                    let seed = (round * 40 + n) as u64;
                    queues[at].clone().spawn(move || item(&queues[at..], seed)).unwrap()
                })
                .collect();
            assert!(handles.into_iter().all(|handle| handle.join().unwrap() > 0));
            queues.iter().for_each(|queue| queue.flush().unwrap());
        }
    });
}
