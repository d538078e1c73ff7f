//! Permits: an issuer reserves a place in a queue before it makes the item.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cmwq::blocking::block_on;
use cmwq::{CancelToken, Cancelled, Permit, QueueError, WhenFull, Work, WorkQueue};

use crate::support::{
    Crowd, Door, SOON, builder, bump, cpus, eventually, falls_asleep, held, holds_within, on_each_executor,
    one_cpu, stress, thread_id, time_limit,
};

/// Spawns a thread that reserves a place in a full queue. Returns when this thread waits in line.
fn reserves_elsewhere(
    queue: &WorkQueue,
    then: impl FnOnce(Result<Permit, QueueError>) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let (tell, told) = std::sync::mpsc::channel();
    let queue = queue.clone();
    let thread = std::thread::spawn(move || {
        tell.send(thread_id()).unwrap();
        then(queue.reserve());
    });
    falls_asleep("the issuer waits", told.recv().unwrap());
    thread
}

/// spec: B1.1 (no closure is made before there is room), B1.2 (a permit is never refused as full)
#[test]
fn producers_that_reserve_never_exceed_the_bound() {
    on_each_executor(|executor| {
        for max in [1, 3] {
            let queue = WorkQueue::builder("q").max_pending(max).build_on(executor).unwrap();
            // `made` counts the closures that were made and have not begun.
            let (made, ran) = (Arc::new(Crowd::default()), Arc::new(AtomicUsize::new(0)));
            let (producers, count) = (3, stress(200));
            std::thread::scope(|scope| {
                for producer in 0..producers {
                    let (queue, made, ran) = (&queue, &made, &ran);
                    scope.spawn(move || {
                        for n in 0..count {
                            let permit = match (producer + n) % 3 {
                                0 => queue.reserve(),
                                1 => queue.reserve_timeout(SOON),
                                _ => block_on(queue.reserve_async()),
                            };
                            let permit = permit.unwrap();
                            made.enter();
                            let (made, ran) = (Arc::clone(made), Arc::clone(ran));
                            let item = move || {
                                made.leave();
                                ran.fetch_add(1, Ordering::Relaxed);
                            };
                            if n % 2 == 0 {
                                permit.spawn_detached(item).unwrap();
                            } else {
                                drop(permit.spawn(item).unwrap());
                            }
                        }
                    });
                }
            });
            queue.flush().unwrap();
            assert_eq!(ran.load(Ordering::Relaxed), producers * count);
            // An item gives its place back just before it leaves `made`. So `made` may count more closures than there
            // are places.
            let most = max + executor.cpus().len() + producers;
            assert!(made.peak() <= most, "{} closures were made, with room for {max}", made.peak());
            let all: Vec<_> = (0..max).map(|_| queue.try_reserve().unwrap()).collect();
            assert_eq!(
                queue.try_reserve().unwrap_err(),
                QueueError::Full,
                "no place is lost, and none is left over"
            );
            drop(all);
        }
    });
}

/// spec: B1.1: a permit counts as a pending item. A permit that is dropped no longer counts, nor does one whose closure
/// panics.
#[test]
fn a_permit_holds_its_place() {
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let permit = queue.try_reserve().unwrap();
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full);
    assert_eq!(queue.enqueue(&Work::new(|| ())), Err(QueueError::Full));
    assert_eq!(queue.reserve_timeout(Duration::from_millis(1)).unwrap_err(), QueueError::Full);
    drop(permit);
    queue.spawn(|| ()).unwrap().join().unwrap();
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _permit = queue.try_reserve().unwrap();
        panic!("before the closure is made, on purpose");
    }));
    assert!(panics.is_err());
    let permit = queue.try_reserve().unwrap();
    assert_eq!(permit.queue(), queue);
    assert!(format!("{permit:?}").contains("Permit"));
    assert!(permit.spawn(|| panic!("on purpose")).unwrap().join().is_err());
    drop(queue.try_reserve().unwrap());
}

