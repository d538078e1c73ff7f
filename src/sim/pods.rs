//! Random loads on machines of several caches, whose pods take each other's items.
//!
//! As in `random`: `CMWQ_SIM_RUNS` sets the number of runs, `CMWQ_SIM_SEED=n` runs one again and prints every step.
//!
//! Red under: `came-strikes-out-the-last`, `ease-asks-for-no-look`, `ease-leaves-it-stalled`.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::machine::{Config, Machine, Seen};
use super::pool::{Gate, Pool, PoolId};
use super::prng::Prng;
use super::random::{micros, rules, runs};
use super::script::{Item, ItemId, Op, Step};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;
use crate::policy::topology::Topology;

const RUNS: u64 = 400;

/// The machine of the kernel's documents has four caches of three cores of two threads.
const DOCUMENTED: (usize, usize, usize) = (4, 3, 2);

/// spec: A3.5, A3.8 (no CPU idles while items of its class wait elsewhere; an item leaves a pod only if the pod cannot
/// run it)
#[test]
fn work_is_conserved_in_random_runs() {
    let mut seen = Seen::default();
    let complete = runs(RUNS, |seed, trace| seen.add(&simulate(seed, trace)));
    if complete {
        seen.assert_pods_complete();
    }
}

fn simulate(seed: u64, trace: bool) -> Seen {
    let mut prng = Prng::new(seed);
    let (caches, cores, threads) = if prng.chance(25) {
        DOCUMENTED
    } else {
        (prng.within(2..=4), prng.within(1..=2), prng.within(1..=2))
    };
    let topology = Topology::uniform(1, caches, cores, threads);
    let config = config(&mut prng, topology.cpus().len(), trace);
    let mut load = Load::new(&mut prng, &topology, caches);
    let others = std::mem::take(&mut load.others);
    let mut machine = Machine::new(Config { prng: Some(prng), ..config }, load.pools, load.gates, load.items);
    for class in load.classes {
        machine.share(&topology, class);
    }
    for (at, items) in load.issues {
        machine.issue(at, items);
    }
    for Other { at, cpu, claims, ops } in others {
        machine.comes(at, 1 << cpu, claims, ops);
    }
    machine.run();
    machine.seen
}

fn config(prng: &mut Prng, cpus: usize, trace: bool) -> Config {
    let immediate = prng.chance(30);
    let latency = |prng: &mut Prng, longest| if immediate { Duration::ZERO } else { prng.pick(longest) };
    Config {
        cpus,
        wake_latency: latency(prng, &[micros(0), micros(20), micros(100)]),
        creation_latency: latency(prng, &[micros(0), micros(50), micros(500)]),
        listing_delay: prng.pick(&[micros(0), micros(0), micros(100)]),
        failing_creations: prng.pick(&[0, 0, 0, 0, 20]),
        slice: prng.pick(&[None, Some(micros(100)), Some(micros(1000))]),
        racy: prng.chance(50),
        yield_before_burn: false,
        yield_after_item: false,
        rules: rules(prng),
        known: prng.pick(&[Known::States, Known::States, Known::States, Known::Clocks, Known::Nothing]),
        held_up: 10,
        look_cost: Duration::ZERO,
        trace,
        prng: None,
    }
}

/// An issuer that needs a CPU, or a neighbour that takes one.
struct Other {
    at: Time,
    cpu: usize,
    claims: bool,
    ops: Vec<Op>,
}

struct Load {
    pools: Vec<Pool>,
    classes: Vec<Vec<PoolId>>,
    gates: Vec<Gate>,
    items: Vec<Item>,
    issues: Vec<(Time, Vec<ItemId>)>,
    others: Vec<Other>,
}

