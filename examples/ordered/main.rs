//! A write-ahead log with one writer and many producers: `cargo run --release --example ordered -- [FILE]`.
//!
//! Each producer appends a record, and continues with its next record when the first is on the disk. At the end the
//! program reads and checks the log. Every record must be complete and occur once, the records of each producer must be
//! in order, and the end line must be last.
//!
//! This example shows three things. An ordered queue is the only writer, and needs no thread of its own. Commits
//! coalesce, so that the speed of the disk determines how many records share an fsync. The `fsync` is under a guard.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod log;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::log::{Log, checksum};

const PRODUCERS: usize = 8;
const RECORDS: usize = 250;

fn main() -> ExitCode {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let path = named
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("cmwq-ordered-{}.log", std::process::id())));
    let result = run(&path);
    if named.is_none() {
        let _best_effort = std::fs::remove_file(&path);
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ordered: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let log = Log::create(path)?;
    std::thread::scope(|threads| {
        let produce = |producer: usize| {
            let log = &log;
            threads.spawn(move || {
                let append = |n| log.append(&format!("{producer} {n}")).map_err(|error| error.to_string());
                (0..RECORDS).try_for_each(append)
            })
        };
        let producers: Vec<_> = (0..PRODUCERS).map(produce).collect();
        producers.into_iter().try_for_each(|producer| producer.join().expect("it does not panic"))
    })?;
    let commits = log.end()?;
    let elapsed = start.elapsed();

    let records = verify(&std::fs::read_to_string(path)?)?;
    println!("{records} records by {PRODUCERS} producers, each durable before the next: {elapsed:.2?}");
    println!("{commits} commits, {:.1} records for each fsync", records as f64 / commits as f64);
    Ok(())
}

/// Checks the log. Returns the number of records.
fn verify(text: &str) -> Result<usize, String> {
    let body = text.strip_suffix("end\n").ok_or("the end is missing")?;
    let mut next = [0; PRODUCERS];
    for (n, line) in body.lines().enumerate() {
        let (sum, record) = line.split_once(' ').ok_or(format!("line {n} is no record"))?;
        if u64::from_str_radix(sum, 16) != Ok(checksum(record)) {
            return Err(format!("line {n} is torn: {line:?}"));
        }
        let (producer, number) = record.split_once(' ').ok_or(format!("line {n} names no producer"))?;
        let number: usize = number.parse().map_err(|error| format!("line {n}: {error}"))?;
        let producer: usize = producer.parse().map_err(|error| format!("line {n}: {error}"))?;
        let expected = next.get_mut(producer).ok_or(format!("line {n}: unknown producer {producer}"))?;
        if number != *expected {
            return Err(format!("line {n}: record {number} of producer {producer}, expected {expected}"));
        }
        *expected += 1;
    }
    match next.iter().position(|count| *count != RECORDS) {
        None => Ok(PRODUCERS * RECORDS),
        Some(producer) => Err(format!("producer {producer} has {} records", next[producer])),
    }
}