/// spec: B1.2: permits combine with all options and with reusable items. If a submission needs no place, it gives the
/// permit's place back.
#[test]
fn a_permit_is_used_with_options_and_reusable_items() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").max_pending(1).build_on(&executor).unwrap();
    let permit = || queue.reserve_timeout(SOON).unwrap();
    let full = || queue.try_reserve().is_err();
    let first = executor.cpus().first().unwrap();
    queue.item(|| ()).with(permit()).on_cpu(first).named("n").spawn().unwrap().join().unwrap();
    let late = queue.item(|| ()).with(permit()).after(Duration::from_secs(3600)).spawn().unwrap();
    assert!(!full(), "a delayed item is not pending yet");
    assert!(late.cancel());
    let work = Work::new(|| ());
    assert_eq!(queue.item(&work).with(permit()).enqueue(), Ok(true));
    work.flush().unwrap();
    assert_eq!(queue.item(&work).with(permit()).after(Duration::from_secs(3600)).enqueue(), Ok(true));
    assert!(!full());
    assert_eq!(queue.item(&work).with(permit()).reschedule(), Ok(true));
    work.flush().unwrap();
    let beat = queue.item(|| ()).with(permit()).spawn_every(Duration::from_secs(3600)).unwrap();
    assert!(!full());
    drop(beat);

    let (busy, door) = held(&queue);
    let (other, other_door) = held(&WorkQueue::ordered("o").build_on(&executor).unwrap());
    queue.item(&work).with(permit()).enqueue().unwrap();
    assert!(full() || !work.is_pending());
    door.open();
    other_door.open();
    busy.join().unwrap();
    other.join().unwrap();

    let stranger = WorkQueue::builder("stranger").max_pending(1).build_on(&executor).unwrap();
    let refused = stranger.item(|| 7).with(permit()).spawn().unwrap_err();
    assert_eq!((refused.error, (refused.into_closure())()), (QueueError::ForeignPermit, 7));
    assert_eq!(stranger.item(&work).with(permit()).enqueue(), Err(QueueError::ForeignPermit));
    let refused = queue.item(|| 7).with(permit()).on_cpu(1 << 20).spawn().unwrap_err();
    assert_eq!(refused.error, QueueError::UnknownCpu { cpu: 1 << 20 });
    assert!(!full(), "a refusal gives the place back");
}

/// spec: B1.3 (permits are fair)
#[test]
fn issuers_get_their_places_in_the_order_in_which_they_began_to_wait() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").max_pending(1).build_on(&executor).unwrap();
    let permit = queue.reserve().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..5)
        .map(|n| {
            let order = Arc::clone(&order);
            reserves_elsewhere(&queue, move |permit| {
                order.lock().unwrap().push(n);
                drop(permit.unwrap());
            })
        })
        .collect();
    assert_eq!(queue.try_reserve().unwrap_err(), QueueError::Full);
    drop(permit);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    drop(queue.try_reserve().unwrap());
}

/// spec: B1.4 (an issuer may give up): an issuer that gives up leaves the line. If it was just given a place in the
/// queue, the next issuer gets this place.
#[test]
fn issuers_that_give_up_lose_no_place() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").max_pending(2).build_on(executor).unwrap();
        let got = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..4_u64 {
                let (queue, got) = (&queue, &got);
                scope.spawn(move || {
                    for round in 0..stress(100) as u64 {
                        let permit = if n % 2 == 0 {
                            queue.reserve_timeout(Duration::from_micros((n + round) % 50)).ok()
                        } else {
                            let mut future = Box::pin(queue.reserve_async());
                            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                                Poll::Ready(permit) => permit.ok(),
                                Poll::Pending => None,
                            }
                        };
                        if let Some(permit) = permit {
                            got.fetch_add(1, Ordering::Relaxed);
                            permit.spawn_detached(std::thread::yield_now).unwrap();
                        }
                    }
                });
            }
        });
        assert!(got.load(Ordering::Relaxed) > 0);
        queue.flush().unwrap();
        let all = [queue.try_reserve().unwrap(), queue.try_reserve().unwrap()];
        assert_eq!(queue.try_reserve().unwrap_err(), QueueError::Full);
        drop(all);
    });
}

/// spec: B1.5 (issuers in line are told when the queue ends)
#[test]
fn issuers_in_line_learn_that_the_queue_ends() {
    for ends in ["drain", "destroy", "shutdown"] {
        let expected = if ends == "destroy" { QueueError::Destroyed } else { QueueError::ShutDown };
        let executor = builder("core:2 pu:1").0.build().unwrap();
        let queue = WorkQueue::builder("q").max_pending(1).build_on(&executor).unwrap();
        let permit = queue.reserve().unwrap();
        let waits = reserves_elsewhere(&queue, move |permit| match ends {
            "drain" => drop(permit.unwrap()),
            _ => assert_eq!(permit.unwrap_err(), expected),
        });
        let mut task = Box::pin(queue.reserve_async());
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        match ends {
            // The queue has no items, so the drain ends at once. The issuers in line continue to wait.
            "drain" => queue.drain().unwrap(),
            "destroy" => assert_eq!(queue.destroy(), Ok(0)),
            _ => assert!(executor.shutdown(SOON).unwrap().is_complete()),
        }
        if ends == "drain" {
            drop(permit);
            waits.join().unwrap();
            drop(block_on(task).unwrap());
            continue;
        }
        waits.join().unwrap();
        assert_eq!(block_on(task).unwrap_err(), expected);
        assert_eq!(queue.reserve().unwrap_err(), expected);
        assert_eq!(queue.try_reserve().unwrap_err(), expected);
        let refused = permit.spawn(|| 7).unwrap_err();
        assert_eq!((refused.error, (refused.into_closure())()), (expected, 7));
    }
}

