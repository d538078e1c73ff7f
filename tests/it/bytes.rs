//! The bound on the bytes of the pending items of an executor.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{CancelToken, Detection, Executor, JoinHandle, QueueError, WhenFull, WorkQueue};

use crate::support::{Door, builder, eventually, held, one_cpu, stress};

/// Makes an executor with four CPUs, one for each item that a test holds. So no test depends on the detection of
/// blocked items.
fn bounded(bytes: u64) -> Executor {
    builder("core:4 pu:1").0.max_pending_bytes(bytes).build().unwrap()
}

/// Makes a queue whose first item holds the only slot until its door opens. So all later items are pending.
fn held_queue(name: &str, when_full: WhenFull, executor: &Executor) -> (WorkQueue, JoinHandle<()>, Door) {
    let queue = WorkQueue::builder(name).max_active_total(1).when_full(when_full);
    let queue = queue.build_on(executor).unwrap();
    let (item, door) = held(&queue);
    (queue, item, door)
}

fn refuses(queue: &WorkQueue, bytes: u64) -> bool {
    let spawned = queue.item(|| ()).bytes(bytes).spawn_detached();
    spawned.is_err_and(|refused| refused.error == QueueError::Full)
}

/// Returns the bytes of the pending items, and their bound.
fn pending(executor: &Executor) -> (Option<u64>, Option<u64>) {
    let dump = executor.dump();
    (dump.pending_bytes, dump.max_pending_bytes)
}

/// spec: B4.4: the queue with the largest backlog is refused first, and other queues find room.
#[test]
fn queues_share_the_bytes_and_leave_some() {
    let executor = bounded(900);
    let (one, one_item, one_door) = held_queue("one", WhenFull::Refuse, &executor);
    assert_eq!((0..100).find(|_| refuses(&one, 100)), Some(8), "eight ninths");
    assert_eq!(pending(&executor), (Some(800), Some(900)));
    assert!(executor.dump().to_string().contains("800 of at most 900 bytes"), "{}", executor.dump());
    let (two, two_item, two_door) = held_queue("two", WhenFull::Refuse, &executor);
    assert!(!refuses(&two, 80), "another queue finds room");
    let (last, last_item, last_door) = held_queue("last", WhenFull::Refuse, &executor);
    assert!(!refuses(&last, 5000), "a queue without pending bytes may have one item, of any size");
    assert!([&one, &two, &last].into_iter().all(|queue| refuses(queue, 1)), "{:?}", pending(&executor));
    assert!(!refuses(&one, 0) && one.spawn_detached(|| ()).is_ok(), "only bytes are bounded");
    [one_door, two_door, last_door].iter().for_each(Door::open);
    [one_item, two_item, last_item].into_iter().for_each(|item| item.join().unwrap());
    [one, two, last].iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(pending(&executor).0, Some(0));
    let plain = one_cpu();
    assert!(!refuses(&WorkQueue::builder("plain").build_on(&plain).unwrap(), u64::MAX));
    assert_eq!(pending(&plain), (None, None), "without a bound, nothing is counted");
}

