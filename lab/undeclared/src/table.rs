//! The report as tables.

use std::fmt::Write;

use crate::Report;
use crate::figure::{Offenders, Value};
use crate::figures::Figure;
use crate::mode::Mode;

/// The widths of the first column and of the other columns.
const FIRST: usize = 30;
const COLUMN: usize = 10;

/// Returns all measurements. Writing to a string cannot fail, so the results of the writes are ignored.
pub(crate) fn text(report: &Report) -> String {
    let mut text =
        format!("{} CPUs{}.\n", report.cpus, if report.quick { ", measured coarsely" } else { "" });
    for (mode, reason) in &report.denied {
        let _ = writeln!(text, "Not permitted here: {}, because {reason}.", mode.name());
    }
    text.push('\n');
    write_heads(&mut text, report);
    for figure in &report.figures {
        write_figure(&mut text, report, figure);
    }
    for (mode, offenders) in report.offenders() {
        write_offenders(&mut text, mode, offenders);
    }
    write_verdict(&mut text, report);
    text
}

fn write_heads(text: &mut String, report: &Report) {
    let heads = ["aim", "(switches)"].into_iter().chain(report.modes.iter().map(|mode| mode.name()));
    let _ = write!(text, "{:FIRST$}", "");
    for head in heads {
        let _ = write!(text, " {head:>COLUMN$}");
    }
    text.push('\n');
}

fn write_figure(text: &mut String, report: &Report, figure: &Figure) {
    let results: Vec<_> = report.modes.iter().map(|mode| report.values(figure, *mode)).collect();
    let Some(lines) = results.iter().find(|values| !values.is_empty()) else { return };
    let _ = writeln!(text, "{}", figure.title);
    for (number, line) in lines.iter().enumerate() {
        let of = |mode: Mode| report.values(figure, mode).get(number);
        let aim = |mode| of(mode).and_then(|value| Some(value.unit.text(value.at_most?)));
        let (sampling, switches) = (aim(Mode::Sampling), aim(Mode::Switches));
        let other = switches.clone().filter(|other| sampling.as_ref().is_some_and(|aim| aim != other));
        let columns =
            [sampling.or(switches), other].map(|aim| aim.map_or(String::new(), |aim| format!("<= {aim}")));
        let measured = report.modes.iter().map(|mode| of(*mode).map_or("-".into(), Value::text));
        let _ = write!(text, "{:FIRST$}", format!("    {}{}", line.what, unit(line)));
        for column in columns.into_iter().chain(measured) {
            let _ = write!(text, " {column:>COLUMN$}");
        }
        text.push('\n');
    }
}

fn unit(value: &Value) -> String {
    match value.unit.name() {
        "" => String::new(),
        name => format!(", {name}"),
    }
}

fn write_offenders(text: &mut String, mode: Mode, offenders: &Offenders) {
    let lists = [("undeclared blockers", &offenders.blockers), ("hogs", &offenders.hogs)];
    for (what, list) in lists {
        let _ = writeln!(text, "\nthe service's {what}, {}:", mode.name());
        if list.is_empty() {
            text.push_str("    none\n");
        }
        for offender in list {
            let _ = writeln!(text, "    {:>6} {}", offender.count, offender.item_type);
        }
    }
}

fn write_verdict(text: &mut String, report: &Report) {
    if let Some(others) = report.others.filter(|others| *others > 5.0) {
        let _ = write!(text, "\nThe machine is busy: others used {others:.0} % of its CPU time meanwhile.");
    }
    let missed = report.missed();
    if missed.is_empty() {
        let of_all = if report.denied.is_empty() { "" } else { " of the modes that are permitted" };
        let _ = writeln!(text, "\nNo figure{of_all} is missed.");
        return;
    }
    text.push_str("\nMissed:\n");
    for line in missed {
        let _ = writeln!(text, "    {line}");
    }
}