impl Load {
    fn new(prng: &mut Prng, topology: &Topology, caches: usize) -> Self {
        let (pools, classes) = pools(prng, topology, caches);
        let gates = gates(prng, &pools);
        let count = prng.within(1..=60);
        let longest = prng.pick(&[micros(0), micros(100), micros(1000), micros(4000)]);
        let mut chained = vec![false; count];
        // Most items go to one pod.
        let favourite = prng.below(gates.len());
        let mut item = |id| {
            let gate = if prng.chance(60) { favourite } else { prng.below(gates.len()) };
            Item { gate, script: script(prng, id, longest, &mut chained) }
        };
        let items: Vec<_> = (0..count).map(&mut item).collect();
        let mut load = Self { pools, classes, gates, items, issues: Vec::new(), others: Vec::new() };
        load.issue(prng, topology.cpus().len(), &chained);
        load.neighbours(prng, topology.cpus().len());
        load
    }

    /// Lets outsiders queue the items, and issuers that go on burning a CPU afterwards.
    fn issue(&mut self, prng: &mut Prng, cpus: usize, chained: &[bool]) {
        let length = prng.pick(&[micros(200), micros(2000), micros(20_000)]);
        let moments: Vec<_> =
            (0..prng.within(1..=6)).map(|_| Time::default() + prng.duration(length)).collect();
        for id in (0..chained.len()).filter(|id| !chained[*id]) {
            if prng.chance(20) {
                let spins = prng.duration(micros(2000));
                let ops = vec![Op::Admit(id), Op::Burn(spins)];
                self.others.push(Other {
                    at: prng.pick(&moments),
                    cpu: prng.below(cpus),
                    claims: false,
                    ops,
                });
                continue;
            }
            match self.issues.last_mut() {
                Some((_, items)) if prng.chance(70) => items.push(id),
                _ => self.issues.push((prng.pick(&moments), vec![id])),
            }
        }
    }

    fn neighbours(&mut self, prng: &mut Prng, cpus: usize) {
        let few = prng.pick(&[0, 0, 1, cpus / 2, cpus]);
        let longest = prng.pick(&[micros(100), micros(1000), micros(10_000)]);
        for _ in 0..few {
            let at = Time::default() + prng.duration(micros(2000));
            let ops = vec![Op::Burn(prng.duration(longest))];
            self.others.push(Other { at, cpu: prng.below(cpus), claims: prng.chance(70), ops });
        }
    }
}

/// Makes one or two classes with a pod for each cache.
fn pools(prng: &mut Prng, topology: &Topology, caches: usize) -> (Vec<Pool>, Vec<Vec<PoolId>>) {
    let mut pools = Vec::new();
    let mut classes = Vec::new();
    for _ in 0..prng.pick(&[1, 1, 2]) {
        let limits = CrewLimits {
            idle_timeout: Duration::from_millis(prng.pick(&[1, 20, 500])),
            idle_ratio: prng.within(1..=4),
        };
        let mut class = Vec::new();
        for cache in 0..caches {
            let own = topology.cpus().iter().filter(|cpu| cpu.cache == cache);
            let mask = own.fold(0_u64, |mask, cpu| mask | 1 << cpu.id);
            let size = mask.count_ones() as usize;
            // A quota may make the target smaller than the pod.
            let target = if prng.chance(80) { size } else { prng.within(1..=size) };
            class.push(pools.len());
            pools.push(Pool::new(Running::managed(target), limits, mask));
        }
        classes.push(class);
    }
    (pools, classes)
}

/// Makes one or two gates for each pod. The items of some are bound to their pod.
fn gates(prng: &mut Prng, pools: &[Pool]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for pool in 0..pools.len() {
        for _ in 0..prng.within(1..=2) {
            let gate = Gate::new(prng.pick(&[1, 2, 8, 256, 256, 256]), pool);
            gates.push(if prng.chance(15) { gate.bound() } else { gate });
        }
    }
    gates
}

fn script(prng: &mut Prng, id: ItemId, longest: Duration, chained: &mut [bool]) -> Vec<Step> {
    let mut script = Vec::new();
    for _ in 0..prng.within(0..=3) {
        let step = match prng.below(10) {
            0..=5 => Step::Burn(prng.duration(longest)),
            6..=7 if prng.chance(50) => Step::Sleep(prng.duration(2 * longest)),
            6..=7 => Step::Nap(prng.duration(2 * longest)),
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
    script
}
