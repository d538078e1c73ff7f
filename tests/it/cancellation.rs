//! Items that are asked to stop, and items that are too late.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use cmwq::blocking::block_on;
use cmwq::blocking::channel::{self, RecvCancellableError, SendCancellableError};
use cmwq::blocking::sync::{Condvar, Mutex};
use cmwq::blocking::thread;
use cmwq::observe::WorkerState;
use cmwq::{
    CancelToken, Cancelled, Executor, JoinError, JoinHandle, QueueError, WaitError, Work, WorkQueue, kernel,
};

use crate::support::{
    SOON, all_kinds, bump, cpus, eventually, held, on_each_executor, one_cpu, one_cpu_unseen, stress,
    timers_have_fired,
};

const LONG: Duration = Duration::from_secs(3600);

/// Queues an item that waits until it is asked to stop. Returns when the item has begun. The item returns whether
/// `is_cancelled` was true at its end.
fn waiting(queue: &WorkQueue) -> JoinHandle<bool> {
    let (begin, begun) = mpsc::channel();
    let item = queue.spawn(move || {
        assert!(!cmwq::is_cancelled());
        begin.send(()).unwrap();
        cmwq::cancel_token().wait().unwrap();
        cmwq::is_cancelled()
    });
    begun.recv().unwrap();
    item.unwrap()
}

/// spec: I3.1, I3.3 (an item asks; its handle asks it to stop)
#[test]
fn an_item_learns_that_its_handle_wants_it_to_stop() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (begin, begun) = mpsc::channel();
            let asks = queue
                .spawn(move || {
                    begin.send(()).unwrap();
                    (0..).find(|_| cmwq::is_cancelled()).is_some()
                })
                .unwrap();
            begun.recv().unwrap();
            assert!(!asks.stop(), "it has begun");
            assert!(asks.join().unwrap());
            let waits = waiting(&queue);
            assert!(!waits.stop() && !waits.stop());
            assert!(waits.join().unwrap());
            let next = queue.spawn(|| (cmwq::is_cancelled(), cmwq::cancel_token().is_cancelled()));
            assert_eq!(next.unwrap().join().unwrap(), (false, false), "the next item on the worker goes on");
        }
    });
}

/// spec: I3.5: the deadline of a periodic item comes before its first tick. The item is then given up.
#[test]
fn a_periodic_item_is_given_up_at_its_deadline() {
    let queue = WorkQueue::builder("q").build_on(&one_cpu_unseen()).unwrap();
    for first in [None, Some(LONG)] {
        let held = Arc::new(());
        let own = Arc::clone(&held);
        let item = queue.item(move || drop(Arc::clone(&own))).within(Duration::from_millis(1));
        let item = if let Some(first) = first { item.after(first) } else { item };
        item.spawn_every(LONG).unwrap().detach();
        eventually("the function is gone", || Arc::strong_count(&held) == 1);
    }
    assert_eq!(queue.destroy(), Ok(0));
}

/// spec: I3.3: a wait that is refused consumes the handle. So the handle stops its item.
#[test]
fn a_handle_stops_its_item_when_its_wait_is_refused() {
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let own = queue.clone();
    let waits = move || {
        let inner = || own.spawn(|| panic!("it was cancelled")).unwrap().stop_on_drop();
        assert!(matches!(inner().join(), Err(JoinError::WouldDeadlock)));
        assert!(matches!(inner().join_timeout(LONG), Ok(Err(JoinError::WouldDeadlock))));
    };
    queue.spawn(waits).unwrap().join().unwrap();
    queue.flush().unwrap();
    assert_eq!((queue.counters().cancelled, queue.counters().panicked), (2, 0));
}

/// spec: I3.3, I1.2: a dropped handle stops its item only if it was set to do so with `stop_on_drop`.
#[test]
fn a_handle_stops_its_item_when_it_is_dropped() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let pending = WorkQueue::ordered("o").build_on(executor).unwrap();
            let (item, door) = held(&pending);
            let never = || panic!("it was cancelled");
            drop(pending.spawn(never).unwrap().stop_on_drop());
            let awaited = pending.spawn(never).unwrap().stop_on_drop();
            drop(Box::pin(async { awaited.await.unwrap() }));
            let late = pending.spawn(never).unwrap().stop_on_drop();
            let late = late.join_timeout(Duration::from_millis(1)).unwrap_err();
            assert!(!late.is_finished());
            drop(late);
            let kept = pending.spawn(|| 1).unwrap().stop_on_drop().detach();
            let joined = pending.spawn(|| 2).unwrap().stop_on_drop();
            drop(pending.spawn(|| ()).unwrap());
            door.open();
            item.join().unwrap();
            assert_eq!((kept.join().unwrap(), joined.join().unwrap()), (1, 2));
            pending.flush().unwrap();
            assert_eq!((pending.counters().cancelled, pending.counters().panicked), (3, 0));

            let (tell, told) = mpsc::channel();
            let (begin, begun) = mpsc::channel();
            let waits = move || {
                begin.send(()).unwrap();
                cmwq::cancel_token().wait().unwrap();
                tell.send("it was asked to stop").unwrap();
            };
            let waits = queue.spawn(waits).unwrap().stop_on_drop();
            begun.recv().unwrap();
            drop(waits);
            assert_eq!(told.recv(), Ok("it was asked to stop"));
            let ended = queue.spawn(|| 3).unwrap().stop_on_drop();
            queue.flush().unwrap();
            assert!(ended.is_finished());
            assert_eq!(cmwq::blocking::block_on(ended).unwrap(), 3);
        }
    });
}

