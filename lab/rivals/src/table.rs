//! The results as Markdown.

use crate::aims::{Standing, Verdict};
use crate::bed::COMMON;
use crate::effort::Effort;
use crate::report::{CaseReport, Row};
use crate::unit::Measure;
use testkit::stats::Spread;
use testkit::table::aligned;

/// The common measures that stand in one table with the case's own measures. A second table shows the other common
/// measures.
const FRONT: [&str; 4] = ["threads", "CPU time", "RSS", "sleeper p99"];

/// Returns the case's name, its definition, and the number of runs.
pub(crate) fn heading(report: &CaseReport, effort: Effort) -> String {
    let rounds = match report.rounds {
        1 => "One run.".to_owned(),
        rounds => format!("Medians of {rounds} runs."),
    };
    let said: Vec<&str> =
        [report.case.definition].into_iter().chain(effort.share()).chain([&*rounds]).collect();
    format!("## {}\n\n{}\n", report.case.name(), said.join(" "))
}

/// Returns a row for each rival, with the case's own measures and the rival's cost. The best row is first.
pub(crate) fn front(report: &CaseReport) -> String {
    let own = report.case.measures.len();
    let trouble = |row: &Row| row.trouble.as_ref().map(|trouble| trouble.replace('|', "/"));
    rows(report, |column, measure| column < own || FRONT.contains(&measure.name), trouble)
}

/// Returns the same rows with the other measures, or `None` if none of these is known.
pub(crate) fn rest(report: &CaseReport) -> Option<String> {
    let own = report.case.measures.len();
    let is_rest = |column, measure: &Measure| column >= own && !FRONT.contains(&measure.name);
    let is_known = report.rows.iter().any(|row| {
        let mut places = (own..).zip(&COMMON).filter(|(column, measure)| is_rest(*column, measure));
        places.any(|(column, _)| cell(row, column).is_some())
    });
    is_known.then(|| rows(report, is_rest, |_| None))
}

/// Makes a table of the rows. A measure that no row knows has no column.
fn rows(
    report: &CaseReport,
    shows: impl Fn(usize, &Measure) -> bool,
    first: impl Fn(&Row) -> Option<String>,
) -> String {
    let own = report.case.measures.len();
    let columns: Vec<(usize, &Measure)> = report
        .measures()
        .enumerate()
        .filter(|(column, measure)| shows(*column, measure))
        .filter(|(column, _)| report.rows.iter().any(|row| cell(row, *column).is_some()))
        .collect();
    let heads = columns.iter().map(|(_, measure)| head(measure));
    let mut lines: Vec<Vec<String>> = vec![std::iter::once("rival".to_owned()).chain(heads).collect()];
    for row in &report.rows {
        let mut line = vec![name(row)];
        line.extend(columns.iter().map(|(column, measure)| match cell(row, *column) {
            Some(spread) if row.trouble.is_none() => text(measure, spread, *column < own),
            _ => "-".to_owned(),
        }));
        if let (Some(trouble), Some(cell)) = (first(row), line.get_mut(1)) {
            *cell = trouble;
        }
        lines.push(line);
    }
    aligned(&lines, 1)
}

fn head(measure: &Measure) -> String {
    match measure.unit.name() {
        "" => measure.name.to_owned(),
        unit => format!("{}, {unit}", measure.name),
    }
}

/// Returns the name of a row, in bold for cmwq's rows.
fn name(row: &Row) -> String {
    if row.rival.can.part.is_cmwq() { format!("**{}**", row.rival.name) } else { row.rival.name.to_owned() }
}

/// Formats a value, with the spread of the runs if `differ` is set.
fn text(measure: &Measure, spread: &Spread, differ: bool) -> String {
    let value = measure.unit.text(spread.median);
    if differ && spread.low < spread.high { format!("{value} ± {:.0} %", spread.percent()) } else { value }
}

fn cell(row: &Row, column: usize) -> Option<&Spread> {
    row.cells.get(column)?.as_ref()
}

