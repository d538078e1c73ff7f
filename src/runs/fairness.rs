//! Queues with weights that share pools. The runs check the queues' shares of the CPUs, how long an item of one queue
//! waits behind the backlog of another queue, and what weights do not change. The bounds are the numbers that the
//! documentation promises.
//!
//! Red under: `turn-is-free`.

use std::sync::Arc;
use std::time::Duration;

use super::pods::DOCUMENTED;
use super::setup::{executor, micros, ms};
use crate::sys::clock;
use crate::sys::machine::{Config, Mutex, burn, pause, run, stand_on};
use crate::{AffinityScope, Attrs, Executor, WorkQueue, WorkQueueBuilder};

/// The number of CPUs of the machine in most runs. The machine has one pool for all CPUs.
const CPUS: usize = 24;

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

/// Calls `body` with an executor on a machine of this many CPUs. The thread that runs `body` occupies none of these
/// CPUs.
fn on_machine<R: Send>(cpus: usize, body: impl FnOnce(&Executor) -> R + Send) -> R {
    run(Config { fine: false, ..Config::new(cpus) }, || {
        let executor = executor(&format!("l3:1 core:{cpus} pu:1"), |builder| builder);
        let result = body(&executor);
        executor.shutdown(Duration::MAX).unwrap();
        result
    })
}

fn tenant(name: &str, weight: Option<u32>) -> WorkQueueBuilder {
    let builder = WorkQueue::builder(name).attrs(Attrs::new().scope(AffinityScope::System));
    match weight {
        Some(weight) => builder.weight(weight),
        None => builder,
    }
}

/// Queues `items` items, each of which runs for `length`.
fn backlog(queue: &WorkQueue, items: usize, length: Duration) {
    assert!(queue.items((0..items).map(|_| move || burn(length))).spawn_detached().is_ok());
}

/// Queues an item of this length. When the item begins, it adds its waiting time to `waits`.
fn visit(queue: &WorkQueue, length: Duration, waits: &Arc<Mutex<Vec<Duration>>>) {
    let (queued, waits) = (now(), Arc::clone(waits));
    let item = move || {
        waits.lock().push(now() - queued);
        burn(length);
    };
    assert!(queue.spawn_detached(item).is_ok());
}

/// spec: B3.3: a queue uses less than its share, and so owes nothing when its next item arrives. The other queue's
/// items wait for slots, one behind the other, so the pool's lists are empty while the first queue pays its debt.
#[test]
fn an_item_waits_for_one_item_of_a_chain_of_heirs() {
    on_machine(1, |executor| {
        let noisy = tenant("noisy", None).max_active_total(1).build_on(executor).unwrap();
        let quiet = tenant("quiet", Some(100)).build_on(executor).unwrap();
        backlog(&noisy, 2000, ms(1));
        let waits = Arc::default();
        for _ in 0..5 {
            pause(micros(100_500));
            visit(&quiet, ms(20), &waits);
        }
        pause(ms(100));
        assert!(noisy.waiting() > 0, "the backlog lasts");
        noisy.destroy_now().unwrap();
        let waits = waits.lock();
        assert!(waits.len() == 5 && waits.iter().all(|wait| *wait <= ms(1)), "{waits:?}");
    });
}

/// spec: B3.5 (changes of attributes), B3.4: an item uses more CPU time than its queue is due, and gives its queue
/// other attributes. The queue's next item belongs to another pool, and does not wait for the debt in the former pool.
#[test]
fn a_queue_that_changes_its_attributes_leaves_its_debts_behind() {
    on_machine(1, |executor| {
        let heavy = tenant("heavy", Some(10_000)).build_on(executor).unwrap();
        let light = tenant("light", Some(1)).build_on(executor).unwrap();
        backlog(&heavy, 2000, ms(1));
        let own = light.clone();
        let changes = move || {
            burn(ms(10));
            own.apply_attrs(Attrs::new().scope(AffinityScope::System).nice(1)).unwrap();
        };
        light.spawn(changes).unwrap().join().unwrap();
        let begin = now();
        light.spawn(|| ()).unwrap().join().unwrap();
        assert!(now() - begin < ms(50), "{:?}", now() - begin);
        assert!(heavy.waiting() > 0, "the backlog lasts");
        heavy.destroy_now().unwrap();
    });
}