/// spec: I3.1 (an item hands its token out, and waits)
#[test]
fn a_token_that_was_handed_out_tells_of_the_item() {
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let (tell, told) = mpsc::channel();
    let item = queue
        .spawn(move || {
            let token = cmwq::cancel_token();
            assert_eq!(token, cmwq::cancel_token(), "an item has one token");
            tell.send(token.clone()).unwrap();
            let waited = token.wait_timeout(LONG);
            (waited, token.check())
        })
        .unwrap();
    let token: CancelToken = told.recv().unwrap();
    let child = token.child();
    assert_eq!(token.wait_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    item.stop();
    assert_eq!(token.wait(), Ok(()));
    assert!(child.is_cancelled());
    assert_eq!(item.join().unwrap(), (Ok(()), Err(Cancelled::Requested)));
    // If another thread cancels the item's token, the item is asked to stop, too.
    let (tell, told) = mpsc::channel();
    let item = queue.spawn(move || {
        tell.send(cmwq::cancel_token()).unwrap();
        (0..).find(|_| cmwq::is_cancelled()).is_some()
    });
    told.recv().unwrap().cancel();
    assert!(item.unwrap().join().unwrap());
    assert!(!cmwq::is_cancelled() && !cmwq::cancel_token().is_cancelled(), "this is no item");
}

/// spec: I3.1 (a reusable item asks), I3.4: each run has a token of its own.
#[test]
fn a_reusable_item_has_a_token_for_each_run() {
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let (tell, told) = mpsc::channel();
    let work = Work::new(move || tell.send((cmwq::is_cancelled(), cmwq::cancel_token())).unwrap());
    queue.enqueue(&work).unwrap();
    let (cancelled, first) = told.recv().unwrap();
    first.cancel();
    work.flush().unwrap();
    queue.enqueue(&work).unwrap();
    let (again, second) = told.recv().unwrap();
    assert!(!cancelled && !again && first != second && !second.is_cancelled());
}

/// spec: I3.2 (trees), I3.9 (nested contexts are restored)
#[test]
fn a_token_that_was_entered_holds_until_the_call_ends() {
    let (outer, inner) = (CancelToken::new(), CancelToken::new());
    outer.enter(|| {
        assert_eq!(cmwq::cancel_token(), outer);
        inner.enter(|| assert_eq!(cmwq::cancel_token(), inner));
        let panics = || inner.enter(|| panic!("on purpose"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(cmwq::cancel_token(), outer, "also after a panic");
        inner.cancel();
        assert!(!cmwq::is_cancelled());
        outer.cancel();
        assert!(cmwq::is_cancelled() && inner.enter(cmwq::is_cancelled));
    });
    assert!(!cmwq::is_cancelled() && cmwq::cancel_token() != outer);
    let parent = CancelToken::new();
    let (child, other) = (parent.child(), parent.child());
    let grandchild = child.child();
    child.cancel();
    assert!(grandchild.is_cancelled() && !other.is_cancelled() && !parent.is_cancelled());
    parent.cancel();
    assert!(other.is_cancelled() && parent.child().child().is_cancelled());
}

/// spec: I3.2 (a cancelled token has only cancelled tokens below it): wakers and threads see this.
#[test]
fn a_cancelled_token_has_only_cancelled_tokens_below_it() {
    struct Looks {
        below: [CancelToken; 2],
        seen: AtomicUsize,
    }

    impl std::task::Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.seen.store(self.below.iter().filter(|token| token.is_cancelled()).count(), Ordering::SeqCst);
        }
    }

    let parent = CancelToken::new();
    let below = [parent.child(), parent.child().child()];
    let looks = Arc::new(Looks { below, seen: AtomicUsize::new(0) });
    let mut future = Box::pin(parent.cancelled_async());
    let waker = std::task::Waker::from(Arc::clone(&looks));
    assert!(future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    parent.cancel();
    assert_eq!(looks.seen.load(Ordering::SeqCst), 2, "the waker finds them cancelled");

    for _ in 0..stress(200) {
        let root = CancelToken::new();
        let chain: Vec<_> =
            std::iter::successors(Some(root.clone()), |last| Some(last.child())).take(50).collect();
        let [middle, last] = [&chain[25], &chain[49]];
        std::thread::scope(|s| {
            s.spawn(|| {
                root.wait().unwrap();
                assert!(middle.is_cancelled() && last.is_cancelled());
            });
            s.spawn(|| {
                while !root.is_cancelled() {
                    std::thread::yield_now();
                }
                assert!(middle.is_cancelled() && last.is_cancelled());
            });
            s.spawn(|| {
                middle.cancel();
                assert!(last.is_cancelled(), "another thread cancels it, too");
            });
            root.cancel();
        });
    }
}

/// spec: I3.3 (a stop cancels an item that has not begun), W1.3
#[test]
fn a_stop_cancels_an_item_that_has_not_begun() {
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let second = queue.spawn(|| unreachable!("it was stopped")).unwrap();
    let later = queue.item(|| unreachable!()).after(LONG).spawn().unwrap();
    assert!(second.stop() && !second.stop() && later.stop());
    assert!(matches!(second.join(), Err(JoinError::Cancelled)));
    assert!(matches!(later.join(), Err(JoinError::Cancelled)));
    door.open();
    queue.flush().unwrap();
    assert!(!first.stop(), "it has ended");
    first.join().unwrap();
    assert_eq!((queue.counters().started, queue.counters().cancelled), (1, 1));
}

/// spec: I3.3 (reusable items): the current run is asked to stop, whether it polls its token, waits for its token, or
/// waits for something else. The next run is not asked to stop. A submission that has not begun is cancelled.
#[test]
fn a_run_of_a_reusable_item_is_asked_to_stop() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (begin, begun) = mpsc::channel();
            let (tell, told) = mpsc::channel();
            let mut run = 0;
            let work = Work::new(move || {
                assert!(!cmwq::is_cancelled());
                begin.send(()).unwrap();
                match run % 3 {
                    0 => while !cmwq::is_cancelled() {},
                    1 => cmwq::cancel_token().wait().unwrap(),
                    _ => assert_eq!(thread::sleep_cancellable(LONG), Err(Cancelled::Requested)),
                }
                assert!(cmwq::is_cancelled() && cmwq::cancel_token().is_cancelled());
                run += 1;
                tell.send(run).unwrap();
            });
            assert!(!work.stop(), "nothing to stop");
            for run in 1..=6 {
                assert_eq!(queue.enqueue(&work), Ok(true));
                begun.recv().unwrap();
                assert_eq!(queue.enqueue(&work), Ok(true));
                assert!(work.stop(), "the second submission is cancelled");
                assert_eq!(told.recv(), Ok(run));
                assert_eq!(work.cancel_and_wait(), Ok(false));
            }
            queue.flush().unwrap();
            let counters = queue.counters();
            assert_eq!((counters.started, counters.panicked), (6, 0), "{}", queue.name());
        }
    });
}

