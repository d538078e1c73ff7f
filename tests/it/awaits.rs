//! Awaiting handles, queues and shutdowns, on a runtime that the crate knows nothing about.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use cmwq::blocking::block_on;
use cmwq::{JoinError, JoinHandle, QueueError, ShutdownError, WaitError, Work, WorkQueue};

use crate::support::{
    Door, SOON, all_kinds, begun_on, builder, cpus, held, holds_within, on_each_executor, one_cpu, stress,
};

/// A runtime of one thread, which polls the tasks that are woken.
#[derive(Default)]
struct Runtime {
    woken: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
}

struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    runtime: Arc<Runtime>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let runtime = Arc::clone(&self.runtime);
        runtime.woken.lock().unwrap().push_back(self);
        runtime.changed.notify_all();
    }
}

impl Runtime {
    fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) {
        let future = Mutex::new(Some(Box::pin(future) as Pin<Box<dyn Future<Output = ()> + Send>>));
        Arc::new(Task { future, runtime: Arc::clone(self) }).wake();
    }

    /// Polls tasks until `done` returns true. Panics if no task is woken for a long time.
    fn run(&self, done: impl Fn() -> bool) {
        while !done() {
            let woken = self.woken.lock().unwrap();
            let (mut woken, timeout) =
                self.changed.wait_timeout_while(woken, SOON, |woken| woken.is_empty()).unwrap();
            assert!(!timeout.timed_out(), "no task was woken");
            let task = woken.pop_front().unwrap();
            drop(woken);
            let mut place = task.future.lock().unwrap();
            let waker = Waker::from(Arc::clone(&task));
            let ready = place
                .as_mut()
                .is_some_and(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            if ready {
                *place = None;
            }
        }
    }
}

/// A waker that counts how often it is called.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls a future once with a waker that counts.
fn poll_once<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

/// spec: I1.1 (handles can be awaited from any runtime), W4.2
#[test]
fn a_runtime_with_one_thread_awaits_many_items() {
    on_each_executor(|executor| {
        let runtime = Arc::new(Runtime::default());
        let (count, done) = (stress(200), Arc::new(AtomicUsize::new(0)));
        for queue in all_kinds(executor) {
            for n in 0..count {
                let (queue, done) = (queue.clone(), Arc::clone(&done));
                runtime.spawn(async move {
                    let inner = queue.clone();
                    let handle = queue.spawn(move || inner.spawn(move || n + 1).unwrap()).unwrap();
                    assert_eq!(handle.await.unwrap().await.unwrap(), n + 1);
                    let panics = queue.spawn(|| panic!("on purpose")).unwrap();
                    assert!(matches!(panics.await, Err(JoinError::Panicked(_))));
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        let all = all_kinds(executor).len() * count;
        runtime.run(|| done.load(Ordering::Relaxed) == all);
    });
}

/// spec: I1.1: only the latest waker is called, and a handle that was polled can be joined.
#[test]
fn only_the_latest_waker_is_called_and_a_polled_handle_is_joined() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (mut handle, door) = held(&queue);
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    assert!(poll_once(&mut handle, &first).is_pending());
    assert!(poll_once(&mut handle, &second).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "the earlier waker is gone");
    let handle = handle.join_timeout(Duration::from_millis(1)).unwrap_err();
    door.open();
    handle.join().unwrap();
    assert!(
        holds_within(SOON, || second.0.load(Ordering::Relaxed) == 1),
        "both the thread and the task are woken"
    );
    assert_eq!(first.0.load(Ordering::Relaxed), 0);
}

/// spec: I1.2 (a dropped future loses no item, and leaves no waker)
#[test]
fn a_dropped_handle_leaves_its_item_and_no_waker() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (mut handle, door) = held(&queue);
        let count = Arc::new(Count::default());
        assert!(poll_once(&mut handle, &count).is_pending());
        drop(handle);
        assert_eq!(Arc::strong_count(&count), 1);
        let rounds = stress(300);
        for n in 0..rounds {
            let ran = Arc::clone(&ran);
            let mut handle = queue.spawn(move || ran.fetch_add(1, Ordering::Relaxed)).unwrap();
            // The item may end before or after the poll, and before or after the drop.
            let _either = poll_once(&mut handle, &count);
            (0..n % 7).for_each(|_| std::thread::yield_now());
        }
        door.open();
        queue.wait_idle().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), rounds);
        assert!(holds_within(SOON, || Arc::strong_count(&count) == 1), "a waker was left behind");
    });
}

