//! Loads without a guard anywhere, in virtual time: how soon others start, and how long it all takes.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::machine::{Config, Machine, PATIENT};
use super::pool::{Gate, GateId, Pool};
use super::random::micros;
use super::script::{Item, ItemId, Step, What};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;
use crate::policy::watch::Rules;

const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

/// As an executor's defaults.
const SAMPLING: Rules = Rules {
    sleepers: true,
    hogs: Some(Duration::from_millis(10)),
    watchdog: Some(Duration::from_secs(30)),
    ..PATIENT
};
const TOLD: Rules = Rules { is_told: true, ..SAMPLING };
const OFF: Rules = Rules { sleepers: false, hogs: None, ..SAMPLING };

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn config(cpus: usize, rules: Rules) -> Config {
    Config {
        cpus,
        prng: None,
        wake_latency: Duration::ZERO,
        creation_latency: Duration::ZERO,
        listing_delay: Duration::ZERO,
        failing_creations: 0,
        slice: Some(ms(3)),
        racy: false,
        yield_before_burn: false,
        yield_after_item: false,
        rules,
        known: Known::States,
        look_cost: Duration::ZERO,
        trace: false,
    }
}

/// A machine with one per-CPU pool for each of its CPUs, and these gates.
fn machine(config: Config, gates: Vec<Gate>, items: Vec<Item>) -> Machine {
    let pool = |cpu| Pool::new(Running::managed(1), LIMITS, 1_u64 << cpu);
    let pools = (0..config.cpus).map(pool).collect();
    Machine::new(config, pools, gates, items)
}

fn item(gate: GateId, script: &[Step]) -> Item {
    Item { gate, script: script.to_vec() }
}

fn at(machine: &Machine, item: ItemId, what: What) -> Duration {
    let event = machine.log.iter().find(|event| event.item == item && event.what == what);
    event.expect("this happens").at.since(Time::default())
}

fn makespan(machine: &Machine) -> Duration {
    machine.log.last().expect("something happens").at.since(Time::default())
}

/// One pod of two CPUs, or two per-CPU pools: 4000 items of 0.5 ms, of which every fourth sleeps for 5 ms. The same with
/// guards.
fn mixed(pod: bool, guards: bool, config: Config) -> Machine {
    let pools = match pod {
        true => vec![Pool::new(Running::managed(2), LIMITS, 0b11)],
        false => vec![Pool::new(Running::managed(1), LIMITS, 1), Pool::new(Running::managed(1), LIMITS, 2)],
    };
    let count = pools.len();
    let gates = (0..count).map(|pool| Gate::new(256, pool)).collect();
    let items: Vec<_> = (0..4000)
        .map(|id| {
            let block = if guards { Step::Sleep(ms(5)) } else { Step::Nap(ms(5)) };
            let sleeps = [Step::Burn(micros(250)), block, Step::Burn(micros(250))];
            let burns = [Step::Burn(micros(500))];
            item(id / 4 % count, if id % 4 == 0 { &sleeps } else { &burns })
        })
        .collect();
    let mut machine = Machine::new(config, pools, gates, items);
    machine.issue(Time::default(), (0..4000).collect());
    machine.run();
    machine
}

#[test]
fn figures_mixed() {
    for (name, pod) in [("pod of 2", true), ("2 per-CPU pools", false)] {
        for cost in [0, 15] {
            for (mode, guards, rules) in
                [("guards", true, OFF), ("sampling", false, SAMPLING), ("told", false, TOLD), ("off", false, OFF)]
            {
                let config = Config { look_cost: micros(cost), ..config(2, rules) };
                let machine = mixed(pod, guards, config);
                let workers = machine.finds.most_workers;
                eprintln!(
                    "mixed: {name:15} cost {cost:2} us {mode:8}: makespan {:?} ({:.3} of 1 s), at most {workers} workers in a pool, looks {}, found {} asleep {} running, longest overlooked {:?}",
                    makespan(&machine), makespan(&machine).as_secs_f64(), machine.seen.looks, machine.seen.found_asleep,
                    machine.seen.found_running, machine.finds.longest,
                );
            }
        }
    }
}

