//! Every counted operation works outside of valgrind, where nothing is counted.

use std::process::{Command, Output};

fn instructions(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_instructions"))
        .args(arguments)
        .output()
        .expect("the program can be started")
}

#[test]
fn every_operation_ends() {
    let is_possible = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
    if !is_possible || std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return;
    }
    let list = String::from_utf8(instructions(&["--list"]).stdout).expect("it is text");
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 20, "{list}");
    for name in names {
        let output = instructions(&["--count", name, "1", "2"]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_wrong_command_line_is_not_reported_as_a_regression() {
    let output = instructions(&["gard"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("there is no operation \"gard\""), "{told}");
}
