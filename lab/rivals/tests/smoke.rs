//! Every rival runs every workload that it takes part in, with hardly any work. The only rivals that get stuck are
//! pools of a fixed size, whose items wait for a later item.

use std::process::{Command, Output};

use serde_json::Value;

/// Pools of a fixed size. Such a pool is stuck when all its threads wait.
const FIXED: [&str; 7] =
    ["rayon", "rayon-fifo", "threadpool", "affinitypool", "vicinal", "vicinal-system", "channel"];

fn rivals(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rivals")).args(arguments).output().expect("the program can be started")
}

fn json(arguments: &[&str]) -> Value {
    let output = rivals(&[arguments, &["--tiny", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// Returns whether percentiles are in ascending order.
fn ascend(values: &Value) -> bool {
    let of = |name: &str| values[name]["median"].as_f64();
    let percentiles: Vec<f64> = ["p50", "p99", "max"].into_iter().filter_map(of).collect();
    percentiles.is_sorted()
}

#[test]
fn every_rival_finishes_every_workload_or_is_stuck_by_nature() {
    let report = json(&[]);
    let cases = report["cases"].as_array().expect("there are cases");
    assert!(cases.len() >= 20, "{} cases", cases.len());
    for case in cases {
        let name = case["name"].as_str().expect("a case has a name");
        let rows = case["rows"].as_array().expect("a case has rows");
        assert!(rows.len() > if name == "forks" { 1 } else { 5 }, "{name}");
        for row in rows {
            let rival = row["rival"].as_str().expect("a row has a name");
            if name == "dep" && FIXED.contains(&rival) {
                continue;
            }
            assert_eq!(row["trouble"], Value::Null, "{name}, {rival}");
            let first = case["ranked_by"].as_str().expect("rows are ranked by something");
            let value = row["values"][first]["median"].as_f64();
            assert!(value.is_some_and(|value| value > 0.0), "{name}, {rival}: {value:?}");
            assert!(ascend(&row["values"]), "{name}, {rival}: {}", row["values"]);
        }
    }
    assert!(
        report["aims"].as_array().expect("there is a list").is_empty(),
        "there are no aims for hardly any work"
    );
}

#[test]
fn a_rival_that_waits_with_all_threads_is_marked_as_stuck() {
    let report = json(&["dep", "--rival", "threadpool"]);
    assert_eq!(report["cases"][0]["rows"][0]["trouble"], "stuck after 2 s");
}

#[test]
fn a_page_is_written_with_its_charts() {
    let folder = std::env::temp_dir().join(format!("rivals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let page = folder.join("page.md");
    let written = rivals(&[
        "chain",
        "--rival",
        "rayon",
        "--rival",
        "cmwq",
        "--tiny",
        "--write",
        &page.to_string_lossy(),
    ]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let text = std::fs::read_to_string(&page).expect("the page is there");
    let folder_name = folder.to_string_lossy();
    assert!(!text.contains(&*folder_name) && text.contains("--write page.md"), "{text}");
    assert!(text.contains("| **cmwq** |") && text.contains("(page/chain.svg)"), "{text}");
    let chart = std::fs::read_to_string(folder.join("page/chain.svg")).expect("the chart is there");
    assert!(chart.ends_with("</svg>\n"));
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn unknown_names_are_usage_errors() {
    let output = rivals(&["--only", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("there is no workload \"nothing\"; choose one of empty")
    );
}