/// spec: B3.3: a tenant has up to 10^6 queued items of 10 ms. An item of another tenant begins when the next item of
/// the pool ends. So this item waits for 10 ms at most.
#[test]
fn an_item_waits_for_one_item_of_a_backlog_of_any_length() {
    const LENGTH: Duration = Duration::from_millis(10);
    for (weight, backlogged) in [(None, 10_000), (Some(10_000), 1_000_000)] {
        let (longest, visits) = on_machine(CPUS, |executor| {
            let noisy = tenant("noisy", weight).build_on(executor).unwrap();
            let quiet = tenant("quiet", Some(100)).build_on(executor).unwrap();
            backlog(&noisy, backlogged, LENGTH);
            let waits = Arc::default();
            for visit_number in 0..300 {
                pause(micros(1_000 + 37 * (visit_number % 50)));
                stand_on(visit_number as usize % CPUS);
                visit(&quiet, micros(20), &waits);
            }
            pause(LENGTH);
            assert!(noisy.waiting() > 0, "the backlog lasts");
            noisy.destroy_now().unwrap();
            let waits = waits.lock();
            (waits.iter().copied().max().unwrap(), waits.len())
        });
        assert_eq!(visits, 300);
        assert!(longest <= LENGTH, "{longest:?} behind items of {LENGTH:?}, weight {weight:?}");
    }
}

/// spec: B3.3: the first item of a backlog is long, so the pool expects that the next item is long, too. An item of
/// another tenant begins when this next item ends, although this next item is short. Later items of the other tenant,
/// which uses less than its share, also wait for one item at most.
#[test]
fn an_item_waits_for_one_item_even_if_a_longer_one_was_expected() {
    on_machine(1, |executor| {
        let noisy = tenant("noisy", Some(100)).build_on(executor).unwrap();
        let quiet = tenant("quiet", Some(100)).build_on(executor).unwrap();
        backlog(&noisy, 1, ms(100));
        backlog(&noisy, 300, ms(1));
        pause(micros(100_500));
        let waits = Arc::default();
        for _ in 0..10 {
            visit(&quiet, micros(20), &waits);
            pause(micros(5_300));
        }
        assert!(noisy.waiting() > 0, "the backlog lasts");
        noisy.destroy_now().unwrap();
        let waits = waits.lock();
        assert!(waits.len() == 10 && waits.iter().all(|wait| *wait <= ms(1)), "{waits:?}");
    });
}

/// spec: B3.3 (without a weight, an item waits behind the whole worklist of another queue)
#[test]
fn without_weights_items_wait_for_those_before_them() {
    let wait = on_machine(2, |executor| {
        let noisy = tenant("noisy", None).build_on(executor).unwrap();
        let quiet = tenant("quiet", None).build_on(executor).unwrap();
        backlog(&noisy, 100, ms(10));
        let waits = Arc::default();
        visit(&quiet, micros(20), &waits);
        quiet.flush().unwrap();
        waits.lock()[0]
    });
    assert!(wait >= ms(480), "{wait:?}");
}

fn weight(own: Option<u32>) -> f64 {
    f64::from(own.unwrap_or(100))
}

/// Returns the CPU time that each queue uses while all queues compete with each other. `tenants` has the weight of
/// each queue and the length of its items. The competition lasts for `time`.
fn used(cpus: usize, tenants: &[(Option<u32>, Duration)], time: Duration) -> Vec<Duration> {
    on_machine(cpus, |executor| {
        let queues: Vec<_> =
            tenants.iter().map(|(weight, _)| tenant("tenant", *weight).build_on(executor).unwrap()).collect();
        let all: f64 = tenants.iter().map(|(own, _)| weight(*own)).sum();
        for (queue, (own, length)) in queues.iter().zip(tenants) {
            let due = time.as_secs_f64() * cpus as f64 * weight(*own) / all;
            backlog(queue, (1.5 * due / length.as_secs_f64()) as usize + 2 * cpus, *length);
        }
        pause(time);
        assert!(queues.iter().all(|queue| queue.waiting() > 0), "all queues still have backlogs");
        let used = queues.iter().map(|queue| queue.counters().cpu_time).collect();
        queues.iter().for_each(|queue| _ = queue.destroy_now());
        used
    })
}