/// spec: B1.6 (a wait that would never end is refused): it does not matter to which CPU the waiting item would queue,
/// nor what other items could make room. Both items here hold the only slot of their CPU. If they were not refused,
/// each would wait for the item behind the other one.
#[test]
fn an_item_in_line_looks_at_the_slots_of_all_cpus() {
    let _limit = time_limit();
    let executor = cpus(2);
    for _ in 0..stress(20) {
        let queue = WorkQueue::builder("q").max_active(1).max_pending(2).build_on(&executor).unwrap();
        let both = Door::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let items: Vec<_> = [0, 1]
            .map(|cpu| {
                let (opened, begins, own) = (both.clone(), Arc::clone(&begun), queue.clone());
                let item = move || {
                    bump(&begins);
                    opened.wait();
                    own.reserve().err()
                };
                let item = queue.item(item).on_cpu(cpu).spawn().unwrap();
                eventually("the item has begun", || begun.load(Ordering::SeqCst) > cpu);
                item
            })
            .into();
        let behind = [0, 1].map(|cpu| queue.item(|| ()).on_cpu(cpu).spawn().unwrap());
        both.open();
        // One item may find room only after the other one has ended, and the item behind that one has begun.
        let answers: Vec<_> = items.into_iter().map(|item| item.join().unwrap()).collect();
        assert!(answers.contains(&Some(QueueError::WouldDeadlock)), "{answers:?}");
        for item in behind {
            item.join().unwrap();
        }
    }
}

/// spec: B1.6: the place is refused although another item has ended, except for its result, so it makes no more room.
#[test]
fn an_item_in_line_does_not_wait_for_an_item_that_has_made_its_room() {
    struct Waits(Door);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").max_active(1).max_pending(1).build_on(&cpus(2)).unwrap();
    let (result, door, ends) = (Door::default(), Door::default(), Arc::new(AtomicUsize::new(0)));
    let (waits, ended) = (Waits(result.clone()), Arc::clone(&ends));
    let dropped = move || {
        bump(&ended);
        waits
    };
    queue.item(dropped).on_cpu(1).spawn_detached().unwrap();
    eventually("its function has ended", || ends.load(Ordering::SeqCst) == 1);
    let (own, opened) = (queue.clone(), door.clone());
    let (tell, begun) = mpsc::channel();
    let in_line = move || {
        tell.send(()).unwrap();
        opened.wait();
        own.reserve().err()
    };
    let item = queue.item(in_line).on_cpu(0).spawn().unwrap();
    begun.recv().unwrap();
    let behind = queue.item(|| ()).on_cpu(0).spawn().unwrap();
    door.open();
    assert_eq!(item.join().unwrap(), Some(QueueError::WouldDeadlock));
    behind.join().unwrap();
    result.open();
}

/// spec: B1.6 (a wait that would never end is refused)
#[test]
fn an_item_that_holds_the_only_slot_is_not_left_in_line() {
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let inner = queue.clone();
    let item = queue.spawn(move || {
        let behind = inner.spawn(|| ()).unwrap();
        let waits = (inner.reserve().unwrap_err(), block_on(inner.reserve_async()).unwrap_err());
        drop(behind);
        waits
    });
    assert_eq!(item.unwrap().join().unwrap(), (QueueError::WouldDeadlock, QueueError::WouldDeadlock));
    assert!(holds_within(SOON, || queue.try_reserve().is_ok()));
}

/// spec: B1.1: without a bound there is always room.
#[test]
fn a_queue_without_a_bound_has_room() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let permits: Vec<_> = (0..100).map(|_| queue.reserve().unwrap()).collect();
    let items: Vec<_> = permits.into_iter().map(|permit| permit.spawn(|| 1).unwrap()).collect();
    assert_eq!(items.into_iter().map(|item| item.join().unwrap()).sum::<i32>(), 100);
}

