//! The results as JSON. Times are in seconds, rates in items per second, memory in megabytes.

use serde_json::{Value, json};

use crate::about::About;
use crate::aims::{Standing, Verdict};
use crate::report::{CaseReport, Row};

/// Returns one object, indented.
pub(crate) fn text(about: &About, reports: &[CaseReport], verdicts: &[Verdict]) -> String {
    let cases: Vec<Value> = reports.iter().map(case).collect();
    let verdicts: Vec<Value> = verdicts.iter().map(verdict).collect();
    format!("{:#}\n", json!({ "about": about, "cases": cases, "aims": verdicts }))
}

fn case(report: &CaseReport) -> Value {
    json!({
        "name": report.case.name(),
        "definition": report.case.definition,
        "ranked_by": report.case.measures[0].name,
        "rounds": report.rounds,
        "rows": report.rows.iter().map(|one| row(report, one)).collect::<Vec<_>>(),
    })
}

fn row(report: &CaseReport, row: &Row) -> Value {
    let values = report.measures().zip(&row.cells).filter_map(|(measure, cell)| {
        let spread = cell.as_ref()?;
        let value = json!({ "median": spread.median, "low": spread.low, "high": spread.high });
        Some((measure.name.to_owned(), value))
    });
    json!({
        "rival": row.rival.name,
        "is_cmwq": row.rival.can.part.is_cmwq(),
        "trouble": row.trouble,
        "values": values.collect::<serde_json::Map<_, _>>(),
    })
}

fn verdict(verdict: &Verdict) -> Value {
    json!({
        "case": verdict.case,
        "measure": verdict.measure,
        "aim": verdict.aim,
        "row": verdict.ours.0,
        "value": verdict.ours.1,
        "other_row": verdict.other.as_ref().map(|other| other.0),
        "other_value": verdict.other.as_ref().map(|other| &other.1),
        "times_as_good": verdict.other.as_ref().map(|other| other.2),
        "best_kind": verdict.best_kind.as_ref().map(|best| best.0),
        "best_kind_value": verdict.best_kind.as_ref().map(|best| &best.1),
        "best_kind_times_as_good": verdict.best_kind.as_ref().map(|best| best.2),
        "reached": verdict.standing == Standing::Reached,
        "within_the_spread": verdict.standing == Standing::Close,
    })
}
