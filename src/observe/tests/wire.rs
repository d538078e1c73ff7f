//! Tests of the JSON of snapshots and monitor reports. The keys of the JSON and their meanings are fixed, so that
//! programs can rely on them.

use serde_json::Value;

use super::sample::{busy, idle, monitored};
use super::texts::same;
use crate::observe::{MonitorReport, Snapshot};

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

/// spec: O2.5 (both serialise): a snapshot serialises to the golden JSON, and deserialises to an equal snapshot.
#[test]
fn a_snapshot_has_its_form_and_comes_back_as_it_was() {
    same(&pretty(&busy()), include_str!("dump.json"));
    for snapshot in [busy(), idle()] {
        let line = serde_json::to_string(&snapshot).unwrap();
        assert!(!line.contains('\n'), "one line for each message");
        assert_eq!(serde_json::from_str::<Snapshot>(&line).unwrap(), snapshot);
    }
}

/// spec: O2.5 (both serialise): a monitor report serialises to the golden JSON, and deserialises to an equal report.
#[test]
fn a_monitor_report_has_its_form_and_comes_back_as_it_was() {
    same(&pretty(&monitored()), include_str!("monitor.json"));
    let line = serde_json::to_string(&monitored()).unwrap();
    assert_eq!(serde_json::from_str::<MonitorReport>(&line).unwrap(), monitored());
}

/// The JSON of a later release may have more fields, which this release ignores.
///
/// spec: O2.5
#[test]
fn unknown_names_are_ignored() {
    let mut value = serde_json::to_value(idle()).unwrap();
    value["moon_phase"] = Value::from("waxing");
    assert_eq!(serde_json::from_value::<Snapshot>(value).unwrap(), idle());
}

/// CPU sets are also checked when they are deserialised.
///
/// spec: O2.5
#[test]
fn an_invalid_cpu_set_is_an_error() {
    let mut value = serde_json::to_value(idle()).unwrap();
    value["cpus"] = Value::from("3-1");
    let error = serde_json::from_value::<Snapshot>(value).unwrap_err().to_string();
    assert!(error.contains("CPU range `3-1` runs downwards"), "{error}");
}
