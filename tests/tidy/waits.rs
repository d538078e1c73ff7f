//! Integration tests wait for events, and not for fixed times.

use super::{code_of, sources_of};

/// The number of sleeps in the support functions: in waits that poll until a condition holds, and in `nap`.
const IN_SUPPORT: usize = 3;

/// Returns how many calls in this code sleep in real time. Calls of `cmwq::blocking` do not count.
fn sleeps(code: &str) -> usize {
    let own = |line: &str| line.starts_with("use cmwq::blocking::") && line.contains("thread");
    let is_own = code.lines().any(own);
    let all = code.match_indices("thread::sleep(");
    all.filter(|(at, _)| !code[..*at].ends_with("blocking::") && (!is_own || code[..*at].ends_with("std::")))
        .count()
}

#[test]
fn integration_tests_do_not_wait_by_sleeping() {
    let sleeps: Vec<_> = sources_of("tests/it")
        .into_iter()
        .map(|source| (sleeps(&code_of(&source.text)), source.path))
        .filter(|(count, path)| *count > if path == "tests/it/support.rs" { IN_SUPPORT } else { 0 })
        .collect();
    assert!(sleeps.is_empty(), "these sleep, instead of waiting for an event or calling `nap`: {sleeps:?}");
}

#[test]
fn sleeps_are_counted() {
    let sleep = "std::thread::sleep(time); cmwq::blocking::thread::sleep(time);";
    assert_eq!(sleeps(sleep), 1);
    assert_eq!(sleeps("use std::thread;\nthread::sleep(time);"), 1);
    assert_eq!(sleeps("use cmwq::blocking::{channel, thread};\nthread::sleep(time);"), 0);
}