/// spec: I3.3 (periodic items): a periodic item is asked to stop, whether it was submitted with a token or not.
#[test]
fn a_periodic_call_is_asked_to_stop() {
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let token = CancelToken::new();
    for has_token in [false, true] {
        let (begin, begun) = mpsc::channel();
        let call = move || {
            begin.send(()).unwrap();
            cmwq::cancel_token().wait().unwrap();
            assert!(cmwq::is_cancelled());
        };
        let item = queue.item(call).after(Duration::ZERO);
        let item = if has_token { item.token(&token) } else { item };
        let calls = item.spawn_every(Duration::from_millis(1)).unwrap();
        begun.recv().unwrap();
        calls.stop();
        calls.cancel_and_wait().unwrap();
        assert_eq!((calls.runs(), begun.try_recv().is_err()), (1, true));
    }
    assert!(!token.is_cancelled(), "the stop reaches only the item");
    assert_eq!(queue.counters().panicked, 0);
}

/// spec: I3.3 (scopes), W7.6: items of a scope are asked to stop by their handles and by a token.
#[test]
fn items_of_a_scope_are_asked_to_stop() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let asked = AtomicUsize::new(0);
        let wait = || {
            cmwq::cancel_token().wait().unwrap();
            bump(&asked);
        };
        let token = CancelToken::new();
        let count = 20;
        let stopped = queue.scope(|s| {
            let by_token: Vec<_> = (0..count).map(|_| s.item(wait).token(&token).spawn().unwrap()).collect();
            let by_handle: Vec<_> = (0..count).map(|_| s.spawn(wait).unwrap()).collect();
            let both = s.item(wait).token(&CancelToken::new()).spawn().unwrap();
            let mut stopped = by_handle.iter().filter(|handle| handle.stop()).count();
            stopped += usize::from(both.stop());
            token.cancel();
            for handle in by_token {
                match handle.join() {
                    Ok(()) => {}
                    Err(JoinError::Cancelled) => stopped += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            stopped
        });
        assert_eq!(asked.load(Ordering::SeqCst) + stopped, 2 * count + 1);
        let never = queue.try_scope(|s| s.item(|| unreachable!("cancelled")).token(&token).spawn().map(drop));
        never.unwrap().unwrap();
    });
}

