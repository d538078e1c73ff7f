//! The documented timelines, to the millisecond and in the documented order.
//!
//! `w0`, `w1` and `w2` are queued at 0 on one CPU. `w0` burns 5 ms, sleeps 10 ms and burns 5 ms, the others
//! burn 5 ms and sleep 10 ms. The pool is cold: even its first worker is made on demand.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::machine::PATIENT;
use super::machine::{Config, Machine};
use super::pool::{Gate, GateId, Pool};
use super::script::What::{Finishes, Sleeps, Starts, Wakes};
use super::script::{Event, Item, Step, What};
use super::threads::Known;
use crate::policy::concurrency::Running;
use crate::policy::crew::CrewLimits;
use crate::policy::time::Time;

const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

/// A machine of one CPU, on which only burning and sleeping cost time.
fn config() -> Config {
    Config {
        cpus: 1,
        prng: None,
        wake_latency: Duration::ZERO,
        creation_latency: Duration::ZERO,
        listing_delay: Duration::ZERO,
        failing_creations: 0,
        slice: None,
        racy: false,
        yield_before_burn: true,
        yield_after_item: true,
        rules: PATIENT,
        known: Known::States,
        held_up: 0,
        look_cost: Duration::ZERO,
        trace: false,
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs the three items of the documents: `w0` goes to the first gate, `w1` and `w2` to the last one.
fn timeline(gates: Vec<Gate>) -> Vec<(u64, &'static str, What)> {
    let item = |gate: GateId, script: &[Step]| Item { gate, script: script.to_vec() };
    let short = [Step::Burn(ms(5)), Step::Sleep(ms(10))];
    let long = [Step::Burn(ms(5)), Step::Sleep(ms(10)), Step::Burn(ms(5))];
    let last = gates.len() - 1;
    let items = vec![item(0, &long), item(last, &short), item(last, &short)];
    let pool = Pool::new(Running::managed(1), LIMITS, 1);

    let mut machine = Machine::new(config(), vec![pool], gates, items);
    machine.issue(Time::default(), vec![0, 1, 2]);
    machine.run();

    let row = |event: &Event| {
        let since_start = event.at.since(Time::default());
        assert_eq!(since_start.subsec_nanos() % 1_000_000, 0, "nothing here lasts a part of a millisecond");
        (since_start.as_millis() as u64, ["w0", "w1", "w2"][event.item], event.what)
    };
    machine.log.iter().map(row).collect()
}

/// spec: C6.1 (a), one context per CPU
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
    assert_eq!(timeline(vec![Gate::new(1, 0)]), expected);
}

/// spec: C6.1 (b), C1.2 (when the last running worker blocks, another one starts at once).
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
    assert_eq!(timeline(vec![Gate::new(256, 0)]), expected);
    assert_eq!(timeline(vec![Gate::new(3, 0)]), expected, "with 3 slots as with 256");
}

/// spec: C6.1 (c). `w1` wakes and finishes before `w2` starts because of the tie-break
/// [`yield_after_item`](Config::yield_after_item).
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
    assert_eq!(timeline(vec![Gate::new(2, 0)]), expected);
}

/// spec: C6.1 (d), C4.1, C4.2 (CPU-intensive items do not count while they run). `w2` starts at 5, though `w1` burns
/// until 10, because of the tie-break [`yield_before_burn`](Config::yield_before_burn).
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
    assert_eq!(timeline(vec![Gate::new(256, 0), Gate::new(256, 0).cpu_intensive()]), expected);
}
