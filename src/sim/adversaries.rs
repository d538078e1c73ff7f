//! Loads made against work conservation, on the documents' machine: 24 CPUs, 4 caches. Each is played with many
//! interleavings; beside what each test asks, the rules of `checks` and `conserve` hold throughout.
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

/// The longest that a woken thread needs until it runs.
const LATENCY: Duration = Duration::from_micros(50);

/// Longer than anything that is waited for here.
const LONG: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
enum Scope {
    Cpu,
    Cache,
}

/// What happens; then it is played.
struct Scene {
    scope: Scope,
    items: Vec<Item>,
    issues: Vec<(Time, Vec<ItemId>)>,
    batches: Vec<(Time, Vec<ItemId>)>,
    /// On a CPU, with a claim or not: queue these, and burn for so long.
    others: Vec<(Time, usize, bool, Vec<ItemId>, Duration)>,
    without_threads: Option<usize>,
}

/// One way in which a scene went.
struct Played {
    machine: Machine,
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

    /// So many items are queued for a pod at `at`, one after the other.
    fn queue(&mut self, at: Duration, pod: usize, count: usize, script: &[Step]) -> Vec<ItemId> {
        let items = self.add(2 * pod, count, script);
        self.issues.push((Time::default() + at, items.clone()));
        items
    }

    /// The same, and they were placed by their issuer.
    fn queue_bound(&mut self, at: Duration, pod: usize, count: usize, script: &[Step]) -> Vec<ItemId> {
        let items = self.add(2 * pod + 1, count, script);
        self.issues.push((Time::default() + at, items.clone()));
        items
    }

    /// These pods have so many items each, until then. They come one after the other, each when the last has begun: no
    /// pod finds work in another by chance.
    fn occupy(&mut self, pods: &[(usize, usize, Duration)]) {
        let mut at = Duration::ZERO;
        for (pod, count, until) in pods {
            for _ in 0..*count {
                self.queue(at, *pod, 1, &[Step::Burn(*until - at)]);
                at += LATENCY + micros(10);
            }
        }
    }

    /// Another process takes these CPUs from `at` on for so long.
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

    /// Plays it in many ways.
    fn always(&self, check: impl Fn(&Played)) {
        runs(40, |seed, trace| check(&self.play(seed, trace)));
    }
}

