//! Tests of a manager whose own code panics, and of values that the manager must not destroy.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::sys::sync::{AtomicUsize, Mutex, Ordering};
use crate::{Detection, Executor, ExecutorBuilder, JoinError, JoinHandle, TopologySource, Work, WorkQueue};
use testkit::{SOON, eventually};

use crate::engine::user_code::Managing;

use super::cleaner;
use super::inbox::{ManagerHandle, Point, Request};
use super::manager_thread::ManagerThread;

fn builder() -> ExecutorBuilder {
    let builder = Executor::builder().topology(TopologySource::Synthetic("core:1 pu:1".into()));
    builder.detection(Detection::Sampling).idle_timeout(Duration::from_millis(50))
}

fn executor() -> Executor {
    builder().build().unwrap()
}

#[test]
fn a_manager_that_cannot_be_made_any_more_refuses_requests() {
    let executor = executor();
    let manager = ManagerHandle::new(Arc::clone(&executor.inner.core.manager.bell));
    assert!(!manager.ask(Request::Room));
    manager.rouse();
    assert!(manager.is_missing());
}

/// Waits for the item, for `SOON` at most. Returns whether the item has run.
fn has_run(item: JoinHandle<()>) -> bool {
    matches!(item.join_timeout(SOON), Ok(Ok(())))
}

/// Makes the manager panic once at `point`, and calls `what`, which must succeed in spite of the panic.
#[track_caller]
fn survives(executor: &Executor, point: Point, what: impl FnOnce()) {
    let manager = &executor.inner.core.manager;
    let others = manager.faults();
    manager.plant(point);
    // The ring makes the manager begin a round even if it has nothing else to do.
    manager.bell.ring();
    what();
    eventually("the manager panics", || manager.faults() <= others);
}

/// A value whose destructor waits for a timer. The destructor then reports the name of its thread, and whether the
/// timer fired.
#[derive(Debug)]
struct Tells {
    queue: WorkQueue,
    tell: Sender<(String, bool)>,
}

impl Drop for Tells {
    fn drop(&mut self) {
        let item = self.queue.item(|| ()).after(Duration::from_millis(1)).spawn().unwrap();
        let fired = has_run(item);
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.tell.send((thread, fired)).unwrap();
    }
}

impl Tells {
    fn new(queue: &WorkQueue) -> (Self, Receiver<(String, bool)>) {
        let (tell, told) = channel();
        (Self { queue: queue.clone(), tell }, told)
    }
}

/// Does nothing. A `move` closure that passes a variable to this function owns the value of the variable.
fn keep<T>(_owned: &T) {}

/// Checks that the value was destroyed on the cleaner's thread, while the manager fired timers.
#[track_caller]
fn is_told_by_the_cleaner(told: &Receiver<(String, bool)>) {
    assert_eq!(told.recv_timeout(2 * SOON), Ok(("cmwq/cleaner".into(), true)));
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): if an item is cancelled while the manager fires
/// the item's timer and holds the item's last handle, the cleaner destroys the item.
#[test]
fn an_item_cancelled_while_its_timer_fires_is_destroyed_by_the_cleaner() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Taken, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    // The manager has taken the timer and not fired it yet.
    assert!(work.cancel());
    drop(work);
    is_told_by_the_cleaner(&told);

    let (tells, told) = Tells::new(&queue);
    executor.inner.core.manager.plant(Point::Taken);
    let periodic = queue.item(move || keep(&tells)).spawn_every(Duration::from_millis(1)).unwrap();
    eventually("the manager panics", || !executor.inner.core.manager.has_faults());
    drop(periodic);
    is_told_by_the_cleaner(&told);
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): the cleaner destroys a timer that outlives its
/// queue.
#[test]
fn a_timer_that_outlives_its_queue_is_destroyed_by_the_cleaner() {
    let executor = executor();
    let others = WorkQueue::per_cpu("others").build_on(&executor).unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&others);
    let mut timer = None;
    survives(&executor, Point::Taken, || {
        timer = Some(queue.item(move || drop(tells)).after(Duration::from_millis(1)).spawn().unwrap());
    });
    queue.destroy().unwrap();
    drop(queue);
    is_told_by_the_cleaner(&told);
    assert!(matches!(timer.unwrap().join(), Err(crate::JoinError::Cancelled)));
}