/// spec: I3.4 (`destroy_now`), F4.3: pending items are cancelled, running items are asked to stop, and all later
/// submissions are refused.
#[test]
fn a_queue_that_is_destroyed_at_once_runs_nothing_more() {
    on_each_executor(|executor| {
        let bh = kernel::bh("b").build_on(executor).unwrap();
        for queue in all_kinds(executor) {
            let (own, (begin, begun)) = (queue.clone(), mpsc::channel());
            let runs = queue.spawn(move || {
                begin.send(()).unwrap();
                cmwq::cancel_token().wait().unwrap();
                own.spawn(|| ()).unwrap_err().error
            });
            begun.recv().unwrap();
            let runs_again = Arc::new(AtomicUsize::new(0));
            let work = Work::new({
                let runs_again = Arc::clone(&runs_again);
                move || {
                    bump(&runs_again);
                    cmwq::cancel_token().wait().unwrap();
                }
            });
            let pending: Vec<_> =
                (0..600).map(|_| queue.spawn(|| cmwq::cancel_token().wait().unwrap()).unwrap()).collect();
            queue.enqueue(&work).unwrap();
            let timer = queue.item(|| unreachable!()).after(LONG).spawn().unwrap();
            let ticks = queue.item(|| unreachable!()).spawn_every(LONG).unwrap();
            assert_eq!(queue.destroy_now(), Ok(2), "two timers");
            assert_eq!(runs.unwrap().join().unwrap(), QueueError::Destroyed);
            let mut cancelled = 1 - runs_again.load(Ordering::SeqCst);
            for item in pending {
                match item.join() {
                    Ok(()) => {}
                    Err(JoinError::Cancelled) => cancelled += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(matches!(timer.join(), Err(JoinError::Cancelled)));
            assert!(!ticks.is_running() && !work.is_pending() && !work.is_running() && queue.is_empty());
            let counters = queue.counters();
            assert_eq!((counters.cancelled, counters.started + counters.cancelled), (cancelled as u64, 602));
            assert_eq!(queue.enqueue(&work), Err(QueueError::Destroyed));
            assert_eq!((queue.destroy_now(), queue.destroy()), (Ok(0), Ok(0)));
        }
        let behind: Vec<_> = (0..100).map(|_| bh.spawn(|| ()).unwrap()).collect();
        bh.destroy_now().unwrap();
        for item in behind {
            assert!(matches!(item.join(), Ok(()) | Err(JoinError::Cancelled)));
        }
    });
}

/// spec: I3.4: the joiners of items that wait for a slot learn of the queue's end while the running item continues.
#[test]
fn items_behind_one_that_does_not_stop_are_told_at_once() {
    let executor = one_cpu_unseen();
    let queue = WorkQueue::ordered("o").build_on(&executor).unwrap();
    let (stubborn, door) = held(&queue);
    let dropped = Arc::new(());
    let behind: Vec<_> = (0..50)
        .map(|_| {
            let dropped = Arc::clone(&dropped);
            queue.spawn(move || drop(dropped)).unwrap()
        })
        .collect();
    assert_eq!(queue.destroy_now_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    for item in behind {
        assert!(matches!(item.join(), Err(JoinError::Cancelled)));
    }
    assert_eq!(Arc::strong_count(&dropped), 1, "the closures are gone");
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Destroyed);
    assert_eq!(queue.destroy_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    door.open();
    assert_eq!(queue.destroy_now(), Ok(0));
    stubborn.join().unwrap();
    let own = WorkQueue::builder("own").build_on(&executor).unwrap();
    let same = own.clone();
    let refused = own.spawn(move || same.destroy_now().unwrap_err()).unwrap().join().unwrap();
    assert_eq!(refused, WaitError::WouldDeadlock);
    assert_eq!(own.spawn(|| 1).unwrap().join().unwrap(), 1, "nothing has changed");
}

/// spec: I3.4: items that are on a worklist when their queue ends do not run when a worker reaches them.
#[test]
fn items_that_have_a_slot_do_not_run_after_the_end() {
    let executor = one_cpu_unseen();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (stubborn, door) = held(&queue);
    let work = Work::new(|| unreachable!("its queue has ended"));
    queue.enqueue(&work).unwrap();
    queue.spawn_detached(|| unreachable!("its queue has ended")).unwrap();
    let pending: Vec<_> =
        (0..50).map(|_| queue.spawn(|| unreachable!("its queue has ended")).unwrap()).collect();
    assert_eq!(queue.destroy_now_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    door.open();
    assert_eq!(queue.destroy_now(), Ok(0));
    stubborn.join().unwrap();
    for item in pending {
        assert!(matches!(item.join(), Err(JoinError::Cancelled)));
    }
    let counters = queue.counters();
    assert_eq!((counters.started, counters.cancelled, work.is_pending()), (1, 52, false));
}

/// spec: I3.4: the end of a queue that names threads does not affect the items of another queue of the same pool.
#[test]
fn the_end_of_a_queue_leaves_other_queues_alone() {
    let executor = cpus(2);
    let [one, other] = ["one", "other"]
        .map(|name| WorkQueue::builder(name).name_threads(name == "one").build_on(&executor).unwrap());
    let items: Vec<_> =
        (0..200).map(|n| (one.spawn(|| ()).unwrap(), other.spawn(move || n).unwrap())).collect();
    one.destroy_now().unwrap();
    for (n, (ended, runs)) in items.into_iter().enumerate() {
        assert!(matches!(ended.join(), Ok(()) | Err(JoinError::Cancelled)));
        assert_eq!(runs.join().unwrap(), n);
    }
}

/// spec: I3.4 (the end of the time of a shutdown), E5.3
#[test]
fn a_shutdown_that_runs_out_of_time_asks_the_running_items_to_stop() {
    let executor = cpus(2);
    let [asks, waits] = ["a", "w"].map(|name| WorkQueue::builder(name).build_on(&executor).unwrap());
    let waits = waiting(&waits);
    let (begin, begun) = mpsc::channel();
    let token = CancelToken::new();
    let asks = asks
        .item(move || {
            begin.send(()).unwrap();
            (0..).find(|_| cmwq::is_cancelled()).is_some()
        })
        .token(&token)
        .spawn()
        .unwrap();
    begun.recv().unwrap();
    let report = executor.shutdown(Duration::from_millis(1)).unwrap();
    assert!(report.queues.iter().all(|queue| queue.dropped == 0 && queue.running <= 1), "{report}");
    assert!(waits.join().unwrap() && asks.join().unwrap());
    assert!(!token.is_cancelled(), "only the item's own token is cancelled");
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let token = queue.spawn(cmwq::cancel_token).unwrap().join().unwrap();
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    assert!(!token.is_cancelled(), "the time did not run out");
}

/// spec: I3.5 (too late before it begins)
#[test]
fn an_item_that_is_too_late_does_not_run() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let late = queue.item(|| unreachable!("too late")).deadline(Instant::now()).spawn().unwrap();
            let alone = queue.item(|| unreachable!("too late")).within(Duration::ZERO).named("n");
            alone.spawn_detached().unwrap();
            let delayed = queue.item(|| unreachable!()).after(LONG).within(Duration::from_millis(1)).spawn();
            let earliest = queue.item(|| unreachable!()).within(Duration::ZERO).within(LONG).spawn().unwrap();
            let in_time = queue.item(|| cmwq::cancel_token().time_left()).within(LONG).spawn().unwrap();
            assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
            assert!(matches!(delayed.unwrap().join(), Err(JoinError::DeadlinePassed)));
            assert!(matches!(earliest.join(), Err(JoinError::DeadlinePassed)));
            assert!(in_time.join().unwrap() > Some(LONG / 2));
            queue.flush().unwrap();
            let counters = queue.counters();
            // If its joiner gives the delayed item up first, the item never enters the queue, and is not counted.
            assert!((3..=4).contains(&counters.expired), "{counters:?}");
            assert_eq!((counters.cancelled, counters.started), (counters.expired, 1));
        }
    });
}

/// spec: I3.5: a delayed item needs no room, even if its deadline has passed when it is submitted.
#[test]
fn a_late_item_with_a_delay_needs_no_room() {
    let queue = WorkQueue::ordered("o").max_pending(1).build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let pending = queue.spawn(|| ()).unwrap();
    let never: fn() = || unreachable!("too late");
    let refused = queue.item(never).deadline(Instant::now()).spawn_detached().unwrap_err();
    assert_eq!(refused.error, QueueError::Full, "an item without a delay needs room");
    let late = queue.item(never).after(LONG).deadline(Instant::now()).spawn().unwrap();
    assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
    queue.item(never).after(LONG).within(Duration::ZERO).spawn_detached().unwrap();
    let batch = || queue.items([never; 3]).after(LONG).deadline(Instant::now());
    for late in batch().spawn().unwrap() {
        assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
    }
    batch().spawn_detached().unwrap();
    door.open();
    first.join().unwrap();
    pending.join().unwrap();
    eventually("the items without handles are given up", || queue.counters().expired >= 4);
    assert_eq!(queue.destroy(), Ok(0), "no timer is left");
    assert_eq!(queue.counters().started, 2);
}

