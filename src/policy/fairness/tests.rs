//! Tests of flows that share the workers of a pool, in simulated time. All times are in nanoseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// A flow of the simulated world. All its items have the same length.
#[derive(Clone, Copy, Debug)]
struct Load {
    weight: u32,
    length: u64,
    /// At most this many items of the flow wait or run at a time.
    active: usize,
}

/// The state of a flow.
#[derive(Default)]
struct Seen {
    waiting: usize,
    running: usize,
    used: u64,
    estimate: Estimate,
    turns: u64,
}

/// A pool of workers.
struct World {
    fairness: Fairness,
    loads: Vec<Load>,
    seen: Vec<Seen>,
    /// The time at which each worker becomes free, with the worker's number.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    turns: Vec<Option<(Option<Turn>, usize)>>,
}

fn flow(at: usize) -> FlowId {
    FlowId::of_queue(at as u64 + 1)
}

impl World {
    fn new(workers: usize, loads: &[Load]) -> Self {
        let mut world = Self {
            fairness: Fairness::default(),
            loads: loads.to_vec(),
            seen: loads.iter().map(|_| Seen::default()).collect(),
            ends: (0..workers).map(|worker| Reverse((0, worker))).collect(),
            turns: vec![None; workers],
        };
        (0..loads.len()).for_each(|at| world.fill(at));
        world
    }

    /// Queues as many items of a flow as may be active.
    fn fill(&mut self, at: usize) {
        let seen = &mut self.seen[at];
        seen.waiting = self.loads[at].active - seen.running;
        if seen.waiting > 0 {
            self.fairness.arrives(flow(at));
        }
    }

    /// Makes the worker that becomes free next take an item. Returns the time and the item's flow, or `None` instead of
    /// the flow if no item waits.
    fn step(&mut self) -> (u64, Option<usize>) {
        let Reverse((now, worker)) = self.ends.pop().unwrap();
        if let Some((turn, at)) = self.turns[worker].take() {
            let length = self.loads[at].length;
            let seen = &mut self.seen[at];
            (seen.running, seen.used) = (seen.running - 1, seen.used + length);
            let length = Duration::from_nanos(length);
            let taught = turn.map(|turn| turn.teaches(seen.estimate, length));
            seen.estimate = taught.unwrap_or(seen.estimate);
            self.fill(at);
            turn.into_iter().for_each(|turn| self.fairness.ends(turn, length));
        }
        let Some(next) = self.fairness.in_order().next() else {
            self.fairness.forgive();
            self.ends.push(Reverse((now + MICRO, worker)));
            return (now, None);
        };
        let at = (next.0 - 1) as usize;
        let (load, seen) = (self.loads[at], &mut self.seen[at]);
        (seen.waiting, seen.running, seen.turns) = (seen.waiting - 1, seen.running + 1, seen.turns + 1);
        if seen.waiting == 0 {
            self.fairness.leaves(next);
        }
        self.turns[worker] = Some((self.fairness.begins(next, load.weight, seen.estimate), at));
        self.ends.push(Reverse((now + load.length, worker)));
        (now, Some(at))
    }

    fn run_until(&mut self, end: u64) {
        while self.step().0 < end {}
    }

    /// Returns, for each flow, its share of the CPU time that all flows have used.
    fn shares(&self) -> Vec<f64> {
        let all: u64 = self.seen.iter().map(|seen| seen.used).sum();
        self.seen.iter().map(|seen| seen.used as f64 / all as f64).collect()
    }
}

fn backlog(weight: u32, length: u64) -> Load {
    Load { weight, length, active: 256 }
}

/// spec: B3.2 (weights 1:2:4, items of 10 µs against 10 ms)
#[test]
fn flows_with_backlogs_share_by_their_weights() {
    let lengths = [10 * MICRO, 10 * MILLI, 100 * MICRO];
    for (workers, shifts, time) in [(1, 3, 5_000), (2, 3, 5_000), (24, 1, 2_500)] {
        for shift in 0..shifts {
            let loads = [1, 2, 4].map(|weight| {
                let at = (weight as usize / 2 + shift) % 3;
                backlog(100 * weight, lengths[at])
            });
            let mut world = World::new(workers, &loads);
            world.run_until(time * MILLI);
            for (share, due) in world.shares().into_iter().zip([1.0, 2.0, 4.0].map(|weight| weight / 7.0)) {
                assert!((share - due).abs() <= 0.05 * due, "{share} of {due}, {workers} workers, {loads:?}");
            }
        }
    }
}