/// A value whose destructor waits for a message.
struct Waits(Receiver<()>);

impl Drop for Waits {
    fn drop(&mut self) {
        let _sent_or_gone = self.0.recv();
    }
}

/// spec: F4.3: `destroy` reports a timer that has fired too late, although the cleaner has not destroyed the timer's
/// item yet.
#[test]
fn a_timer_that_fires_too_late_is_reported_before_it_is_destroyed() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (end_cleaner, waits) = channel();
    let (begun, has_begun) = channel();
    let (arm, may_arm) = channel::<()>();
    let late = queue.clone();
    // An item may arm timers while its queue is being destroyed.
    let item = queue.spawn(move || {
        begun.send(()).unwrap();
        may_arm.recv().unwrap();
        let (waits, work) = (Waits(waits), Work::new(|| ()));
        let first = late.item(move || keep(&waits)).after(Duration::from_millis(1)).spawn().unwrap();
        assert!(late.item(&work).after(Duration::from_millis(2)).enqueue().unwrap());
        let last = late.item(|| ()).after(Duration::from_millis(3)).spawn().unwrap();
        let counted = || late.handle().queue().making.lock().cancelled_timers;
        eventually("the manager counts the timers", || counted() == 3);
        [first, last]
    });
    has_begun.recv().unwrap();
    let destroyed = std::thread::scope(|scope| {
        let destroys = scope.spawn(|| queue.destroy());
        eventually("the queue refuses items", || queue.spawn_detached(|| ()).is_err());
        arm.send(()).unwrap();
        destroys.join().unwrap()
    });
    assert_eq!(destroyed, Ok(3));
    end_cleaner.send(()).unwrap();
    for timer in item.unwrap().join().unwrap() {
        assert!(matches!(timer.join(), Err(crate::JoinError::Cancelled)));
    }
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), P1.5: if the manager panics while it makes the
/// cleaner, it makes the cleaner later.
#[test]
fn the_cleaner_is_made_later_if_making_it_panics() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Taken, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    assert!(work.cancel());
    survives(&executor, Point::Cleaner, || drop(work));
    is_told_by_the_cleaner(&told);
}

/// An error that owns a value.
#[derive(Debug)]
struct Because<T>(T);

impl<T> std::fmt::Display for Because<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not now")
    }
}

impl<T: std::fmt::Debug> std::error::Error for Because<T> {}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): the cleaner destroys the error or the panic
/// payload with which a hook refuses a thread.
#[test]
fn the_error_of_a_hook_is_destroyed_by_the_cleaner() {
    for panics in [false, true] {
        let refuse = Arc::new(Mutex::new(None::<Tells>));
        let because = Arc::clone(&refuse);
        let hook = move |name: &str| {
            let because = if name.contains("/u") { because.lock().take() } else { None };
            match because {
                Some(because) if panics => std::panic::panic_any(because),
                Some(because) => Err(io::Error::other(Because(because))),
                None => Ok(()),
            }
        };
        let executor = builder().before_spawn(hook).build().unwrap();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        // After this item, the pool has a worker for the item that the destructor waits for.
        queue.spawn(|| ()).unwrap().join().unwrap();
        let (tells, told) = Tells::new(&queue);
        *refuse.lock() = Some(tells);
        let refused = WorkQueue::unbound("u").build_on(&executor).unwrap().spawn(|| ()).unwrap();
        is_told_by_the_cleaner(&told);
        assert!(has_run(refused));
    }
}