/// spec: I3.5: the joiner is told at the deadline, even if no worker has reached the item.
#[test]
fn a_joiner_is_told_at_the_deadline() {
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let late = queue.item(move || drop(held)).within(Duration::from_millis(50)).spawn().unwrap();
    assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
    assert_eq!(Arc::strong_count(&dropped), 1);
    let patient = queue.item(|| ()).within(LONG).spawn().unwrap();
    let patient = patient.join_timeout(Duration::from_millis(1)).unwrap_err();
    door.open();
    first.join().unwrap();
    patient.join().unwrap();
    queue.flush().unwrap();
    let counters = queue.counters();
    assert_eq!((counters.started, counters.cancelled, counters.expired), (2, 1, 1));
}

/// spec: I3.5, I3.6 (scopes), W7.6: a joiner inside the scope is told at the deadline or when the token is cancelled,
/// even if no worker has reached the item. A closure whose destructor panics is cancelled as well.
#[test]
fn a_joiner_in_a_scope_is_told_at_once() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let (token, dropped) = (CancelToken::new(), Arc::new(()));
    let never = |kept| move || unreachable!("it does not run with {kept:?}");
    queue.scope(|s| {
        let late = s.item(never(dropped.clone())).within(Duration::from_millis(50)).spawn().unwrap();
        assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
        let item = s.item(never(dropped.clone())).token(&token).spawn().unwrap();
        token.cancel();
        assert!(matches!(item.join(), Err(JoinError::Cancelled)));
        assert_eq!(Arc::strong_count(&dropped), 1);
        let holds = |panics: Panics| move || drop(panics);
        let item = s.spawn(holds(Panics)).unwrap();
        catch_unwind(AssertUnwindSafe(|| item.cancel())).unwrap_err();
        assert!(matches!(item.join(), Err(JoinError::Cancelled)));
        let item = s.item(holds(Panics)).within(Duration::ZERO).spawn().unwrap();
        drop(catch_unwind(AssertUnwindSafe(|| item.join())).unwrap_err());
        door.open();
    });
    first.join().unwrap();
    queue.flush().unwrap();
    let counters = queue.counters();
    assert_eq!((counters.started, counters.cancelled, counters.expired), (1, 4, 2));
}

/// spec: I3.5: a task that awaits the item is also told at the deadline. A waker that panics does not disturb other
/// wakers. No waker is left behind.
#[test]
fn a_task_is_told_at_the_deadline() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose");
        }
    }
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let soon = Duration::from_secs(3);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let poll = |item: &mut JoinHandle<()>| {
        assert!(Pin::new(item).poll(&mut Context::from_waker(&waker)).is_pending());
    };
    let (mut alone, mut patient) = (queue.item(|| ()).within(soon).spawn().unwrap(), None);
    poll(&mut alone);
    poll(&mut alone);
    let mut given_up = queue.item(|| ()).within(soon).spawn().unwrap();
    poll(&mut given_up);
    drop(given_up);
    poll(patient.insert(queue.item(|| ()).within(LONG).spawn().unwrap()));
    for late in queue.items([|| (); 3]).within(soon).spawn().unwrap() {
        assert!(matches!(block_on(late), Err(JoinError::DeadlinePassed)));
    }
    eventually("the task is woken", || count.0.load(Ordering::SeqCst) == 1);
    assert!(matches!(block_on(&mut alone), Err(JoinError::DeadlinePassed)));
    door.open();
    first.join().unwrap();
    block_on(patient.unwrap()).unwrap();
    queue.flush().unwrap();
    assert_eq!(queue.counters().expired, 5);
    drop((alone, waker));
    eventually("no waker is left", || Arc::strong_count(&count) == 1);
}