/// spec: B3.3: a queue that has used little CPU time begins its first item when the pool's next item ends, however many
/// other queues wait.
#[test]
fn a_fresh_flow_has_the_next_turn() {
    for workers in [1, 24] {
        let mut loads = vec![backlog(100, 10 * MILLI); 40];
        loads.push(Load { weight: 1, length: MICRO, active: 0 });
        let mut world = World::new(workers, &loads);
        world.run_until(1_000 * MILLI);
        for _ in 0..100 {
            world.loads[40].active = 1;
            world.fill(40);
            let (_, begun) = world.step();
            assert_eq!(begun, Some(40));
            world.loads[40].active = 0;
            // The flow is fresh again only when the other flows have caught up with its tag.
            for _ in 0..200 {
                world.step();
            }
        }
    }
}

/// spec: B3.3: several queues that have used little CPU time begin their first items in the order of their arrival.
#[test]
fn fresh_flows_come_in_the_order_of_their_arrival() {
    let mut world = World::new(1, &[Load { weight: 7, length: MILLI, active: 0 }; 10]);
    world.loads[9] = backlog(10_000, 10 * MILLI);
    world.fill(9);
    (0..5).for_each(|_| _ = world.step());
    for at in [3, 1, 2] {
        world.loads[at].active = 1;
        world.fill(at);
        world.loads[at].active = 0;
    }
    let order: Vec<_> = (0..4).map(|_| world.step().1.unwrap()).collect();
    assert_eq!(order, [3, 1, 2, 9]);
}

/// spec: B3.2: a queue that has only one entry at a time does not always get the next turn.
#[test]
fn a_flow_of_one_entry_at_a_time_pays_for_its_items() {
    let loads = [Load { weight: 1, length: 10 * MILLI, active: 1 }, backlog(99, 10 * MICRO)];
    let mut world = World::new(2, &loads);
    world.run_until(10_000 * MILLI);
    let share = world.shares()[0];
    assert!((0.0085..0.0115).contains(&share), "{share}");
}

/// spec: B3.4
#[test]
fn a_lone_flow_owes_nothing_to_those_that_come_later() {
    let loads = [backlog(1, MILLI), Load { weight: 1, length: MILLI, active: 0 }];
    let mut world = World::new(4, &loads);
    world.run_until(10_000 * MILLI);
    assert!(world.seen[0].turns >= 40_000, "it has all workers");
    world.loads[1].active = 256;
    world.fill(1);
    let before = world.seen[0].turns;
    world.run_until(10_100 * MILLI);
    let turns = (world.seen[0].turns - before, world.seen[1].turns);
    assert!(turns.0.abs_diff(turns.1) < 10, "{turns:?}");
}

/// spec: B3.4: a pool without waiting entries remembers nothing, and needs no lock.
#[test]
fn debts_are_forgiven_when_nothing_waits() {
    let mut world = World::new(2, &[Load { weight: 1, length: MILLI, active: 1 }]);
    world.step();
    assert!(world.fairness.is_in_force(), "the flow has debts");
    world.loads[0].active = 0;
    assert_eq!(world.step().1, None);
    assert!(!world.fairness.is_in_force());
    let late = world.turns[0].take().and_then(|(turn, _)| turn);
    assert!(late.is_some(), "nothing is known of the item");
    late.into_iter().for_each(|turn| world.fairness.ends(turn, Duration::from_secs(1)));
    assert!(!world.fairness.is_in_force(), "a turn from before counts no more");
}

/// spec: B3.4: the short items of a lone flow are free, except for some that are measured. When another flow arrives,
/// that flow has the next turn. After this turn, both flows share the workers equally.
#[test]
fn short_items_of_a_lone_flow_are_free() {
    let loads = [backlog(100, 2 * MICRO), Load { weight: 100, length: 2 * MICRO, active: 0 }];
    for (workers, steps) in [(1, 1000), (8, 1011)] {
        let mut world = World::new(workers, &loads);
        (0..steps).for_each(|_| _ = world.step());
        assert!(world.fairness.now > 0, "some items are charged");
        let measured = (0..320).filter(|_| {
            let Reverse((_, worker)) = *world.ends.peek().unwrap();
            world.step();
            world.turns[worker].unwrap().0.is_some()
        });
        assert_eq!(measured.count(), 10);
        world.loads[1].active = 256;
        world.fill(1);
        assert_eq!(world.step().1, Some(1));
        let before = [0, 1].map(|at| world.seen[at].turns);
        (0..1000).for_each(|_| _ = world.step());
        let turns = [0, 1].map(|at| world.seen[at].turns - before[at]);
        assert!(turns[0].abs_diff(turns[1]) <= 2 * workers as u64, "{turns:?}");
    }
}

