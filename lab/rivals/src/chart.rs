//! A picture of a case, with a bar for each row. A bar also shows the range of the row's middle half of runs.

use testkit::chart::{self, Chart};
use testkit::picture::WIDTH;
use testkit::stats::Spread;

use crate::report::{CaseReport, Row};
use crate::rival::Part;
use crate::unit::Better;

/// The colours of the rows.
const LEGEND: [(&str, &str, f64); 3] = [
    ("blue", "cmwq", WIDTH - 270.0),
    ("orange", "pools", WIDTH - 195.0),
    ("grey", "channel, threads", WIDTH - 120.0),
];

/// Returns the whole picture, for the measure that ranks the rows.
pub(crate) fn picture(report: &CaseReport) -> String {
    let rows = report.rows.iter().map(|row| bar(report, row)).collect();
    Chart { title: &report.case.name(), summary: &summary(report), legend: &LEGEND, rows }.draw()
}

fn bar(report: &CaseReport, row: &Row) -> chart::Row {
    let measure = &report.case.measures[0];
    let shown = |value: f64| measure.unit.shown(value);
    let known = row.cells.first().copied().flatten();
    let spread = known.filter(|_| row.trouble.is_none()).map(|spread| Spread {
        median: shown(spread.median),
        low: shown(spread.low),
        high: shown(spread.high),
    });
    let text = match (&row.trouble, known) {
        (Some(trouble), _) => trouble.chars().take(60).collect(),
        (None, Some(spread)) => measure.unit.full(spread.median),
        (None, None) => "not measured".into(),
    };
    chart::Row { name: row.rival.name.to_owned(), class: class_of(row.rival.can.part), spread, text }
}

/// Returns the meaning of the bars, in a few words.
pub(crate) fn summary(report: &CaseReport) -> String {
    let measure = &report.case.measures[0];
    let better = match measure.better {
        Better::Less => "less is better",
        Better::More => "more is better",
    };
    format!("{}, {}: {better}", measure.name, measure.unit.name())
}

fn class_of(part: Part) -> &'static str {
    match part {
        Part::Floor | Part::Threads => "grey",
        Part::Pool | Part::Apart => "orange",
        _ => "blue",
    }
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::report::tests::report;

    #[test]
    fn a_picture_has_a_bar_for_each_row_that_finished() {
        let picture =
            picture(&report("dep", &[("rayon", None), ("cmwq", Some(0.001)), ("blocking", Some(0.9))]));
        assert_eq!(
            picture.matches("class=\"orange\"").count(),
            1 + 1,
            "one bar, and one entry of the legend"
        );
        assert_eq!(picture.matches("class=\"blue\"").count(), 1 + 1);
        assert!(picture.contains("stuck after 5 s") && picture.contains("logarithmic"));
        assert_eq!(picture.matches("<svg").count(), picture.matches("</svg>").count());
    }
}
