//! Loads that are designed to break work conservation, on the machine of the kernel documentation: 24 CPUs, 4 caches.
//! Each load is played in many orders of steps. Each test checks its own rules and those of `conserve`.
//!
//! Red under: `cull-hides-sooner-deadlines`, `late-after-twice-the-time`, `stream-looked-at-too-rarely`,
//! `stream-look-not-exact`, `stream-never-ends`, `late-worker-keeps-the-stream`, `came-strikes-out-the-last`,
//! `ease-asks-for-no-look`, `ease-leaves-it-late`.

use std::time::Duration;

use super::conserve::{AFTER_A_PAUSE, IN_A_STREAM, PAUSE};
use super::{DOCUMENTED, Setup};
use crate::runs::seeds::runs;
use crate::runs::setup::{micros, ms};
use crate::sys::machine::{self, Config, burn, pause, run};
use crate::sys::thread;
use crate::sys::wait::Until;
use crate::{AffinityScope, blocking};

/// A woken thread is ready after this time at the latest.
pub(super) const LATENCY: Duration = Duration::from_micros(50);

/// A time that is longer than any wait of an item that may leave its pod.
pub(super) const LONG: Duration = Duration::from_millis(20);

/// The number of orders of steps that are played, unless `CMWQ_SIM_RUNS` sets another number.
const ORDERS: u64 = 8;

/// Plays a scene in many orders of steps.
pub(super) fn always(scope: AffinityScope, scene: impl Fn(&Setup) + Sync) {
    runs(ORDERS, |seed, _| play(scope, seed, &scene));
}

fn play(scope: AffinityScope, seed: u64, scene: impl Fn(&Setup) + Sync) {
    // In half of the orders, threads interrupt each other.
    let switches = if seed % 2 == 0 { 100 } else { 0 };
    let config =
        Config { switches, latency: LATENCY, slice: ms(3), prompt: &["/manager"], ..Config::new(24) };
    let config = config.seed(seed);
    run(config.clone(), || {
        let setup = Setup::new(DOCUMENTED, scope, &config);
        scene(&setup);
        setup.executor.shutdown(Duration::MAX).unwrap();
    });
}

pub(super) fn burns(time: Duration) -> impl Fn() + Clone + Send + 'static {
    move || burn(time)
}