/// spec: B3.3: a free item of a lone flow still counts as the flow's turn.
#[test]
fn a_free_item_is_a_turn() {
    let mut fairness = Fairness::default();
    fairness.arrives(flow(0));
    assert!(fairness.begins(flow(0), 100, Estimate::from_bits(2 * MICRO)).is_none());
    fairness.arrives(flow(1));
    assert!(fairness.in_order().eq([flow(1), flow(0)]));
}

/// spec: B3.3: a fresh flow has the next turn, even if the charge of another flow is corrected downwards after the
/// fresh flow has arrived. The fresh flow has the next turn again when the other flow has used more CPU time than the
/// fresh flow.
#[test]
fn a_correction_does_not_overtake_a_fresh_flow() {
    let mut fairness = Fairness::default();
    fairness.arrives(flow(0));
    let turn = fairness.begins(flow(0), 100, Estimate::from_bits(100 * MILLI)).unwrap();
    for visit in 0..3 {
        fairness.arrives(flow(1));
        if visit == 0 {
            fairness.ends(turn, Duration::from_millis(1));
        }
        assert_eq!(fairness.in_order().next(), Some(flow(1)), "visit {visit}");
        fairness.leaves(flow(1));
        let visit = fairness.begins(flow(1), 100, Estimate::from_bits(20 * MICRO)).unwrap();
        fairness.ends(visit, Duration::from_micros(20));
        let turn = fairness.begins(flow(0), 100, Estimate::from_bits(MILLI)).unwrap();
        fairness.ends(turn, Duration::from_millis(1));
    }
}

/// spec: B3.4: a flow that queues its items one by one pays for each item, even if several items of another flow were
/// shorter than expected.
#[test]
fn a_correction_forgives_no_debt_of_another_flow() {
    let mut fairness = Fairness::default();
    fairness.arrives(flow(0));
    let turns = [(); 4].map(|()| fairness.begins(flow(0), 100, Estimate::from_bits(100 * MILLI)).unwrap());
    turns.into_iter().for_each(|turn| fairness.ends(turn, Duration::from_millis(1)));
    fairness.arrives(flow(1));
    fairness.leaves(flow(1));
    let turn = fairness.begins(flow(1), 100, Estimate::from_bits(10 * MILLI)).unwrap();
    fairness.ends(turn, Duration::from_millis(10));
    fairness.arrives(flow(1));
    assert!(fairness.in_order().eq([flow(0), flow(1)]));
}

/// spec: B3.2: an item of a flow ends after the flow has become fresh again. If the item was longer than its charge,
/// the flow pays for the rest. If the item was shorter, the flow saves up nothing.
#[test]
fn a_correction_reaches_a_fresh_flow() {
    for (used, order) in [(10 * MILLI, [1, 0]), (MILLI, [0, 1])] {
        let mut fairness = Fairness::default();
        fairness.arrives(flow(1));
        fairness.arrives(flow(0));
        fairness.leaves(flow(0));
        let turn = fairness.begins(flow(0), 100, Estimate::from_bits(2 * MILLI)).unwrap();
        let other = fairness.begins(flow(1), 100, Estimate::from_bits(5 * MILLI)).unwrap();
        fairness.ends(other, Duration::from_millis(5));
        fairness.arrives(flow(0));
        assert!(fairness.in_order().eq([flow(0), flow(1)]));
        fairness.ends(turn, Duration::from_nanos(used));
        assert!(fairness.in_order().eq(order.map(flow)), "{used}");
        let next = fairness.begins(flow(0), 100, Estimate::from_bits(MILLI)).unwrap();
        fairness.ends(next, Duration::from_millis(1));
        assert!(fairness.in_order().eq([flow(1), flow(0)]), "{used}");
    }
}

/// A pool takes turns only because of weighted queues, and not because of the worklist alone.
#[test]
fn only_weighted_queues_are_remembered() {
    let mut fairness = Fairness::default();
    fairness.arrives(flow(0));
    fairness.arrives(FlowId::WORKLIST);
    fairness.leaves(flow(0));
    let turn = fairness.begins(flow(0), 10_000, Estimate::default()).unwrap();
    fairness.ends(turn, Duration::ZERO);
    while fairness.is_in_force() {
        let turn = fairness.begins(FlowId::WORKLIST, DEFAULT_WEIGHT, Estimate::default()).unwrap();
        fairness.ends(turn, Duration::from_micros(100));
    }
}