/// spec: E5.1 (stops the threads): the cleaner that a manager makes at its end is one of its executor's threads.
#[test]
fn the_cleaner_made_at_the_managers_end_is_counted() {
    let executor = executor();
    let core = &executor.inner.core;
    let alive = core.threads.load().alive();
    let (open, door) = channel::<()>();
    let (begin, begun) = channel();
    let waits = move || {
        begin.send(std::thread::current().name().map(str::to_owned)).unwrap();
        door.recv_timeout(SOON).unwrap();
    };
    cleaner::Last::new(core).clean(vec![Box::new(waits)]);
    assert_eq!(begun.recv_timeout(SOON).unwrap().as_deref(), Some("cmwq/cleaner"));
    assert_eq!(core.threads.load().alive(), alive + 1);
    open.send(()).unwrap();
    eventually("the cleaner is gone", || core.threads.load().alive() == alive);
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), P1: a cleaner that could not be made is made
/// later.
#[test]
fn a_cleaner_that_cannot_be_made_is_made_later() {
    let executor = executor();
    executor.inner.core.manager.plant(Point::NoCleaner);
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Taken, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    work.cancel();
    drop(work);
    is_told_by_the_cleaner(&told);
    assert!(!executor.inner.core.manager.has_faults(), "the cleaner was made at once");
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: P1.2: if the cleaner's thread cannot be made, the manager does not try to make the wakers' thread at once.
#[test]
fn after_the_cleaner_was_refused_no_thread_is_made_for_wakers() {
    let executor = executor();
    let (upkeep, handle) = (&executor.inner.upkeep, &executor.inner.core.manager);
    (0..2).for_each(|_| handle.plant(Point::NoCleaner));
    assert!(upkeep.cleaner.leave(vec![Box::new(|| ())]) && upkeep.ringer.leave(vec![Box::new(|| ())]));
    ManagerThread::new(Arc::clone(upkeep)).clean(upkeep);
    assert_eq!(handle.faults(), 1, "a second attempt was made at once");
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), W9.5: if the executor ends before a cleaner could
/// be made, a leftover value is destroyed nevertheless. Which thread destroys the value depends on which thread drops
/// the executor last. The destructor's panic ends no thread.
#[test]
fn leftovers_are_destroyed_if_the_executor_ends_without_a_cleaner() {
    let executor = executor();
    let manager = Arc::clone(&executor.inner.core.manager);
    // The manager makes one attempt per second, so these faults outlast the test.
    (0..1000).for_each(|_| manager.plant(Point::NoCleaner));
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tell, told) = channel();
    let tells = TellsThread { tell, panics: true };
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Taken, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    work.cancel();
    drop(work);
    eventually("the cleaner was refused", || manager.faults() < 1000);
    drop(queue);
    drop(executor);
    told.recv_timeout(SOON).unwrap();
}

/// A value whose destructor shuts an executor down, and reports the result.
struct ShutsDown {
    executor: Executor,
    tell: Sender<Result<bool, crate::ShutdownError>>,
}

impl Drop for ShutsDown {
    fn drop(&mut self) {
        let report = self.executor.shutdown(SOON);
        self.tell.send(report.map(|report| report.is_complete())).unwrap();
    }
}

/// spec: I3.5: a task is woken at the deadline although a destructor keeps the cleaner busy.
#[test]
fn a_destructor_on_the_cleaner_may_await_an_item_that_is_late() {
    struct Awaits(WorkQueue, Sender<bool>);
    impl Drop for Awaits {
        fn drop(&mut self) {
            let late = self.0.item(|| ()).within(Duration::from_millis(20)).spawn().unwrap();
            let told = crate::blocking::block_on(late);
            self.1.send(matches!(told, Err(JoinError::DeadlinePassed))).unwrap();
        }
    }
    let executor = executor();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (open, door) = channel::<()>();
    let holds = queue.spawn(move || door.recv().is_err()).unwrap();
    let (tell, told) = channel();
    let awaits = Awaits(queue.clone(), tell);
    let upkeep = &executor.inner.upkeep;
    assert!(upkeep.cleaner.leave(vec![Box::new(move || drop(awaits))]));
    cleaner::make(&upkeep.cleaner, &upkeep.core).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(true));
    drop(open);
    assert!(holds.join().unwrap());
}

