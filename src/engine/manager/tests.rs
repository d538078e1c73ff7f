//! A manager whose own code panics, and what it has to destroy.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::common::{SOON, eventually};
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};
use crate::{Detection, Executor, ExecutorBuilder, JoinHandle, TopologySource, Work, WorkQueue};

use super::*;

fn builder() -> ExecutorBuilder {
    let builder = Executor::builder().topology(TopologySource::Synthetic("core:1 pu:1".into()));
    builder.detection(Detection::Sampling).idle_timeout(Duration::from_millis(50))
}

fn executor() -> Executor {
    builder().build().unwrap()
}

/// It runs soon.
fn has_run(item: JoinHandle<()>) -> bool {
    matches!(item.join_timeout(SOON), Ok(Ok(())))
}

/// The manager panics there once, at the next occasion; then `what` happens all the same.
#[track_caller]
fn survives(executor: &Executor, point: Point, what: impl FnOnce()) {
    let manager = &executor.inner.core.manager;
    let others = manager.faults();
    manager.plant(point);
    // Where there is nothing else to do, it comes to a round.
    manager.bell.ring();
    what();
    eventually("the fault", || manager.faults() <= others);
}

/// Waits for a timer when it is destroyed, and tells on which thread that was, and whether the timer has fired.
#[derive(Debug)]
struct Tells {
    queue: WorkQueue,
    tell: Sender<(String, bool)>,
}

impl Drop for Tells {
    fn drop(&mut self) {
        let item = self.queue.spawn_after(Duration::from_millis(1), || ()).unwrap();
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

/// A closure that calls this owns it.
fn keep<T>(_owned: &T) {}

/// On the cleaner's thread, while the manager fires timers.
#[track_caller]
fn is_told_by_the_cleaner(told: &Receiver<(String, bool)>) {
    assert_eq!(told.recv_timeout(2 * SOON), Ok(("cmwq/cleaner".into(), true)));
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): it holds the last handle of an item whose timer was
/// cancelled while it fired.
#[test]
fn an_item_that_is_cancelled_while_its_timer_fires_is_destroyed_elsewhere() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Timer, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    // The manager has taken the timer, and has not fired it.
    assert!(work.cancel());
    drop(work);
    is_told_by_the_cleaner(&told);

    let (tells, told) = Tells::new(&queue);
    executor.inner.core.manager.plant(Point::Timer);
    let periodic = queue.spawn_every(Duration::from_millis(1), move || keep(&tells)).unwrap();
    eventually("the fault", || !executor.inner.core.manager.has_faults());
    drop(periodic);
    is_told_by_the_cleaner(&told);
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): a timer fires though its queue is no more.
#[test]
fn a_timer_that_outlives_its_queue_is_destroyed_elsewhere() {
    let executor = executor();
    let others = WorkQueue::per_cpu("others").build_on(&executor).unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&others);
    let mut timer = None;
    survives(&executor, Point::Timer, || {
        timer = Some(queue.spawn_after(Duration::from_millis(1), move || drop(tells)).unwrap());
    });
    queue.destroy().unwrap();
    drop(queue);
    is_told_by_the_cleaner(&told);
    assert!(matches!(timer.unwrap().join(), Err(crate::JoinError::Cancelled)));
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), P1.5: the manager panics while it makes the cleaner.
#[test]
fn a_cleaner_whose_making_panics_is_made_later() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Timer, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    assert!(work.cancel());
    survives(&executor, Point::Cleaner, || drop(work));
    is_told_by_the_cleaner(&told);
}

/// An error that owns something.
#[derive(Debug)]
struct Because<T>(T);

impl<T> std::fmt::Display for Because<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not now")
    }
}

impl<T: std::fmt::Debug> std::error::Error for Because<T> {}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): why a hook refuses a thread, and what it panics with.
#[test]
fn the_error_of_a_hook_is_destroyed_elsewhere() {
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
        // A worker for what the destructor waits for.
        queue.spawn(|| ()).unwrap().join().unwrap();
        let (tells, told) = Tells::new(&queue);
        *refuse.lock() = Some(tells);
        let refused = WorkQueue::unbound("u").build_on(&executor).unwrap().spawn(|| ()).unwrap();
        is_told_by_the_cleaner(&told);
        assert!(has_run(refused));
    }
}

