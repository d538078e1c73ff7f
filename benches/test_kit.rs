//! The cost of the test kit for an ordinary executor, measured by no-op items in a build with the feature `testing` and
//! in a build without it.
//!
//! ```text
//! make bench-testing
//! ```
//!
//! The two builds run in turns (see `no_ops`), in `ROUNDS=n` rounds, and the table shows medians. With `--check`, the
//! bench exits with 1 if the kit costs more than permitted in each of up to three measurements.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod no_ops;

use no_ops::{CASES, InTurns, Setting, more};

/// The permitted costs as parts of an item's time: the mean cost of all cases, and the cost of any single case. Two
/// builds place their code differently, and this difference alone makes a case 2 or 3 % faster or slower.
const MOST: [f64; 2] = [0.02, 0.05];

const SETTINGS: [Setting; 1] = [("items", false)];

fn main() {
    if !no_ops::was_compared(&SETTINGS, show) {
        println!("This bench compares two builds of itself, which `make bench-testing` makes.");
    }
}

/// Prints the cost of the kit, and returns whether it is permitted.
fn show(found: &InTurns, rounds: usize) -> bool {
    let [mean, one] = MOST.map(|most| 100.0 * most);
    println!(
        "ns per no-op item, medians of {rounds} rounds (aims: {mean} % more in the mean, {one} % in each case)"
    );
    println!("{:<26}{:>12}{:>12}{:>8}", "feature testing", "without", "with", "");
    let mut costs = Vec::new();
    for (case, ..) in CASES {
        let [without, with] = found.of(case, SETTINGS[0].0);
        let cost = with / without - 1.0;
        costs.push(cost);
        println!("{case:<26}{without:>12.1}{with:>12.1}{:>8}", more(cost));
    }
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    println!("{:<50}{:>8}", "mean", more(mean));
    // A case without times has a cost of NaN, which counts as not permitted.
    mean <= MOST[0] && costs.iter().all(|cost| *cost <= MOST[1])
}
