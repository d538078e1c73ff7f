//! The timelines of the kernel documentation, to the millisecond and in the documented order.
//!
//! The items `w0`, `w1` and `w2` are queued at time 0 on one CPU. `w0` burns 5 ms, sleeps 10 ms and burns 5 ms. `w1`
//! and `w2` each burn 5 ms and then sleep 10 ms. The pool is cold, so even its first worker is made on demand. In the
//! documentation, a thread that begins to burn or ends an item waits behind all other threads that are ready at that
//! instant. So the items of this test yield before they burn and when they end.

use std::sync::Arc;
use std::time::Duration;

use self::What::{Finishes, Sleeps, Starts, Wakes};
use super::setup::{executor, ms};
use crate::policy::detection::Detection;
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{Config, burn, pause, run, yield_now};
use crate::{WorkQueue, WorkQueueBuilder, blocking};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Starts,
    Sleeps,
    Wakes,
    Finishes,
}

/// An event: its time in microseconds, its item, and its kind.
type Event = (u64, &'static str, What);

/// The way in which an item sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Guarded,
    Unguarded,
}

/// Waits behind all threads that are ready at this instant. The first yield lets the manager make a worker, and the
/// second yield lets this worker begin.
fn let_others_go() {
    yield_now();
    yield_now();
}

fn item(
    name: &'static str,
    log: &Arc<Mutex<Vec<Event>>>,
    sleep: Sleep,
    again: bool,
) -> impl FnOnce() + use<> {
    let log = Arc::clone(log);
    move || {
        let tell = |what| log.lock().push((clock::now().as_nanos() / 1000, name, what));
        tell(Starts);
        let_others_go();
        burn(ms(5));
        tell(Sleeps);
        match sleep {
            Sleep::Guarded => blocking(|| pause(ms(10))),
            Sleep::Unguarded => pause(ms(10)),
        }
        tell(Wakes);
        if again {
            let_others_go();
            burn(ms(5));
        }
        tell(Finishes);
        let_others_go();
    }
}

/// Queues `w0` on the first queue, and `w1` and `w2` on the last queue.
fn timeline(queues: &[WorkQueueBuilder], sleep: Sleep, detection: Detection) -> Vec<Event> {
    let config = Config { slice: Duration::from_secs(1), ..Config::new(1) };
    run(config, || {
        let executor = executor("l3:1 core:1 pu:1", |builder| builder.detection(detection));
        let queues: Vec<_> = queues.iter().map(|queue| queue.clone().build_on(&executor).unwrap()).collect();
        let log = Arc::default();
        let last = queues.last().unwrap();
        let items = [
            queues[0].spawn(item("w0", &log, sleep, true)),
            last.spawn(item("w1", &log, sleep, false)),
            last.spawn(item("w2", &log, sleep, false)),
        ];
        items.into_iter().for_each(|item| item.unwrap().join().unwrap());
        executor.shutdown(Duration::MAX).unwrap();
        std::mem::take(&mut *log.lock())
    })
}

fn assert_timeline(queues: &[WorkQueueBuilder], expected: &[Event]) {
    let found = timeline(queues, Sleep::Guarded, Detection::Sampling);
    let expected: Vec<_> = expected.iter().map(|(at, name, what)| (at * 1000, *name, *what)).collect();
    assert_eq!(found, expected);
}

/// spec: C6.1 (a): with one execution context per CPU, the items of a queue run one after the other.
#[test]
fn with_max_active_1_the_items_run_one_after_the_other() {
    let expected = [
        (0, "w0", Starts),
        (5, "w0", Sleeps),
        (15, "w0", Wakes),
        (20, "w0", Finishes),
        (20, "w1", Starts),
        (25, "w1", Sleeps),
        (35, "w1", Wakes),
        (35, "w1", Finishes),
        (35, "w2", Starts),
        (40, "w2", Sleeps),
        (50, "w2", Wakes),
        (50, "w2", Finishes),
    ];
    assert_timeline(&[WorkQueue::per_cpu("q").max_active(1)], &expected);
}

/// spec: C6.1 (b), C1.2 (when the last running worker blocks, another worker starts at once)
#[test]
fn with_max_active_256_each_item_starts_when_the_one_before_sleeps() {
    let expected = [
        (0, "w0", Starts),
        (5, "w0", Sleeps),
        (5, "w1", Starts),
        (10, "w1", Sleeps),
        (10, "w2", Starts),
        (15, "w2", Sleeps),
        (15, "w0", Wakes),
        (20, "w0", Finishes),
        (20, "w1", Wakes),
        (20, "w1", Finishes),
        (25, "w2", Wakes),
        (25, "w2", Finishes),
    ];
    assert_timeline(&[WorkQueue::per_cpu("q")], &expected);
    assert_timeline(&[WorkQueue::per_cpu("with 3 slots as with 256").max_active(3)], &expected);
}

/// spec: C6.1 (c)
#[test]
fn with_max_active_2_the_third_item_waits_for_a_slot() {
    let expected = [
        (0, "w0", Starts),
        (5, "w0", Sleeps),
        (5, "w1", Starts),
        (10, "w1", Sleeps),
        (15, "w0", Wakes),
        (20, "w0", Finishes),
        (20, "w1", Wakes),
        (20, "w1", Finishes),
        (20, "w2", Starts),
        (25, "w2", Sleeps),
        (35, "w2", Wakes),
        (35, "w2", Finishes),
    ];
    assert_timeline(&[WorkQueue::per_cpu("q").max_active(2)], &expected);
}

/// spec: C6.1 (d), C4.1, C4.2 (CPU-intensive items do not count as running while they run)
#[test]
fn cpu_intensive_items_start_together_when_the_running_one_sleeps() {
    let expected = [
        (0, "w0", Starts),
        (5, "w0", Sleeps),
        (5, "w1", Starts),
        (5, "w2", Starts),
        (10, "w1", Sleeps),
        (15, "w2", Sleeps),
        (15, "w0", Wakes),
        (20, "w0", Finishes),
        (20, "w1", Wakes),
        (20, "w1", Finishes),
        (25, "w2", Wakes),
        (25, "w2", Finishes),
    ];
    assert_timeline(
        &[WorkQueue::per_cpu("q"), WorkQueue::per_cpu("intensive").cpu_intensive(true)],
        &expected,
    );
}

/// spec: S1.8, C6 (b)
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
#[test]
fn timeline_b_without_guards() {
    for (detection, expected) in [(Detection::Sampling, 26_350), (Detection::Off, 50_000)] {
        let events = timeline(&[WorkQueue::per_cpu("q")], Sleep::Unguarded, detection);
        assert_eq!(events.last().unwrap().0, expected, "{detection}: {events:?}");
    }
}
