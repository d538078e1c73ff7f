//! Loads made against work conservation, on the documents' machine: 24 CPUs, 4 caches. Each load is played with many
//! interleavings. The rules of `checks` and `conserve` are checked as well, beside those of each test.
//!
//! Red under: `stall-twice-as-late`, `stream-looked-at-too-rarely`, `stream-look-not-exact`, `stream-never-ends`,
//! `stall-keeps-the-stream`.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::conserve::{AFTER_A_PAUSE, IN_A_STREAM, PAUSE};
use super::machine::PATIENT;
use super::machine::{Config, Machine};
use super::pool::{Gate, GateId, Pool};
use super::prng::Prng;
use super::random::{micros, runs};
use super::script::{Event, Item, ItemId, Op, Step, What};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;
use crate::policy::topology::Topology;

const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

/// The longest time from waking a thread until it is runnable.
const LATENCY: Duration = Duration::from_micros(50);

/// A time longer than all waits here.
const LONG: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
enum Scope {
    Cpu,
    Cache,
}

/// A load, to be played in different interleavings.
struct Scene {
    scope: Scope,
    items: Vec<Item>,
    issues: Vec<(Time, Vec<ItemId>)>,
    batches: Vec<(Time, Vec<ItemId>)>,
    /// Other threads: when they come, their CPU, whether they have a claim, the items that they queue, and for how long
    /// they burn then.
    others: Vec<(Time, usize, bool, Vec<ItemId>, Duration)>,
    /// The pod for which no thread can be made.
    without_threads: Option<usize>,
}

/// One run of a scene.
struct Played {
    machine: Machine,
    /// When each item was queued.
    queued: Vec<Time>,
}

impl Scene {
    fn new(scope: Scope) -> Self {
        let (items, issues, batches, others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { scope, items, issues, batches, others, without_threads: None }
    }

    fn add(&mut self, gate: GateId, count: usize, script: &[Step]) -> Vec<ItemId> {
        let first = self.items.len();
        self.items.extend((0..count).map(|_| Item { gate, script: script.to_vec() }));
        (first..first + count).collect()
    }

    /// Queues `count` items for a pod at `at`, one after the other.
    fn queue(&mut self, at: Duration, pod: usize, count: usize, script: &[Step]) -> Vec<ItemId> {
        let items = self.add(2 * pod, count, script);
        self.issues.push((Time::default() + at, items.clone()));
        items
    }

    /// Queues `count` items that are bound to a pod.
    fn queue_bound(&mut self, at: Duration, pod: usize, count: usize, script: &[Step]) -> Vec<ItemId> {
        let items = self.add(2 * pod + 1, count, script);
        self.issues.push((Time::default() + at, items.clone()));
        items
    }

    /// Occupies pods, given as (pod, number of items, until when). The items come one after the other, each when the
    /// last one has begun: so no pod finds work in another by chance.
    fn occupy(&mut self, pods: &[(usize, usize, Duration)]) {
        let mut at = Duration::ZERO;
        for (pod, count, until) in pods {
            for _ in 0..*count {
                self.queue(at, *pod, 1, &[Step::Burn(*until - at)]);
                at += LATENCY + micros(10);
            }
        }
    }

    /// Lets another process take these CPUs from `at` on for `length`.
    fn neighbour(&mut self, at: Duration, cpus: &[usize], length: Duration) {
        let takes = |cpu: &usize| (Time::default() + at, *cpu, true, Vec::new(), length);
        self.others.extend(cpus.iter().map(takes));
    }

    fn play(&self, seed: u64, trace: bool) -> Played {
        let topology = Topology::uniform(1, 4, 3, 2);
        let pods: Vec<u64> = match self.scope {
            Scope::Cpu => (0..24).map(|cpu| 1 << cpu).collect(),
            Scope::Cache => (0..4).map(|cache| cpus_of(cache).iter().map(|cpu| 1 << cpu).sum()).collect(),
        };
        let pool = |mask: &u64| Pool::new(Running::managed(mask.count_ones() as usize), LIMITS, *mask);
        let mut pools: Vec<_> = pods.iter().map(pool).collect();
        if let Some(pod) = self.without_threads {
            pools[pod].has_no_threads = true;
        }
        let gates = (0..pools.len()).flat_map(|pod| [Gate::new(256, pod), Gate::new(256, pod).bound()]);
        let sharing = (0..pools.len()).collect();
        let mut machine = Machine::new(config(seed, trace), pools, gates.collect(), self.items.clone());
        machine.share(&topology, sharing);
        let mut queued = vec![Time::default(); self.items.len()];
        for (at, items) in &self.issues {
            items.iter().for_each(|item| queued[*item] = *at);
            machine.issue(*at, items.clone());
        }
        for (at, items) in &self.batches {
            items.iter().for_each(|item| queued[*item] = *at);
            let kick = Op::KickMany(self.items[items[0]].gate / 2, items.len());
            let ops = items.iter().map(|item| Op::Put(*item)).chain([kick]);
            machine.comes(*at, 0, false, ops.collect());
        }
        for (at, cpu, claims, items, length) in &self.others {
            items.iter().for_each(|item| queued[*item] = *at);
            let ops = items.iter().map(|item| Op::Admit(*item)).chain([Op::Burn(*length)]);
            machine.comes(*at, 1 << cpu, *claims, ops.collect());
        }
        machine.run();
        Played { machine, queued }
    }

    /// Plays the scene in many interleavings.
    fn always(&self, check: impl Fn(&Played)) {
        runs(40, |seed, trace| check(&self.play(seed, trace)));
    }
}

impl Played {
    /// Returns how long after its queueing the item started.
    fn delay(&self, item: ItemId) -> Duration {
        let starts = |event: &&Event| event.item == item && event.what == What::Starts;
        let event = self.machine.log.iter().find(starts).expect("every item starts");
        event.at.since(self.queued[item])
    }

