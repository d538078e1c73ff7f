//! Pods whose items are short: such pods keep a small backlog, share a long backlog, and give a backlog away if its
//! items turn out to be long.
//!
//! Red under: `brisk-for-ever`, `brisk-checked-too-rarely`, `not-brisk-offers-nothing`, `brisk-offers-nothing`,
//! `brisk-keeps-nothing`, `checks-offer-nothing`, `long-items-stay-brisk`.

use std::time::Duration;

use super::Setup;
use super::adversaries::{LATENCY, LONG, always, burns};
use super::conserve::{self, BRISK};
use crate::AffinityScope;
use crate::runs::setup::micros;

/// A pod of six CPUs runs this many short items in less than [`STEP`].
const BATCH: usize = 20;

const STEP: Duration = Duration::from_micros(100);

/// Lets batches of short items arrive in pod 0, one batch in each [`STEP`]. Each batch fills the pod for a moment.
fn short_items(setup: &Setup, from: Duration, until: Duration) {
    for step in from.as_micros() / STEP.as_micros()..until.as_micros() / STEP.as_micros() {
        setup.at(STEP * step as u32);
        setup.queue_batch(0, BATCH, burns(micros(3)));
    }
}

/// Runs short items in pod 0, so that the pod becomes brisk. Returns at the time `until`.
fn make_brisk(setup: &Setup, until: Duration) {
    short_items(setup, Duration::ZERO, until);
    setup.at(until);
    assert!(conserve::is_brisk(setup, 0));
}

/// spec: A3.8, A3.10: the workers of a brisk pod run a small backlog themselves. Workers of other pods take only a few
/// items, which arrive just after a watch of the pod has ended. (A pod without a backlog is not watched.)
#[test]
fn a_brisk_pod_keeps_a_small_backlog() {
    always(AffinityScope::Cache, |setup| {
        let brisk = micros(3000);
        make_brisk(setup, brisk);
        let (away, wakes) = (setup.away(), setup.wakes_of_others(0));
        short_items(setup, brisk, brisk * 4);
        setup.end();
        let (away, wakes) = (setup.away() - away, setup.wakes_of_others(0) - wakes);
        let items = BATCH * (brisk * 3).div_duration_f64(STEP) as usize;
        assert!(away < items / 20 && wakes < items / 20, "{away} and {wakes} of {items}");
    });
}

/// spec: A3.1: workers of other pods run a part of a brisk pod's long backlog of short items.
#[test]
fn a_brisk_pod_shares_a_long_backlog() {
    always(AffinityScope::Cache, |setup| {
        let brisk = micros(3000);
        make_brisk(setup, brisk);
        let items = setup.queue_batch(0, 4000, burns(micros(3)));
        setup.end();
        // On 6 CPUs, the items would take 2 ms.
        setup.assert_delays(&items, Duration::ZERO..=micros(1000));
    });
}

/// spec: A3.10: if long items come after short ones, another item may wait behind the long items for 3.2 ms at most.
#[test]
fn items_behind_long_ones_leave_a_brisk_pod_within_the_bound() {
    for begin in [3000, 3900, 5200] {
        let begin = micros(begin);
        always(AffinityScope::Cache, |setup| {
            make_brisk(setup, begin);
            setup.queue_batch(0, 6, burns(LONG));
            let items = setup.queue_batch(0, 12, burns(micros(100)));
            setup.end();
            setup.assert_delays(&items, Duration::ZERO..=BRISK + LATENCY);
        });
    }
}

/// spec: A3.10: items arrive one by one. The items are not short, but the pod still begins many of them. The waiting
/// items leave the pod within the bound. After that, the pod is not brisk any more.
#[test]
fn items_that_are_not_quite_short_leave_a_brisk_pod_within_the_bound() {
    for time in [30, 70, 150, 290, 400] {
        always(AffinityScope::Cpu, |setup| longer_items_leave(setup, micros(6), 30, micros(time)));
    }
}

/// Items that are not quite short leave a pod of six CPUs within the bound, too. The workers of this pod have run very
/// short items before. So each worker judges the pool only after many further items.
///
/// spec: A3.10
#[test]
fn items_that_are_not_quite_short_leave_a_large_brisk_pod_within_the_bound() {
    let very_short = Duration::from_nanos(500);
    always(AffinityScope::Cache, |setup| longer_items_leave(setup, very_short, 90, micros(290)));
}

/// Queues items that take the time `short`, until the pod is brisk. Then queues `count` items that take `time`, and
/// later twelve more of them. Checks that all these items begin within the bound.
fn longer_items_leave(setup: &Setup, short: Duration, count: usize, time: Duration) {
    let (begin, end) = (micros(3000), micros(3000) + BRISK);
    for at in (0..3000).step_by(25) {
        setup.at(micros(at));
        setup.queue_batch(0, (micros(18).as_nanos() / short.as_nanos()) as usize, burns(short));
    }
    setup.at(begin);
    assert!(conserve::is_brisk(setup, 0));
    let items: Vec<_> = (0..count).flat_map(|_| setup.queue(0, 1, burns(time))).collect();
    setup.at(end);
    let later: Vec<_> = (0..12).flat_map(|_| setup.queue(0, 1, burns(time))).collect();
    setup.end();
    setup.assert_delays(&items, Duration::ZERO..=BRISK + LATENCY);
    setup.assert_delays(&later, Duration::ZERO..=BRISK + LATENCY);
}

/// spec: A3.1: a steady stream of items that are not short ends the briskness of their pod, although the pod begins
/// many of these items.
#[test]
fn a_stream_of_longer_items_ends_the_briskness() {
    always(AffinityScope::Cpu, |setup| {
        for at in (0..6000).step_by(25) {
            setup.at(micros(at));
            let (count, time) = if at < 3000 { (3, 6) } else { (1, 30) };
            (0..count).for_each(|_| drop(setup.queue(0, 1, burns(micros(time)))));
            assert!(at < 4000 || !conserve::is_brisk(setup, 0), "at {at} µs");
        }
        setup.end();
    });
}

/// spec: A3.10: a pod that has run no items for a while is not brisk, so its items go elsewhere at once.
#[test]
fn after_a_pause_long_items_start_everywhere_at_once() {
    always(AffinityScope::Cache, |setup| {
        let end = micros(3000);
        short_items(setup, Duration::ZERO, end);
        setup.at(end + conserve::PAUSE);
        assert!(!conserve::is_brisk(setup, 0));
        let items = setup.queue_batch(0, 24, burns(LONG));
        setup.end();
        setup.assert_delays(&items, Duration::ZERO..=conserve::AFTER_A_PAUSE + LATENCY);
    });
}