/// spec: B2.1 (a full queue refuses or waits, as it was told)
#[test]
fn a_queue_that_waits_when_full_refuses_only_its_own_items() {
    on_each_executor(|executor| {
        let queue =
            WorkQueue::builder("q").max_pending(2).when_full(WhenFull::Wait).build_on(executor).unwrap();
        let (ran, count) = (Arc::new(AtomicUsize::new(0)), stress(200));
        let item = || {
            let ran = Arc::clone(&ran);
            move || _ = ran.fetch_add(1, Ordering::Relaxed)
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..count).for_each(|_| queue.spawn_detached(item()).unwrap()));
                scope.spawn(|| queue.items((0..count).map(|_| item())).spawn_detached().unwrap());
            }
        });
        queue.flush().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 4 * count);

        let (permits, inner) = ([queue.reserve().unwrap(), queue.reserve().unwrap()], queue.clone());
        drop(permits);
        let own = queue.spawn(move || {
            let permits = [inner.reserve(), inner.reserve()];
            (permits, inner.spawn(|| ()).map_err(|refused| refused.error).err())
        });
        assert_eq!(own.unwrap().join().unwrap().1, Some(QueueError::Full));
    });
}

fn never() {
    unreachable!("it is cancelled");
}

/// Runs `wait` on a thread that has entered the token, and cancels the token when the thread sleeps. Returns the result
/// of the wait.
fn cancelled_while_it_waits<T: Send>(token: &CancelToken, wait: impl FnOnce() -> T + Send) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            tell.send(thread_id()).unwrap();
            token.enter(wait)
        });
        falls_asleep("the thread waits", told.recv().unwrap());
        token.cancel();
        thread.join().unwrap()
    })
}

const PERIOD: Duration = Duration::from_secs(3600);

/// spec: B2.5: a submission that is cancelled while it waits for room is refused, and hands its closure back. The queue
/// keeps neither the item nor a place.
#[test]
fn a_submission_that_is_cancelled_waits_for_no_room() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("q").max_pending(1).when_full(WhenFull::Wait);
        let queue = queue.build_on(executor).unwrap();
        let (holder, door) = held(&queue);
        let permit = queue.reserve().unwrap();
        let soon = Duration::from_millis(5);
        let late = queue.item(never).within(soon).spawn();
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        let late = queue.item(never).within(soon).spawn_detached();
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        let late = queue.items([never; 3]).within(soon).spawn();
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        let late = queue.items([never; 3]).within(soon).spawn_detached();
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        let token = CancelToken::new();
        let waits = || queue.item(never).token(&token).spawn().map_err(|refused| refused.error);
        assert_eq!(cancelled_while_it_waits(&token, waits).unwrap_err(), QueueError::Full);
        let late = queue.item(never).after(Duration::ZERO).within(soon).spawn_every(PERIOD);
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        let token = CancelToken::new();
        let every = || queue.item(never).after(Duration::ZERO).token(&token).spawn_every(PERIOD);
        let waits = || every().map_err(|refused| refused.error);
        assert_eq!(cancelled_while_it_waits(&token, waits).unwrap_err(), QueueError::Full);
        assert_eq!(queue.len(), 1, "the queue keeps no item that is late");
        door.open();
        permit.spawn(|| ()).unwrap().join().unwrap();
        holder.join().unwrap();
        // An item of a batch may cancel its own token. The other items of the batch still run.
        let cancels = || cmwq::cancel_token().cancel();
        queue.items([cancels; 100]).token(&CancelToken::new()).spawn_detached().unwrap();
        queue.flush().unwrap();
        let counters = queue.counters();
        assert_eq!((counters.started, counters.cancelled, counters.refused), (102, 0, 11));
        drop(queue.try_reserve().unwrap());
    });
}

/// spec: I3.7 (permits)
#[test]
fn a_cancelled_caller_waits_for_no_permit() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").max_pending(1).build_on(&executor).unwrap();
    let permit = queue.reserve_cancellable().unwrap().unwrap();
    let soon = CancelToken::new().child_within(Duration::from_millis(5));
    let late = soon.enter(|| queue.reserve_cancellable());
    assert_eq!(late.unwrap_err(), Cancelled::DeadlinePassed);
    let token = CancelToken::new();
    let asked = cancelled_while_it_waits(&token, || queue.reserve_cancellable());
    assert_eq!(asked.unwrap_err(), Cancelled::Requested);
    drop(permit);
    let permit = token.enter(|| queue.reserve_cancellable()).unwrap().unwrap();
    drop(permit);
    queue.destroy().unwrap();
    let ended = token.enter(|| queue.reserve_cancellable());
    assert_eq!(ended.unwrap().unwrap_err(), QueueError::Destroyed);
    assert_eq!(queue.counters().refused, 0);
}
