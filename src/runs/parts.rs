//! Tests of the parts of a pool's worklist: how many items overtake an item, and for how long the item waits. The
//! overtaken item is in the part of another CPU, or it comes behind items that pass their slots on. The bounds are the
//! numbers that the documentation promises, not those of policy.
//!
//! Red under: `heirs-hide-their-part`, `heirs-make-no-row`, `idle-part-bypasses-others`, `long-heirs-come-first`,
//! `part-is-neglected`, `slot-bypasses-other-parts`, `stretch-outlasts-short-items`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::policy::detection::Detection;
use crate::sys::clock;
use crate::sys::machine::{Config, burn, pause, run};
use crate::{AffinityScope, Attrs, WorkQueue, WorkQueueBuilder};

/// The longest time between two checks of the manager.
const LONGEST: Duration = Duration::from_millis(3);

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

/// Builds a queue whose pool has both CPUs.
fn default_queue(name: &str) -> WorkQueueBuilder {
    WorkQueue::builder(name).attrs(Attrs::new().scope(AffinityScope::System))
}

/// The delay of an item while the worker of CPU 1 has a long item.
struct Overtaken {
    /// The number of short items of CPU 0 that begin before the delayed item.
    by: u64,
    /// The time until the item begins.
    waits: Duration,
}

/// Runs short items for a while. Then queues many items of CPU 0 to a queue with `max_active`, where item `n` runs for
/// `each(n)`. Then queues an item of CPU `of` to another queue, and returns the delay of this item.
fn overtaken(
    of: usize,
    max_active: usize,
    each: impl Fn(u64) -> Duration + Copy + Send + 'static,
) -> Overtaken {
    run(Config { slice: ms(3), ..Config::new(2) }, move || {
        let executor = executor("l3:1 core:2 pu:1", |builder| builder.detection(Detection::Sampling));
        let many = default_queue("many").max_active(max_active).build_on(&executor).unwrap();
        let other = default_queue("other").build_on(&executor).unwrap();
        for _ in 0..20 {
            for cpu in [0, 1] {
                (0..50).for_each(|_| drop(many.item(|| burn(micros(2))).on_cpu(cpu).spawn().unwrap()));
            }
            many.flush().unwrap();
        }
        // The worker of CPU 1 is busy from now on.
        drop(other.item(|| burn(ms(200))).on_cpu(1).spawn().unwrap());
        // At first, the pool leaves items to that worker, because the last items were short.
        pause(2 * LONGEST);
        let begun = Arc::new(AtomicU64::new(0));
        for number in 0..500 {
            let begun = Arc::clone(&begun);
            let item = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                burn(each(number));
            };
            drop(many.item(item).on_cpu(0).spawn().unwrap());
        }
        pause(micros(20));
        let (before, queued) = (begun.load(Ordering::Relaxed), now());
        assert!(before < 400, "items of CPU 0 are left");
        let item = move || Overtaken { by: begun.load(Ordering::Relaxed) - before, waits: now() - queued };
        let overtaken = other.item(item).on_cpu(of).spawn().unwrap().join().unwrap();
        executor.shutdown(Duration::MAX).unwrap();
        overtaken
    })
}

/// spec: F8.7 (the number of items that overtake an item of another CPU, and the time)
#[test]
fn short_items_of_another_cpu_overtake_an_item_by_a_bounded_number_for_a_bounded_time() {
    let Overtaken { by, waits } = overtaken(1, 512, |_| micros(1));
    assert!(by <= 2 * 64, "{by} items");
    assert!(waits <= ms(1), "{waits:?}");
}

/// spec: F8.7: each item passes its slot to the next one, which bypasses the worklist.
#[test]
fn items_that_get_the_slots_of_others_overtake_no_more() {
    for max_active in [1, 2] {
        let Overtaken { by, waits } = overtaken(1, max_active, |_| micros(1));
        assert!(by <= 2 * 64, "{by} items");
        assert!(waits <= ms(1), "{waits:?}");
    }
}

/// spec: F8.7 (the time): the items of the other CPU suddenly become long.
#[test]
fn an_item_waits_for_two_checks_and_one_long_item_of_another_cpu() {
    for (short, max_active) in (20..60).zip([512, 1].into_iter().cycle()) {
        let each = move |number| if number < short { micros(1) } else { ms(5) };
        let Overtaken { by, waits } = overtaken(1, max_active, each);
        assert!(waits <= 2 * LONGEST + ms(5) + micros(100), "{short}: {waits:?}, behind {by} items");
    }
}