/// spec: I1.2: a cancelled handle wakes the task that polled it, and has no result.
#[test]
fn a_cancel_wakes_the_task() {
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (first, door) = held(&queue);
    let mut second = queue.spawn(|| ()).unwrap();
    let count = Arc::new(Count::default());
    assert!(poll_once(&mut second, &count).is_pending());
    assert!(second.cancel());
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(matches!(poll_once(&mut second, &count), Poll::Ready(Err(JoinError::Cancelled))));
    door.open();
    first.join().unwrap();
}

/// spec: I1.3 (flush, idleness, drain and destroy are awaited, and begin with the call)
#[test]
fn queues_are_flushed_drained_and_destroyed_by_tasks() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let runtime = Arc::new(Runtime::default());
            let (held_item, door) = held(&queue);
            let flushed = queue.flush_async();
            let idle = queue.wait_idle_async();
            let later_door = Door::default();
            let later = {
                let door = later_door.clone();
                queue.spawn(move || door.wait()).unwrap()
            };
            let both = Arc::new(AtomicUsize::new(0));
            runtime.spawn({
                let (both, later_door) = (Arc::clone(&both), later_door.clone());
                async move {
                    flushed.await.unwrap();
                    // The later item waits for this door. The flush has ended without waiting for that item.
                    later_door.open();
                    idle.await.unwrap();
                    both.fetch_add(1, Ordering::Relaxed);
                }
            });
            door.open();
            runtime.run(|| both.load(Ordering::Relaxed) == 1);
            held_item.join().unwrap();
            later.join().unwrap();

            let (held_item, door) = held(&queue);
            let drained = queue.drain_async();
            assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Draining);
            drop(drained);
            queue.spawn(|| ()).unwrap();
            let drained = queue.drain_async();
            let destroyed = queue.destroy_async();
            assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Destroyed);
            runtime.spawn({
                let both = Arc::clone(&both);
                async move {
                    drained.await.unwrap();
                    assert_eq!(destroyed.await, Ok(0));
                    both.fetch_add(1, Ordering::Relaxed);
                }
            });
            door.open();
            runtime.run(|| both.load(Ordering::Relaxed) == 2);
            held_item.join().unwrap();
            assert_eq!(block_on(queue.destroy_async()), Ok(0), "it was destroyed before");
        }
    });
}

/// spec: I1.3, I3.4: when the call returns, the items that have not begun are cancelled, and the running items are
/// asked to stop. This holds whether the returned future is awaited or not.
#[test]
fn a_queue_is_ended_now_by_a_task() {
    for is_awaited in [false, true] {
        let executor = one_cpu();
        let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
        let (begin, begun) = std::sync::mpsc::channel();
        let runs = queue.spawn(move || {
            begin.send(()).unwrap();
            cmwq::cancel_token().wait()
        });
        begun.recv().unwrap();
        let behind = queue.spawn(|| unreachable!("it is cancelled")).unwrap();
        let delayed = queue.item(|| ()).after(Duration::from_secs(3600)).spawn().unwrap();
        let ended = queue.destroy_now_async();
        assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Destroyed);
        assert!(matches!(behind.join(), Err(JoinError::Cancelled)));
        assert!(matches!(delayed.join(), Err(JoinError::Cancelled)));
        runs.unwrap().join().unwrap().unwrap();
        if is_awaited {
            assert_eq!(block_on(ended), Ok(1), "one timer was cancelled");
        } else {
            drop(ended);
            assert_eq!(queue.destroy_now(), Ok(1), "a later call continues");
        }
        assert_eq!(block_on(queue.destroy_now_async()), Ok(0), "it was destroyed before");
    }
}

/// spec: I1.3: a wait that is dropped leaves no waker behind, and a task can await the flush of a reusable item.
#[test]
fn items_are_flushed_by_tasks_and_dropped_waits_leave_no_waker() {
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = Arc::clone(&runs);
        move || _ = runs.fetch_add(1, Ordering::Relaxed)
    });
    assert_eq!(block_on(work.flush_async()), Ok(false));
    queue.item(&work).after(Duration::from_secs(3600)).enqueue().unwrap();
    assert_eq!(block_on(work.flush_async()), Ok(true), "the timer fires now");
    assert_eq!(runs.load(Ordering::Relaxed), 1);

    let (held_item, door) = held(&queue);
    let count = Arc::new(Count::default());
    for _ in 0..3 {
        let mut flushed = Box::pin(queue.flush_async());
        assert!(poll_once(&mut flushed, &count).is_pending());
        let mut drained = Box::pin(queue.drain_async());
        assert!(poll_once(&mut drained, &count).is_pending());
    }
    assert_eq!(Arc::strong_count(&count), 1);
    door.open();
    held_item.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
}