impl Played {
    /// How long after it was queued did the item start?
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
fn an_issuer_that_spins_on_its_cpu_keeps_its_item_for_the_bound_only() {
    let mut scene = Scene::new(Scope::Cpu);
    let item = scene.add(2 * 5, 1, &[Step::Burn(micros(100))]);
    scene.others.push((Time::default() + micros(300), 5, false, item.clone(), LONG));
    scene.always(|played| {
        played.assert_delays(&item, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY);
        assert_eq!(played.machine.seen.away, 1);
    });
}

/// spec: A3.6 (or by another process)
#[test]
fn a_neighbour_that_takes_a_pod_keeps_its_items_for_the_bound_only() {
    let mut scene = Scene::new(Scope::Cache);
    scene.neighbour(micros(500), &cpus_of(0), LONG);
    let first = scene.queue(micros(1000), 0, 12, &[Step::Burn(micros(400))]);
    // In the middle of the long wait of those who were woken for the first ones.
    let later = scene.queue(micros(9000), 0, 6, &[Step::Burn(micros(400))]);
    scene.always(|played| {
        played.assert_delays(&first, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
        played.assert_delays(&later, Duration::ZERO..=AFTER_A_PAUSE + LATENCY);
    });
}

/// spec: A3.7 (a pod that saturates by blocks returning, without a push)
#[test]
fn a_pod_that_fills_by_blocks_returning_gives_away_what_it_had_taken() {
    let mut scene = Scene::new(Scope::Cache);
    let blocks = [Step::Burn(micros(100)), Step::Sleep(micros(1000)), Step::Burn(LONG)];
    scene.queue(micros(0), 0, 6, &blocks);
    // Workers are on their way for these when the blocks return.
    let items = scene.queue(micros(1130), 0, 6, &[Step::Burn(micros(1000))]);
    scene.always(|played| played.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A3.7 (one long item stolen)
#[test]
fn a_home_item_finds_a_place_elsewhere_while_long_stolen_ones_hold_its_pod() {
    let mut scene = Scene::new(Scope::Cache);
    // Six at home, six in each of two siblings.
    scene.queue(micros(0), 0, 18, &[Step::Burn(LONG)]);
    let items: Vec<_> =
        (1..4).flat_map(|pod| scene.queue(micros(5000), pod, 2, &[Step::Burn(micros(100))])).collect();
    scene.always(|played| {
        assert!(played.machine.seen.away >= 12);
        // Whoever is called may find a home item that came meanwhile: then somebody else is called, one wake-up later.
        played.assert_delays(&items, Duration::ZERO..=LATENCY * 2);
    });
}

/// spec: A3.7 (a burst)
#[test]
fn a_burst_onto_one_pod_starts_everywhere_after_one_wake_up() {
    for batch in [false, true] {
        let mut scene = Scene::new(Scope::Cache);
        // Threads that are made cost nothing here, those that are woken do.
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
fn the_first_cpu_that_is_free_takes_what_waits() {
    let mut scene = Scene::new(Scope::Cache);
    scene.occupy(&[(0, 6, LONG), (1, 6, LONG), (2, 6, LONG), (3, 6, micros(2000))]);
    let items = scene.queue(micros(1500), 0, 6, &[Step::Burn(LONG)]);
    // They may have begun by a latency later.
    scene.always(|played| {
        played.assert_delays(&items, micros(500)..=micros(500) + LATENCY);
        assert_eq!(
            played.machine.seen.sought, 0,
            "whoever is at work goes on with these, and nobody is woken"
        );
    });
}

/// spec: A3.6 (the thief does not get a CPU either): for each such pod once.
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
    // So that there are threads elsewhere, with a spare one, before none is tried any more.
    scene.occupy(&[(1, 5, micros(3000)), (2, 5, micros(3000)), (3, 5, micros(3000))]);
    let items = scene.queue(micros(5000), 0, 6, &[Step::Burn(micros(400))]);
    scene.without_threads = Some(0);
    scene.always(|played| played.assert_delays(&items, Duration::ZERO..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A2.5 (never leave), A3
#[test]
fn what_was_placed_stays_though_all_others_go() {
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

/// When the stream of wake-ups ends that [`Scene::stream`] makes.
const END: Duration = Duration::from_millis(20);

impl Scene {
    /// Short items for each of these pods, each of which wakes a worker that comes in time.
    fn stream(&mut self, pods: usize) {
        for pod in 0..pods {
            for at in (0..END.as_micros() as u64).step_by(100) {
                self.queue(micros(at), pod, 1, &[Step::Burn(micros(10))]);
            }
        }
    }
}

/// spec: A3.10 (where steady load makes it longer, the longest is what is promised): after a long stream of items that began in
/// time, their CPUs are taken; so are those of the siblings that are called. At whatever moment of the manager's rounds.
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

/// spec: A3.10 (200 µs): a stream that has ended makes nothing late.
#[test]
fn after_a_stream_and_a_pause_an_item_whose_cpus_are_taken_keeps_to_the_short_bound() {
    let mut scene = Scene::new(Scope::Cache);
    scene.stream(1);
    let at = END + PAUSE + LATENCY * 2;
    scene.neighbour(at, &cpus_of(0), LONG);
    let items = scene.queue(at + micros(10), 0, 3, &[Step::Burn(micros(100))]);
    scene.always(|played| played.assert_delays(&items, AFTER_A_PAUSE..=AFTER_A_PAUSE + LATENCY));
}

/// spec: A3.10: an item whose worker is late is seen though a stream of others goes on at its pod.
#[test]
fn a_stream_that_becomes_late_in_the_middle_is_noticed() {
    let mut scene = Scene::new(Scope::Cache);
    scene.stream(2);
    scene.neighbour(micros(9000), &cpus_of(0), LONG);
    scene.always(|played| {
        let all: Vec<_> = (0..played.queued.len()).collect();
        played.assert_delays(&all, Duration::ZERO..=IN_A_STREAM + LATENCY * 2);
        assert!(played.machine.seen.away > 50, "those that come later are taken elsewhere at once");
    });
}

/// spec: A3.10: while a worker was late for long, looks at its pool became rare. The next one that is late is noticed in time.
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
