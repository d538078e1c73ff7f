//! Tests of loads without guards: how soon other items start, and how long the whole load takes. The numbers in these
//! tests are those that the documentation promises, and are not taken from the code of the policy.
//!
//! Red under: `sleepers-come-back-for-nothing`, `no-pool-is-covered`, `covered-without-sleepers`.

use std::sync::Arc;
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::engine::pool::worker_pool::Pool;
use crate::policy::detection::Detection;
use crate::policy::time::Time;
use crate::protocol::signal::Signal;
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{self, Config, burn, pause, run, stand_on};
use crate::sys::wait::Until;
use crate::{AffinityScope, Attrs, Executor, WorkQueue, WorkQueueBuilder, blocking};

/// The sleep of an item may stay unnoticed for at most this long.
const LONGEST: Duration = Duration::from_millis(3);

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

fn on_cpus(cpus: usize, detection: Detection) -> Executor {
    executor(&format!("l3:1 core:{cpus} pu:1"), |builder| builder.detection(detection))
}

fn machine_of(cpus: usize) -> Config {
    Config { slice: ms(3), ..Config::new(cpus) }
}

/// A place for the time at which an item begins.
type Moment = Arc<Mutex<Option<Duration>>>;

fn note(moment: &Moment) -> impl FnOnce() + Send + 'static + use<> {
    let moment = Arc::clone(moment);
    move || *moment.lock() = Some(now())
}

/// Makes an executor of two CPUs, builds `queue` on it, and queues `items` items. Each item calls `body` with the
/// item's number. Returns how long the load takes, and how many workers were made.
fn load(
    detection: Detection,
    queue: WorkQueueBuilder,
    items: usize,
    body: impl Fn(usize) + Clone + Send + Sync + 'static,
) -> (Duration, usize) {
    run(machine_of(2), || {
        let executor = on_cpus(2, detection);
        let queue = queue.build_on(&executor).unwrap();
        for item in 0..items {
            stand_on(item / 4 % 2);
            let body = body.clone();
            assert!(queue.spawn_detached(move || body(item)).is_ok());
        }
        queue.flush().unwrap();
        // The main thread and the manager are not workers.
        let (took, threads) = (now(), machine::threads() - 2);
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
        (took, threads)
    })
}

/// A queue whose items run in one pod of two CPUs.
fn in_a_pod() -> WorkQueueBuilder {
    WorkQueue::builder("pod").attrs(Attrs::new().scope(AffinityScope::System))
}

fn sleep(guards: bool, time: Duration) {
    if guards { blocking(|| pause(time)) } else { pause(time) }
}

/// Runs 4000 items that burn for 0.5 ms each. Every fourth item also sleeps for 5 ms, with or without a guard. The
/// items run in one pod of two CPUs, or in two per-CPU pools. Returns how long the load takes, and how many workers
/// were made.
fn mixed(pod: bool, guards: bool, detection: Detection) -> (Duration, usize) {
    let queue = if pod { in_a_pod() } else { WorkQueue::per_cpu("per CPU") };
    load(detection, queue, 4000, move |item| {
        burn(micros(250));
        if item % 4 == 0 {
            sleep(guards, ms(5));
        }
        burn(micros(250));
    })
}

/// spec: S1.8 (a load takes at most 1.15 times the ideal time, with at most 16 threads), S5.4 (at most 1.02 times in a
/// pod)
#[test]
fn a_mixed_load_without_guards_stays_near_the_ideal_makespan() {
    let ideal = ms(1000);
    let (took, _) = mixed(true, true, Detection::Off);
    assert!(took <= ideal * 101 / 100, "with guards: {took:?}");
    for (pod, percent) in [(true, 102), (false, 115)] {
        let (took, threads) = mixed(pod, false, Detection::Sampling);
        assert!(took <= ideal * percent / 100, "in a pod: {pod}: {took:?}");
        assert!(threads <= 16, "in a pod: {pod}: {threads} threads");
    }
}

