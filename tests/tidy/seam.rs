//! The seam: only `src/sys` uses the system, so made-up machines can take its place.

use super::circles::paths_in;
use super::{code_of, shipped};

/// The names of `std::thread` that the rest of the crate may use. They neither make threads nor let a thread wait.
const PLAIN: [&str; 4] = ["JoinHandle", "Result", "current", "panicking"];

/// The files whose calls stand for calls of a user. The user means real threads and real time.
const USERS: [&str; 1] = ["src/blocking/thread.rs"];

/// Returns the paths in the code that bypass the seam.
fn past_the_seam(text: &str) -> Vec<String> {
    let code = code_of(text);
    let mut past = Vec::new();
    for path in paths_in(&code, &["std::", "core::"]) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let is_past = match path[1..] {
            ["sync", "atomic", ..] | ["time", "SystemTime", ..] => true,
            ["thread", name, ..] => !PLAIN.contains(&name),
            // Code that imports these modules can call all of their functions.
            ["thread"] => true,
            _ => false,
        };
        if is_past {
            past.push(path.join("::"));
        }
    }
    for name in
        ["libc::", "core_affinity::", "hwlocality::", "parking_lot_core::", "Instant::now", "atomic::"]
    {
        let starts = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if code.match_indices(name).any(|(at, _)| starts(at)) {
            past.push(name.to_owned());
        }
    }
    // The paths of the kernel's files are in literals. Comments may name them.
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = || text.lines().filter(|line| !is_comment(line));
    for folder in [concat!("\"/pr", "oc/"), concat!("\"/s", "ys/")] {
        if lines().any(|line| line.contains(folder)) {
            past.push(folder.to_owned());
        }
    }
    past
}

#[test]
fn the_scanner_finds_names_that_lead_past_the_seam() {
    for (text, past) in [
        ("use std::sync::atomic::AtomicBool;", 2),
        ("use std::{fmt, sync::{Arc, atomic}};", 1),
        ("use std::thread;", 1),
        ("use std::thread::{self as t, JoinHandle};", 1),
        ("use std::thread::*;", 1),
        ("fn f() { std::thread::sleep(d); std::thread::current(); std::thread::panicking() }", 1),
        ("use std::thread::Result as RunResult;", 0),
        ("use crate::sys::{thread, clock}; fn f() { thread::spawn(clock::now()) }", 0),
        ("fn f() { let now = time::Instant::now(); MyInstant::nowhere() }", 1),
        ("use std::time::{Duration, Instant, SystemTime};", 1),
        ("fn f() -> libc::c_int { unsafe { libc::getpid() } } // parking_lot_core::park", 1),
        ("const A: &str = \"libc::getpid\"; const B: &str = \"/proc/self\";", 1),
        ("/// Reads \"/proc/self\".", 0),
    ] {
        assert_eq!(past_the_seam(text).len(), past, "{text}: {:?}", past_the_seam(text));
    }
}

#[test]
fn only_sys_uses_the_system() {
    let outside = shipped().filter(|source| !source.path.starts_with("src/sys/"));
    let mut found = Vec::new();
    let mut users = Vec::new();
    for source in outside {
        let past = past_the_seam(&source.text);
        if USERS.contains(&source.path.as_str()) {
            users.extend((!past.is_empty()).then_some(source.path));
        } else {
            found.extend(past.iter().map(|name| format!("{}: {name}", source.path)));
        }
    }
    assert!(found.is_empty(), "use `sys` instead: {found:#?}");
    assert_eq!(users, USERS, "these files need no exception any more");
}
