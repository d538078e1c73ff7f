//! Tests of a shutdown whose timeout passes: which threads drop the items, and what the report says. Also a test of an
//! awaited shutdown for which no thread can be made.
//!
//! Red under: `abandoned-is-emptied`, `pools-emptied-one-by-one`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::seeds::runs;
use super::setup::{executor, micros};
use crate::blocking::block_on;
use crate::protocol::signal::Signal;
use crate::sys::clock;
use crate::sys::machine::{self, Config, burn, pause, run};
use crate::sys::wait::Until;
use crate::{Attrs, Detection, Executor, JoinHandle, ShutdownError, WorkQueue};

/// The number of items that wait for the CPU.
const ITEMS: usize = 5;
/// The number of items that the test cancels while they wait for the CPU.
const CANCELLED: usize = 2;

/// The time at which the timeout of the shutdown ends.
const END: Duration = Duration::from_millis(1);
/// The time that the destructor of an item takes.
const DESTROYS: Duration = Duration::from_micros(10);

/// The number of items that the thread of the shutdown has dropped, and the number that other threads have dropped.
#[derive(Clone)]
struct Dropped {
    main: ThreadId,
    here: Arc<AtomicUsize>,
    elsewhere: Arc<AtomicUsize>,
}

/// A value that an item owns. The destructor of the value takes some time.
struct Slow(Dropped);

