//! The program measures the requested figures, reports what the system denies, and lists the items that block.
//!
//! All speeds depend on the machine, so these tests assert none.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]

use std::process::{Command, Output};

use serde_json::Value;
use testkit::output;

const FIGURES: [&str; 9] =
    ["block", "mixed", "sleepers", "dependency", "compute", "idle", "crowd", "hog", "service"];

/// Runs the program.
fn undeclared(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_undeclared")).args(arguments)).expect("it runs")
}

fn measured(arguments: &[&str]) -> Value {
    let output = undeclared(&[&["--quick", "--json"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn list(json: &Value) -> &[Value] {
    json.as_array().unwrap_or_else(|| panic!("{json} is a list"))
}

fn names<'a>(json: &'a Value, field: &str) -> Vec<&'a str> {
    list(json).iter().map(|entry| entry[field].as_str().expect("a name")).collect()
}

/// Each figure has values in each mode in which it is meaningful, and each value has all its fields.
#[test]
fn the_program_measures_each_figure_in_each_mode() {
    let report = measured(&[]);
    assert!(report["cpus"].as_u64().is_some_and(|cpus| cpus > 0) && report["quick"] == true, "{report}");
    assert_eq!(names(&report["modes"], "mode"), ["off", "sampling", "switches", "guards"]);
    let permitted: Vec<&str> = {
        let modes = list(&report["modes"]).iter().filter(|mode| mode["denied"].is_null());
        modes.map(|mode| mode["mode"].as_str().expect("a name")).collect()
    };
    assert!(permitted.contains(&"sampling"), "every Linux shows the states of one's own threads: {report}");
    assert_eq!(names(&report["figures"], "name"), FIGURES);
    for figure in list(&report["figures"]) {
        let left_out = match figure["name"].as_str().expect("a name") {
            "block" | "mixed" | "dependency" | "service" => "nothing",
            "sleepers" => "off",
            _ => "guards",
        };
        let expected = permitted.iter().copied().filter(|mode| *mode != left_out);
        assert_eq!(names(&figure["results"], "mode"), expected.collect::<Vec<_>>(), "{figure}");
        for value in list(&figure["results"]).iter().flat_map(|result| list(&result["values"])) {
            let number = value["value"].as_f64().expect("the measurement gives every value");
            assert!(number.is_finite() && number >= 0.0, "{value}");
            assert!(value["what"].is_string() && value["unit"].is_string(), "{value}");
            assert!(value["given_up"].is_boolean() && value["missed"].is_boolean(), "{value}");
        }
    }
    let missed = list(&report["figures"]).iter().flat_map(|figure| list(&figure["results"]));
    let missed = missed.flat_map(|result| list(&result["values"])).filter(|value| value["missed"] == true);
    assert_eq!(list(&report["missed"]).len(), missed.count(), "{report}");
}

/// spec: S3 (as a user sees it): the executor lists the service's item types that sleep by their names, and also its
/// hog (the item type that computes for long).
#[test]
fn the_program_lists_the_item_types_that_block() {
    // A quick run has only one hog, which the executor may overlook if the machine is busy.
    let mut reports = (0..5).map(|_| measured(&["--only", "service", "--mode", "off", "--mode", "sampling"]));
    let has_hog = |report: &Value| !list(&report["offenders"][1]["hogs"]).is_empty();
    let report = reports.find(has_hog).expect("hogs are found");
    let [off, sampling] = list(&report["offenders"]) else { panic!("two lists: {report}") };
    assert_eq!((off["mode"].as_str(), sampling["mode"].as_str()), (Some("off"), Some("sampling")));
    assert!(list(&off["undeclared_blockers"]).is_empty() && list(&off["hogs"]).is_empty(), "{off}");
    let count = |of: &Value, item: &str| {
        let item = format!("undeclared::service::{item}::");
        let found = list(of)
            .iter()
            .find(|offender| offender["item_type"].as_str().is_some_and(|name| name.starts_with(&item)));
        found.map_or(0, |offender| offender["count"].as_u64().expect("a number"))
    };
    assert!(count(&sampling["undeclared_blockers"], "ask_remote") > 0, "{sampling}");
    assert!(count(&sampling["hogs"], "write_report") > 0, "{sampling}");
    assert_eq!(count(&sampling["hogs"], "ask_remote"), 0, "{sampling}");
    // The most frequent offenders come first.
    for offenders in [&sampling["undeclared_blockers"], &sampling["hogs"]] {
        let counts: Vec<_> = list(offenders).iter().map(|offender| offender["count"].as_u64()).collect();
        assert!(counts.is_sorted_by(|one, next| one >= next), "{offenders}");
    }
}

#[test]
fn the_table_names_the_measured_figures() {
    let output = undeclared(&["--quick", "--only", "dependency", "--only", "block", "--mode", "sampling"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    for part in
        ["CPUs", "aim", "sampling", "an item blocks", "per-CPU queue, p99, ms", "wait for a later one"]
    {
        assert!(text.contains(part), "{part:?} is in {text}");
    }
    assert!(!text.contains("guards") && !text.contains("spin"), "{text}");
}

#[test]
fn invalid_arguments_are_refused() {
    for arguments in
        [&["--mode", "auto"][..], &["--only", "nothing"], &["--mode"], &["extra"], &["--quick=3"]]
    {
        let output = undeclared(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let complaint = String::from_utf8(output.stderr).expect("it is text");
        assert!(complaint.contains("undeclared --help") && output.stdout.is_empty(), "{complaint}");
    }
    let help = String::from_utf8(undeclared(&["--help"]).stdout).expect("it is text");
    assert!(FIGURES.iter().all(|name| help.contains(name)), "{help}");
}