#[test]
fn an_estimate_follows_the_items() {
    let mut estimate = Estimate::default();
    assert_eq!(estimate.nanos(), FIRST_ESTIMATE);
    for (used, expected) in [(10 * MILLI, 10 * MILLI), (2 * MILLI, 8 * MILLI), (u64::MAX, 31 * MILLI)] {
        estimate = estimate.follows(used);
        assert_eq!(Estimate::from_bits(estimate.into_bits()).nanos(), expected);
    }
    (0..100).for_each(|_| estimate = estimate.follows(0));
    assert!(estimate.nanos() <= LEAST_CHARGE + 3);
}

fn load() -> impl Strategy<Value = Load> {
    let length = prop_oneof![MICRO..=50 * MICRO, 50 * MICRO..=MILLI, MILLI..=20 * MILLI];
    (1..=20_u32, length).prop_map(|(weight, length)| backlog(100 * weight, length))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// spec: B3.2: two queues have had backlogs since the same moment. A *scaled* time is a time divided by the weight
    /// of its queue. At any time, the scaled CPU times of the two queues differ by at most 2 × (workers + 1) times the
    /// sum of the scaled lengths of one item of each queue. In this bound, an item is at least [`FIRST_ESTIMATE`] long.
    #[test]
    fn no_flow_falls_behind(
        workers in 1..=8_usize,
        loads in proptest::collection::vec(load(), 2..6),
        steps in 1..4000_usize,
    ) {
        let mut world = World::new(workers, &loads);
        for _ in 0..steps {
            world.step();
        }
        let each: Vec<_> = loads.iter().zip(&world.seen).map(|(load, seen)| {
            let (used, weight) = (seen.used as f64, f64::from(load.weight));
            (used / weight, load.length.max(FIRST_ESTIMATE) as f64 / weight)
        }).collect();
        for one in &each {
            for other in &each {
                let bound = 2.0 * (workers + 1) as f64 * (one.1 + other.1);
                prop_assert!((one.0 - other.0).abs() <= bound, "{each:?} {loads:?}");
            }
        }
    }

    /// [`Fairness`] remembers only flows that have entries or debts, in whatever order events happen.
    #[test]
    fn the_order_agrees_with_the_flows(steps in proptest::collection::vec((0..5_u8, 0..6_u64, 1..3_u32), 0..300)) {
        let (mut fairness, mut turns) = (Fairness::default(), Vec::new());
        for (what, number, weight) in steps {
            let flow = FlowId(number);
            match what {
                0 => fairness.arrives(flow),
                1 => fairness.leaves(flow),
                2 => turns.extend(fairness.begins(flow, weight, Estimate::from_bits(number * 10 * MICRO))),
                3 => turns.pop().into_iter().for_each(|turn: Turn| fairness.ends(turn, Duration::from_micros(number))),
                _ if fairness.order.is_empty() => fairness.forgive(),
                _ => {}
            }
            let placed = fairness.flows.values().filter_map(|flow| flow.place).collect::<BTreeSet<_>>();
            prop_assert_eq!(&placed, &fairness.order);
            prop_assert!(fairness.flows.values().all(|flow| flow.is_fresh() || flow.place.is_none_or(|place| place.tag == flow.tag)));
            let owing = fairness.flows.iter().filter(|(_, flow)| flow.place.is_none());
            let owing = owing.map(|(number, flow)| (flow.tag, *number)).collect::<BTreeSet<_>>();
            prop_assert_eq!(&owing, &fairness.debtors);
        }
    }
}

/// A program makes a weighted queue for each request, and some queue always has a waiting entry.
#[test]
fn queues_that_are_gone_take_bounded_memory_in_a_busy_pool() {
    let mut fairness = Fairness::default();
    fairness.arrives(FlowId::of_queue(1));
    for number in 2..20_000 {
        fairness.arrives(FlowId::of_queue(number));
        let next = fairness.in_order().next().unwrap();
        fairness.leaves(next);
        let turn = fairness.begins(next, 100, Estimate::default()).unwrap();
        fairness.ends(turn, Duration::from_micros(100));
    }
    assert!(fairness.flows.len() <= MOST_DEBTS + 1, "{}", fairness.flows.len());
}