impl Drop for Slow {
    fn drop(&mut self) {
        let is_main = thread::current().id() == self.0.main;
        let count = if is_main { &self.0.here } else { &self.0.elsewhere };
        burn(DESTROYS);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Dropped {
    fn new() -> Self {
        Self { main: thread::current().id(), here: Arc::default(), elsewhere: Arc::default() }
    }

    fn counts(&self) -> (usize, usize) {
        (self.here.load(Ordering::Relaxed), self.elsewhere.load(Ordering::Relaxed))
    }

    fn spawn(&self, queue: &WorkQueue) -> JoinHandle<()> {
        let slow = Slow(self.clone());
        queue.spawn(move || drop(slow)).unwrap()
    }
}

fn until(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_nanos(clock::now().as_nanos()))
}

/// The machine of a run. On this machine, the workers need no CPU.
fn config(seed: u64) -> Config {
    Config { switches: 20, apart: &["/manager", ":0", ":1"], ..Config::new(1) }.seed(seed)
}

/// Makes an executor of one CPU. The second worker of each pool arrives at the time `arrives`, and then looks for
/// work.
fn with_late_workers(arrives: Duration, arrived: &Arc<AtomicUsize>) -> Executor {
    let arrived = Arc::clone(arrived);
    executor("core:1 pu:1", |builder| {
        builder.detection(Detection::Off).hog_threshold(None).on_thread_start(move || {
            if thread::current().name().is_some_and(|name| name.ends_with(":1")) {
                pause(until(arrives));
                arrived.fetch_add(1, Ordering::Relaxed);
            }
        })
    })
}

/// Queues an item that keeps the only CPU of its pool, and waits until this item has begun.
fn hold(queue: &WorkQueue) -> JoinHandle<()> {
    let begins = Arc::new(Signal::new());
    let begun = Arc::clone(&begins);
    let holder = queue.spawn(move || {
        begins.set();
        burn(2 * END);
    });
    assert!(begun.wait(Until::FOREVER));
    holder.unwrap()
}

/// spec: E5.3 (returns what did not finish in time): each item that has not begun counts as dropped, and not as
/// running, even if a worker of the pool looks for work during the shutdown. The thread that performs the shutdown
/// drops all items that have not begun.
#[test]
fn each_item_that_has_not_begun_is_reported_as_dropped() {
    runs(100, |seed, _| {
        run(config(seed), || {
            // The shutdown takes 30 µs to drop the items.
            let (dropped, arrived) = (Dropped::new(), Arc::default());
            let executor = with_late_workers(END + micros(5 * (seed % 5)), &arrived);
            let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
            let holder = hold(&queue);
            let items: Vec<_> = (0..ITEMS).map(|_| dropped.spawn(&queue)).collect();
            assert!(items[..CANCELLED].iter().all(JoinHandle::cancel), "the item keeps the CPU");
            assert_eq!(arrived.load(Ordering::Relaxed), 0, "the worker is late");
            let report = executor.shutdown(until(END)).unwrap();
            assert_eq!(arrived.load(Ordering::Relaxed), 1, "the worker came during the shutdown");
            assert_eq!(dropped.counts(), (ITEMS, 0), "another thread drops items");
            let left = &report.queues[0];
            assert_eq!((left.dropped, left.running), (ITEMS - CANCELLED, 1), "{report}");
            let counters = queue.counters();
            assert_eq!((counters.started, counters.cancelled as usize), (1, CANCELLED), "{counters:?}");
            holder.join().unwrap();
        });
    });
}

/// A queue has been moved to another pool and back. The queue's new items are held until a thread takes the *marker*
/// (an entry behind the older items) from the other pool. Then the held items go to the first pool. By that time, the
/// shutdown has already dropped all items that the first pool had.
///
/// spec: E5.3 (returns what did not finish in time)
#[test]
fn items_that_a_marker_releases_are_dropped_by_the_same_thread() {
    let (here, there) = (Attrs::new(), Attrs::new().nice(1));
    runs(100, |seed, _| {
        run(config(seed), || {
            let (dropped, arrived) = (Dropped::new(), Arc::default());
            let executor = with_late_workers(END + micros(5 * (1 + seed % 6)), &arrived);
            let build = |attrs: &Attrs| WorkQueue::builder("q").attrs(attrs.clone()).build_on(&executor);
            let holders = [&here, &there].map(|attrs| hold(&build(attrs).unwrap()));
            let queue = build(&here).unwrap();
            queue.apply_attrs(there.clone()).unwrap();
            let backlog = dropped.spawn(&queue);
            queue.apply_attrs(here.clone()).unwrap();
            let items = [(); 3].map(|()| dropped.spawn(&queue));
            let report = executor.shutdown(until(END)).unwrap();
            assert_eq!(dropped.counts(), (4, 0), "another thread drops items: {report}");
            assert_eq!(report.queues.iter().map(|queue| queue.dropped).sum::<usize>(), 4, "{report}");
            assert!([backlog].into_iter().chain(items).all(|item| item.join().is_err()));
            holders.into_iter().for_each(|holder| holder.join().unwrap());
        });
    });
}

/// spec: I1.4, E5.2 (invalid calls): if no thread can be made for an awaited shutdown, its caller performs the
/// shutdown, but does not wait for itself. While an item waits for another executor to end, a second item has the CPU.
/// In this test, the threads of the other executor end only after the second item.
#[test]
fn without_a_thread_an_awaited_shutdown_is_performed_by_its_caller() {
    run(Config::new(1), || {
        machine::refuse_threads_named("/shutdown");
        let opens = Arc::new(Signal::new());
        let door = Arc::clone(&opens);
        let ending = executor("core:1 pu:1", |builder| {
            builder.on_thread_stop(move || assert!(door.wait(Until::FOREVER)))
        });
        let queue = WorkQueue::per_cpu("ending").build_on(&ending).unwrap();
        let own = ending.clone();
        let refused = queue.spawn(move || block_on(own.shutdown_async(Duration::MAX))).unwrap();
        assert_eq!(refused.join().unwrap(), Err(ShutdownError::WouldDeadlock));
        queue.spawn(|| ()).expect("nothing has changed").join().unwrap();

        let calling =
            executor("core:1 pu:1", |builder| builder.detection(Detection::Off).hog_threshold(None));
        let queue = WorkQueue::per_cpu("calling").build_on(&calling).unwrap();
        let ends = queue.spawn(move || block_on(ending.shutdown_async(Duration::MAX))).unwrap();
        let next = queue.spawn(move || opens.set()).unwrap();
        let report = ends.join().unwrap().unwrap();
        assert!(report.is_complete(), "{report}");
        next.join().unwrap();
        assert!(calling.shutdown(Duration::MAX).unwrap().is_complete());
    });
}
