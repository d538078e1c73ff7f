//! Markdown, for people.

use std::fmt::Write;

use crate::aims::Verdict;
use crate::report::{CaseReport, Row};
use crate::stats::Spread;
use crate::unit::Measure;

/// A title, what is done, and a row for each rival. Writing to a string cannot fail, so nothing is made of it.
pub(crate) fn case(report: &CaseReport) -> String {
    let mut text = String::new();
    let rounds =
        if report.rounds == 1 { "one run".into() } else { format!("medians of {} runs", report.rounds) };
    let _ = writeln!(text, "## {}\n\n{} ({rounds})\n", report.case.name(), report.case.definition);
    // What nobody knows has no column.
    let columns: Vec<(usize, &Measure)> = report
        .measures()
        .enumerate()
        .filter(|(column, _)| report.rows.iter().any(|row| cell(row, *column).is_some()))
        .collect();
    let heads = columns.iter().map(|(_, measure)| head(measure));
    let _ =
        writeln!(text, "| rival |{} |", heads.map(|head| format!(" {head}")).collect::<Vec<_>>().join(" |"));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.len()));
    for row in &report.rows {
        let _ = writeln!(text, "| {} |{} |", name(row), cells(row, &columns));
    }
    text
}

fn head(measure: &Measure) -> String {
    match measure.unit.name() {
        "" => measure.name.to_owned(),
        unit => format!("{}, {unit}", measure.name),
    }
}

/// cmwq's own stand out.
fn name(row: &Row) -> String {
    if row.rival.can.part.is_cmwq() { format!("**{}**", row.rival.name) } else { row.rival.name.to_owned() }
}

fn cells(row: &Row, columns: &[(usize, &Measure)]) -> String {
    let text = |(place, (column, measure)): (usize, &(usize, &Measure))| {
        if let (0, Some(trouble)) = (place, &row.trouble) {
            return format!(" {}", trouble.replace('|', "/"));
        }
        let Some(spread) = cell(row, *column).filter(|_| row.trouble.is_none()) else { return " -".into() };
        let value = measure.unit.text(spread.median);
        // How far runs differ is told where rows are ranked.
        let differ = place == 0 && spread.low < spread.high;
        if differ { format!(" {value} ± {:.0} %", spread.percent()) } else { format!(" {value}") }
    };
    columns.iter().enumerate().map(text).collect::<Vec<_>>().join(" |")
}

fn cell(row: &Row, column: usize) -> Option<&Spread> {
    row.cells.get(column)?.as_ref()
}

/// What is aimed at, and what is not reached.
pub(crate) fn verdicts(verdicts: &[Verdict]) -> String {
    let mut text = String::from("## Aims\n\n");
    text.push_str("| workload | measure | aim | cmwq | best other | times as good | |\n|---|---|---|---|---|---:|---|\n");
    for verdict in verdicts {
        let ours = format!("{} ({})", verdict.ours.1, verdict.ours.0);
        let (other, ratio) = match &verdict.other {
            Some((name, value, ratio)) => (format!("{value} ({name})"), format!("{ratio:.2}")),
            None => ("-".into(), "-".into()),
        };
        let reached = if verdict.reached { "reached" } else { "**missed**" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {ours} | {other} | {ratio} | {reached} |",
            verdict.case, verdict.measure, verdict.aim
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{case, verdicts};
    use crate::aims;
    use crate::report::tests::report;

    #[test]
    fn a_table_ranks_rows_and_says_who_was_stuck() {
        let text = case(&report("dep", &[("rayon", None), ("cmwq", Some(0.001)), ("blocking", Some(0.002))]));
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows[0].starts_with("| rival | p50, ms | max, ms | threads |"), "{text}");
        assert!(rows[1].starts_with("| **cmwq** | 1.00 ± 10 % | 1.00 |"), "{text}");
        assert!(rows[2].starts_with("| blocking | 2.00 ± 10 % |"), "{text}");
        assert!(rows[3].starts_with("| rayon | stuck after 5 s | - |"), "{text}");
        let columns = |row: &str| row.matches('|').count();
        assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{text}");
    }

    #[test]
    fn what_is_missed_stands_out() {
        let reports = [report("chain", &[("rayon", Some(2e6)), ("cmwq", Some(1e6))])];
        let text = verdicts(&aims::verdicts(&reports, 2));
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "| chain | items | no worse than the best pool | 1000 k/s (cmwq) | 2000 k/s (rayon) | 0.50 | **missed** |"
        );
    }
}