/// Checks that each queue has used its share. The use may differ from the share by 5 %. If the items last 1 ms or more,
/// the use may also differ by the length of one item.
fn share_by_weight(cpus: usize, tenants: &[(Option<u32>, Duration)], time: Duration) {
    let used = used(cpus, tenants, time);
    let weights: f64 = tenants.iter().map(|(own, _)| weight(*own)).sum();
    let all: f64 = used.iter().map(Duration::as_secs_f64).sum();
    assert!(all >= 0.98 * time.as_secs_f64() * cpus as f64, "no CPU is idle: {used:?}");
    for ((own, length), used) in tenants.iter().zip(&used) {
        let due = all * weight(*own) / weights;
        let slack = 0.05 * due + if *length < ms(1) { 0.0 } else { length.as_secs_f64() };
        assert!((used.as_secs_f64() - due).abs() <= slack, "{used:?} of {due} s, {tenants:?}");
    }
}

/// spec: B3.2 (weights 1:2:4, items of 10 µs against 10 ms)
#[test]
fn queues_with_backlogs_share_by_their_weights() {
    let weights = [Some(100), Some(200), Some(400)];
    let lengths = [micros(10), ms(10), micros(100)];
    for (cpus, shift, time) in [(CPUS, 0, ms(700)), (4, 1, ms(700)), (2, 2, ms(1000))] {
        let tenants: Vec<_> =
            weights.iter().enumerate().map(|(at, weight)| (*weight, lengths[(at + shift) % 3])).collect();
        share_by_weight(cpus, &tenants, time);
    }
}

/// spec: B3.2 (queues without weights count as one)
#[test]
fn queues_without_weights_share_one_weight() {
    let tenants = [(Some(100), micros(50)), (None, ms(2)), (Some(300), ms(5)), (None, ms(1))];
    let used = used(4, &tenants, ms(1000));
    let secs = |at: usize| used[at].as_secs_f64();
    let all: f64 = (0..4).map(secs).sum();
    for (used, due) in [(secs(0), 0.2), (secs(1) + secs(3), 0.2), (secs(2), 0.6)] {
        assert!((used - due * all).abs() <= 0.05 * due * all + 0.005, "{used} of {due}");
    }
}

/// spec: B3.4
#[test]
fn a_lone_queue_gets_all_cpus() {
    for weight in [None, Some(1), Some(10_000)] {
        let time = on_machine(CPUS, |executor| {
            let lone = tenant("lone", weight).build_on(executor).unwrap();
            let _idle = tenant("idle", Some(10_000)).build_on(executor).unwrap();
            let begin = now();
            backlog(&lone, 10 * CPUS, ms(10));
            lone.flush().unwrap();
            now() - begin
        });
        assert!(time <= ms(101), "{time:?}, {weight:?}");
    }
}

/// spec: B3.4: a queue that runs only one item at a time does not get more than its share.
#[test]
fn an_ordered_queue_pays_for_its_items() {
    let (ordered, other) = on_machine(2, |executor| {
        let attrs = Attrs::new().scope(AffinityScope::System);
        let one =
            tenant("one at a time", Some(100)).max_active_total(1).attrs(attrs).build_on(executor).unwrap();
        let other = tenant("other", Some(900)).build_on(executor).unwrap();
        backlog(&one, 1000, ms(5));
        backlog(&other, 100_000, micros(100));
        pause(ms(1000));
        let used = (one.counters().cpu_time, other.counters().cpu_time);
        _ = (one.destroy_now(), other.destroy_now());
        used
    });
    let share = ordered.as_secs_f64() / (ordered + other).as_secs_f64();
    assert!((0.09..0.11).contains(&share), "{share}");
}

