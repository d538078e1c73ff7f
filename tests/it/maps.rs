//! Functions for many inputs: `map`, `for_each`, and chunks of slices in a scope.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{Executor, JoinError, QueueError, RunError, Scope, ScopeError, WorkQueue};

use crate::support::{
    Bomb, Counted, Crowd, Door, all_kinds, builder, bump, cpus, eventually, on_each_executor, one_cpu,
    time_limit,
};

/// spec: W7.11: on every kind of queue, and with every window, the results come in the order of the inputs.
#[test]
fn results_come_in_order() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            for window in [1, 2, 7, 1000] {
                let results = queue.map(0..100u64, |n| n * n).window(window);
                let results: Vec<u64> = results.collect::<Result<_, _>>().unwrap();
                assert!(results.iter().copied().eq((0..100).map(|n| n * n)));
            }
            assert_eq!(queue.map(std::iter::empty::<u8>(), |n| n).count(), 0);
        }
    });
}

/// spec: W7.11: no item is queued before a result is asked for, and never more items are in flight than the window
/// permits.
#[test]
fn a_map_keeps_its_window() {
    let _limit = time_limit();
    let executor = cpus(8);
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (taken, crowd) = (Arc::new(AtomicUsize::new(0)), Arc::new(Crowd::default()));
    let (take, inside) = (Arc::clone(&taken), Arc::clone(&crowd));
    let inputs = (0..).inspect(move |_| bump(&take));
    let mut map = queue
        .map(inputs, move |n: usize| {
            inside.enter();
            cmwq::blocking::thread::sleep(Duration::from_micros(50));
            inside.leave();
            n
        })
        .window(5);
    assert_eq!(taken.load(Ordering::SeqCst), 0);
    for n in 0..50 {
        assert_eq!(map.next().unwrap().unwrap(), n);
        let taken = taken.load(Ordering::SeqCst);
        assert_eq!(taken, n + 5, "inputs are taken only when a result is wanted");
    }
    assert!(crowd.peak() <= 5, "{}", crowd.peak());
    drop(map);
    queue.flush().unwrap();
}

/// spec: W7.12: after an item has panicked, the iterator returns the panic, and ends. Items that have not begun are
/// dropped.
#[test]
fn a_panic_ends_a_map() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let inputs: Vec<_> = (0..10).map(|n| (n, Counted(Arc::clone(&drops)))).collect();
    let mut map = queue.map(inputs, |(n, _counted)| {
        assert!(n != 2, "the third");
        n
    });
    assert_eq!((map.next().unwrap().unwrap(), map.next().unwrap().unwrap()), (0, 1));
    let error = map.next().unwrap().unwrap_err();
    assert!(
        matches!(&error, RunError::Failed(JoinError::Panicked(panic)) if panic.message() == Some("the third"))
    );
    assert!(map.next().is_none() && map.next().is_none());
    queue.flush().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 10);
}

/// spec: W7.12: if the iterator is dropped, items that have not begun do not run.
#[test]
fn dropping_a_map_cancels_the_rest() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (door.clone(), Arc::clone(&runs));
    let mut map = queue.map(0..10, move |n| {
        bump(&count);
        if n == 1 {
            wait.wait();
        }
        n
    });
    assert_eq!(map.next().unwrap().unwrap(), 0);
    eventually("the second item began", || runs.load(Ordering::SeqCst) == 2);
    drop(map);
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// spec: W7.12: if the destructor of an input panics, the items behind it do not run either.
#[test]
fn a_destructor_that_panics_lets_no_other_item_of_a_map_begin() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (door.clone(), Arc::clone(&runs));
    let mut map = queue.map(with_a_bomb(), move |(n, _bomb)| {
        bump(&count);
        if n == 1 {
            wait.wait();
        }
        n
    });
    assert_eq!(map.next().unwrap().unwrap(), 0);
    eventually("the second item began", || runs.load(Ordering::SeqCst) == 2);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err(), "the destructor panics");
    door.open();
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// Returns ten numbered inputs. The third one has a bomb.
fn with_a_bomb() -> Vec<(usize, Option<Bomb>)> {
    let mut inputs: Vec<(usize, Option<Bomb>)> = (0..10).map(|n| (n, None)).collect();
    inputs[2].1 = Some(Bomb);
    inputs
}

/// spec: W7.12: if the queue is full, a map waits for room. Any other refusal ends the map. The iterator returns it
/// after the results of the accepted items.
#[test]
fn a_refusal_ends_a_map_unless_the_queue_is_full() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").max_pending(2).build_on(&executor).unwrap();
    let results: Vec<i32> = queue.map(0..500, |n| n).collect::<Result<_, _>>().unwrap();
    assert!(results.into_iter().eq(0..500));
    queue.for_each(0..500, drop::<i32>).unwrap();

    let mut map = queue.map(0..500, |n| n).window(2);
    assert_eq!(map.next().unwrap().unwrap(), 0);
    queue.flush().unwrap();
    queue.destroy().unwrap();
    // First come the results of items that were accepted before the queue ended.
    let rest: Vec<_> = map.collect();
    let (last, accepted) = rest.split_last().unwrap();
    assert!(matches!(last, Err(RunError::Refused(QueueError::Destroyed))));
    assert!(accepted.iter().all(Result::is_ok) && accepted.len() <= 2);
    assert!(matches!(queue.for_each(0..3, drop::<i32>), Err(RunError::Refused(QueueError::Destroyed))));
}

