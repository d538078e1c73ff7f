//! Checks the file that `examples/trace` writes.
//!
//! `cargo test --features tracing` also builds the examples, but `cargo test --test tracing` does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{example, output};

/// spec: O3.4 (a Chrome trace of a run can be made)
#[test]
fn the_trace_of_a_run_shows_items_as_slices_of_workers() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace.json");
    let output = output(Command::new(example("trace")).arg(&file)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let items: usize = said.split(' ').next().unwrap().parse().expect("how many items there were");

    let trace: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).expect("it is JSON");
    let of = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let threads: BTreeMap<u64, String> = trace
        .iter()
        .filter(|event| of(event, "ph") == "M" && of(event, "name") == "thread_name")
        .map(|event| (event["tid"].as_u64().unwrap(), of(&event["args"], "name")))
        .collect();

    let slices: Vec<&Value> =
        trace.iter().filter(|event| of(event, "ph") == "B" && of(event, "cat") == "cmwq").collect();
    assert_eq!(slices.len(), items, "each item is a slice");
    let names: BTreeSet<String> = slices.iter().map(|slice| of(slice, "name")).collect();
    assert_eq!(
        names.iter().map(String::as_str).collect::<Vec<_>>(),
        ["legacy", "report", "request", "thumbnail", "tick"]
    );
    for slice in &slices {
        let thread = &threads[&slice["tid"].as_u64().unwrap()];
        assert!(thread.starts_with("cmwq/"), "{slice} is on {thread}");
        let args = &slice["args"];
        assert!(args["work"].is_u64() || args["work"].is_string(), "{slice}");
        let pool = args["pool"].as_str().unwrap().trim_matches('"').to_owned();
        assert!(
            thread.starts_with(&format!("cmwq/{pool}:")) || pool.starts_with('u'),
            "{slice} is on {thread}"
        );
    }
    // Each slice begins and ends on one thread. Slices that begin inside of it also end inside of it.
    let mut open: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for event in &trace {
        let on_thread = open.entry(event["tid"].as_u64().unwrap_or_default()).or_default();
        match of(event, "ph").as_str() {
            "B" => on_thread.push(of(event, "name")),
            "E" => assert_eq!(on_thread.pop(), Some(of(event, "name"))),
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    let marks: BTreeSet<String> = trace
        .iter()
        .filter(|event| of(event, "ph") == "i" && of(event, "cat") == "cmwq")
        .map(|event| of(event, "name"))
        .collect();
    for name in ["queue_work", "activate_work", "execute_start", "execute_end"] {
        assert!(marks.contains(name), "{name} is not among {marks:?}");
    }
}