/// spec: I1.4 (a shutdown is awaited)
#[test]
fn a_shutdown_is_awaited_and_goes_on_without_its_future() {
    let (builder, _) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (held_item, door) = held(&queue);
    let ends = executor.shutdown_async(SOON);
    assert!(holds_within(SOON, || queue.spawn(|| ()).is_err()), "it has begun");
    door.open();
    let report = block_on(ends).unwrap();
    assert!(report.is_complete(), "{report}");
    held_item.join().unwrap();
    assert!(block_on(executor.shutdown_async(SOON)).unwrap().is_complete(), "a second one has nothing to do");

    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    drop(executor.shutdown_async(SOON));
    assert!(holds_within(SOON, || queue.spawn(|| ()).is_err()), "it goes on");

    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let own = queue.spawn(move || block_on(executor.shutdown_async(SOON))).unwrap();
    assert_eq!(own.join().unwrap(), Err(ShutdownError::WouldDeadlock));
}

/// spec: I1.5 (a waker that panics ends no thread)
#[test]
fn a_waker_that_panics_is_contained() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let waker = Waker::from(Arc::new(Bomb));
    let mut context = Context::from_waker(&waker);
    let (mut handle, door) = held(&queue);
    assert!(Pin::new(&mut handle).poll(&mut context).is_pending());
    let mut flushed = Box::pin(queue.flush_async());
    assert!(flushed.as_mut().poll(&mut context).is_pending());
    door.open();
    handle.join().unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    assert_eq!(block_on(flushed), Ok(()));
}

/// spec: I1.6 (`block_on` is a guard, and refuses a wait that would never end)
#[test]
fn a_blocked_item_lets_others_run_and_is_told_of_a_deadlock() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let inner = queue.clone();
    let outer = queue.spawn(move || block_on(inner.spawn(|| 7).unwrap()).unwrap()).unwrap();
    assert_eq!(outer.join().unwrap(), 7, "the only CPU was free for the inner item");

    let ordered = WorkQueue::ordered("o").build_on(&executor).unwrap();
    let inner = ordered.clone();
    let outer = ordered.spawn(move || {
        let behind = inner.spawn(|| ()).unwrap();
        let own = [block_on(inner.flush_async()), block_on(inner.drain_async())];
        (block_on(behind), own, block_on(inner.destroy_async()))
    });
    let (behind, own, destroyed) = outer.unwrap().join().unwrap();
    assert!(matches!(behind, Err(JoinError::WouldDeadlock)));
    assert_eq!(own, [Err(WaitError::WouldDeadlock); 2]);
    assert_eq!(destroyed, Err(WaitError::WouldDeadlock));
}

/// spec: I1.6: an item may poll a future that only a later item completes. No error results, because the item does not
/// block.
#[test]
fn an_item_may_poll_what_comes_after_it() {
    let executor = one_cpu();
    let ordered = WorkQueue::ordered("o").build_on(&executor).unwrap();
    let count = Arc::new(Count::default());
    let inner = ordered.clone();
    let polled = {
        let count = Arc::clone(&count);
        ordered.spawn(move || {
            let mut behind = inner.spawn(|| 7).unwrap();
            assert!(poll_once(&mut behind, &count).is_pending());
            behind
        })
    };
    assert_eq!(polled.unwrap().join().unwrap().join().unwrap(), 7);
    assert!(holds_within(SOON, || count.0.load(Ordering::Relaxed) == 1));
}

