//! The report of a shutdown whose time runs out.
//!
//! Red under: `abandoned-is-emptied`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::seeds::runs;
use super::setup::executor;
use crate::protocol::signal::Signal;
use crate::sys::clock;
use crate::sys::machine::{Config, burn, pause, run};
use crate::sys::wait::Until;
use crate::{Detection, ExecutorBuilder, JoinHandle, WorkQueue};

/// The number of items that wait for the CPU.
const ITEMS: usize = 5;
/// The number of these items that are cancelled.
const CANCELLED: usize = 2;

/// The time at which the shutdown's patience ends.
const END: Duration = Duration::from_millis(1);
/// The time that the destructor of an item takes.
const DESTROYS: Duration = Duration::from_micros(10);

/// A value of an item, whose destructor takes some time.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        burn(DESTROYS);
    }
}

fn until(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_nanos(clock::now().as_nanos()))
}

/// Shuts down an executor while an item keeps the only CPU of its pool. Just as the shutdown drops another item, a
/// second worker of the pool begins, and looks for work.
fn shut_down(seed: u64) {
    let config = Config { switches: 20, apart: &["/manager", "/0:0", "/0:1"], ..Config::new(1) };
    run(config.seed(seed), || {
        let arrives = END + DESTROYS * (seed % 4) as u32;
        let late = move |builder: ExecutorBuilder| {
            builder.detection(Detection::Off).hog_threshold(None).on_thread_start(move || {
                if thread::current().name().is_some_and(|name| name.ends_with("/0:1")) {
                    pause(until(arrives));
                }
            })
        };
        let executor = executor("core:1 pu:1", late);
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let begins = Arc::new(Signal::new());
        let begun = Arc::clone(&begins);
        let holder = queue.spawn(move || {
            begins.set();
            burn(2 * END);
        });
        assert!(begun.wait(Until::FOREVER));
        let spawn = |slow| queue.spawn(move || drop(slow)).unwrap();
        let items: Vec<_> = (0..ITEMS).map(|_| spawn(Slow)).collect();
        assert!(items[..CANCELLED].iter().all(JoinHandle::cancel), "the item keeps the CPU");
        let report = executor.shutdown(until(END)).unwrap();
        let left = &report.queues[0];
        assert_eq!((left.dropped, left.running), (ITEMS - CANCELLED, 1), "{report}");
        let counters = queue.counters();
        assert_eq!((counters.started, counters.cancelled as usize), (1, CANCELLED), "{counters:?}");
        holder.unwrap().join().unwrap();
    });
}

/// spec: E5.3 (returns what did not finish in time): each item that has not begun counts as dropped, and not as
/// running, whatever the pool's other threads do meanwhile.
#[test]
fn each_item_that_has_not_begun_is_reported_as_dropped() {
    runs(400, |seed, _| shut_down(seed));
    // Here, the other worker finds the pool abandoned and not empty.
    shut_down(1842);
}