/// spec: I3.5 (is counted): an item that is too late counts once, no matter which thread or call gives it up.
#[test]
fn an_item_that_is_too_late_is_counted_whatever_gives_it_up() {
    // With one slot, the items wait on the queue's list. With eight slots, they wait on the pool's worklist.
    for (max_active, by_shutdown) in [(1, false), (8, false), (1, true), (8, true)] {
        let executor = one_cpu_unseen();
        let queue = WorkQueue::builder("late").max_active(max_active).build_on(&executor).unwrap();
        let (first, door) = held(&queue);
        let never = || unreachable!("it is given up");
        // The joiner of the second item waits until the deadlines of both items have passed.
        let [late, told] =
            [(); 2].map(|()| queue.item(never).within(Duration::from_millis(1)).spawn().unwrap());
        queue.item(never).within(Duration::ZERO).spawn_detached().unwrap();
        let token = CancelToken::new();
        queue.item(never).token(&token).spawn_detached().unwrap();
        token.cancel();
        let ready = queue.spawn(never).unwrap();
        assert!(matches!(told.join(), Err(JoinError::DeadlinePassed)), "its joiner gives it up");
        if by_shutdown {
            let report = executor.shutdown(Duration::from_millis(1)).unwrap();
            assert_eq!((report.queues[0].dropped, report.queues[0].running), (1, 1), "only one was ready");
        } else {
            assert_eq!(queue.destroy_now_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
        }
        door.open();
        first.join().unwrap();
        assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
        assert!(matches!(ready.join(), Err(JoinError::Cancelled)));
        let ended = || queue.counters().started + queue.counters().cancelled == 6 - u64::from(by_shutdown);
        eventually("all items are counted", ended);
        assert_eq!(
            (queue.counters().expired, queue.counters().started),
            (3, 1),
            "{max_active}, {by_shutdown}"
        );
    }
}

/// spec: I3.5 (an item that runs learns of its deadline)
#[test]
fn a_running_item_learns_of_its_deadline() {
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let item = || {
        let began = Instant::now();
        let before = (cmwq::cancel_token().check(), Instant::now());
        let slept = thread::sleep_cancellable(LONG);
        (before, slept, cmwq::is_cancelled(), cmwq::cancel_token().time_left(), began.elapsed() < LONG)
    };
    let deadline = Instant::now() + Duration::from_millis(200);
    match queue.item(item).deadline(deadline).spawn().unwrap().join() {
        Ok((before, slept, asked, left, early)) => {
            // On a busy machine, the deadline may pass just after the item has begun.
            assert!(before.0.is_ok() || before.1 >= deadline);
            assert_eq!(slept, Err(Cancelled::DeadlinePassed));
            assert!(asked && early && Instant::now() >= deadline);
            assert_eq!(left, Some(Duration::ZERO));
        }
        // On a busy machine, the deadline may pass before the item begins.
        Err(JoinError::DeadlinePassed) => {}
        Err(error) => panic!("{error}"),
    }
}

/// spec: I3.6 (a cancelled token; delayed items): the owner is told, and the closure and the timer are dropped.
#[test]
fn the_items_of_a_cancelled_token_do_not_run() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (token, closure) = (CancelToken::new(), Arc::new(()));
            let item = || {
                let closure = Arc::clone(&closure);
                move || drop(closure)
            };
            let delayed = queue.item(item()).after(LONG).token(&token).named("later").spawn().unwrap();
            queue.item(item()).after(LONG).token(&token).spawn_detached().unwrap();
            assert_eq!(Arc::strong_count(&closure), 3);
            token.cancel();
            assert_eq!(Arc::strong_count(&closure), 1, "the timers and the closures are gone");
            assert!(delayed.is_finished());
            assert!(matches!(delayed.join(), Err(JoinError::Cancelled)));
            let now = queue.item(item()).token(&token).spawn().unwrap();
            let later = queue.item(item()).token(&token).after(LONG).spawn().unwrap();
            queue.item(item()).token(&token).spawn_detached().unwrap();
            assert!(matches!(later.join(), Err(JoinError::Cancelled)));
            assert!(matches!(now.join(), Err(JoinError::Cancelled)));
            queue.flush().unwrap();
            eventually("the closures are gone", || Arc::strong_count(&closure) == 1);
            let counters = queue.counters();
            assert_eq!((counters.started, counters.cancelled, counters.expired), (0, 2, 0));
        }
    });
}

/// spec: I3.6: a thread that joins the item and a task that awaits it are told before a worker reaches the item.
#[test]
fn the_owner_of_a_pending_item_is_told_of_the_cancel() {
    let queue = WorkQueue::ordered("o").build_on(&one_cpu_unseen()).unwrap();
    let (first, door) = held(&queue);
    let token = CancelToken::new();
    let [joined, awaited] = [(), ()].map(|()| queue.item(|| ()).token(&token).spawn().unwrap());
    let (tell, told) = mpsc::channel();
    let joins = std::thread::spawn(move || {
        tell.send(()).unwrap();
        joined.join()
    });
    let awaits = std::thread::spawn(move || cmwq::blocking::block_on(awaited));
    told.recv().unwrap();
    token.cancel();
    for thread in [joins, awaits] {
        assert!(matches!(thread.join().unwrap(), Err(JoinError::Cancelled)));
    }
    door.open();
    first.join().unwrap();
    queue.flush().unwrap();
    assert_eq!((queue.counters().started, queue.counters().cancelled), (1, 2));
}

/// spec: I3.6 (periodic items)
#[test]
fn a_token_ends_a_periodic_item() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (token, closure) = (CancelToken::new(), Arc::new(()));
    let (tick, ticks) = mpsc::channel();
    let held = Arc::clone(&closure);
    let tick = move || {
        let _held = &held;
        tick.send(cmwq::cancel_token()).unwrap();
    };
    let periodic = queue.item(tick).token(&token).spawn_every(Duration::from_millis(1)).unwrap();
    let of_run: CancelToken = ticks.iter().take(3).last().unwrap();
    token.cancel();
    queue.flush().unwrap();
    let runs = periodic.runs();
    assert!(of_run.is_cancelled() && runs >= 3);
    timers_have_fired(&executor, Duration::from_millis(10));
    queue.flush().unwrap();
    assert_eq!(periodic.runs(), runs);
    drop(periodic);
    eventually("the function is gone", || Arc::strong_count(&closure) == 1);
    // The cancel of the token removes the timer, although the timer would fire only after an hour.
    let hourly = queue.item(|| ()).token(&CancelToken::new()).spawn_every(LONG).unwrap();
    let (token, held) = (CancelToken::new(), Arc::clone(&closure));
    queue.item(move || drop(Arc::clone(&held))).token(&token).spawn_every(LONG).unwrap().detach();
    token.cancel();
    eventually("the function is gone", || Arc::strong_count(&closure) == 1);
    assert_eq!(queue.destroy(), Ok(1), "only the other timer is left");
    drop((hourly, executor));
    let executor = cpus(1);
    let late = WorkQueue::builder("late").build_on(&executor).unwrap();
    let never =
        late.item(|| unreachable!("too late")).within(Duration::ZERO).spawn_every(Duration::from_millis(1));
    let ends =
        late.item(|| ()).within(Duration::from_millis(20)).spawn_every(Duration::from_millis(1)).unwrap();
    timers_have_fired(&executor, Duration::from_millis(20));
    late.flush().unwrap();
    let runs = ends.runs();
    timers_have_fired(&executor, Duration::from_millis(10));
    late.flush().unwrap();
    assert_eq!((never.unwrap().runs(), ends.runs()), (0, runs));
}