    fn assert_delays(&self, items: &[ItemId], within: RangeInclusive<Duration>) {
        for item in items {
            let delay = self.delay(*item);
            assert!(within.contains(&delay), "item {item} started after {delay:?}, not within {within:?}");
        }
    }
}

fn cpus_of(cache: usize) -> [usize; 6] {
    [0, 1, 2, 12, 13, 14].map(|cpu| cpu + 3 * cache)
}

fn config(seed: u64, trace: bool) -> Config {
    Config {
        cpus: 24,
        prng: Some(Prng::new(seed)),
        wake_latency: LATENCY,
        creation_latency: Duration::ZERO,
        listing_delay: Duration::ZERO,
        failing_creations: 0,
        slice: Some(micros(3000)),
        racy: seed % 2 == 0,
        yield_before_burn: false,
        yield_after_item: false,
        rules: PATIENT,
        known: Known::States,
        held_up: 0,
        look_cost: Duration::ZERO,
        trace,
    }
}

/// spec: A3.6 (the home pod's CPU is taken by a spinning issuer)
#[test]
fn an_item_whose_issuer_spins_on_its_cpu_starts_elsewhere_within_the_bound() {
    let mut scene = Scene::new(Scope::Cpu);
    let item = scene.add(2 * 5, 1, &[Step::Burn(micros(100))]);
    scene.others.push((Time::default() + micros(300), 5, false, item.clone(), LONG));
    scene.always(|played| {
        played.assert_delays(&item, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        assert_eq!(played.machine.seen.away, 1);
    });
}

/// spec: A3.6 (the home pod's CPUs are taken by another process)
#[test]
fn items_whose_pod_is_taken_by_another_process_start_elsewhere_within_the_bound() {
    let mut scene = Scene::new(Scope::Cache);
    scene.neighbour(micros(500), &cpus_of(0), LONG);
    let first = scene.queue(micros(1000), 0, 12, &[Step::Burn(micros(400))]);
    // These come while the workers that were woken for the first items still wait for a CPU.
    let later = scene.queue(micros(9000), 0, 6, &[Step::Burn(micros(400))]);
    scene.always(|played| {
        played.assert_delays(&first, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
        played.assert_delays(&later, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.7 (returning blocked items saturate a pod, without a push)
#[test]
fn a_pod_that_is_filled_by_returning_blocked_items_gives_its_waiting_items_away() {
    let mut scene = Scene::new(Scope::Cache);
    let blocks = [Step::Burn(micros(100)), Step::Sleep(micros(1000)), Step::Burn(LONG)];
    scene.queue(micros(0), 0, 6, &blocks);
    // Workers are on their way for these when the blocked items return.
    let items = scene.queue(micros(1130), 0, 6, &[Step::Burn(micros(1000))]);
    scene.always(|played| played.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A3.7 (one long item stolen)
#[test]
fn an_item_starts_elsewhere_while_long_stolen_items_fill_its_pod() {
    let mut scene = Scene::new(Scope::Cache);
    // Six start in their own pod, six in each of two siblings.
    scene.queue(micros(0), 0, 18, &[Step::Burn(LONG)]);
    let items: Vec<_> =
        (1..4).flat_map(|pod| scene.queue(micros(5000), pod, 2, &[Step::Burn(micros(100))])).collect();
    scene.always(|played| {
        assert!(played.machine.seen.away >= 12);
        // A called worker may find an item of its own pod that came meanwhile. Then another worker is called, one
        // wake-up later.
        played.assert_delays(&items, Duration::ZERO..=LATENCY * 2);
    });
}

/// spec: A3.7 (a burst)
#[test]
fn a_burst_onto_one_pod_starts_everywhere_after_one_wake_up() {
    for batch in [false, true] {
        let mut scene = Scene::new(Scope::Cache);
        // Makes the threads first: creating a thread takes no time here, but waking one does.
        (0..4).for_each(|pod| drop(scene.queue(micros(0), pod, 6, &[Step::Burn(micros(300))])));
        let items = scene.queue(micros(5000), 2, 24, &[Step::Burn(LONG)]);
        if batch {
            scene.batches.extend(scene.issues.pop());
        }
        scene.always(|played| played.assert_delays(&items, Duration::ZERO..=LATENCY));
    }
}

/// spec: A3.7 (all pods are full, then one is not)
#[test]
fn the_first_free_cpus_take_the_waiting_items() {
    let mut scene = Scene::new(Scope::Cache);
    scene.occupy(&[(0, 6, LONG), (1, 6, LONG), (2, 6, LONG), (3, 6, micros(2000))]);
    let items = scene.queue(micros(1500), 0, 6, &[Step::Burn(LONG)]);
    // The items of pod 3 may have begun up to a latency late.
    scene.always(|played| {
        played.assert_delays(&items, micros(500)..=micros(500) + LATENCY);
        assert_eq!(
            played.machine.seen.sought, 0,
            "running workers go on with these items, and no worker is woken"
        );
    });
}

/// spec: A3.6 (the thief does not get a CPU either): the bound counts once for each such pod.
#[test]
fn a_thief_that_gets_no_cpu_is_replaced() {
    for taken in 1..=3_u32 {
        let mut scene = Scene::new(Scope::Cache);
        for pod in 0..taken as usize {
            scene.neighbour(micros(500), &cpus_of(pod), LONG);
        }
        let items = scene.queue(micros(1000), 0, 6, &[Step::Burn(micros(400))]);
        scene.always(|played| {
            played.assert_delays(&items, AFTER_A_PAUSE * taken..=AFTER_A_PAUSE * taken + LATENCY);
        });
    }
}

/// spec: A3.7 (no thread can be made in the home pod)
#[test]
fn a_pod_without_threads_gives_its_items_away() {
    let mut scene = Scene::new(Scope::Cache);
    // Makes the threads of the other pods, each with a spare, before the failing creation delays all creations.
    scene.occupy(&[(1, 5, micros(3000)), (2, 5, micros(3000)), (3, 5, micros(3000))]);
    let items = scene.queue(micros(5000), 0, 6, &[Step::Burn(micros(400))]);
    scene.without_threads = Some(0);
    scene.always(|played| played.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A2.5 (never leave), A3
#[test]
fn bound_items_stay_in_their_pod_while_the_others_leave_it() {
    let mut scene = Scene::new(Scope::Cache);
    scene.neighbour(micros(500), &cpus_of(0), LONG);
    let bound = scene.queue_bound(micros(1000), 0, 3, &[Step::Burn(micros(100))]);
    let items = scene.queue(micros(1000), 0, 3, &[Step::Burn(micros(100))]);
    scene.always(|played| {
        played.assert_delays(&items, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        played.assert_delays(&bound, LONG - micros(500)..=LONG);
        assert_eq!(played.machine.seen.away, 3);
    });
}

/// The end of the stream of wake-ups that [`Scene::stream`] makes.
const END: Duration = Duration::from_millis(20);

impl Scene {
    /// Queues short items for the first `pods` pods. Each item wakes a worker, which comes in time.
    fn stream(&mut self, pods: usize) {
        for pod in 0..pods {
            for at in (0..END.as_micros() as u64).step_by(100) {
                self.queue(micros(at), pod, 1, &[Step::Burn(micros(10))]);
            }
        }
    }
}

/// spec: A3.10 (steady load makes the bound longer, up to the longest one): after a long stream of items that began in
/// time, their CPUs are taken, and so are the CPUs of the siblings that are called. The bound holds at every moment of
/// the manager's rounds.
#[test]
fn after_a_stream_an_item_whose_cpus_are_taken_keeps_to_the_longest_bound() {
    for taken in 1..=3_u32 {
        let longest = Cell::new(Duration::ZERO);
        runs(64, |seed, trace| {
            let mut scene = Scene::new(Scope::Cache);
            scene.stream(taken as usize);
            let at = END + micros(50 * seed % 3200);
            for pod in 0..taken as usize {
                scene.neighbour(at, &cpus_of(pod), LONG * 2);
            }
            let items = scene.queue(at + micros(10), 0, 3, &[Step::Burn(micros(100))]);
            let played = scene.play(seed, trace);
            played.assert_delays(&items, AFTER_A_PAUSE..=IN_A_STREAM * taken + LATENCY);
            longest.set(items.iter().map(|item| played.delay(*item)).fold(longest.get(), Duration::max));
        });
        println!("{taken} pods were taken: an item waited for {:?} at most", longest.get());
    }
}

/// spec: A3.10 (200 µs): a stream that has ended delays no item.
#[test]
fn after_a_stream_and_a_pause_an_item_whose_cpus_are_taken_keeps_to_the_short_bound() {
    let mut scene = Scene::new(Scope::Cache);
    scene.stream(1);
    let at = END + PAUSE + LATENCY * 2;
    scene.neighbour(at, &cpus_of(0), LONG);
    let items = scene.queue(at + micros(10), 0, 3, &[Step::Burn(micros(100))]);
    scene.always(|played| played.assert_delays(&items, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A3.10: a late worker is noticed in the middle of a stream of wake-ups of its pool.
#[test]
fn a_stream_that_becomes_late_in_the_middle_is_noticed() {
    let mut scene = Scene::new(Scope::Cache);
    scene.stream(2);
    scene.neighbour(micros(9000), &cpus_of(0), LONG);
    scene.always(|played| {
        let all: Vec<_> = (0..played.queued.len()).collect();
        played.assert_delays(&all, Duration::ZERO..=IN_A_STREAM + LATENCY * 2);
        assert!(played.machine.seen.away > 50, "later items start elsewhere at once");
    });
}

/// spec: A3.10: while a worker was late for long, looks at its pool became rare. The next one that is late is noticed
/// in time.
#[test]
fn after_a_long_stall_the_next_late_worker_is_noticed_in_time() {
    let mut scene = Scene::new(Scope::Cache);
    scene.stream(1);
    let (begin, end) = (micros(9000), micros(30_000));
    scene.neighbour(begin, &cpus_of(0), end - begin);
    let again = end + micros(500);
    scene.neighbour(again, &cpus_of(0), LONG);
    let items = scene.queue(again + micros(10), 0, 3, &[Step::Burn(micros(100))]);
    scene.always(|played| played.assert_delays(&items, AFTER_A_PAUSE..=IN_A_STREAM + LATENCY));
}
