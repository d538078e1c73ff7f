//! The cost of counting, measured by no-op items with the counters on, with histograms on, and in a build without
//! counters.
//!
//! ```text
//! cargo bench --bench counters -- --quick
//! make bench-counters
//! ```
//!
//! An iteration is one no-op item, which one thread queues and runs (see `no_ops`).
//!
//! | group | items |
//! |---|---|
//! | `reusable, per-CPU queue`, `reusable, default queue` | a `Work` each, queued by `WorkQueue::enqueue` |
//! | `one-shot, per-CPU queue`, `one-shot, default queue` | closures that capture 32 bytes, their handles dropped |
//! | `two queues in turn` | as in the first group, but each item is on another queue than the item before it |
//!
//! In each group, `counters` measures the library as it is, and `histograms` measures queues that also time their
//! items.
//!
//! `make bench-counters` compares this build with a build with `--cfg cmwq_uncounted`. The table shows medians. `--
//! --against PROGRAM` compares with any other build of this bench, in `ROUNDS=n` rounds. If `--check` is given, too,
//! the bench exits with 1 if counting costs more than permitted in each of up to three measurements.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;
mod no_ops;

use std::time::Duration;

use criterion::Throughput;
use no_ops::{BATCH, Bench, CASES, InTurns, Items, Setting, more};

/// The permitted costs of counters, and of counters with histograms, as parts of an item's time. The case with two
/// queues in turn has no limit.
const MOST: [f64; 2] = [0.05, 0.15];

const SETTINGS: [Setting; 2] = [("counters", false), ("histograms", true)];

fn main() {
    if !no_ops::was_compared(&SETTINGS, show) {
        bench();
    }
}

fn bench() {
    let mut criterion = figures::criterion();
    for (name, items, kind) in CASES {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        for (setting, histograms) in SETTINGS {
            let bench = Bench::new(items, kind, histograms);
            group.bench_function(setting, |bencher| {
                bencher.iter_custom(|iterations| {
                    let batches = iterations.div_ceil(BATCH as u64);
                    let spent: Duration = (0..batches).map(|_| bench.batch()).sum();
                    spent.mul_f64(iterations as f64 / (batches * BATCH as u64) as f64)
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Prints the costs of counting, and returns whether they are permitted.
fn show(found: &InTurns, rounds: usize) -> bool {
    let [counters, histograms] = MOST.map(|most| 100.0 * most);
    println!(
        "ns per no-op item, medians of {rounds} rounds (aims: counters {counters} %, histograms {histograms} %)"
    );
    println!("{:<26}{:>9}{:>10}{:>8}{:>12}{:>8}", "", "without", "counters", "", "histograms", "");
    let mut holds = true;
    for (case, items, _) in CASES {
        // A build that does not count takes the same time with and without histograms.
        let [without, counters] = found.of(case, "counters");
        let [_, histograms] = found.of(case, "histograms");
        let cost = |of: f64| of / without - 1.0;
        holds &= matches!(items, Items::InTurn) || (cost(counters) <= MOST[0] && cost(histograms) <= MOST[1]);
        println!(
            "{case:<26}{without:>9.1}{counters:>10.1}{:>8}{histograms:>12.1}{:>8}",
            more(cost(counters)),
            more(cost(histograms))
        );
    }
    holds
}
