//! The report as tables.

use std::fmt::Write;

use crate::Report;
use crate::judge;
use timelines::measure::Measured;
use timelines::scenario::{BURN, Event, ITEMS, Timeline};

/// Returns all timelines, and the deviations.
pub(crate) fn text(report: &Report, objections: &[String]) -> String {
    let mut text = format!(
        "Three items on CPU {}, medians of {}, in milliseconds, rounded to 0.1.\n",
        report.cpu,
        if report.runs == 1 { "one run".into() } else { format!("{} runs", report.runs) }
    );
    for (timeline, measured) in &report.timelines {
        write_timeline(&mut text, timeline, measured);
    }
    write_summary(&mut text, report, objections);
    text
}

fn write_timeline(text: &mut String, timeline: &Timeline, measured: &Measured) {
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("\n({}) {}\n", timeline.key, timeline.title));
    line("    documented   measured   difference   event".into());
    for (item, event) in events(timeline) {
        let documented = timeline.documented[item].at(event);
        let at = measured.items[item].at(event);
        let (from, to) = timeline.range(item, event);
        // The range is shown for events whose documented time is not the only right one.
        let range = if from < to { format!("  ({from} to {to} is right)") } else { String::new() };
        line(format!(
            "    {documented:>10.1} {at:>10.1} {:>+12.1}   {} {}{range}",
            rounded(at) - documented,
            ITEMS[item],
            event.name()
        ));
    }
    let documented = timeline.makespan();
    line(format!(
        "    {documented:>10.1} {:>10.1} {:>+12.1}   makespan, {:.2} times the documented one",
        measured.makespan,
        rounded(measured.makespan) - documented,
        measured.makespan / documented
    ));
    for note in timeline.note.iter().flat_map(|note| note.lines()) {
        line(format!("    {note}"));
    }
}

fn write_summary(text: &mut String, report: &Report, objections: &[String]) {
    text.push('\n');
    if let Some(makespan) = report.unguarded {
        // Writing to a string cannot fail, so the result is ignored.
        let _ = writeln!(
            text,
            "Without guards and detection, (b) takes {makespan:.1} ms: nothing fills the sleeps ({} or more is right).",
            judge::UNGUARDED
        );
    }
    if objections.is_empty() {
        text.push_str("All timelines hold.\n");
        return;
    }
    if report.unguarded.is_some() {
        text.push_str("Not as documented:\n");
        for objection in objections {
            let _ = writeln!(text, "  {objection}");
        }
    } else {
        let count = objections.len();
        let _ = writeln!(text, "{count} of these times are not as documented; --check lists them.");
    }
    // No other item competes with the first burn of (a), so the duration of this burn shows the load by other programs.
    let alone = &report.timelines[0].1.items[0];
    let wall = alone.sleep - alone.start;
    let taken = (1.0 - BURN as f64 / wall) * 100.0;
    if taken > 5.0 {
        let _ = writeln!(
            text,
            "The machine is busy: others took {taken:.0} % of the CPU meanwhile ({BURN} ms of CPU time took {wall:.1} ms)."
        );
    }
}

/// Returns all events of all items by their documented times. Events at the same time are in the order of the items.
fn events(timeline: &Timeline) -> Vec<(usize, Event)> {
    let mut events: Vec<_> =
        (0..ITEMS.len()).flat_map(|item| Event::ALL.map(|event| (item, event))).collect();
    events.sort_by(|(a, a_event), (b, b_event)| {
        let at = |item: usize, event| timeline.documented[item].at(event);
        at(*a, *a_event).total_cmp(&at(*b, *b_event))
    });
    events
}

/// Rounds to the printed precision, so that the difference agrees with the two columns before it.
fn rounded(time: f64) -> f64 {
    (time * 10.0).round() / 10.0
}