/// spec: W7.11, F5.2: an item that holds the only slot of its queue cannot use `map` on this queue.
#[test]
fn a_map_that_waits_for_its_own_item_is_refused() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let own = queue.clone();
    let (one, other) = queue
        .spawn(move || {
            let map = own.map(0..3, |n| n).next().unwrap().unwrap_err();
            (map, own.for_each(0..3, drop::<i32>).unwrap_err())
        })
        .unwrap()
        .join()
        .unwrap();
    assert!(matches!(one, RunError::Failed(JoinError::WouldDeadlock)), "{one}");
    assert!(matches!(other, RunError::Refused(QueueError::WouldDeadlock)), "{other}");
    queue.flush().unwrap();
}

/// spec: W7.10, W7.11, F5.2: the caller comes to hold the only slot of the queue after it has queued an item. It gets
/// an error, and the item is cancelled.
#[test]
fn a_caller_that_comes_to_hold_the_only_slot_gets_an_error() {
    let _limit = time_limit();
    let executor = one_cpu();
    for is_map in [false, true] {
        let queue = WorkQueue::builder("q").max_active(2).build_on(&executor).unwrap();
        let shown = executor.clone();
        let (door, begun) = (Door::default(), Door::default());
        let (opens, begins) = (door.clone(), begun.clone());
        let other = queue.spawn(move || {
            begins.open();
            door.wait();
        });
        begun.wait();
        let (own, mut other) = (queue.clone(), Some(other.unwrap()));
        let item = move || {
            let mut inputs = 0..1;
            let inputs = std::iter::from_fn(|| {
                inputs.next().or_else(|| {
                    own.set_max_active(1).unwrap();
                    opens.open();
                    if let Some(other) = other.take() {
                        other.join().unwrap();
                    }
                    // If the other item still had its slot, the wait would not be refused.
                    eventually("one item has a slot", || {
                        shown.dump().queues.iter().all(|queue| queue.active <= 1)
                    });
                    None
                })
            });
            let never = |_| unreachable!("the item has no slot");
            if is_map { own.map(inputs, never).next().unwrap() } else { own.for_each(inputs, never) }
        };
        let error = queue.spawn(item).unwrap().join().unwrap().unwrap_err();
        assert!(matches!(error, RunError::Failed(JoinError::WouldDeadlock)), "{error}");
        queue.flush().unwrap();
        assert_eq!(queue.counters().cancelled, 1);
    }
}

/// spec: W7.10: on every kind of queue the function is called once for each input, which may borrow.
#[test]
fn a_function_is_called_for_each_input() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let mut numbers: Vec<usize> = (0..300).collect();
            let sum = AtomicUsize::new(0);
            queue
                .for_each(&mut numbers, |n| {
                    sum.fetch_add(*n, Ordering::Relaxed);
                    *n *= 2;
                })
                .unwrap();
            assert_eq!(sum.into_inner(), 299 * 150);
            assert!(numbers.iter().copied().eq((0..300).map(|n| 2 * n)));
        }
    });
}

/// spec: W7.10: after an item has panicked, no more items begin. The call returns when all items that have begun have
/// ended.
#[test]
fn a_panic_ends_a_loop() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    for _ in 0..20 {
        let inside = AtomicUsize::new(0);
        let ended = queue.for_each(0.., |n: usize| {
            inside.fetch_add(1, Ordering::SeqCst);
            cmwq::blocking::thread::sleep(Duration::from_micros(30));
            inside.fetch_sub(1, Ordering::SeqCst);
            // Several items panic, and the call returns the first panic.
            assert!(n < 40, "{n} is too much");
        });
        let Err(RunError::Failed(JoinError::Panicked(panic))) = ended else { panic!("{ended:?}") };
        assert_eq!(panic.message(), Some("40 is too much"));
        // The call has waited for all items that had begun.
        assert_eq!(inside.into_inner(), 0);
    }
}

