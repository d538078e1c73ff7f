//! Decides whether a measurement agrees with the documents.
//!
//! The makespan (the time until the last item has ended) may be 10 % longer than the documented one. Items start in the
//! documented order. The events of each item come in order, and the time between two of them is at least the time that
//! the item burns or sleeps between them. Every event comes at its documented time, with a tolerance of 1 ms and 10 %
//! for wake-ups, timers and other programs. Two deviations from the documents are permitted. If an item wakes or
//! finishes at the instant at which another item burns, that event may come up to 5 ms late. The CPU-intensive items of
//! (d) share the CPU.

use crate::Report;
use timelines::measure::Measured;
use timelines::scenario::{BURN, Event, ITEMS, SLEEP, Timeline};

/// The longest permitted makespan, as a multiple of the documented one.
const MAKESPAN: f64 = 1.1;
/// The tolerance for wake-ups, timers and rounding, in milliseconds.
const SLACK: f64 = 1.0;
/// The least time of (b) without guards and detection, in milliseconds. If (b) took less, the times with guards would
/// prove nothing.
pub(crate) const UNGUARDED: f64 = 45.0;

/// Returns the deviations in words. The list is empty if the measurement agrees.
pub(crate) fn judge(report: &Report) -> Vec<String> {
    let mut objections = Vec::new();
    for (timeline, measured) in &report.timelines {
        objections.extend(self::objections(timeline, measured));
    }
    if let Some(makespan) = report.unguarded.filter(|makespan| *makespan < UNGUARDED) {
        objections.push(format!(
            "(b) without guards and detection took {makespan:.1} ms; it must take {UNGUARDED} ms or more, or something \
             else than the guards fills the sleeps"
        ));
    }
    objections
}

/// Returns the deviations of one timeline.
pub(crate) fn objections(timeline: &Timeline, measured: &Measured) -> Vec<String> {
    let all = makespan(timeline, measured)
        .into_iter()
        .chain(start_order(timeline, measured))
        .chain(own_order(measured))
        .chain(event_times(timeline, measured));
    all.map(|text| format!("({}) {text}", timeline.key)).collect()
}

fn makespan(timeline: &Timeline, measured: &Measured) -> Option<String> {
    let limit = MAKESPAN * timeline.makespan();
    (measured.makespan > limit)
        .then(|| format!("makespan {:.1} ms, may be {limit:.1} ms at most", measured.makespan))
}

fn start_order(timeline: &Timeline, measured: &Measured) -> impl Iterator<Item = String> {
    (1..ITEMS.len()).filter_map(|later| {
        let earlier = later - 1;
        let ordered = timeline.documented[earlier].start < timeline.documented[later].start;
        let (first, second) = (measured.items[earlier].start, measured.items[later].start);
        (ordered && first >= second).then(|| {
            format!(
                "{} starts at {first:.1} ms, not before {} at {second:.1} ms",
                ITEMS[earlier], ITEMS[later]
            )
        })
    })
}

fn own_order(measured: &Measured) -> impl Iterator<Item = String> {
    // The rounding errors of the two clocks, in milliseconds.
    const ROUNDING: f64 = 0.1;
    ITEMS.iter().zip(&measured.items).enumerate().flat_map(|(item, (name, times))| {
        let last_burn = if item == 0 { BURN as f64 } else { 0.0 };
        let steps = [
            ("burn", times.sleep - times.start, BURN as f64),
            ("sleep", times.wake - times.sleep, SLEEP as f64),
            ("last burn", times.finish - times.wake, last_burn),
        ];
        steps.into_iter().filter(|(_, took, least)| *took < least - ROUNDING).map(
            move |(step, took, least)| {
                format!("the {step} of {name} took {took:.1} ms, and must take {least} ms or more")
            },
        )
    })
}

fn event_times(timeline: &Timeline, measured: &Measured) -> impl Iterator<Item = String> {
    (0..ITEMS.len()).flat_map(move |item| Event::ALL.map(|event| (item, event))).filter_map(
        move |(item, event)| {
            let (from, to) = timeline.range(item, event);
            let at = measured.items[item].at(event);
            let (from, to) = (from - SLACK - from * 0.1, to + SLACK + to * 0.1);
            (at < from || at > to).then(|| {
                format!(
                    "{} {} at {at:.1} ms, may be {:.1} to {to:.1} ms",
                    ITEMS[item],
                    event.name(),
                    from.max(0.0)
                )
            })
        },
    )
}