/// spec: B3.5: weights change neither the order of a queue's items nor its limit, even while the queue's attributes
/// change.
#[test]
fn weights_keep_order_and_limits() {
    run(Config::new(4).seed(7), || {
        let executor = executor("l3:2 core:2 pu:1", |builder| builder);
        let ordered = WorkQueue::ordered("ordered").weight(50).build_on(&executor).unwrap();
        let limited = tenant("limited", Some(200)).max_active_total(3).build_on(&executor).unwrap();
        let noisy = tenant("noisy", None).build_on(&executor).unwrap();
        let (begun, active) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new((0, 0))));
        backlog(&noisy, 300, micros(200));
        for number in 0..200 {
            let begun = Arc::clone(&begun);
            ordered.spawn_detached(move || begun.lock().push(number)).unwrap();
            let active = Arc::clone(&active);
            let item = move || {
                let mut counts = active.lock();
                *counts = (counts.0 + 1, counts.1.max(counts.0 + 1));
                drop(counts);
                burn(micros(150));
                active.lock().0 -= 1;
            };
            limited.spawn_detached(item).unwrap();
            if number % 20 == 0 {
                let scope = if number % 40 == 0 { AffinityScope::Cpu } else { AffinityScope::Cache };
                ordered.apply_attrs(Attrs::new().scope(scope)).unwrap();
                limited.apply_attrs(Attrs::new().scope(scope)).unwrap();
                pause(micros(300));
            }
        }
        [&ordered, &limited, &noisy].into_iter().for_each(|queue| queue.flush().unwrap());
        assert!(begun.lock().iter().copied().eq(0..200));
        assert_eq!(*active.lock(), (0, 3));
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// spec: B3.6: on a machine of several caches, all items of weighted queues are queued in one pod. Some of these items
/// go to other pods, which have free CPUs.
#[test]
fn items_of_weighted_queues_go_to_free_pods() {
    run(Config { fine: false, ..Config::new(DOCUMENTED.cpus()) }, || {
        let executor = executor(&DOCUMENTED.description(), |builder| builder);
        let one = WorkQueue::builder("one").weight(100).build_on(&executor).unwrap();
        let other = WorkQueue::builder("other").weight(300).build_on(&executor).unwrap();
        stand_on(0);
        let begin = now();
        backlog(&one, 5 * CPUS, ms(10));
        backlog(&other, 5 * CPUS, ms(10));
        [&one, &other].into_iter().for_each(|queue| queue.flush().unwrap());
        let time = now() - begin;
        assert!(time <= ms(110), "{time:?}");
        assert!(one.counters().stolen > 0 && other.counters().stolen > 0);
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// spec: B3.2, B3.7: a worker reports the CPU time of its last item when it finds no further item, and when it stops
/// because one worker too many runs.
#[test]
fn each_worker_reports_its_last_turn() {
    for cpus in [1, 2] {
        let used = on_machine(cpus, |executor| {
            let queue = tenant("tenant", Some(100)).build_on(executor).unwrap();
            let blocked = tenant("blocked", Some(100)).build_on(executor).unwrap();
            // The item blocks, so another worker takes its place. When the item goes on, one worker too many runs.
            assert!(blocked.spawn_detached(|| crate::blocking(|| pause(ms(5)))).is_ok());
            backlog(&queue, 1, ms(1));
            backlog(&queue, 1, ms(100));
            [&queue, &blocked].into_iter().for_each(|queue| queue.flush().unwrap());
            pause(ms(1));
            executor.dump().queue("tenant").unwrap().share.unwrap().cpu_time
        });
        assert!((ms(101)..ms(102)).contains(&used), "{used:?}");
    }
}

/// spec: B3.7: a snapshot shows each queue's turns, its CPU time and the number of its waiting items.
#[test]
fn a_snapshot_shows_what_each_queue_has_used_in_its_turns() {
    on_machine(2, |executor| {
        let one = tenant("one", Some(100)).build_on(executor).unwrap();
        let other = tenant("other", Some(300)).build_on(executor).unwrap();
        backlog(&one, 200, ms(1));
        backlog(&other, 200, ms(1));
        pause(ms(40));
        let snapshot = executor.dump();
        let share = |name| snapshot.queue(name).unwrap().share.unwrap();
        let (of_one, of_other) = (share("one"), share("other"));
        assert_eq!((of_one.weight, of_other.weight), (100, 300));
        assert!((56..=64).contains(&of_other.turns) && (16..=24).contains(&of_one.turns), "{snapshot}");
        assert!(of_other.cpu_time >= ms(54) && of_one.cpu_time <= ms(24), "{snapshot}");
        assert_eq!(of_one.waiting + of_one.turns as usize, 200);
        one.set_weight(300).unwrap();
        other.set_weight(100).unwrap();
        [&one, &other].into_iter().for_each(|queue| queue.flush().unwrap());
        let snapshot = executor.dump();
        assert_eq!(snapshot.queue("one").unwrap().share.unwrap().waiting, 0);
    });
}
