//! Histograms of how long items wait and run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cmwq::kernel::ExecutorExt;
use cmwq::{Work, WorkQueue};

use crate::support::{all_kinds, builder, cpus, on_each_executor, stress, time_limit};

/// spec: O1.8 (histograms are off by default)
#[test]
fn histograms_are_off_by_default() {
    let executor = cpus(2);
    for queue in all_kinds(&executor) {
        queue.spawn(|| ()).unwrap().join().unwrap();
        assert_eq!(queue.latency(), None);
        queue.set_histograms(true);
        assert!(queue.latency().unwrap().run.is_empty(), "items that ran before are not included");
        queue.spawn(|| ()).unwrap().join().unwrap();
        assert_eq!(queue.latency().unwrap().run.count(), 1);
        queue.set_histograms(false);
        queue.spawn(|| ()).unwrap().join().unwrap();
        assert_eq!(queue.latency(), None);
        queue.set_histograms(true);
        assert_eq!(queue.latency().unwrap().run.count(), 1, "the measured times stay");
    }
}

/// spec: O1.8: the executor's setting holds for all queues without a setting of their own, including the system queues.
#[test]
fn the_executor_sets_the_default_for_histograms() {
    let executor = builder("core:1 pu:1").0.histograms(true).build().unwrap();
    assert!(executor.events().latency().is_some());
    assert!(WorkQueue::builder("q").build_on(&executor).unwrap().latency().is_some());
    assert!(WorkQueue::builder("q").histograms(false).build_on(&executor).unwrap().latency().is_none());
}

/// spec: O1.8 (queue-to-start and run time): the time from queueing to the start and the run time are measured for all
/// kinds of items, on all kinds of queues.
#[test]
fn waiting_and_running_are_measured_separately() {
    let _limit = time_limit();
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            queue.set_histograms(true);
            let nap = || cmwq::blocking::thread::sleep(Duration::from_millis(2));
            queue.spawn(nap).unwrap().join().unwrap();
            queue.enqueue(&Work::new(nap)).unwrap();
            queue.items([nap, nap]).spawn().unwrap();
            queue.item(nap).after(Duration::from_millis(1)).spawn().unwrap().join().unwrap();
            queue.flush().unwrap();
            let latency = queue.latency().unwrap();
            assert_eq!((latency.run.count(), latency.queue_to_start.count()), (5, 5), "{}", queue.name());
            assert!(latency.run.quantile(0.0) >= Duration::from_micros(1900), "{latency:?}");
            assert!(latency.run.max() >= latency.run.mean());
        }
    });
}

/// spec: O1.10 (sampled for short items): samples represent all items. Switching histograms off and on while items run
/// does no harm.
#[test]
fn samples_represent_all_items() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").histograms(true).build_on(&executor).unwrap();
    let items = stress(40_000) as u64;
    (0..items).for_each(|_| drop(queue.spawn(|| ()).unwrap()));
    queue.flush().unwrap();
    let latency = queue.latency().unwrap();
    println!("{items} items: {} counted, run {:?}", latency.run.count(), latency.run.quantile(0.5));
    for histogram in [&latency.run, &latency.queue_to_start] {
        let difference = histogram.count().abs_diff(items);
        assert!(difference < items / 4 + 500, "{} of {items}", histogram.count());
    }
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                queue.set_histograms(false);
                queue.set_histograms(true);
            }
        });
        (0..stress(5000)).for_each(|_| drop(queue.spawn(|| ()).unwrap()));
        queue.flush().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    assert!(queue.latency().unwrap().run.count() >= latency.run.count());
}
