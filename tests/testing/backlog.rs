//! The bound on the pending items of an executor, and issuers that wait for room.

use cmwq::blocking::channel::{Sender, bounded};
use cmwq::blocking::{block_on, thread};
use cmwq::testing::{explore, run_until_idle};
use cmwq::{Executor, JoinHandle, QueueError, WhenFull, WorkQueue};

/// Lets an item hold the only slot of an ordered queue until the sender is dropped.
fn hold(queue: &WorkQueue) -> (JoinHandle<()>, Sender<()>) {
    let (open, door) = bounded::<()>(1);
    let item = queue.spawn(move || assert!(door.recv().is_err())).unwrap();
    run_until_idle();
    (item, open)
}

/// A call with which an issuer waits for room.
type Way = fn(&WorkQueue) -> Result<(), QueueError>;

/// spec: B4.3
#[test]
fn an_item_of_another_queue_makes_room_for_an_issuer_that_waits() {
    explore(100, || {
        let executor = Executor::builder().max_pending(18).build().unwrap();
        let busy = WorkQueue::ordered("busy").build_on(&executor).unwrap();
        let waits = WorkQueue::ordered("waits").when_full(WhenFull::Wait).build_on(&executor).unwrap();
        let ((busy_item, busy_door), (item, door)) = (hold(&busy), hold(&waits));
        let is_full = || busy.spawn_detached(|| ()).is_err_and(|refused| refused.error == QueueError::Full);
        assert_eq!((0..100).find(|_| is_full()), Some(16));
        // Permits take all room of this queue. Then one more issuer waits in each way.
        let mut permits = vec![];
        while let Ok(permit) = waits.try_reserve() {
            permits.push(permit);
        }
        let ways: [Way; 4] = [
            |queue| queue.reserve_timeout(std::time::Duration::from_secs(60)).map(drop),
            |queue| queue.reserve().map(drop),
            |queue| block_on(queue.reserve_async()).map(drop),
            |queue| queue.spawn(|| ()).map(drop).map_err(|refused| refused.error),
        ];
        let issuers = ways.map(|way| {
            let queue = waits.clone();
            thread::spawn(move || way(&queue))
        });
        run_until_idle();
        assert!(issuers.iter().all(|issuer| !issuer.is_finished()));
        // The room comes from the other queue, because none of this queue's own items begins.
        drop(busy_door);
        busy_item.join().unwrap();
        issuers.into_iter().for_each(|issuer| assert_eq!(issuer.join().unwrap(), Ok(())));
        drop((permits, door));
        item.join().unwrap();
        [busy, waits].iter().for_each(|queue| queue.flush().unwrap());
    });
}

/// An issuer waits behind another issuer of the same queue, although it needs fewer bytes. An issuer of another queue
/// overtakes both.
///
/// spec: B4.5
#[test]
fn issuers_wait_for_bytes_in_line() {
    explore(100, || {
        let executor = Executor::builder().max_pending_bytes(90).build().unwrap();
        let [one, two] = ["one", "two"]
            .map(|name| WorkQueue::ordered(name).when_full(WhenFull::Wait).build_on(&executor).unwrap());
        let ((one_item, one_door), (two_item, two_door)) = (hold(&one), hold(&two));
        one.item(|| ()).bytes(70).spawn_detached().unwrap();
        let (tell, told) = bounded(9);
        let issuer = |queue: &WorkQueue, bytes| {
            let (queue, tell) = (queue.clone(), tell.clone());
            let issuer = thread::spawn(move || {
                queue.item(|| ()).bytes(bytes).spawn_detached().unwrap();
                tell.send(bytes).unwrap();
            });
            run_until_idle();
            issuer
        };
        let issuers = [issuer(&one, 60), issuer(&one, 1)];
        assert!(told.try_recv().is_err(), "both wait, although there is room for one byte");
        let other = issuer(&two, 5);
        assert_eq!(told.try_recv().unwrap(), 5, "an issuer of another queue does not wait for them");
        drop(one_door);
        one_item.join().unwrap();
        issuers.into_iter().chain([other]).for_each(|issuer| issuer.join().unwrap());
        drop(two_door);
        two_item.join().unwrap();
        [one, two].iter().for_each(|queue| queue.flush().unwrap());
        assert_eq!(executor.dump().pending_bytes, Some(0));
    });
}

/// Of two issuers, one has a permit for the only place, and the other could take the bytes. Both submissions succeed.
///
/// spec: B4.4, B1.2
#[test]
fn places_and_bytes_are_taken_in_the_same_order() {
    explore(200, || {
        let executor = Executor::builder().max_pending_bytes(90).build().unwrap();
        let queue =
            WorkQueue::builder("q").max_pending(1).when_full(WhenFull::Wait).build_on(&executor).unwrap();
        let permit = queue.reserve().unwrap();
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.item(|| ()).bytes(80).spawn().unwrap().join().unwrap())
        };
        queue.item(|| ()).with(permit).bytes(70).spawn().unwrap().join().unwrap();
        other.join().unwrap();
    });
}

/// An issuer of a delayed item waits for bytes while a drain begins. The drain permits the item.
///
/// spec: B4.4, F4.2
#[test]
fn a_delayed_item_waits_for_bytes_during_a_drain() {
    explore(100, || {
        let executor = Executor::builder().max_pending_bytes(90).build().unwrap();
        let queue = WorkQueue::ordered("q").when_full(WhenFull::Wait).build_on(&executor).unwrap();
        let (item, door) = hold(&queue);
        queue.item(|| ()).bytes(80).spawn_detached().unwrap();
        let delay = std::time::Duration::from_millis(1);
        let [issuer, drain] = [0, 1].map(|n| {
            let queue = queue.clone();
            thread::spawn(move || match n {
                0 => queue.item(|| 7).after(delay).bytes(70).spawn().unwrap().join().unwrap(),
                _ => {
                    queue.drain().unwrap();
                    0
                }
            })
        });
        run_until_idle();
        assert!(!issuer.is_finished() && queue.spawn(|| ()).is_err(), "one waits, and the drain has begun");
        drop(door);
        assert_eq!((issuer.join().unwrap(), drain.join().unwrap()), (7, 0));
        item.join().unwrap();
    });
}