/// How long pools were *covered*: in all, while a CPU was free, and after the last sleep of an item. (In a covered
/// pool, further workers run in place of workers that sleep.)
#[derive(Default)]
struct Covered {
    all: Duration,
    beside_free_cpu: Duration,
    after_the_last_sleep: Duration,
    /// The time since which a pool has been covered although a CPU was free.
    since: Option<Time>,
}

impl Covered {
    fn look(&mut self, moment: &machine::Moment<'_>, pools: &[Arc<Pool>]) {
        let words: Vec<_> = pools.iter().map(|pool| pool.running.load()).collect();
        let (is_covered, passes) =
            (words.iter().any(|word| word.is_covered()), moment.until.since(moment.now));
        self.all += if is_covered { passes } else { Duration::ZERO };
        if is_covered && words.iter().any(|word| word.takes_errands()) {
            self.beside_free_cpu += passes;
            let since = *self.since.get_or_insert(moment.now);
            assert!(moment.until.since(since) <= LONGEST, "covered beside a free CPU: {words:?} {moment:?}");
        } else {
            self.since = None;
        }
    }
}

/// Queues 500 items on the first of several pods with two CPUs each. Then queues 500 further items, one every 0.2 ms.
/// Each item burns for 0.5 ms. Every second item then sleeps for 5 ms without a guard. So no CPU is free at first. The
/// 500 further items need two and a half CPUs. At the end, queues 500 items that only burn. Returns how long the pools
/// were covered.
fn covered(pods: usize) -> Covered {
    run(machine_of(2 * pods), || {
        let covered = Arc::new(Mutex::new(Covered::default()));
        let looks = Arc::clone(&covered);
        let executor = executor(&format!("l3:{pods} core:2 pu:1"), |builder| {
            builder.detection(Detection::Sampling).hog_threshold(None)
        });
        let queue = WorkQueue::builder("pods").build_on(&executor).unwrap();
        let upkeep = Arc::downgrade(&executor.inner.upkeep);
        machine::check(Box::new(move |moment| {
            if !moment.is_in_a_step() {
                looks.lock().look(moment, &upkeep.upgrade().map_or(Vec::new(), |upkeep| upkeep.pools.all()));
            }
        }));
        stand_on(0);
        for item in 0..1000 {
            let burns_and_sleeps = move || {
                burn(micros(500));
                if item % 2 == 0 {
                    pause(ms(5));
                }
            };
            assert!(queue.spawn_detached(burns_and_sleeps).is_ok());
            if item >= 500 {
                pause(micros(200));
            }
        }
        queue.flush().unwrap();
        let before = covered.lock().all;
        for _ in 0..500 {
            assert!(queue.spawn_detached(|| burn(micros(500))).is_ok());
        }
        queue.flush().unwrap();
        let after = covered.lock().all;
        covered.lock().after_the_last_sleep = after - before;
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
        std::mem::take(&mut *covered.lock())
    })
}

/// spec: S5.4 (a pool is not covered for long while a CPU is free or after the last sleep of an item)
#[test]
fn a_pool_is_covered_only_while_that_is_of_use() {
    for pods in [1, 2, 3] {
        let Covered { all, beside_free_cpu, after_the_last_sleep, .. } = covered(pods);
        assert_eq!(after_the_last_sleep, Duration::ZERO, "{pods} pods");
        assert!(all >= ms(50), "{pods} pods: covered for {all:?} only");
        assert!(beside_free_cpu <= all / 10, "{pods} pods: {beside_free_cpu:?} of {all:?}");
    }
}

/// Runs 2000 items that sleep for 10 ms each, at most 256 at a time, with or without a guard. The items run in one pod
/// of two CPUs. Returns how long the load takes, and how many workers were made.
fn sleepers(guards: bool, detection: Detection) -> (Duration, usize) {
    load(detection, in_a_pod().max_active_total(256), 2000, move |_| sleep(guards, ms(10)))
}

/// spec: S1.8, S5.3 (the growth of a pool whose sleepers come back)
#[test]
fn many_sleepers_without_guards_take_at_most_three_times_as_long() {
    let (declared, _) = sleepers(true, Detection::Off);
    assert!(declared <= ms(90), "with guards: {declared:?}");
    let (took, threads) = sleepers(false, Detection::Sampling);
    assert!(took <= 3 * declared, "{took:?}");
    assert!(threads <= 280, "{threads} threads");
}

