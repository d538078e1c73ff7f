//! Loads without a guard anywhere, in virtual time: how soon others start, and how long it all takes.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::machine::{Config, Machine, PATIENT};
use super::pool::{Gate, GateId, Pool};
use super::random::micros;
use super::script::{Item, ItemId, Op, Step, What};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;
use crate::policy::watch::{LONGEST, Rules};

const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

/// The defaults of an executor.
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
        held_up: 0,
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

/// Runs 4000 items of 0.5 ms, of which every fourth sleeps for 5 ms as well, with or without a guard. They run in one
/// pod of two CPUs, or in two per-CPU pools.
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

/// spec: S1.8 (at most 1.15 of the ideal, at most 16 threads)
#[test]
fn a_mixed_load_without_guards_stays_near_the_ideal_makespan() {
    let table = [
        // in one pod, guards, rules, makespan in microseconds
        (true, true, OFF, 1_000_000),
        (true, false, SAMPLING, 1_004_500),
        (true, false, TOLD, 1_003_500),
        (false, false, SAMPLING, 1_004_000),
        (false, false, TOLD, 1_002_750),
    ];
    for (pod, guards, rules, expected) in table {
        let machine = mixed(pod, guards, config(2, rules));
        assert_eq!(makespan(&machine), micros(expected), "{pod} {guards} {rules:?}");
        assert!(guards || machine.finds.most_workers <= 16);
    }
    // The same if looks cost CPU time.
    for (pod, rules) in [(true, SAMPLING), (true, TOLD), (false, SAMPLING), (false, TOLD)] {
        let machine = mixed(pod, false, Config { look_cost: micros(15), ..config(2, rules) });
        assert!(makespan(&machine) <= ms(1150), "{pod} {rules:?}");
    }
}

/// Runs timeline (b) of the documents without guards.
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

/// spec: S1.8, C6 (b)
#[test]
fn timeline_b_without_guards() {
    for (rules, expected) in [(TOLD, 25_000), (SAMPLING, 26_500), (OFF, 50_000)] {
        assert_eq!(makespan(&timeline_b(rules)), micros(expected), "{rules:?}");
    }
}

/// Runs 200 items that spin on a flag, at most four at a time. The item that sets the flag is behind them, on another
/// queue.
fn spinners(rules: Rules) -> Machine {
    let gates = vec![Gate::new(4, 0), Gate::new(256, 0)];
    let mut items: Vec<_> = (0..200).map(|_| item(0, &[Step::Spin(0)])).collect();
    items.push(item(1, &[Step::Set(0)]));
    let mut machine = machine(config(1, rules), gates, items);
    machine.issue(Time::default(), (0..201).collect());
    machine.run();
    machine
}

/// spec: S2.4, S5.3
#[test]
fn an_item_behind_two_hundred_spinners_starts_within_150_ms() {
    for rules in [SAMPLING, TOLD] {
        let machine = spinners(rules);
        assert!(at(&machine, 200, What::Starts) <= ms(150));
        assert!(machine.finds.most_workers <= 7);
        assert_eq!(machine.seen.found_hogs, 4);
    }
}

/// Runs as many items as CPUs, which wait for a later item without a guard.
fn dependent(cpus: usize, rules: Rules) -> Machine {
    let gates = (0..cpus).map(|cpu| Gate::new(256, cpu)).collect();
    let mut items: Vec<_> = (0..cpus).map(|cpu| item(cpu, &[Step::Await(0)])).collect();
    items.push(item(0, &[Step::Set(0)]));
    let mut machine = machine(config(cpus, rules), gates, items);
    machine.issue(Time::default(), (0..=cpus).collect());
    machine.comes(Time::default() + ms(1000), 0, false, vec![Op::Set(0)]);
    machine.run();
    machine
}

/// spec: S1.8
#[test]
fn items_that_wait_for_a_later_item_are_found_asleep() {
    for cpus in [1, 2, 4] {
        for rules in [SAMPLING, TOLD] {
            assert!(makespan(&dependent(cpus, rules)) <= LONGEST, "{cpus} {rules:?}");
        }
        assert_eq!(makespan(&dependent(cpus, OFF)), ms(1000), "until the outsider sets the flag");
    }
}

/// Runs an item that burns for `busy` and then sleeps without a guard. Returns how soon the next item starts then.
fn nap_after(busy: Duration, rules: Rules) -> Duration {
    let gates = vec![Gate::new(256, 0)];
    let items = vec![item(0, &[Step::Burn(busy), Step::Nap(ms(100))]), item(0, &[Step::Burn(micros(10))])];
    let mut machine = machine(config(1, rules), gates, items);
    machine.issue(Time::default(), vec![0, 1]);
    machine.run();
    at(&machine, 1, What::Starts) - busy
}

/// spec: S1.8 (within 5 ms by sampling)
#[test]
fn an_item_behind_a_sleeper_starts_within_the_longest_period() {
    for n in 0..100 {
        let busy = micros(97 * n);
        assert!(nap_after(busy, SAMPLING) <= LONGEST, "{busy:?}");
        assert_eq!(nap_after(busy, TOLD), Duration::ZERO, "{busy:?}");
    }
}

/// spec: S2.4 (the next item starts within 15 ms)
#[test]
fn an_item_behind_a_hog_starts_within_15_ms() {
    for n in 0..50 {
        let items = vec![item(0, &[Step::Burn(ms(500))]), item(0, &[Step::Burn(micros(10))])];
        let mut machine = machine(config(1, SAMPLING), vec![Gate::new(256, 0)], items);
        let late = micros(197 * n);
        machine.issue(Time::default(), vec![0]);
        machine.issue(Time::default() + late, vec![1]);
        machine.run();
        // From then on the two share the CPU by slices.
        let delay = at(&machine, 1, What::Starts) - late;
        assert!(delay <= ms(15), "{late:?} {delay:?}");
    }
}
