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

/// A way in which an issuer waits for room.
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
        // The room of this queue becomes full, and then one more issuer waits in each way.
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
        // None of this queue's own items begins.
        drop(busy_door);
        busy_item.join().unwrap();
        issuers.into_iter().for_each(|issuer| assert_eq!(issuer.join().unwrap(), Ok(())));
        drop((permits, door));
        item.join().unwrap();
        [busy, waits].iter().for_each(|queue| queue.flush().unwrap());
    });
}
