//! Functions that are called periodically.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use cmwq::{PeriodicHandle, QueueError, WaitError, WorkQueue};

use crate::support::{
    Counted, Door, SOON, all_kinds, builder, bump, eventually, held, no_thread_of, on_each_executor, one_cpu,
    time_limit, timers_have_fired,
};

const MILLI: Duration = Duration::from_millis(1);

/// spec: W5.5 (spawn_every): no call begins before its tick.
#[test]
fn a_function_is_called_every_period() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let (tell, told) = mpsc::channel();
            let begun = Instant::now();
            let every =
                queue.item(move || tell.send(Instant::now()).unwrap_or(())).spawn_every(2 * MILLI).unwrap();
            for (n, called) in told.iter().take(4).enumerate() {
                assert!(called >= begun + 2 * MILLI * (n as u32 + 1), "call {n} came too soon");
            }
            every.cancel_and_wait().unwrap();
            assert!(every.runs() >= 4 && !every.is_running());
        }
    });
}

/// spec: W5.5 (non-overlapping, missed ticks counted)
#[test]
fn ticks_that_pass_during_a_call_are_missed_and_counted() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (door, inside) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, enter) = (door.clone(), Arc::clone(&inside));
    let every = queue
        .item(move || {
            assert_eq!(enter.fetch_add(1, Ordering::SeqCst), 0, "two calls overlap");
            wait.wait();
            enter.fetch_sub(1, Ordering::SeqCst);
        })
        .spawn_every(MILLI)
        .unwrap();
    eventually("the function was called", || every.runs() == 1);
    assert!(every.is_running());
    timers_have_fired(&executor, 20 * MILLI);
    assert_eq!((every.runs(), every.missed()), (1, 0), "missed ticks are counted when the call ends");
    door.open();
    eventually("the calls go on", || every.runs() > 2);
    assert!(every.missed() >= 19, "{}", every.missed());
    every.cancel_and_wait().unwrap();
}

/// spec: W5.5 (cancelled by its handle): `cancel`, `cancel_and_wait` and dropping the handle end the calls, and
/// `detach` does not.
#[test]
fn calls_end_with_the_handle() {
    let _limit = time_limit();
    let ends: [fn(PeriodicHandle); 3] =
        [|every| every.cancel(), drop, |every| every.cancel_and_wait().unwrap()];
    for end in ends {
        let (builder, prefix) = builder("core:1 pu:1");
        let executor = builder.build().unwrap();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let (calls, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, owned) = (Arc::clone(&calls), Counted(Arc::clone(&dropped)));
        let every = queue
            .item(move || {
                assert_eq!(owned.0.load(Ordering::SeqCst), 0, "the function was called after it was dropped");
                bump(&count);
            })
            .spawn_every(MILLI)
            .unwrap();
        eventually("the function was called", || calls.load(Ordering::SeqCst) > 1);
        end(every);
        drop((queue, executor));
        // After the end, the timer keeps neither the function nor the queue nor the executor alive.
        eventually("the executor ends", || no_thread_of(&prefix));
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let (tell, told) = mpsc::channel();
    queue.item(move || tell.send(()).unwrap_or(())).spawn_every(MILLI).unwrap().detach();
    (0..3).for_each(|_| told.recv_timeout(SOON).unwrap());
}

/// spec: W5.5, W9: a call that panics counts as a call, and further calls follow.
#[test]
fn calls_go_on_after_a_panic() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let every = queue.item(|| panic!("on purpose")).spawn_every(MILLI).unwrap();
    eventually("the function is called again", || every.runs() > 2);
}

/// spec: W5.5, F5: the function may cancel its further calls, but may not wait for the end of the current one.
#[test]
fn a_periodic_function_may_end_itself() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let own = Arc::new(OnceLock::<PeriodicHandle>::new());
    let (handle, (tell, told)) = (Arc::clone(&own), mpsc::channel());
    let every = queue
        .item(move || {
            let own = handle.wait();
            assert_eq!(own.cancel_and_wait(), Err(WaitError::WouldDeadlock));
            own.cancel();
            tell.send(()).unwrap();
        })
        .spawn_every(MILLI)
        .unwrap();
    own.set(every).unwrap();
    told.recv_timeout(SOON).unwrap();
    eventually("the calls ended", || !own.wait().is_running());
    timers_have_fired(&executor, MILLI);
    queue.flush().unwrap();
    assert_eq!(own.wait().runs(), 1);
}

/// spec: W5.5: a period of zero is refused, and the issuer gets the closure back.
#[test]
fn a_period_is_not_zero() {
    let _limit = time_limit();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let refused = queue.item(|| ()).spawn_every(Duration::ZERO).unwrap_err();
    assert_eq!(refused.error, QueueError::ZeroPeriod);
    (refused.into_closure())();
}

/// spec: W5.5: the function may change the values that it owns, even after a call has panicked. With a delay, the first
/// call begins after the delay.
#[test]
fn a_periodic_function_may_change_what_it_owns() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let mut calls = 0;
    let beat = move || {
        calls += 1;
        tell.send(calls).unwrap_or(());
        assert!(calls != 2, "on purpose");
    };
    let every = queue.item(beat).after(Duration::ZERO).spawn_every(MILLI).unwrap();
    assert!(told.iter().take(4).eq(1..=4));
    every.cancel_and_wait().unwrap();
    let late = queue.item(|| ()).after(Duration::from_secs(3600)).spawn_every(MILLI).unwrap();
    timers_have_fired(&executor, 5 * MILLI);
    assert_eq!((late.runs(), late.missed()), (0, 0));
}

/// spec: Q3.4: a periodic item whose first run has no delay needs a place in the queue, and takes that of a permit.
#[test]
fn a_periodic_item_that_begins_at_once_needs_room() {
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let (holder, door) = held(&queue);
    let hour = Duration::from_secs(3600);
    let at_once = || queue.item(|| ()).after(Duration::ZERO);
    let permit = queue.try_reserve().unwrap();
    assert_eq!(at_once().spawn_every(hour).map(drop).unwrap_err().error, QueueError::Full);
    let every = at_once().with(permit).spawn_every(hour).unwrap();
    assert_eq!(queue.spawn(|| ()).map(drop).unwrap_err().error, QueueError::Full);
    assert_eq!(at_once().spawn_every(hour).map(drop).unwrap_err().error, QueueError::Full);
    let later = queue.item(|| ()).spawn_every(hour).unwrap();
    door.open();
    holder.join().unwrap();
    eventually("the item has run", || every.runs() == 1);
    drop((every, later));
}