/// spec: E5.2: a shutdown waits for the cleaner, so the cleaner's thread cannot wait for a shutdown.
#[test]
fn a_destructor_on_the_cleaner_cannot_shut_its_executor_down() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tell, told) = channel();
    let shuts_down = ShutsDown { executor: executor.clone(), tell };
    let work = Work::new(move || keep(&shuts_down));
    survives(&executor, Point::Taken, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    assert!(work.cancel());
    drop(work);
    assert_eq!(told.recv_timeout(2 * SOON), Ok(Err(crate::ShutdownError::WouldDeadlock)));
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): a manager's thread that gives up entries of an
/// abandoned pool leaves them to the cleaner.
#[test]
fn entries_given_up_on_a_managers_thread_are_left_to_the_cleaner() {
    let executor = executor();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (open, door) = channel::<()>();
    let (begin, begun) = channel();
    let blocks = move || {
        begin.send(()).unwrap();
        door.recv_timeout(SOON)
    };
    let blocks = queue.spawn(blocks).unwrap();
    begun.recv_timeout(SOON).unwrap();
    let value = Arc::new(());
    let owned = Arc::clone(&value);
    let given_up = queue.spawn(move || drop(owned)).unwrap();
    let managing = Managing::begin();
    let report = executor.shutdown(Duration::ZERO).unwrap();
    assert!(!report.is_complete(), "{report}");
    assert_eq!(Arc::strong_count(&value), 2, "a manager's thread has destroyed it");
    let left = managing.left();
    drop(managing);
    left.into_iter().for_each(|act| act());
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(matches!(given_up.join(), Err(crate::JoinError::Cancelled)));
    open.send(()).unwrap();
    assert!(blocks.join_timeout(SOON).is_ok());
}

/// A value whose destructor reports the name of its thread, and may panic.
struct TellsThread {
    tell: Sender<String>,
    panics: bool,
}

impl Drop for TellsThread {
    fn drop(&mut self) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.tell.send(thread).unwrap();
        assert!(!self.panics, "a hook's destructor panics");
    }
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): the manager does not destroy the hooks, even if it
/// drops their executor last.
#[test]
fn hooks_are_not_destroyed_on_the_managers_thread() {
    let (tell, told) = channel();
    for round in 0..200 {
        let hook = TellsThread { tell: tell.clone(), panics: round < 2 };
        let executor = builder().on_thread_stop(move || keep(&hook)).build().unwrap();
        if round % 2 == 0 {
            WorkQueue::per_cpu("q").build_on(&executor).unwrap().spawn(|| ()).unwrap().join().unwrap();
        }
        drop(executor);
    }
    drop(tell);
    // Each hook is destroyed once, on a thread that is not the manager's. The channel closes when the last hook is
    // destroyed.
    let threads: Vec<String> = std::iter::from_fn(|| told.recv_timeout(SOON).ok()).collect();
    assert_eq!(threads.len(), 200);
    assert!(threads.iter().all(|thread| !thread.ends_with("/manager")), "{threads:?}");
}

/// spec: P1.5 (the manager is supervised): requests, duties and timers outlive a panic of the manager.
#[test]
fn a_manager_that_panics_goes_on_and_loses_nothing() {
    use super::inbox::Point::{Admission, Duty, Making, Request, Round, Taken, Timer};
    let each = [Request, Duty, Making, Timer, Admission, Taken, Round].map(|point| {
        move || {
            let executor = executor();
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&ran);
            let work = Work::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            survives(&executor, point, || {
                let one_shot = queue.item(|| ()).after(Duration::from_millis(1)).spawn().unwrap();
                assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
                let item = queue.spawn(|| ()).unwrap();
                // The manager makes the rescuer's thread.
                drop(WorkQueue::per_cpu("r").rescuer(true).build_on(&executor).unwrap());
                assert!(has_run(item), "{point:?}: {}", executor.dump());
                assert!(has_run(one_shot), "{point:?}: {}", executor.dump());
            });
            eventually("the delayed item runs", || ran.load(Ordering::SeqCst) > 0);
            assert_eq!(ran.load(Ordering::SeqCst), 1);
            assert!(executor.shutdown(SOON).unwrap().is_complete(), "{point:?}");
        }
    });
    std::thread::scope(|scope| each.map(|test| scope.spawn(test)).map(|thread| thread.join().unwrap()));
}