/// Returns how many workers are blocked under a guard.
fn blocked(executor: &Executor) -> usize {
    let workers = executor.dump().pools.into_iter().flat_map(|pool| pool.worker_details);
    workers.filter(|worker| worker.state == WorkerState::Blocked).count()
}

/// spec: I3.7 (the crate's own waits end early), I3.3
#[test]
fn the_waits_of_the_crate_end_early() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let (_send, receive) = channel::unbounded::<u32>();
        let (full, _receive) = channel::bounded(1);
        full.send(0).unwrap();
        let never = Arc::new((Mutex::new(()), Condvar::new()));
        let endless = waiting(&queue);
        type Waits = Box<dyn FnOnce() -> bool + Send>;
        let waits: Vec<Waits> = vec![
            Box::new(|| thread::sleep_cancellable(LONG) == Err(Cancelled::Requested)),
            Box::new(move || {
                receive.recv_cancellable() == Err(RecvCancellableError::Cancelled(Cancelled::Requested))
            }),
            Box::new(move || {
                full.send_cancellable(7) == Err(SendCancellableError::Cancelled(7, Cancelled::Requested))
            }),
            Box::new(move || {
                never.1.wait_while_cancellable(&mut never.0.lock(), |_| true) == Err(Cancelled::Requested)
            }),
            Box::new(|| {
                let endless = endless.join_cancellable().unwrap_err();
                endless.stop();
                endless.join().unwrap()
            }),
        ];
        for wait in waits {
            let (begin, begun) = mpsc::channel();
            let item = queue.spawn(move || {
                begin.send(()).unwrap();
                wait()
            });
            begun.recv().unwrap();
            let item = item.unwrap();
            // Two workers wait: that of the item, and that of the endless item.
            eventually("the item waits", || blocked(executor) == 2);
            assert!(!item.stop());
            assert!(item.join().unwrap());
        }
    });
}

/// spec: I3.7: without a cancel, cancellable waits behave as plain waits do, in items and outside of items.
#[test]
fn waits_that_are_not_cancelled_are_the_usual_ones() {
    let queue = WorkQueue::builder("q").build_on(&cpus(2)).unwrap();
    let usual = || {
        assert_eq!(thread::sleep_cancellable(Duration::from_millis(1)), Ok(()));
        let (send, receive) = channel::bounded(1);
        assert_eq!(send.send_cancellable(1), Ok(()));
        assert_eq!(receive.recv_cancellable(), Ok(1));
        let sends = std::thread::spawn({
            let send = send.clone();
            move || (0..3).try_for_each(|n| send.send_cancellable(n))
        });
        assert_eq!([(); 3].map(|()| receive.recv_cancellable().unwrap()), [0, 1, 2]);
        sends.join().unwrap().unwrap();
        drop(send);
        assert_eq!(receive.recv_cancellable(), Err(RecvCancellableError::Disconnected));
        let (send, receive) = channel::bounded::<u32>(0);
        drop(receive);
        assert_eq!(send.send_cancellable(1), Err(SendCancellableError::Disconnected(1)));
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let notifies = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..100 {
                    *shared.0.lock() += 1;
                    shared.1.notify_one();
                }
            }
        });
        shared.1.wait_while_cancellable(&mut shared.0.lock(), |count| *count < 100).unwrap();
        notifies.join().unwrap();
    };
    usual();
    let other = WorkQueue::builder("other").build_on(&cpus(2)).unwrap();
    let item = queue.spawn(move || {
        usual();
        other.spawn(|| 7).unwrap().join_cancellable().unwrap().unwrap()
    });
    assert_eq!(item.unwrap().join().unwrap(), 7);
    let token = CancelToken::new();
    assert_eq!(queue.spawn(|| 8).unwrap().join_cancellable().unwrap().unwrap(), 8);
    assert_eq!(token.enter(|| queue.spawn(|| 9).unwrap().join_cancellable()).unwrap().unwrap(), 9);
}

/// spec: I3.7: no notification is lost while plain and cancellable waits are notified and cancelled.
#[test]
fn a_condition_variable_loses_no_notification_to_a_cancel() {
    let executor = cpus(4);
    let queue = WorkQueue::unbound("u").build_on(&executor).unwrap();
    let shared = Arc::new((Mutex::new(0usize), Condvar::new()));
    let rounds = stress(2000);
    let begun = Arc::new(AtomicUsize::new(0));
    let takes: Vec<_> = (0..4)
        .map(|n| {
            let (shared, begun) = (Arc::clone(&shared), Arc::clone(&begun));
            let take = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let mut taken = 0;
                loop {
                    let mut jobs = shared.0.lock();
                    let waited = match n {
                        0 => {
                            shared.1.wait_while(&mut jobs, |jobs| *jobs == 0 && !cmwq::is_cancelled());
                            if cmwq::is_cancelled() { Err(Cancelled::Requested) } else { Ok(()) }
                        }
                        _ => shared.1.wait_while_cancellable(&mut jobs, |jobs| *jobs == 0),
                    };
                    if *jobs > 0 {
                        *jobs -= 1;
                        taken += 1;
                    } else if waited.is_err() {
                        return taken;
                    }
                }
            };
            queue.spawn(take).unwrap()
        })
        .collect();
    // This loop waits, because an item that is stopped before it begins would not run.
    eventually("all of them have begun", || begun.load(Ordering::SeqCst) == 4);
    for round in 0..rounds {
        *shared.0.lock() += 1;
        shared.1.notify_one();
        if round % 16 == 0 {
            eventually("the jobs are taken", || *shared.0.lock() == 0);
        }
    }
    eventually("the jobs are taken", || *shared.0.lock() == 0);
    for take in &takes {
        take.stop();
    }
    // A cancel does not end the plain wait, so this thread notifies it.
    eventually("the plain wait has ended", || {
        shared.1.notify_all();
        takes[0].is_finished()
    });
    assert_eq!(takes.into_iter().map(|take| take.join().unwrap()).sum::<usize>(), rounds);
}

