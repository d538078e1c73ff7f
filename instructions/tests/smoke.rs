//! Every operation does what is to be counted, outside of valgrind, where nobody counts.

use std::process::{Command, Output};

fn instructions(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_instructions"))
        .args(arguments)
        .output()
        .expect("the program can be started")
}

#[test]
fn every_operation_comes_to_its_end() {
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
fn a_wrong_command_line_is_no_regression() {
    let output = instructions(&["gard"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("there is no operation \"gard\""), "{told}");
}
