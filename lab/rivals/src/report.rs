//! The results of all measurements.

use std::cmp::Ordering;

use crate::bed::COMMON;
use crate::rival::Entry;
use crate::unit::{Better, Measure};
use crate::workload::Case;
use testkit::stats::Spread;

/// A case, and its rows, of which the best one is first.
pub(crate) struct CaseReport {
    pub(crate) case: &'static Case,
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// The results of a rival.
pub(crate) struct Row {
    pub(crate) rival: &'static Entry,
    /// The values in the order of [`CaseReport::measures`]. `None` if a value is unknown.
    pub(crate) cells: Vec<Option<Spread>>,
    /// The reason why the rival did not finish, if that happened at least once.
    pub(crate) trouble: Option<String>,
}

impl CaseReport {
    pub(crate) fn new(case: &'static Case, rounds: usize, mut rows: Vec<Row>) -> Self {
        let better = case.measures[0].better;
        rows.sort_by(|one, other| compare(one, other, better));
        Self { case, rounds, rows }
    }

    /// Returns the measures of the case, and those of all cases.
    pub(crate) fn measures(&self) -> impl Iterator<Item = &'static Measure> {
        self.case.measures.iter().chain(&COMMON)
    }

    /// Returns the row that is best by this measure among the rows that finished and that `of` accepts.
    pub(crate) fn best(&self, measure: &str, of: impl Fn(&Entry) -> bool) -> Option<(&Row, &Spread)> {
        let (column, measure) = self.measures().enumerate().find(|(_, known)| known.name == measure)?;
        let done = self.rows.iter().filter(|row| row.trouble.is_none() && of(row.rival));
        let known = done.filter_map(|row| Some((row, row.cells.get(column)?.as_ref()?)));
        known.reduce(
            |best, next| {
                if measure.better.ratio(next.1.median, best.1.median) > 1.0 { next } else { best }
            },
        )
    }
}

/// Compares two rows. Rows that did not finish come last.
fn compare(one: &Row, other: &Row, better: Better) -> Ordering {
    let key = |row: &Row| row.cells.first().and_then(|cell| *cell).map(|spread| spread.median);
    one.trouble.is_some().cmp(&other.trouble.is_some()).then_with(|| match (key(one), key(other)) {
        (Some(one), Some(other)) if better == Better::More => other.total_cmp(&one),
        (Some(one), Some(other)) => one.total_cmp(&other),
        (one, other) => other.is_some().cmp(&one.is_some()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{CaseReport, Row};
    use crate::bed::COMMON;
    use crate::rival;
    use crate::workload::CASES;
    use testkit::stats::Spread;

    /// Makes a report of one case with these rows. Each row has a value of the first measure, or `None` if the rival
    /// was stuck.
    pub(crate) fn report(case: &str, rows: &[(&str, Option<f64>)]) -> CaseReport {
        let case = CASES.iter().find(|known| known.name() == case).unwrap();
        let row = |(name, value): &(&str, Option<f64>)| {
            let spread = value.map(|median| Spread { median, low: 0.9 * median, high: 1.1 * median });
            let cells = vec![spread; case.measures.len() + COMMON.len()];
            let trouble = value.is_none().then(|| "stuck after 5 s".to_owned());
            Row { rival: rival::find(name).unwrap(), cells, trouble }
        };
        CaseReport::new(case, 5, rows.iter().map(row).collect())
    }

    fn names(report: &CaseReport) -> Vec<&str> {
        report.rows.iter().map(|row| row.rival.name).collect()
    }

    #[test]
    fn the_best_row_is_first_and_stuck_rows_are_last() {
        let rates = report("empty/1", &[("threadpool", None), ("rayon", Some(2e6)), ("cmwq", Some(3e6))]);
        assert_eq!(names(&rates), ["cmwq", "rayon", "threadpool"]);
        let times = report("cpu", &[("threadpool", None), ("rayon", Some(2.0)), ("cmwq", Some(3.0))]);
        assert_eq!(names(&times), ["rayon", "cmwq", "threadpool"]);
    }

    #[test]
    fn the_best_of_some_rows_is_found_by_any_measure() {
        let report = report("cpu", &[("rayon", Some(2.0)), ("channel", Some(1.0)), ("cmwq", Some(3.0))]);
        let best = |measure: &str| report.best(measure, |rival| rival.name != "channel");
        assert_eq!(best("time").map(|(row, spread)| (row.rival.name, spread.median)), Some(("rayon", 2.0)));
        assert_eq!(best("threads").map(|(row, _)| row.rival.name), Some("rayon"));
        assert!(best("no such measure").is_none());
    }
}