/// spec: I3.1: tasks wait for a token. spec: I3.8: a waker that panics ends no thread and no wait of the crate.
#[test]
fn tasks_wait_for_tokens_and_their_wakers_may_panic() {
    use std::task::{Context, Poll, Wake, Waker};

    struct Panics(AtomicBool);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
            panic!("on purpose");
        }
    }

    let token = CancelToken::new();
    let (waker, before) =
        (Arc::new(Panics(AtomicBool::new(false))), Arc::new(Panics(AtomicBool::new(false))));
    let poll = |future: std::pin::Pin<&mut dyn Future<Output = _>>, waker: &Arc<Panics>| {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
    };
    let mut dropped = Box::pin(token.cancelled_async());
    assert_eq!(poll(dropped.as_mut(), &before), Poll::Pending);
    drop(dropped);
    assert_eq!(Arc::strong_count(&before), 1, "the alarm is gone");
    let mut future = Box::pin(token.cancelled_async());
    assert_eq!(poll(future.as_mut(), &before), Poll::Pending);
    assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
    let child = token.child();
    let waits = std::thread::spawn(move || child.wait());
    token.cancel();
    assert_eq!(waits.join().unwrap(), Ok(()));
    assert!(waker.0.load(Ordering::SeqCst) && !before.0.load(Ordering::SeqCst));
    assert_eq!(poll(future.as_mut(), &waker), Poll::Ready(Ok(())));
    assert_eq!(cmwq::blocking::block_on(token.child().cancelled_async()), Ok(()));
}

/// spec: I3.6, I3.8: each accepted item runs, or its owner learns that it does not, for all ways and times of a cancel.
#[test]
fn items_are_cancelled_in_every_way_while_they_are_queued_and_run() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (ran, count) = (Arc::new(AtomicUsize::new(0)), stress(300));
            let root = CancelToken::new();
            let items: Vec<_> = (0..count)
                .map(|n| {
                    let ran = Arc::clone(&ran);
                    let (token, asks) = (root.child(), n % 3 == 0);
                    let item = move || {
                        bump(&ran);
                        if asks {
                            let _asked = cmwq::cancel_token().wait_timeout(Duration::from_micros(50));
                        }
                    };
                    let submission = queue.item(item).token(&token);
                    let submission =
                        if n % 5 == 0 { submission.within(Duration::from_micros(200)) } else { submission };
                    let delay = Duration::from_micros(if n % 7 == 0 { 100 } else { 0 });
                    (submission.after(delay).spawn().unwrap(), token)
                })
                .collect();
            let cancels = std::thread::spawn(move || {
                let (handles, tokens): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                for (n, (handle, token)) in handles.iter().zip(&tokens).enumerate() {
                    match n % 4 {
                        0 => token.cancel(),
                        1 => {
                            handle.stop();
                        }
                        2 => {
                            handle.cancel();
                        }
                        _ => {}
                    }
                    if n == count / 2 {
                        root.cancel();
                    }
                }
                handles
            });
            let outcomes: Vec<_> = cancels.join().unwrap().into_iter().map(JoinHandle::join).collect();
            let ended = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            for outcome in outcomes {
                assert!(matches!(outcome, Ok(()) | Err(JoinError::Cancelled | JoinError::DeadlinePassed)));
            }
            queue.flush().unwrap();
            assert_eq!(ended, ran.load(Ordering::SeqCst));
            let counters = queue.counters();
            assert_eq!(counters.started, ended as u64);
            assert!(counters.expired <= counters.cancelled);
        }
    });
}

/// spec: I3.4, I3.8: threads submit items while their queue is destroyed.
#[test]
fn a_queue_is_destroyed_at_once_while_threads_submit() {
    for round in 0..stress(20) {
        let executor = cpus(1 + round % 3);
        let queues = all_kinds(&executor);
        std::thread::scope(|s| {
            let submits: Vec<_> = queues
                .iter()
                .map(|queue| {
                    s.spawn(move || {
                        let mut accepted = Vec::new();
                        while let Ok(item) = queue.spawn(cmwq::is_cancelled) {
                            accepted.push(item);
                        }
                        accepted
                    })
                })
                .collect();
            for queue in &queues {
                eventually("items run", || queue.counters().started >= 10 * (round as u64 % 5));
                queue.destroy_now().unwrap();
            }
            for (submits, queue) in submits.into_iter().zip(&queues) {
                let accepted = submits.join().unwrap();
                let all = accepted.len() as u64;
                let ran = accepted.into_iter().map(JoinHandle::join).filter(Result::is_ok).count() as u64;
                let counters = queue.counters();
                assert_eq!((counters.started, counters.started + counters.cancelled), (ran, all));
            }
        });
    }
}

/// spec: I3.4 (`destroy_now`): a scope reports how many of its items did not run, whether they had a slot or not.
#[test]
fn a_scope_tells_of_items_that_its_queue_gave_up() {
    let executor = one_cpu_unseen();
    for max_active in [1, 8] {
        let queue = WorkQueue::builder("parts").max_active(max_active).build_on(&executor).unwrap();
        let (holder, door) = held(&WorkQueue::builder("holds").build_on(&executor).unwrap());
        let result = queue.try_scope(|s| {
            for _ in 0..3 {
                s.spawn(|| unreachable!("the only worker is held")).map(drop).unwrap();
            }
            // The first call gives the pending items up, and then times out, because the first item is still running.
            queue.destroy_now_timeout(Duration::from_millis(1)).unwrap_err();
            door.open();
            queue.destroy_now().unwrap();
        });
        assert_eq!(result, Err(cmwq::ScopeError::Dropped { items: 3 }), "with {max_active} slots");
        holder.join().unwrap();
    }
}