/// Runs 200 items that spin on a flag, at most four of them at a time. The item that sets the flag is behind these
/// items, on another queue.
///
/// spec: S2.4, S5.3
#[test]
fn an_item_behind_two_hundred_spinners_starts_within_150_ms() {
    run(machine_of(1), || {
        let executor = on_cpus(1, Detection::Sampling);
        let spinners = WorkQueue::per_cpu("spinners").max_active(4).build_on(&executor).unwrap();
        let other = WorkQueue::per_cpu("other").build_on(&executor).unwrap();
        let (set, begins) = (Arc::new(Signal::new()), Moment::default());
        for _ in 0..200 {
            let set = Arc::clone(&set);
            let spins = move || {
                while !set.is_set() {
                    burn(ms(1));
                }
            };
            assert!(spinners.spawn_detached(spins).is_ok());
        }
        let (sets, noted) = (Arc::clone(&set), note(&begins));
        let last = move || {
            noted();
            sets.set();
        };
        assert!(other.spawn_detached(last).is_ok());
        other.flush().unwrap();
        spinners.flush().unwrap();
        let begin = begins.lock().unwrap();
        assert!(begin <= ms(150), "{begin:?}");
        assert!(machine::threads() - 2 <= 7);
        assert_eq!(spinners.counters().cpu_hogs, 4);
        drop((spinners, other));
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// Runs as many items as there are CPUs. Each item waits for a later item, without a guard. Returns how long all items
/// take. After a second, the main thread ends the waits that still last.
fn dependent(cpus: usize, detection: Detection) -> Duration {
    run(machine_of(cpus), || {
        let executor = on_cpus(cpus, detection);
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let set = Arc::new(Signal::new());
        for cpu in 0..cpus {
            stand_on(cpu);
            let set = Arc::clone(&set);
            assert!(queue.spawn_detached(move || assert!(set.wait(Until::FOREVER))).is_ok());
        }
        stand_on(0);
        let sets = Arc::clone(&set);
        assert!(queue.spawn_detached(move || sets.set()).is_ok());
        if queue.flush_timeout(ms(1000)).is_err() {
            set.set();
            queue.flush().unwrap();
        }
        let took = now();
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
        took
    })
}

/// spec: S1.8
#[test]
fn items_that_wait_for_a_later_item_are_found_asleep() {
    for cpus in [1, 2, 4] {
        let took = dependent(cpus, Detection::Sampling);
        assert!(took <= LONGEST, "{cpus} {took:?}");
        assert_eq!(dependent(cpus, Detection::Off), ms(1000), "until the other thread sets the flag");
    }
}

/// Runs the item `first`, and queues another item after the time `later`. Returns the time at which the other item
/// begins.
fn next_begins(first: impl FnOnce() + Send + 'static, later: Duration) -> Duration {
    run(machine_of(1), || {
        let executor = on_cpus(1, Detection::Sampling);
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let begins = Moment::default();
        assert!(queue.spawn_detached(first).is_ok());
        pause(later);
        assert!(queue.spawn_detached(note(&begins)).is_ok());
        queue.flush().unwrap();
        drop(queue);
        executor.shutdown(Duration::MAX).unwrap();
        begins.lock().unwrap()
    })
}

/// spec: S1.8 (with sampling, an item behind a sleeper starts within 5 ms)
#[test]
fn an_item_behind_a_sleeper_starts_within_the_longest_period() {
    for busy in (0..100).map(|n| micros(97 * n)) {
        let naps = move || {
            burn(busy);
            pause(ms(100));
        };
        let delay = next_begins(naps, Duration::ZERO) - busy;
        assert!(delay <= LONGEST, "{busy:?} {delay:?}");
    }
}

/// spec: S2.4 (an item behind a hog starts within 15 ms)
#[test]
fn an_item_behind_a_hog_starts_within_15_ms() {
    for later in (0..50).map(|n| micros(197 * n)) {
        let delay = next_begins(|| burn(ms(500)), later) - later;
        assert!(delay <= ms(15), "{later:?} {delay:?}");
    }
}