/// spec: A3.6 (the home pod's CPU is taken by a spinning issuer)
#[test]
fn an_item_whose_issuer_spins_on_its_cpu_starts_elsewhere_within_the_bound() {
    always(AffinityScope::Cpu, |setup| {
        setup.at(micros(300));
        let issuer = setup.on_cpu(5, |setup| {
            setup.queue_here(5, burns(micros(100)));
            burn(LONG);
        });
        thread::join(issuer, Until::FOREVER).unwrap();
        setup.end();
        setup.assert_delays(&[0], AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        assert_eq!(setup.away(), 1);
    });
}

/// spec: A3.6 (the home pod's CPUs are taken by another process)
#[test]
fn items_whose_pod_is_taken_by_another_process_start_elsewhere_within_the_bound() {
    always(AffinityScope::Cache, |setup| {
        setup.at(micros(500));
        setup.neighbour(0, LONG);
        setup.at(micros(1000));
        let first = setup.queue(0, 12, burns(micros(400)));
        // These items arrive while the workers that were woken for the first items still wait for a CPU.
        setup.at(micros(9000));
        let later = setup.queue(0, 6, burns(micros(400)));
        setup.end();
        setup.assert_delays(&first, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
        setup.assert_delays(&later, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.7: blocked items return and fill their pod, although no further item is pushed. The pod's waiting items
/// start elsewhere.
#[test]
fn a_pod_that_is_filled_by_returning_blocked_items_gives_its_waiting_items_away() {
    always(AffinityScope::Cache, |setup| {
        setup.queue(0, 6, || {
            burn(micros(100));
            blocking(|| pause(micros(1000)));
            burn(LONG);
        });
        // The blocked items return while workers for the next six items are on their way.
        setup.at(micros(1130));
        let items = setup.queue(0, 6, burns(micros(1000)));
        setup.end();
        setup.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.7: long items that were stolen from another pod fill a pod. The pod's own items start elsewhere after two
/// wake-ups at most.
#[test]
fn an_item_starts_elsewhere_while_long_stolen_items_fill_its_pod() {
    always(AffinityScope::Cache, |setup| {
        // Six items start in their own pod, and six in each of two siblings.
        setup.queue(0, 18, burns(LONG));
        setup.at(micros(5000));
        let items: Vec<_> = (1..4).flat_map(|pod| setup.queue(pod, 2, burns(micros(100)))).collect();
        setup.end();
        assert!(setup.away() >= 12);
        // A worker that is called for these items may find that an item of its own pod has arrived meanwhile. In this
        // case another worker is called, which begins one wake-up later.
        setup.assert_delays(&items, Duration::ZERO..=LATENCY * 2);
    });
}

/// spec: A3.7: a burst of items in one pod starts on the CPUs of all pods after one wake-up.
#[test]
fn a_burst_onto_one_pod_starts_everywhere_after_one_wake_up() {
    for batch in [false, true] {
        always(AffinityScope::Cache, |setup| {
            // Makes the threads first, because the manager must wake up to make a thread.
            (0..4).for_each(|pod| drop(setup.queue(pod, 6, burns(micros(300)))));
            setup.at(micros(5000));
            let items =
                if batch { setup.queue_batch(2, 24, burns(LONG)) } else { setup.queue(2, 24, burns(LONG)) };
            setup.end();
            setup.assert_delays(&items, Duration::ZERO..=LATENCY);
        });
    }
}

/// spec: A3.7: all pods are full, and items wait. When the items of one pod end, its workers take the waiting items.
#[test]
fn the_first_free_cpus_take_the_waiting_items() {
    always(AffinityScope::Cache, |setup| {
        // Starts each item only after the previous item has begun, so that no pod finds work in another pod by chance.
        let begin = occupy(setup, &[(0, LONG), (1, LONG), (2, LONG), (3, micros(2000))]);
        assert!(begin <= micros(1500));
        setup.at(micros(1500));
        let items = setup.queue(0, 6, burns(LONG));
        let before = setup.wakes();
        setup.at(ms(3));
        assert_eq!(setup.wakes(), before, "running workers go on with these items, and no worker is woken");
        setup.end();
        // The items of pod 3 may have begun late, by one latency at most.
        setup.assert_delays(&items, micros(500)..=micros(500) + LATENCY);
    });
}

/// Keeps each of these pods full until the time that is given for the pod. Returns the time at which the pods are full.
fn occupy(setup: &Setup, pods: &[(usize, Duration)]) -> Duration {
    let mut at = Duration::ZERO;
    for (pod, until) in pods {
        for _ in setup.cpus_of(*pod) {
            setup.at(at);
            setup.queue(*pod, 1, burns(*until - at));
            at += LATENCY + micros(10);
        }
    }
    at
}

/// spec: A3.6 (the thief does not get a CPU either): the bound counts once for each pod whose CPUs are taken.
#[test]
fn a_thief_that_gets_no_cpu_is_replaced() {
    for taken in 1..=3_u32 {
        always(AffinityScope::Cache, |setup| {
            setup.at(micros(500));
            (0..taken as usize).for_each(|pod| setup.neighbour(pod, LONG));
            setup.at(micros(1000));
            let items = setup.queue(0, 6, burns(micros(400)));
            setup.end();
            setup.assert_delays(&items, AFTER_A_PAUSE * taken..=AFTER_A_PAUSE * taken + LATENCY);
        });
    }
}

/// spec: A3.7 (no thread can be made in the home pod)
#[test]
fn a_pod_without_threads_gives_its_items_away() {
    always(AffinityScope::Cache, |setup| {
        // Makes the pools in the order of the pods, and makes their threads.
        (0..4).for_each(|pod| drop(setup.queue(pod, 6, burns(micros(300)))));
        setup.at(ms(5));
        machine::refuse_threads_named("/u0:");
        // Items that block occupy the threads that the pod has.
        setup.queue_bound(0, 8, || blocking(|| pause(LONG)));
        setup.at(micros(6000));
        let items = setup.queue(0, 6, burns(micros(400)));
        setup.end();
        setup.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A2.5 (bound items never leave their pod), A3
#[test]
fn bound_items_stay_in_their_pod_while_the_others_leave_it() {
    always(AffinityScope::Cache, |setup| {
        setup.at(micros(500));
        setup.neighbour(0, LONG);
        setup.at(micros(1000));
        let bound = setup.queue_bound(0, 3, burns(micros(100)));
        let items = setup.queue(0, 3, burns(micros(100)));
        setup.end();
        setup.assert_delays(&items, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        setup.assert_delays(&bound, LONG - micros(500)..=LONG);
        assert_eq!(setup.away(), 3);
    });
}

/// The end of the stream of wake-ups that [`stream`] makes.
const END: Duration = Duration::from_millis(20);

/// Queues short items for the first `pods` pods, from the time `from` until the time `until`. Each item wakes a worker,
/// which gets a CPU without a delay.
fn stream(setup: &Setup, pods: usize, from: Duration, until: Duration) {
    for at in (from.as_micros() as u64..until.as_micros() as u64).step_by(100) {
        setup.at(micros(at));
        (0..pods).for_each(|pod| drop(setup.queue(pod, 1, burns(micros(10)))));
    }
}

/// spec: A3.10 (steady load makes the bound longer, up to the longest one): first, the items of a long stream begin in
/// time. Then other processes take the CPUs of the items' pod, and the CPUs of the siblings whose workers are called.
/// The bound holds no matter when the CPUs are taken between two rounds of the manager.
#[test]
fn after_a_stream_an_item_whose_cpus_are_taken_keeps_to_the_longest_bound() {
    for taken in 1..=3_u32 {
        runs(4 * ORDERS, |seed, _| {
            play(AffinityScope::Cache, seed, |setup| {
                stream(setup, taken as usize, Duration::ZERO, END);
                let at = END + micros(400 * seed % 3200);
                setup.at(at);
                (0..taken as usize).for_each(|pod| setup.neighbour(pod, LONG * 2));
                setup.at(at + micros(10));
                let items = setup.queue(0, 3, burns(micros(100)));
                setup.end();
                setup.assert_delays(&items, AFTER_A_PAUSE..=IN_A_STREAM * taken + LATENCY);
            });
        });
    }
}

/// spec: A3.10 (200 µs): a stream that has ended delays no item.
#[test]
fn after_a_stream_and_a_pause_an_item_whose_cpus_are_taken_keeps_to_the_short_bound() {
    always(AffinityScope::Cache, |setup| {
        stream(setup, 1, Duration::ZERO, END);
        let at = END + PAUSE + LATENCY * 2;
        setup.at(at);
        setup.neighbour(0, LONG);
        setup.at(at + micros(10));
        let items = setup.queue(0, 3, burns(micros(100)));
        setup.end();
        setup.assert_delays(&items, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.10: a late worker is noticed in the middle of a stream of wake-ups of its pool.
#[test]
fn a_stream_that_becomes_late_in_the_middle_is_noticed() {
    always(AffinityScope::Cache, |setup| {
        stream(setup, 2, Duration::ZERO, micros(9000));
        setup.neighbour(0, LONG);
        stream(setup, 2, micros(9000), END);
        setup.end();
        let all: Vec<_> = (0..400).collect();
        setup.assert_delays(&all, Duration::ZERO..=IN_A_STREAM + LATENCY * 2);
        assert!(setup.away() > 50, "later items start elsewhere at once");
    });
}

/// spec: A3.10: while a worker was late for long, the checks of its pool became rare. The next late worker is
/// nevertheless noticed in time.
#[test]
fn after_a_long_delay_the_next_late_worker_is_noticed_in_time() {
    always(AffinityScope::Cache, |setup| {
        let (begin, end) = (micros(9000), micros(30_000));
        stream(setup, 1, Duration::ZERO, begin);
        setup.neighbour(0, end - begin);
        stream(setup, 1, begin, END);
        setup.at(end + micros(500));
        setup.neighbour(0, LONG);
        setup.at(end + micros(510));
        let items = setup.queue(0, 3, burns(micros(100)));
        setup.end();
        setup.assert_delays(&items, AFTER_A_PAUSE..=IN_A_STREAM + LATENCY);
    });
}

/// Makes the threads of all pods, and waits until all streams of wake-ups have ended. Returns the time at which the
/// wait ends.
fn warm_up(setup: &Setup) -> Duration {
    (0..4).for_each(|pod| drop(setup.queue(pod, 6, burns(micros(300)))));
    let end = ms(10);
    setup.at(end);
    end
}

/// spec: A3.6, A3.8: the worker that was woken first gets a CPU in time. The next worker counts as late 200 µs after
/// its own wake-up, and not before.
#[test]
fn a_worker_is_late_by_its_own_wake_up() {
    always(AffinityScope::Cache, |setup| {
        let begin = warm_up(setup);
        setup.neighbours(1..6, LONG);
        setup.neighbours(0..1, micros(160));
        // The first item's worker gets the CPU after 160 µs.
        let first = setup.queue(0, 1, burns(LONG));
        setup.at(begin + micros(150));
        let second = setup.queue(0, 1, burns(micros(100)));
        setup.end();
        setup.assert_delays(&first, micros(160)..=micros(160));
        setup.assert_delays(&second, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.6, A3.8: while a worker is late, two more workers are woken, and the manager checks the pool. Then the late
/// worker gets its CPU. So for a moment no worker is late, and no item leaves the pod. The other two workers get no
/// CPU, and count as late 200 µs after their own wake-up.
#[test]
fn workers_that_are_woken_while_another_one_is_late_are_late_in_their_turn() {
    always(AffinityScope::Cache, |setup| {
        let begin = warm_up(setup);
        // The manager checks the pool after 200 µs, 400 µs, ..., 12.8 ms.
        setup.neighbours(1..6, LONG * 3);
        setup.neighbours(0..1, micros(12_850));
        let first = setup.queue(0, 1, burns(micros(100)));
        // From 12 to 12.9 ms, the siblings have no CPU.
        setup.at(begin + micros(12_000));
        setup.neighbours(6..24, micros(900));
        setup.at(begin + micros(12_750));
        let items = setup.queue(0, 2, burns(LONG));
        setup.end();
        setup.assert_delays(&first, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        setup.assert_delays(&items[..1], micros(100)..=micros(100));
        setup.assert_delays(&items[1..], AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
    });
}