/// spec: B4.4, W8.2: each closure of a batch counts with its own bytes. The issuer gets back the first closure that
/// finds no room, and all later closures.
#[test]
fn a_batch_is_refused_where_its_bytes_find_no_room() {
    let executor = bounded(900);
    let (queue, item, door) = held_queue("q", WhenFull::Refuse, &executor);
    let refused = queue.items((0..12).map(|n| move || n)).bytes(100).spawn().unwrap_err();
    assert_eq!((refused.error, pending(&executor).0), (QueueError::Full, Some(800)));
    let (accepted, rest) = refused.into_parts();
    assert_eq!((accepted.len(), rest.len()), (8, 4));
    let refused = queue.items(rest).bytes(1).named("n").spawn_detached().unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    let (accepted_later, rest) = refused.into_parts();
    assert_eq!((accepted_later, rest.len()), (0, 4));
    assert_eq!(queue.items(rest).within(Duration::from_secs(60)).spawn().unwrap().len(), 4, "without bytes");
    door.open();
    item.join().unwrap();
    assert!(accepted.into_iter().map(|item| item.join().unwrap()).eq(0..8));
    queue.flush().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4: bytes count until the item begins, or until its closure is dropped.
#[test]
fn bytes_count_until_the_closure_begins_or_is_dropped() {
    let executor = bounded(9000);
    let (queue, item, door) = held_queue("q", WhenFull::Refuse, &executor);
    let (tell, told) = mpsc::channel();
    let its_executor = executor.clone();
    let begins = move || tell.send(its_executor.dump().pending_bytes).unwrap();
    let waits = queue.item(begins).bytes(100).spawn().unwrap();
    // A delayed item keeps its closure during the delay.
    let delayed = queue.item(|| ()).after(Duration::from_secs(3600)).bytes(200).spawn().unwrap();
    let token = CancelToken::new();
    let of_token = queue.item(|| ()).token(&token).named("n").bytes(400).spawn().unwrap();
    let late = queue.item(|| ()).deadline(Instant::now()).bytes(800).spawn_detached();
    late.unwrap();
    assert_eq!(pending(&executor).0, Some(1500));
    assert!(delayed.cancel());
    assert_eq!(pending(&executor).0, Some(1300), "its timer is gone, and its closure too");
    // If a submission is refused for another reason, its bytes do not count.
    let refused = queue.item(|| 7).on_cpu(99).bytes(1600).spawn().unwrap_err();
    assert_eq!((refused.error, pending(&executor).0), (QueueError::UnknownCpu { cpu: 99 }, Some(1300)));
    token.cancel();
    door.open();
    assert_eq!(told.recv().unwrap(), Some(1200), "the item that tells this has begun");
    waits.join().unwrap();
    assert!(of_token.join().is_err());
    item.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
    // The bytes of items that never run cease to count, too.
    let (queue, item, door) = held_queue("ends", WhenFull::Refuse, &executor);
    drop(queue.item(|| unreachable!()).bytes(100).spawn::<()>().unwrap());
    let ends = std::thread::spawn({
        let queue = queue.clone();
        move || queue.destroy_now().unwrap()
    });
    eventually("the queue ends", || queue.spawn(|| ()).is_err());
    door.open();
    ends.join().unwrap();
    drop(item);
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4, B2.1: an issuer waits for room if the queue is set so. If the issuer is an item of the same queue, the
/// queue refuses instead.
#[test]
fn issuers_wait_for_room() {
    let executor = bounded(90);
    let (queue, item, door) = held_queue("q", WhenFull::Wait, &executor);
    assert!(!refuses(&queue, 80));
    let issuer = std::thread::spawn({
        let queue = queue.clone();
        move || queue.item(|| 7).bytes(70).spawn().unwrap().join().unwrap()
    });
    let (other, other_item, other_door) = held_queue("other", WhenFull::Refuse, &executor);
    assert!(!refuses(&other, 1));
    assert!(!issuer.is_finished());
    door.open();
    assert_eq!(issuer.join().unwrap(), 7);
    item.join().unwrap();
    // This item holds the only slot, so if it waited for room in its own queue, it would wait for itself.
    let itself = queue.clone();
    let own = queue.spawn(move || {
        itself.item(|| ()).bytes(80).spawn_detached().unwrap();
        itself.item(|| ()).bytes(80).spawn_detached().map_err(QueueError::from)
    });
    assert_eq!(own.unwrap().join().unwrap(), Err(QueueError::Full));
    other_door.open();
    other_item.join().unwrap();
    [queue, other].iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B2.5 (bytes): an issuer waits for room until its item's deadline at most.
#[test]
fn an_issuer_waits_for_room_until_the_deadline() {
    let executor = bounded(90);
    let (queue, item, door) = held_queue("q", WhenFull::Wait, &executor);
    assert!(!refuses(&queue, 80));
    let soon = Duration::from_millis(5);
    for delay in [Duration::ZERO, Duration::from_secs(3600)] {
        let late = queue.item(|| unreachable!()).after(delay).within(soon).bytes(70).spawn::<()>();
        assert_eq!(late.unwrap_err().error, QueueError::Full);
        assert_eq!(pending(&executor).0, Some(80));
    }
    door.open();
    item.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4, B2.2: an item that its issuer runs needs no room, because it begins immediately. The issuer of a delayed
/// item waits for room.
#[test]
fn issuers_run_items_for_which_there_is_no_room() {
    let executor = bounded(90);
    let queue = WorkQueue::builder("q").max_pending(4).when_full(WhenFull::CallerRuns);
    let queue = queue.build_on(&executor).unwrap();
    let later = queue.item(|| ()).after(Duration::from_secs(3600)).bytes(80).spawn().unwrap();
    let this = std::thread::current().id();
    for _ in 0..3 {
        let ran = queue.item(|| std::thread::current().id()).bytes(70).spawn().unwrap();
        assert_eq!(ran.join().unwrap(), this);
    }
    assert_eq!(pending(&executor).0, Some(80));
    let waits = std::thread::spawn({
        let queue = queue.clone();
        move || queue.item(|| 7).after(Duration::from_millis(1)).bytes(70).spawn().unwrap().join().unwrap()
    });
    assert!(later.cancel());
    assert_eq!(waits.join().unwrap(), 7);
    assert_eq!(pending(&executor).0, Some(0));
    assert!(
        (0..4).map(|_| queue.try_reserve()).collect::<Vec<_>>().iter().all(Result::is_ok),
        "no place is lost"
    );
}

/// spec: B4.4, B1.4: a submission that is refused for lack of bytes does not keep the place in the queue that it had
/// taken.
#[test]
fn a_refused_submission_keeps_no_place() {
    let executor = bounded(90);
    let queue = WorkQueue::ordered("q").max_pending(3).build_on(&executor).unwrap();
    let (item, door) = held(&queue);
    assert!(!refuses(&queue, 80));
    assert!((0..5).all(|_| refuses(&queue, 70)));
    let permit = queue.try_reserve().unwrap();
    let refused = queue.item(|| ()).with(permit).bytes(70).spawn_detached().unwrap_err();
    assert_eq!(refused.error, QueueError::Full);
    let permits: Vec<_> = (0..3).map(|_| queue.try_reserve()).collect();
    assert_eq!(permits.iter().filter(|permit| permit.is_ok()).count(), 2, "one item is pending");
    drop(permits);
    door.open();
    item.join().unwrap();
    queue.flush().unwrap();
}

/// spec: B4.4, I2.1: the destructors of a closure and of carried values may wait for the room of their own item.
#[test]
fn destructors_may_wait_for_the_room_of_their_item() {
    /// Submits an item with bytes when it is dropped.
    struct Submits(WorkQueue);

    impl Drop for Submits {
        fn drop(&mut self) {
            drop(self.0.item(|| ()).bytes(80).spawn().unwrap());
        }
    }

    let executor = bounded(90);
    for carries in [false, true] {
        // The hook moves the value in `next` into the next submission.
        let next: Arc<Mutex<Option<Submits>>> = Arc::default();
        let carried = Arc::clone(&next);
        let carry = move || {
            let submits = carried.lock().unwrap().take();
            move || drop(submits)
        };
        let queue =
            WorkQueue::builder("q").when_full(WhenFull::Wait).carry(carry).build_on(&executor).unwrap();
        let mut submits = Some(Submits(queue.clone()));
        if carries {
            *next.lock().unwrap() = submits.take();
        }
        let hour = Duration::from_secs(3600);
        let item = queue.item(move || drop(submits)).after(hour).bytes(80).spawn().unwrap();
        assert_eq!(pending(&executor).0, Some(80));
        assert!(item.cancel());
        queue.flush().unwrap();
        eventually("the bytes are given back", || pending(&executor).0 == Some(0));
    }
}

/// spec: B4.4, F4.2: a delayed item may be submitted during a drain, with or without bytes.
#[test]
fn a_drain_accepts_delayed_items_with_bytes() {
    let executor = bounded(90);
    let (queue, item, door) = held_queue("q", WhenFull::Refuse, &executor);
    let drain = std::thread::spawn({
        let queue = queue.clone();
        move || queue.drain().unwrap()
    });
    eventually("the queue is drained", || queue.spawn(|| ()).is_err());
    let later = queue.item(|| 7).after(Duration::from_millis(1)).bytes(80).spawn().unwrap();
    assert!(refuses(&queue, 1) || queue.item(|| ()).bytes(1).spawn().is_err());
    door.open();
    drain.join().unwrap();
    assert_eq!(later.join().unwrap(), 7);
    item.join().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4, I2.1: the hooks of a submission run before the submission takes its bytes, so a hook may submit items
/// with bytes.
#[test]
fn a_hook_may_submit_items_with_bytes() {
    use std::cell::Cell;
    use std::sync::OnceLock;

    thread_local! {
        static IS_INNER: Cell<bool> = const { Cell::new(false) };
    }

    let executor = bounded(90);
    let its_queue: Arc<OnceLock<WorkQueue>> = Arc::default();
    let inner = Arc::clone(&its_queue);
    let carry = move || {
        if !IS_INNER.replace(true) {
            let queue = inner.get().expect("it was set");
            queue.item(|| ()).bytes(80).spawn().unwrap().join().unwrap();
            IS_INNER.set(false);
        }
        || ()
    };
    let queue = WorkQueue::ordered("q").when_full(WhenFull::Wait).carry(carry).build_on(&executor).unwrap();
    its_queue.set(queue.clone()).unwrap();
    for _ in 0..3 {
        queue.item(|| ()).bytes(80).spawn().unwrap().join().unwrap();
    }
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4: the bytes of an item cease to count even if the item or the destructor of its closure panics.
#[test]
fn panics_keep_no_bytes() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a destructor panics");
        }
    }

    let executor = bounded(90);
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    assert!(queue.item(|| panic!("an item panics")).bytes(80).spawn::<()>().unwrap().join().is_err());
    assert_eq!(pending(&executor).0, Some(0));
    let (item, door) = held(&queue);
    let bomb = Bomb;
    let never = queue.item(move || drop(bomb)).after(Duration::from_secs(3600)).bytes(80).spawn().unwrap();
    let cancel = std::panic::AssertUnwindSafe(|| never.cancel());
    drop(std::panic::catch_unwind(cancel));
    door.open();
    item.join().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.5: when a queue ends, the issuers that wait for room in it are refused, even if it still has items with
/// bytes.
#[test]
fn the_end_of_a_queue_refuses_issuers_in_line() {
    let executor = builder("core:1 pu:1").0.detection(Detection::Off).max_pending_bytes(90).build().unwrap();
    let queue = WorkQueue::builder("q").when_full(WhenFull::Wait).build_on(&executor).unwrap();
    // The held item keeps the only CPU. So the next item gets a slot, but does not begin.
    let (item, door) = held(&queue);
    assert!(!refuses(&queue, 80));
    let issuers = [10, 20, 30].map(|bytes| {
        let queue = queue.clone();
        std::thread::spawn(move || queue.item(|| ()).bytes(bytes).spawn_detached().map_err(QueueError::from))
    });
    let ends = std::thread::spawn({
        let queue = queue.clone();
        move || queue.destroy_now().unwrap()
    });
    for issuer in issuers {
        assert_eq!(issuer.join().unwrap(), Err(QueueError::Destroyed));
    }
    assert_eq!(pending(&executor).0, Some(80), "the item with bytes has not ended");
    door.open();
    ends.join().unwrap();
    item.join().unwrap();
    assert_eq!(pending(&executor).0, Some(0));
}

/// spec: B4.4, B4.5: issuers of several queues submit items of many sizes and wait for room until other issuers' items
/// begin. All of them get room in the end.
#[test]
fn issuers_of_many_sizes_all_get_in() {
    let executor = bounded(1000);
    let queues: Vec<_> = (0..4)
        .map(|n| {
            let queue = WorkQueue::builder(format!("q{n}")).when_full(WhenFull::Wait);
            queue.max_active(2).build_on(&executor).unwrap()
        })
        .collect();
    let rounds = stress(200);
    let issuers: Vec<_> = (0..8)
        .map(|issuer: usize| {
            let queue = queues[issuer % 4].clone();
            std::thread::spawn(move || {
                let spawn = |n| queue.item(|| ()).bytes((n * 37 % 900) as u64).spawn().unwrap();
                let items: Vec<_> = (issuer..issuer + rounds).map(spawn).collect();
                items.into_iter().for_each(|item| item.join().unwrap());
            })
        })
        .collect();
    issuers.into_iter().for_each(|issuer| issuer.join().unwrap());
    queues.iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(pending(&executor).0, Some(0));
}
