//! Random workloads on random machines: the rules of `checks` hold in every run.
//!
//! `CMWQ_SIM_RUNS` sets the number of runs. A run that fails prints its seed. `CMWQ_SIM_SEED=n` repeats the run with
//! seed `n` and prints every step.

#![forbid(unsafe_code)]

use std::env;
use std::time::Duration;

use super::machine::PATIENT;
use super::machine::{Config, Machine, Seen};
use super::pool::{Gate, GateId, Pool, PoolId};
use super::prng::Prng;
use super::script::{Guard, Item, ItemId, Step};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;
use crate::policy::watch::Rules;

const RUNS: u64 = 3000;

/// spec: E2.5, C1.1, C3.1, C4, C5.1, C8, F8.3, Q3.2, Q4.1, P1.4, P2.3, S1.8, S2.4, S5.3
#[test]
fn every_rule_holds_in_random_runs() {
    let mut seen = Seen::default();
    let complete = runs(RUNS, |seed, trace| seen.add(&simulate(seed, trace)));
    if complete {
        seen.assert_complete();
    }
}

/// Runs as many seeds as the environment says, or else `usual`. Returns whether these were enough to take every path.
pub(crate) fn runs(usual: u64, mut simulate: impl FnMut(u64, bool)) -> bool {
    let number = |name: &str| {
        env::var(name).ok().map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let mut run = |seed, trace| {
        let seed = Seed(seed);
        simulate(seed.0, trace);
    };
    if let Some(seed) = number("CMWQ_SIM_SEED") {
        run(seed, true);
        return false;
    }
    let runs = number("CMWQ_SIM_RUNS").unwrap_or(usual);
    (0..runs).for_each(|seed| run(seed, false));
    runs >= usual
}

/// Prints the seed if the run panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this run with CMWQ_SIM_SEED={}", self.0);
        }
    }
}

fn simulate(seed: u64, trace: bool) -> Seen {
    let mut prng = Prng::new(seed);
    let config = config(&mut prng, trace);
    let workload = Workload::new(&mut prng, config.cpus);
    let Workload { pools, gates, items, issues, limits } = workload;
    let max_threads = prng.pick(&[u64::MAX, u64::MAX, 1, 2, 3]);
    let mut machine = Machine::new(Config { prng: Some(prng), ..config }, pools, gates, items);
    machine.max_threads = max_threads;
    for (at, items) in issues {
        machine.issue(at, items);
    }
    for (at, gate, max) in limits {
        machine.set_max_at(at, gate, max);
    }
    machine.run();
    machine.seen
}

pub(super) fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn config(prng: &mut Prng, trace: bool) -> Config {
    // Half of the machines have no latencies: only there can the checks require exactly that no CPU idles.
    let immediate = prng.chance(50);
    let latency = |prng: &mut Prng, longest| if immediate { Duration::ZERO } else { prng.pick(longest) };
    Config {
        cpus: prng.within(1..=4),
        wake_latency: latency(prng, &[micros(0), micros(50), micros(2000)]),
        creation_latency: latency(prng, &[micros(0), micros(50), micros(5000)]),
        listing_delay: prng.pick(&[micros(0), micros(0), micros(100), micros(3000)]),
        failing_creations: prng.pick(&[0, 0, 0, 20, 70]),
        slice: prng.pick(&[None, Some(micros(100)), Some(micros(1000))]),
        racy: prng.chance(50),
        yield_before_burn: prng.chance(50),
        yield_after_item: prng.chance(50),
        rules: rules(prng),
        known: prng.pick(&[Known::States, Known::States, Known::States, Known::Clocks, Known::Nothing]),
        held_up: 10,
        look_cost: Duration::ZERO,
        trace,
        prng: None,
    }
}

/// Chooses what the manager looks for in watched pools.
pub(super) fn rules(prng: &mut Prng) -> Rules {
    Rules {
        sleepers: prng.chance(70),
        is_told: prng.chance(30),
        hogs: prng.pick(&[None, Some(micros(1000)), Some(micros(4000)), Some(micros(10_000))]),
        ..PATIENT
    }
}