/// spec: P1.5 (the manager is supervised): if the manager panics after it has admitted a timer's item, the item's place
/// and slot are given back. The timer takes both again when it fires again.
#[test]
fn a_timer_fires_again_if_the_manager_panics_after_admitting_its_item() {
    let executor = executor();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let (run, ran) = channel();
    let work = Work::new(move || run.send(()).unwrap());
    survives(&executor, Point::Admission, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    ran.recv_timeout(SOON).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    assert!(ran.try_recv().is_err(), "the item has run twice");
}

/// spec: P1.5 (the manager is supervised): if the manager panics while it watches a pool, it goes on watching the pool.
#[test]
fn a_pool_is_still_watched_after_a_panic_in_a_look() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (open, door) = channel();
    let door = Mutex::new(door);
    let (begin, begun) = channel();
    let blocks = move || {
        begin.send(()).unwrap();
        // On every system, the manager checks the items that are inside a `may_block` guard.
        crate::may_block(|| door.lock().recv_timeout(SOON).unwrap());
    };
    let blocks = queue.spawn(blocks).unwrap();
    begun.recv().unwrap();
    survives(&executor, Point::Duty, || {
        let opens = queue.spawn(move || open.send(()).unwrap()).unwrap();
        assert!(opens.join_timeout(SOON).is_ok(), "{}", executor.dump());
    });
    assert!(blocks.join_timeout(SOON).is_ok());
}

/// spec: P1.5 (the manager is supervised), E5: a shutdown cancels and reports a timer that the manager has put off
/// after a panic. If the manager panics while it ends, it repeats its end.
#[test]
fn a_shutdown_accounts_for_a_timer_that_is_put_off() {
    for point in [Point::Timer, Point::Taken] {
        let executor = executor();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let mut timer = None;
        survives(&executor, point, || {
            timer = Some(queue.item(|| ()).after(Duration::from_millis(1)).spawn().unwrap());
        });
        executor.inner.core.manager.plant(Point::End);
        let report = executor.shutdown(SOON).unwrap();
        assert!(!executor.inner.core.manager.has_faults());
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.queues.iter().map(|queue| queue.timers).sum::<usize>(), 1, "{report}");
        assert!(matches!(timer.unwrap().join(), Err(crate::JoinError::Cancelled)));
    }
}

/// spec: F4.2 (a timer that fires during a drain is held): an item of the drained queue flushes an item whose timer
/// is due, and which the manager has not queued yet. The drain waits for the flushing item.
#[test]
fn an_item_of_a_drained_queue_can_flush_an_item_whose_timer_is_put_off() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let work = Work::new(|| ());
    let (flush, may_flush) = channel();
    let awaited = work.clone();
    let flushes = queue.spawn(move || {
        crate::may_block(|| may_flush.recv_timeout(SOON).unwrap());
        awaited.flush_timeout(SOON)
    });
    survives(&executor, Point::Timer, || {
        assert!(queue.item(&work).after(Duration::from_millis(1)).enqueue().unwrap());
    });
    std::thread::scope(|scope| {
        let drains = scope.spawn(|| queue.drain());
        eventually("the queue refuses items", || queue.spawn_detached(|| ()).is_err());
        flush.send(()).unwrap();
        assert_eq!(flushes.unwrap().join().unwrap(), Ok(true));
        assert_eq!(drains.join().unwrap(), Ok(()));
    });
}