/// spec: E5.1 (stops the threads): the cleaner that a manager leaves behind is one of its executor's threads.
#[test]
fn the_last_cleaner_is_counted() {
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
    eventually("it is gone", || core.threads.load().alive() == alive);
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), P1: the cleaner's thread cannot be made at first.
#[test]
fn a_cleaner_that_cannot_be_made_is_made_later() {
    let executor = executor();
    executor.inner.core.manager.plant(Point::NoCleaner);
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tells, told) = Tells::new(&queue);
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Timer, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    work.cancel();
    drop(work);
    is_told_by_the_cleaner(&told);
    assert!(!executor.inner.core.manager.has_faults(), "the cleaner was made at once");
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user), W9.5: the executor ends before a cleaner could be made.
/// Which thread destroys the value then depends on which of them knows the executor last; its panic ends none.
#[test]
fn what_was_left_when_the_executor_ends_is_destroyed_all_the_same() {
    let executor = executor();
    let manager = Arc::clone(&executor.inner.core.manager);
    // One for each second.
    (0..1000).for_each(|_| manager.plant(Point::NoCleaner));
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tell, told) = channel();
    let tells = TellsThread { tell, panics: true };
    let work = Work::new(move || keep(&tells));
    survives(&executor, Point::Timer, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    work.cancel();
    drop(work);
    eventually("the cleaner was refused", || manager.faults() < 1000);
    drop(queue);
    drop(executor);
    told.recv_timeout(SOON).unwrap();
}

/// Shuts its executor down when it is destroyed, and tells what came of it.
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

/// spec: E5.2: a shutdown waits for the cleaner, so it does not wait there.
#[test]
fn a_destructor_on_the_cleaner_cannot_shut_its_executor_down() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (tell, told) = channel();
    let shuts_down = ShutsDown { executor: executor.clone(), tell };
    let work = Work::new(move || keep(&shuts_down));
    survives(&executor, Point::Timer, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    assert!(work.cancel());
    drop(work);
    assert_eq!(told.recv_timeout(2 * SOON), Ok(Err(crate::ShutdownError::WouldDeadlock)));
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: W9.6 (the manager destroys nothing that belongs to a user): entries of a pool that runs nothing any more, which may
/// come to the manager.
#[test]
fn what_a_shutdown_gives_up_on_a_managers_thread_is_left() {
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

/// Tells on which thread it is destroyed, and may panic there.
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

/// spec: W9.6 (the manager destroys nothing that belongs to a user): hooks, though it may be the last to know their executor.
#[test]
fn hooks_are_destroyed_elsewhere() {
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
    // Once each, by whichever other thread; the channel ends with the last hook.
    let threads: Vec<String> = std::iter::from_fn(|| told.recv_timeout(SOON).ok()).collect();
    assert_eq!(threads.len(), 200);
    assert!(threads.iter().all(|thread| !thread.ends_with("/manager")), "{threads:?}");
}

/// spec: P1.5 (the manager is supervised): requests, duties and timers outlive a panic.
#[test]
fn a_manager_that_panics_goes_on_and_loses_nothing() {
    use Point::{Admission, Duty, Making, Request, Round, Timer};
    let each = [Request, Duty, Making, Timer, Admission, Round].map(|point| {
        move || {
            let executor = executor();
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&ran);
            let work = Work::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            survives(&executor, point, || {
                let one_shot = queue.spawn_after(Duration::from_millis(1), || ()).unwrap();
                assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
                let item = queue.spawn(|| ()).unwrap();
                // The manager makes its thread.
                drop(WorkQueue::per_cpu("r").rescuer().build_on(&executor).unwrap());
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

/// spec: P1.5 (the manager is supervised): the item's place and its slot are given back, and taken when the timer fires again.
#[test]
fn a_timer_fires_though_its_item_was_admitted_before_the_panic() {
    let executor = executor();
    let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
    let (run, ran) = channel();
    let work = Work::new(move || run.send(()).unwrap());
    survives(&executor, Point::Admission, || {
        assert!(queue.queue_delayed(&work, Duration::from_millis(1)).unwrap());
    });
    ran.recv_timeout(SOON).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    assert!(executor.shutdown(SOON).unwrap().is_complete());
    assert!(ran.try_recv().is_err(), "it has run twice");
}

/// spec: P1.5 (the manager is supervised): it panics while it watches a pool whose item blocks.
#[test]
fn a_pool_is_watched_though_looks_fail() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (open, door) = channel();
    let door = Mutex::new(door);
    let (begin, begun) = channel();
    let blocks = move || {
        begin.send(()).unwrap();
        // Every system's manager looks after it.
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

/// spec: P1.5 (the manager is supervised), E5: a timer that is put off when its executor is shut down comes to nothing, and
/// the end of the manager is supervised, too.
#[test]
fn a_shutdown_accounts_for_a_timer_that_is_put_off() {
    let executor = executor();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let mut timer = None;
    survives(&executor, Point::Timer, || {
        timer = Some(queue.spawn_after(Duration::from_millis(1), || ()).unwrap());
    });
    executor.inner.core.manager.plant(Point::End);
    let report = executor.shutdown(SOON).unwrap();
    assert!(!executor.inner.core.manager.has_faults());
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.queues.iter().map(|queue| queue.timers).sum::<usize>(), 1, "{report}");
    assert!(matches!(timer.unwrap().join(), Err(crate::JoinError::Cancelled)));
}