/// spec: F5.9: a waker that an item's worker calls may wait for a new item, even if the new item gets the memory of the
/// item that has ended. Without the caches of free cells, the new item usually gets other memory.
#[test]
fn a_waker_may_join_an_item_in_the_memory_of_the_one_that_has_ended() {
    type Item = JoinHandle<usize>;
    struct Joins {
        ended: Mutex<Option<Item>>,
        spawn: fn(&WorkQueue, Door) -> Item,
        other: WorkQueue,
        tell: Mutex<mpsc::Sender<Result<usize, JoinError>>>,
    }
    impl Wake for Joins {
        fn wake(self: Arc<Self>) {
            let ended = self.ended.lock().unwrap().take().unwrap();
            ended.join().unwrap();
            let (spawn, open) = (self.spawn, Door::default());
            open.open();
            let answer = spawn(&self.other, open).join();
            self.tell.lock().unwrap().send(answer).unwrap();
        }
    }
    let executor = cpus(2);
    let [queue, other] = ["q", "other"].map(|name| WorkQueue::builder(name).build_on(&executor).unwrap());
    let spawn = |queue: &WorkQueue, door: Door| {
        let item = move || {
            door.wait();
            7
        };
        queue.spawn(item).unwrap()
    };
    let door = Door::default();
    let (tell, told) = mpsc::channel();
    let (ended, tell) = (Mutex::new(Some(spawn(&queue, door.clone()))), Mutex::new(tell));
    let joins = Arc::new(Joins { ended, spawn, other, tell });
    let waker = Waker::from(Arc::clone(&joins));
    let mut ended = joins.ended.lock().unwrap();
    assert!(Pin::new(ended.as_mut().unwrap()).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(ended);
    door.open();
    let answer = told.recv_timeout(SOON).unwrap();
    assert!(matches!(answer, Ok(7)), "{answer:?}");
}

/// spec: F5.9: a waker that an item's worker calls may flush the item, which the waker has queued to another queue.
#[test]
fn a_waker_may_flush_the_item_whose_run_has_ended() {
    struct Flushes {
        work: Work,
        other: WorkQueue,
        tell: Mutex<mpsc::Sender<Result<bool, WaitError>>>,
    }
    impl Wake for Flushes {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.other.enqueue(&self.work), Ok(true));
            self.tell.lock().unwrap().send(self.work.flush()).unwrap();
        }
    }
    let executor = cpus(2);
    let [queue, other] = ["q", "other"].map(|name| WorkQueue::builder(name).build_on(&executor).unwrap());
    let (work, door, _) = begun_on(&queue);
    let (tell, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(Flushes { work: work.clone(), other, tell: Mutex::new(tell) }));
    let mut flushed = Box::pin(work.flush_async());
    assert!(flushed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    door.open();
    // Another worker may have run the item before the flush begins. Then there is nothing to wait for.
    let answer = told.recv_timeout(SOON).unwrap();
    assert!(answer.is_ok(), "{answer:?}");
}

/// spec: F5.9: the holder of a queue's only slot awaits the present run of an item, which runs on another queue. A
/// later submission of this item needs the slot, but the task does not wait for that submission.
#[test]
fn a_task_that_awaits_a_run_does_not_wait_for_a_later_submission() {
    let executor = cpus(2);
    let other = WorkQueue::builder("other").build_on(&executor).unwrap();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (work, door, runs) = begun_on(&other);
    let (awaited, home) = (work.clone(), queue.clone());
    let item = queue.spawn(move || {
        let mut flushed = Box::pin(awaited.flush_async());
        let mut polls = 0;
        block_on(std::future::poll_fn(|context| {
            polls += 1;
            match polls {
                2 => assert_eq!(home.enqueue(&awaited), Ok(true)),
                3 => door.open(),
                _ => {}
            }
            context.waker().wake_by_ref();
            flushed.as_mut().poll(context)
        }))
    });
    assert_eq!(item.unwrap().join().unwrap(), Ok(true));
    queue.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// spec: I1.6: `block_on` sleeps until a foreign thread wakes it.
#[test]
fn a_foreign_waker_ends_block_on() {
    let (send, receive) = mpsc::channel::<Waker>();
    let ready = Arc::new(AtomicBool::new(false));
    let waker = {
        let ready = Arc::clone(&ready);
        std::thread::spawn(move || {
            let waker = receive.recv().unwrap();
            waker.wake_by_ref();
            receive.recv().expect("the future is polled again");
            ready.store(true, Ordering::Release);
            waker.wake();
        })
    };
    block_on(std::future::poll_fn(|context| {
        drop(send.send(context.waker().clone()));
        if ready.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }));
    waker.join().unwrap();
}

/// spec: I1.1: a handle gives its result out only once.
#[test]
#[should_panic(expected = "has given out the result")]
fn a_handle_that_is_polled_after_its_end_panics() {
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let mut handle = queue.spawn(|| ()).unwrap();
    block_on(&mut handle).unwrap();
    let _again = block_on(&mut handle);
}