struct Workload {
    pools: Vec<Pool>,
    gates: Vec<Gate>,
    items: Vec<Item>,
    issues: Vec<(Time, Vec<ItemId>)>,
    /// The changes of gates' limits: time, gate, new limit. The last change of a gate restores its first limit.
    limits: Vec<(Time, GateId, usize)>,
}

impl Workload {
    fn new(prng: &mut Prng, cpus: usize) -> Self {
        let (pools, classes) = pools(prng, cpus);
        let gates = gates(prng, cpus, &pools, &classes);
        let count = prng.within(1..=40);
        // Items that another item queues. Outsiders do not issue these.
        let mut chained = vec![false; count];
        // In some runs no step takes time, so that all steps meet at the few moments of issuing.
        let longest = Duration::from_millis(prng.pick(&[0, 1, 4]));
        let mut item = |id| item(prng, id, gates.len(), longest, &mut chained);
        let items: Vec<_> = (0..count).map(&mut item).collect();

        // Many items come at each of a few moments. Sometimes these are so far apart that idle workers leave in
        // between.
        let length = Duration::from_millis(prng.pick(&[1, 10, 50, 2000]));
        let moments: Vec<_> = (0..prng.within(1..=6)).map(|_| prng.duration(length)).collect();
        let mut issues: Vec<(Time, Vec<ItemId>)> = Vec::new();
        for id in (0..count).filter(|id| !chained[*id]) {
            match issues.last_mut() {
                Some((_, items)) if prng.chance(50) => items.push(id),
                _ => issues.push((Time::default() + prng.pick(&moments), vec![id])),
            }
        }
        let limits = limits(prng, &gates, &moments, length);
        Self { pools, gates, items, issues, limits }
    }
}

/// Gives half of the gates other limits for a time, at the moments at which items come or in between. Gates of ordered
/// queues are only frozen and thawed.
fn limits(
    prng: &mut Prng,
    gates: &[Gate],
    moments: &[Duration],
    length: Duration,
) -> Vec<(Time, GateId, usize)> {
    let mut limits = Vec::new();
    for (id, gate) in gates.iter().enumerate() {
        if prng.chance(50) {
            continue;
        }
        let usual = gate.word.max() as usize;
        for _ in 0..prng.within(1..=4) {
            let max = if gate.may_be_several { prng.pick(&[0, 1, 2, 5]) } else { prng.pick(&[0, 1]) };
            let at = if prng.chance(50) { prng.pick(moments) } else { prng.duration(length) };
            limits.push((Time::default() + at, id, max));
        }
        limits.push((Time::default() + length + micros(1), id, usual));
    }
    limits
}

/// A class of pools: for each CPU, the pool that serves it.
type Class = Vec<PoolId>;

/// Makes the pools of one to three classes: per-CPU pools, managed pods, or unmanaged pods.
fn pools(prng: &mut Prng, cpus: usize) -> (Vec<Pool>, Vec<Class>) {
    let mut pools = Vec::new();
    let mut classes = Vec::new();
    for _ in 0..prng.within(1..=3) {
        let limits = CrewLimits {
            idle_timeout: Duration::from_millis(prng.pick(&[1, 20, 500])),
            idle_ratio: prng.within(1..=4),
        };
        let kind = prng.below(3);
        let pod_size = if kind == 0 { 1 } else { prng.within(1..=cpus) };
        let mut class = Class::new();
        for first in (0..cpus).step_by(pod_size) {
            let size = pod_size.min(cpus - first);
            let word = match kind {
                0 => Running::managed(1),
                // A quota may make the target smaller than the pod.
                1 => Running::managed(prng.within(1..=size)),
                _ => Running::unmanaged(),
            };
            class.extend(vec![pools.len(); size]);
            pools.push(Pool::new(word, limits, ((1 << size) - 1) << first));
        }
        classes.push(class);
    }
    (pools, classes)
}

/// Makes the gates of some queues: one per CPU, or a single one for an ordered queue.
fn gates(prng: &mut Prng, cpus: usize, pools: &[Pool], classes: &[Class]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for _ in 0..prng.within(1..=4) {
        let class = &classes[prng.below(classes.len())];
        let ordered = prng.chance(25);
        let max_active = if ordered { 1 } else { prng.pick(&[1, 2, 3, 256]) };
        let cpu_intensive = class.iter().all(|pool| pools[*pool].word.target() == Some(1)) && prng.chance(30);
        let has_rescuer = prng.chance(50);
        for pool in class.iter().take(if ordered { 1 } else { cpus }) {
            let gate = Gate::new(max_active, *pool);
            let gate = if cpu_intensive { gate.cpu_intensive() } else { gate };
            gates.push(if has_rescuer { gate.rescuer() } else { gate });
        }
    }
    gates
}