/// Returns the number of reached aims, in a sentence.
pub(crate) fn reached(verdicts: &[Verdict]) -> String {
    let count = |standing| verdicts.iter().filter(|verdict| verdict.standing == standing).count();
    let (reached, close) = (count(Standing::Reached), count(Standing::Close));
    let close = match close {
        0 => String::new(),
        close => format!(", and {close} in some runs"),
    };
    format!("{reached} of {} aims are reached{close}.", verdicts.len())
}

/// Returns the table of aims and their results.
pub(crate) fn verdicts(verdicts: &[Verdict]) -> String {
    let heads =
        ["workload", "measure", "", "cmwq", "compared with", "times as good", "best kind of cmwq", "aim"];
    let mut lines: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    for verdict in verdicts {
        let (other, ratio) = match &verdict.other {
            Some((name, value, ratio)) => (format!("{value} ({name})"), format!("{ratio:.2}")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let best_kind = verdict.best_kind.as_ref();
        lines.push(vec![
            verdict.case.clone(),
            verdict.measure.to_owned(),
            match verdict.standing {
                Standing::Reached => "reached".to_owned(),
                Standing::Close => "*close*".to_owned(),
                Standing::Missed => "**missed**".to_owned(),
            },
            format!("{} ({})", verdict.ours.1, verdict.ours.0),
            other,
            ratio,
            best_kind.map_or("-".to_owned(), |(name, value, ratio)| format!("{value} ({name}): {ratio:.2}")),
            verdict.aim.clone(),
        ]);
    }
    aligned(&lines, heads.len())
}

#[cfg(test)]
mod tests {
    use super::{front, heading, reached, rest, verdicts};
    use crate::aims;
    use crate::effort::Effort;
    use crate::report::tests::report;

    /// Returns the lines without padding.
    fn lines(table: &str) -> Vec<String> {
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        table.lines().map(line).collect()
    }

    #[test]
    fn a_table_ranks_rows_and_marks_stuck_ones() {
        let report = report("dep", &[("rayon", None), ("cmwq", Some(0.001)), ("blocking", Some(0.002))]);
        let (text, rest) = (front(&report), rest(&report).unwrap());
        let rows = lines(&text);
        assert!(rows[0].starts_with("| rival | p50, ms | max, ms | threads |"), "{text}");
        assert!(rows[2].starts_with("| **cmwq** | 1.00 ± 10 % | 1.00 ± 10 % | 0 |"), "{text}");
        assert!(rows[3].starts_with("| blocking | 2.00 ± 10 % |"), "{text}");
        assert!(rows[4].starts_with("| rayon | stuck after 5 s | - |"), "{text}");
        assert!(lines(&rest)[0].starts_with("| rival | after 3 s | voluntary switches |"), "{rest}");
        assert!(lines(&rest)[4].starts_with("| rayon | - |"), "{rest}");
        for table in [text, rest] {
            let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
            assert!(widths.iter().all(|width| *width == widths[0] && *width < 160), "{table}");
        }
        assert!(heading(&report, Effort::Full).ends_with("stuck for ever. Medians of 5 runs.\n"));
        assert!(heading(&report, Effort::Quick).ends_with("Here, a tenth of that. Medians of 5 runs.\n"));
    }

    #[test]
    fn missed_aims_stand_out() {
        let reports = [report("chain", &[("rayon", Some(2e6)), ("cmwq", Some(1e6))])];
        let verdicts_of = |reports| aims::verdicts(reports, 2);
        assert_eq!(
            lines(&verdicts(&verdicts_of(&reports))).last().unwrap(),
            "| chain | items | **missed** | 1000 k/s (cmwq) | 2000 k/s (rayon) | 0.50 | 1000 k/s (cmwq): 0.50 | ≥ 1.10 × as good as the best pool |"
        );
        assert_eq!(reached(&verdicts_of(&reports)), "0 of 1 aims are reached.");
        // Good runs of cmwq are 1.1 times its median, and bad runs of rayon are 0.9 times rayon's median.
        let reports = [report("chain", &[("rayon", Some(1e6)), ("cmwq", Some(0.9e6))])];
        assert!(verdicts(&verdicts_of(&reports)).contains("*close*"));
        let told = reached(&verdicts_of(&reports));
        assert_eq!(told, "0 of 1 aims are reached, and 1 in some runs.");
    }
}