/// Timeline (b) of the documents, without a guard.
fn timeline_b(rules: Rules) -> Machine {
    let gates = vec![Gate::new(256, 0)];
    let short = [Step::Burn(ms(5)), Step::Nap(ms(10))];
    let long = [Step::Burn(ms(5)), Step::Nap(ms(10)), Step::Burn(ms(5))];
    let items = vec![item(0, &long), item(0, &short), item(0, &short)];
    let config = Config { slice: None, yield_before_burn: true, yield_after_item: true, ..config(1, rules) };
    let mut machine = machine(config, gates, items);
    machine.issue(Time::default(), vec![0, 1, 2]);
    machine.run();
    machine
}

#[test]
fn figures_timeline() {
    for (mode, rules) in [("sampling", SAMPLING), ("told", TOLD), ("off", OFF)] {
        let machine = timeline_b(rules);
        let starts: Vec<_> = (0..3).map(|id| at(&machine, id, What::Starts)).collect();
        eprintln!("timeline b: {mode:8}: makespan {:?}, starts {starts:?}", makespan(&machine));
    }
}

/// 200 items that spin on a flag, at most four at a time, and who sets it is behind them on another queue.
fn spinners(rules: Rules) -> Machine {
    let gates = vec![Gate::new(4, 0), Gate::new(256, 0)];
    let mut items: Vec<_> = (0..200).map(|_| item(0, &[Step::Spin(0)])).collect();
    items.push(item(1, &[Step::Set(0)]));
    let mut machine = machine(config(1, rules), gates, items);
    machine.issue(Time::default(), (0..201).collect());
    machine.run();
    machine
}

#[test]
fn figures_spinners() {
    for (mode, rules) in [("sampling", SAMPLING), ("told", TOLD)] {
        let machine = spinners(rules);
        let workers = machine.finds.most_workers;
        eprintln!(
            "spinners: {mode:8}: setter {:?}, {workers} workers, makespan {:?}, hogs {}",
            at(&machine, 200, What::Starts),
            makespan(&machine),
            machine.seen.found_hogs
        );
    }
}

/// As many items as CPUs wait for a later one.
fn dependent(cpus: usize, rules: Rules) -> Machine {
    let gates = (0..cpus).map(|cpu| Gate::new(256, cpu)).collect();
    let mut items: Vec<_> = (0..cpus).map(|cpu| item(cpu, &[Step::Await(0)])).collect();
    items.push(item(0, &[Step::Set(0)]));
    let mut machine = machine(config(cpus, rules), gates, items);
    machine.issue(Time::default(), (0..=cpus).collect());
    machine.run();
    machine
}

#[test]
fn figures_dependent() {
    for (mode, rules) in [("sampling", SAMPLING), ("told", TOLD)] {
        let machine = dependent(2, rules);
        eprintln!("as many wait as CPUs: {mode:8}: resolved {:?}", makespan(&machine));
    }
}

/// An item naps once the pool is saturated since `busy`: how long until the next one starts.
fn nap_after(busy: Duration, rules: Rules) -> Duration {
    let gates = vec![Gate::new(256, 0)];
    let items = vec![
        item(0, &[Step::Burn(busy), Step::Nap(ms(100))]),
        item(0, &[Step::Burn(micros(10))]),
    ];
    let mut machine = machine(config(1, rules), gates, items);
    machine.issue(Time::default(), vec![0, 1]);
    machine.run();
    at(&machine, 1, What::Starts) - busy
}

#[test]
fn figures_nap() {
    for (mode, rules) in [("sampling", SAMPLING), ("told", TOLD)] {
        let mut delays: Vec<_> = (0..200).map(|n| nap_after(micros(49 * n), rules)).collect();
        delays.sort();
        eprintln!("undeclared block -> next starts: {mode:8}: p50 {:?} p99 {:?} max {:?}", delays[100], delays[197], delays[199]);
    }
}

/// A hog in front of a short item on a per-CPU queue.
#[test]
fn figures_hog() {
    let mut delays = Vec::new();
    for n in 0..100 {
        let gates = vec![Gate::new(256, 0)];
        let items = vec![item(0, &[Step::Burn(ms(500))]), item(0, &[Step::Burn(micros(10))])];
        let mut machine = machine(config(1, SAMPLING), gates, items);
        machine.issue(Time::default(), vec![0]);
        let late = micros(97 * n);
        machine.issue(Time::default() + late, vec![1]);
        machine.run();
        delays.push(at(&machine, 1, What::Starts) - late);
    }
    delays.sort();
    eprintln!("hog -> next starts: p50 {:?} max {:?}", delays[50], delays[99]);
}
