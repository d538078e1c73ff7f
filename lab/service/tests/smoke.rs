//! Runs every engine for a moment, with the real service and the real load generator. The tests prove nothing about
//! speed.

use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{output_within, wait};

/// The time limit of a process, which is longer than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_service-lab"))
}

/// spec: I5.2: one service runs under the same load with each engine, which is cmwq, tokio's blocking pool or rayon.
#[test]
fn every_engine_serves_under_load() {
    let folder = std::env::temp_dir().join(format!("service-lab-smoke-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a new folder");
    let page = folder.join("service.md");
    // The requests are so few that even a build without optimisation has time for them on a busy machine.
    let arguments = ["--quick", "--rounds", "1", "--seconds", "3", "--rate", "200", "--write"];
    let output = output_within(PATIENCE, lab().args(arguments).arg(&page)).expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("there is a page");
    for engine in ["**cmwq**", "**cmwq-nice**", "tokio", "tokio-nice", "rayon", "rayon-nice"] {
        let line = text.lines().find(|line| line.starts_with(&format!("| {engine} ")));
        let line = line.unwrap_or_else(|| panic!("{engine}: {text}"));
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // Even requests that were answered late count as done, so only a stopped engine has done none.
        assert!([cells[5], cells[8]].iter().all(|done| *done != "0" && *done != "-"), "{line}");
    }
    assert!(!text.contains(" failed."), "{text}");
    assert!(text.contains("await round trip, p99") && text.contains("generator's CPUs"), "{text}");
    for chart in ["health.svg", "done.svg"] {
        assert!(folder.join("service").join(chart).exists(), "{chart}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// The service cannot outlive the measurement that started it.
#[test]
fn the_service_ends_with_its_input() {
    let mut service = lab()
        .args(["serve", "--engine", "cmwq"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(service.stdin.take());
    assert!(wait(&mut service, PATIENCE).expect("it ends").success());
}

#[test]
fn invalid_arguments_are_refused() {
    for arguments in [&["--engine", "threads"][..], &["--rounds", "0"], &["serve"], &["extra"]] {
        let output = output_within(PATIENCE, lab().args(arguments)).expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}
