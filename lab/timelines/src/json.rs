//! The report as JSON.

use crate::Report;
use timelines::scenario::{Event, ITEMS, Times};

/// Returns one object, indented.
pub(crate) fn text(report: &Report, objections: &[String]) -> String {
    let timelines = report.timelines.iter().map(|(timeline, measured)| {
        let items = (0..ITEMS.len()).map(|item| {
            format!(
                "        {{ \"name\": \"{}\", \"documented\": {}, \"measured\": {} }}",
                ITEMS[item],
                times(&timeline.documented[item]),
                times(&measured.items[item])
            )
        });
        format!(
            "    {{\n      \"timeline\": \"{}\",\n      \"title\": {},\n      \"makespan\": {{ \"documented\": {}, \
             \"measured\": {:.3} }},\n      \"items\": [\n{}\n      ]\n    }}",
            timeline.key,
            string(timeline.title),
            timeline.makespan(),
            measured.makespan,
            joined(items)
        )
    });
    let unguarded = report.unguarded.map_or("null".into(), |makespan| format!("{makespan:.3}"));
    let objections = objections.iter().map(|objection| string(objection)).collect::<Vec<_>>().join(", ");
    format!(
        "{{\n  \"unit\": \"ms\",\n  \"cpu\": {},\n  \"runs\": {},\n  \"timelines\": [\n{}\n  ],\n  \
         \"b_without_guards\": {unguarded},\n  \"objections\": [{objections}]\n}}\n",
        report.cpu,
        report.runs,
        joined(timelines)
    )
}

fn times(times: &Times) -> String {
    let fields = Event::ALL.map(|event| {
        let name = format!("{event:?}").to_lowercase();
        format!("\"{name}\": {:.3}", times.at(event))
    });
    format!("{{ {} }}", fields.join(", "))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",\n")
}

/// Returns the text as a JSON string. The texts of this program contain no other characters that need escapes.
fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