/// spec: W7.10: a refusal ends the call. If then the destructor of an input panics, the items behind it do not run
/// either.
#[test]
fn a_destructor_that_panics_lets_no_other_item_of_a_loop_begin() {
    /// Opens its door when it is dropped.
    struct Opens(Door);

    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
        }
    }

    let _limit = time_limit();
    let queue = &WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let (door, begun, runs) = (Door::default(), Door::default(), AtomicUsize::new(0));
    let mut inputs: Vec<(Option<Bomb>, Option<Opens>)> =
        with_a_bomb().into_iter().map(|(_, bomb)| (bomb, None)).collect();
    // The first item waits until the last item is cancelled.
    inputs[9].1 = Some(Opens(door.clone()));
    let function = |_input: (Option<Bomb>, Option<Opens>)| {
        bump(&runs);
        begun.open();
        door.wait();
    };
    std::thread::scope(|scope| {
        // Another thread drains the queue, so the queue refuses the last input.
        let last = || {
            begun.wait();
            scope.spawn(move || queue.drain().unwrap());
            eventually("the queue drains", || queue.spawn(|| ()).is_err());
            (None, None)
        };
        let inputs = inputs.into_iter().chain(std::iter::once_with(last));
        let ended = catch_unwind(AssertUnwindSafe(|| queue.for_each(inputs, function)));
        assert!(ended.is_err(), "the destructor panics");
    });
    assert_eq!(runs.into_inner(), 1);
}

/// spec: W7.10: if the queue is destroyed at once during the call, the error says that an item was dropped.
#[test]
fn a_loop_tells_of_dropped_items() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.max_pending(10).build().unwrap();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let pending = || executor.dump().pending;
    let (door, opens) = (Door::default(), Door::default());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            queue.for_each(0..3, |n| {
                opens.open();
                assert_eq!(n, 0, "the other items were dropped");
                door.wait();
            })
        });
        opens.wait();
        eventually("all items were queued", || pending() == Some(2));
        let ends = scope.spawn(|| queue.destroy_now());
        eventually("the other items were dropped", || pending() == Some(0));
        door.open();
        ends.join().unwrap().unwrap();
        let ended = call.join().unwrap();
        assert!(matches!(ended, Err(RunError::Failed(JoinError::Cancelled))), "{ended:?}");
    });
}

/// spec: W7.10: each element is in one chunk, and the function learns where the chunk begins.
#[test]
fn slices_are_divided_into_chunks() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        for (len, size) in [(0, 3), (1, 3), (3, 3), (10, 3), (100, 1), (100, 1000)] {
            let mut elements = vec![0; len];
            queue
                .scope(|s| {
                    s.chunks_mut(&mut elements, size, |first, chunk| {
                        assert!(first % size == 0 && chunk.len() <= size);
                        chunk.iter_mut().enumerate().for_each(|(n, element)| *element = first + n);
                    })
                })
                .unwrap();
            assert!(elements.iter().copied().eq(0..len), "{len} in chunks of {size}: {elements:?}");
            let chunks = Mutex::new(Vec::new());
            let keep = |first, chunk: &[usize]| chunks.lock().unwrap().push((first, chunk.to_vec()));
            queue.scope(|s| s.chunks(&elements, size, keep)).unwrap();
            let mut chunks = chunks.into_inner().unwrap();
            chunks.sort_unstable();
            let expected = elements.chunks(size).enumerate().map(|(n, chunk)| (n * size, chunk.to_vec()));
            assert!(chunks.into_iter().eq(expected));
        }
        let never = |_: usize, _: &[u8]| unreachable!("a chunk has no elements");
        assert_eq!(queue.scope(|s| s.chunks(&[1], 0, never)), Err(QueueError::ZeroChunk));
        let mut one = [1];
        assert_eq!(queue.scope(|s| s.chunks_mut(&mut one, 0, |_, _| ())), Err(QueueError::ZeroChunk));
        let mut none = queue.map(0..3, |n| n).window(0);
        assert!(matches!(none.next(), Some(Err(RunError::Refused(QueueError::ZeroWindow)))));
        assert!(none.next().is_none(), "an error ends the iterator");
    });
}

/// spec: W7.9, W7.7: a scope whose items were dropped by a shutdown panics, and `try_scope` returns an error. Otherwise
/// `scope` returns what its body returns.
#[test]
fn a_scope_panics_if_a_shutdown_dropped_items() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    assert_eq!(queue.scope(|_| "result"), "result");
    let panic = catch_unwind(AssertUnwindSafe(|| queue.scope(|s| drops_an_item(s, &executor)))).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.starts_with("1 items of the scope never ran"), "{text}");

    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let ended = queue.try_scope(|s| drops_an_item(s, &executor));
    assert_eq!(ended, Err(ScopeError::Dropped { items: 1 }));
}

/// Queues two items to an ordered queue, and shuts the executor down while the first one runs.
fn drops_an_item<'scope>(s: &'scope Scope<'scope, '_>, executor: &Executor) {
    let (door, begun) = (Door::default(), Door::default());
    let (wait, begins) = (door.clone(), begun.clone());
    s.spawn(move || {
        begins.open();
        wait.wait();
    })
    .unwrap();
    begun.wait();
    s.spawn(|| unreachable!("there was no time")).unwrap();
    executor.shutdown(Duration::ZERO).unwrap();
    door.open();
}
