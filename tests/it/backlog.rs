//! The bound on the pending items of all queues of an executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::{Executor, JoinHandle, QueueError, WhenFull, Work, WorkQueue};

use crate::support::{Door, SOON, builder, cpus, held, stress, timers_have_fired};

fn bounded(items: usize) -> Executor {
    builder("core:2 pu:1").0.max_pending(items).build().unwrap()
}

/// Makes an ordered queue whose first item holds the only slot until its door opens. So all later items are pending.
fn held_queue(name: &str, executor: &Executor) -> (WorkQueue, JoinHandle<()>, Door) {
    let queue = WorkQueue::ordered(name).build_on(executor).unwrap();
    let (item, door) = held(&queue);
    (queue, item, door)
}

/// Queues items until the queue refuses one. Returns their number.
fn fill(queue: &WorkQueue) -> usize {
    let refused =
        |_: &usize| queue.spawn_detached(|| ()).is_err_and(|refused| refused.error == QueueError::Full);
    (0..100_000).find(refused).expect("the queue becomes full")
}

fn pending(executor: &Executor) -> (Option<usize>, Option<usize>) {
    let dump = executor.dump();
    (dump.pending, dump.max_pending)
}

/// spec: B4.1, B4.2
#[test]
fn queues_with_backlogs_share_the_room_and_leave_some() {
    let executor = bounded(900);
    let (one, one_item, one_door) = held_queue("one", &executor);
    assert_eq!(pending(&executor), (Some(0), Some(900)), "an item that has begun is not pending");
    assert_eq!(fill(&one), 800);
    let (two, two_item, two_door) = held_queue("two", &executor);
    let more = fill(&two);
    assert!((80..=100).contains(&more), "{more} more");
    assert_eq!(fill(&one), 0);
    let (last, last_item, last_door) = held_queue("last", &executor);
    assert!(fill(&last) > 0, "a queue without a backlog finds room");
    let (now, most) = pending(&executor);
    assert!(now <= most, "{now:?}");
    // The queue accepts the items of a batch for which there is room, and refuses the others.
    let refused = last.items((0..10).map(|_| || ())).spawn_detached().unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    [one_door, two_door, last_door].iter().for_each(Door::open);
    [one_item, two_item, last_item].into_iter().for_each(|item| item.join().unwrap());
    [one, two, last].iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.1: each queue without pending items may take one item, even if this exceeds the bound.
#[test]
fn each_queue_may_have_one_pending_item() {
    let executor = bounded(1);
    let held: Vec<_> = (0..4).map(|n| held_queue(&format!("q{n}"), &executor)).collect();
    for (queue, _, _) in &held {
        assert_eq!(fill(queue), 1, "{}", queue.name());
    }
    assert_eq!(pending(&executor), (Some(4), Some(1)));
    for (queue, item, door) in held {
        door.open();
        item.join().unwrap();
        queue.drain().unwrap();
    }
    assert_eq!(pending(&executor), (Some(0), Some(1)));
}

/// spec: B4.3, B1.4: an issuer that waits for room and gives up leaves nothing behind that would refuse later
/// submissions.
#[test]
fn an_issuer_that_gives_up_closes_no_queue() {
    let executor = bounded(18);
    let (busy, busy_item, busy_door) = held_queue("busy", &executor);
    let (queue, item, door) = held_queue("q", &executor);
    assert_eq!(fill(&busy), 16);
    assert_eq!(fill(&queue), 2);
    assert_eq!(queue.reserve_timeout(Duration::from_millis(1)).unwrap_err(), QueueError::Full);
    drop(Box::pin(queue.reserve_async()));
    busy_door.open();
    busy_item.join().unwrap();
    busy.flush().unwrap();
    assert!(fill(&queue) > 8, "no item of this queue has begun, but there is room");
    door.open();
    item.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.3, B1.4: if a task's reservation finds room, but its future is dropped before the first poll, the place is
/// free again.
#[test]
fn a_reservation_that_no_task_polls_gives_its_place_back() {
    let executor = bounded(18);
    let queue = WorkQueue::builder("q").max_pending(1).build_on(&executor).unwrap();
    for _ in 0..3 {
        drop(Box::pin(queue.reserve_async()));
        assert_eq!(pending(&executor).0, Some(0));
    }
    let permit = cmwq::blocking::block_on(queue.reserve_async()).unwrap();
    assert_eq!(queue.try_reserve().unwrap_err(), QueueError::Full);
    drop(permit);
    drop(queue.try_reserve().unwrap());
}

/// spec: B4.1, E5.1: several threads submit items in every way. When all items have ended, the count of pending items
/// is right.
#[test]
fn the_count_is_right_after_submissions_of_all_kinds() {
    let executor = builder("core:4 pu:1").0.max_pending(20).build().unwrap();
    let queues = [
        WorkQueue::builder("n").max_pending(7),
        WorkQueue::per_cpu("p").when_full(WhenFull::Wait),
        WorkQueue::ordered("o"),
    ];
    let queues = queues.map(|queue| queue.build_on(&executor).unwrap());
    let (ran, accepted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for issuer in 0..4 {
            let (queues, accepted, ran) = (&queues, &accepted, &ran);
            scope.spawn(move || {
                let work = Work::new(|| ());
                for n in 0..stress(300) {
                    let queue = &queues[(issuer + n) % 3];
                    let ran = Arc::clone(ran);
                    let item = move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    };
                    let count = match n % 7 {
                        0 => queue.spawn_detached(item).is_ok().into(),
                        1 => queue.spawn(item).is_ok_and(|handle| !handle.cancel()).into(),
                        2 => queue.reserve().unwrap().spawn(item).is_ok().into(),
                        3 => match queue.items((0..5).map(|_| item.clone())).spawn_detached() {
                            Ok(()) => 5,
                            Err(refused) => refused.accepted(),
                        },
                        4 => {
                            queue.item(item).after(Duration::from_micros(50)).spawn_detached().is_ok().into()
                        }
                        5 => {
                            drop(queue.try_reserve());
                            drop(queue.reserve_timeout(Duration::from_micros(20)));
                            0
                        }
                        _ => {
                            _ = queue.enqueue(&work);
                            0
                        }
                    };
                    accepted.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
    });
    timers_have_fired(&executor, Duration::from_micros(50));
    queues.iter().for_each(|queue| queue.wait_idle().unwrap());
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    assert_eq!(ran.load(Ordering::Relaxed), accepted.load(Ordering::Relaxed));
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.1: without a bound, nothing is counted.
#[test]
fn an_executor_without_a_bound_counts_nothing() {
    assert_eq!(pending(&cpus(2)), (None, None));
}