/// spec: F8.6 (the number of items, and the time): items that get their slots from other items overtake an item of the
/// same CPU.
#[test]
fn items_that_get_slots_overtake_an_item_of_their_cpu_by_a_bounded_number_for_a_bounded_time() {
    for max_active in [2, 8, 16, 64] {
        let Overtaken { by, waits } = overtaken(0, max_active, |_| micros(1));
        // The bound is the sum of the earlier items, 64 items in a row, and one item for each item that the pool takes
        // before the overtaken item.
        assert!(by <= 64 + 2 * max_active as u64 + 1, "{by} items of {max_active}");
        assert!(waits <= ms(1), "{waits:?}");
    }
}

/// spec: F8.6 (the time): items that got their slots from other items overtake an item of the same CPU. The overtaking
/// items suddenly become long.
#[test]
fn an_item_waits_for_two_checks_and_one_long_item_that_got_a_slot() {
    for short in (20..100).step_by(2) {
        let each = move |number| if number < short { micros(1) } else { ms(5) };
        let Overtaken { by, waits } = overtaken(0, 16, each);
        // At most 16 items with slots are before the overtaken item.
        assert!(waits <= 2 * LONGEST + 17 * ms(5) + micros(100), "{short}: {waits:?}, behind {by} items");
    }
}

/// spec: F8.6 (only while items are short)
#[test]
fn long_items_that_get_slots_overtake_no_item() {
    for max_active in [2, 4] {
        let Overtaken { by, .. } = overtaken(0, max_active, |_| micros(100));
        assert!(by <= max_active as u64, "{by} items of {max_active}");
    }
}

/// Both CPUs have short items. The items of CPU 0 are *heirs*: each of them runs for the duration `heirs`, and then
/// passes the only slot on to the next one. Each item of CPU 1 runs for the duration `others`. Once `lead` items of CPU
/// 0 have begun, queues an item of CPU 0 to another queue. Returns the number of items of CPU 1 that overtake this
/// item.
fn overtaken_by_others(heirs: Duration, others: Duration, lead: u64) -> u64 {
    run(Config { slice: ms(3), ..Config::new(2) }, move || {
        let executor = executor("l3:1 core:2 pu:1", |builder| builder.detection(Detection::Sampling));
        let build =
            |name, max_active| default_queue(name).max_active(max_active).build_on(&executor).unwrap();
        let (zero, last) = (build("zero", 1), build("last", 256));
        let ones = ["one", "two", "three", "four"].map(|name| build(name, 512));
        let begun = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let queue = |queue: &WorkQueue, cpu: usize, length| {
            let begun = Arc::clone(&begun);
            let item = move || {
                begun[cpu].fetch_add(1, Ordering::Relaxed);
                burn(length);
            };
            drop(queue.item(item).on_cpu(cpu).spawn().unwrap());
        };
        for _ in 0..20 {
            (0..50).for_each(|_| queue(&zero, 0, heirs));
            (0..50).for_each(|_| queue(&ones[0], 1, others));
            zero.flush().unwrap();
            ones[0].flush().unwrap();
        }
        // Both workers are busy until all items are queued.
        for cpu in [0, 1] {
            drop(last.item(|| burn(ms(3))).on_cpu(cpu).spawn().unwrap());
        }
        (0..1800).for_each(|number| queue(&ones[number % 4], 1, others));
        (0..1500).for_each(|_| queue(&zero, 0, heirs));
        let first = begun[0].load(Ordering::Relaxed);
        while begun[0].load(Ordering::Relaxed) < first + lead {
            pause(micros(2));
        }
        let (counted, before) = (Arc::clone(&begun), begun[1].load(Ordering::Relaxed));
        let item = last.item(move || counted[1].load(Ordering::Relaxed)).on_cpu(0).spawn().unwrap();
        let by = item.join().unwrap() - before;
        executor.shutdown(Duration::MAX).unwrap();
        by
    })
}

/// spec: F8.7 (the number of items): a worker that runs heirs (items that got their slots from the items before them)
/// does not hide an item from the other workers.
#[test]
fn short_items_of_another_cpu_overtake_an_item_behind_heirs_by_a_bounded_number() {
    for (lead, nanos) in
        [32, 40, 64, 80, 150].into_iter().flat_map(|lead| [(lead, 200), (lead, 300), (lead, 400)])
    {
        let by = overtaken_by_others(Duration::from_nanos(1500), Duration::from_nanos(nanos), lead);
        assert!(by <= 2 * 64, "{lead}, {nanos} ns: {by} items");
    }
}
