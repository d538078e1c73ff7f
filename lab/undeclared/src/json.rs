//! The report as JSON.

use cmwq::Offender;
use serde_json::{Value as Json, json};

use crate::Report;
use crate::figure::Value;

/// Returns one object, indented.
pub(crate) fn text(report: &Report) -> String {
    let modes = report.modes.iter().map(|mode| {
        let denied = report.denied.iter().find(|(denied, _)| denied == mode);
        json!({ "mode": mode.name(), "denied": denied.map(|(_, reason)| reason) })
    });
    let offenders = report.offenders().map(|(mode, offenders)| {
        json!({
            "mode": mode.name(),
            "undeclared_blockers": list(&offenders.blockers),
            "hogs": list(&offenders.hogs),
        })
    });
    let figures = report.figures.iter().map(|figure| {
        let results = report.modes.iter().filter_map(|mode| {
            let values = report.values(figure, *mode);
            let values: Vec<_> = values.iter().map(of_value).collect();
            (!values.is_empty()).then(|| json!({ "mode": mode.name(), "values": values }))
        });
        json!({ "name": figure.name, "title": figure.title, "results": results.collect::<Vec<_>>() })
    });
    let whole = json!({
        "cpus": report.cpus,
        "quick": report.quick,
        "others_percent": report.others,
        "modes": modes.collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "offenders": offenders.collect::<Vec<_>>(),
        "missed": report.missed(),
    });
    format!("{whole:#}\n")
}

fn of_value(value: &Value) -> Json {
    json!({
        "what": value.what,
        "unit": value.unit.name(),
        "value": value.value,
        "given_up": value.given_up,
        "at_most": value.at_most,
        "missed": value.is_missed(),
    })
}

fn list(offenders: &[Offender]) -> Vec<Json> {
    let one = |offender: &Offender| json!({ "item_type": offender.item_type, "count": offender.count });
    offenders.iter().map(one).collect()
}