const GUARDS: [Guard; 6] =
    [Guard::Block, Guard::Unblock, Guard::MayBlock, Guard::MayBlock, Guard::MayNotBlock, Guard::MayNotBlock];

fn item(prng: &mut Prng, id: ItemId, gates: usize, longest: Duration, chained: &mut [bool]) -> Item {
    // Most items go to one gate, so that it fills up.
    let gate: GateId = if prng.chance(40) { 0 } else { prng.below(gates) };
    let mut script = Vec::new();
    for _ in 0..prng.within(0..=5) {
        let step = match prng.below(14) {
            0..=4 => Step::Burn(prng.duration(longest)),
            5..=7 => Step::Sleep(prng.duration(2 * longest)),
            8..=9 => Step::Nap(prng.duration(3 * longest)),
            // Guards are entered and left in any order, and some are never left.
            10..=11 => Step::Guard(prng.pick(&GUARDS)),
            // An item queues a later item that no other item queues. So a chain always ends.
            _ => match (id + 1..chained.len()).find(|later| !chained[*later]) {
                Some(later) => {
                    chained[later] = true;
                    Step::Queue(later)
                }
                None => continue,
            },
        };
        script.push(step);
    }
    Item { gate, script }
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.shed += other.shed;
        self.started_from_rest += other.started_from_rest;
        self.taken_slots += other.taken_slots;
        self.culled += other.culled;
        self.failed_creations += other.failed_creations;
        self.unwatched += other.unwatched;
        self.left_uncounted += other.left_uncounted;
        self.raised += other.raised;
        self.lowered += other.lowered;
        self.maydays += other.maydays;
        self.rescued += other.rescued;
        self.stood_down += other.stood_down;
        self.offered += other.offered;
        self.sought += other.sought;
        self.passed_on += other.passed_on;
        self.stalled += other.stalled;
        self.handed_over += other.handed_over;
        self.sooner += other.sooner;
        self.diverted += other.diverted;
        self.set_aside += other.set_aside;
        self.at_home += other.at_home;
        self.away += other.away;
        self.put_off += other.put_off;
        self.found_asleep += other.found_asleep;
        self.found_hogs += other.found_hogs;
        self.found_blocked += other.found_blocked;
        self.found_running += other.found_running;
        self.stale += other.stale;
        self.looks += other.looks;
        self.no_room += other.no_room;
        self.waited_its_turn += other.waited_its_turn;
        self.gave_way += other.gave_way;
        self.idle_gave_way += other.idle_gave_way;
        self.hurried += other.hurried;
        self.recovered += other.recovered;
    }

    /// Checks that the runs took the rare paths, too.
    fn assert_complete(&self) {
        let paths = [
            self.refused,
            self.shed,
            self.started_from_rest,
            self.taken_slots,
            self.culled,
            self.failed_creations,
            self.unwatched,
            self.left_uncounted,
            self.raised,
            self.lowered,
            self.maydays,
            self.rescued,
            self.stood_down,
            self.found_asleep,
            self.found_hogs,
            self.found_blocked,
            self.found_running,
            self.stale,
            self.no_room,
            self.waited_its_turn,
            self.gave_way,
            self.idle_gave_way,
            self.hurried,
            self.recovered,
        ];
        self.assert_taken(&paths, 50);
    }

    pub(super) fn assert_pods_complete(&self) {
        let paths = [
            self.refused,
            self.shed,
            self.offered,
            self.sought,
            self.passed_on,
            self.stalled,
            self.handed_over,
            self.sooner,
            self.diverted,
            self.set_aside,
            self.at_home,
            self.away,
            self.put_off,
        ];
        self.assert_taken(&paths, 5);
    }

    fn assert_taken(&self, paths: &[usize], least: usize) {
        assert!(paths.iter().all(|times| *times >= least), "a path is taken too rarely: {self:?}");
    }
}
