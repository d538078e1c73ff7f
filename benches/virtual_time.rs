//! The real time that virtual time takes, in runs of the test kit with timers that fire. The bench ends with a table of
//! figures and their aims.
//!
//! ```text
//! cargo bench --features testing --bench virtual_time -- --quick
//! make lab-hour
//! ```
//!
//! | group | one iteration |
//! |---|---|
//! | `hour` | a run of an hour, with 30 firings of a periodic item, and 30 of a debounced item after 90 changes |
//! | `firing` | one of 6000 firings of the same items in one run |
//! | `seed` | the run of `hour` with a seed, which interrupts threads |
//!
//! With `--check`, the bench exits with 1 if the median of `hour` or of `firing` is over the aim in each of up to three
//! measurements.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cmwq::testing::{self, Setup, advance};
use cmwq::{Work, WorkQueue, clock};

use figures::{Aim, Figures};

/// The aims, in seconds.
const HOUR: f64 = 10e-3;
const FIRING: f64 = 60e-6;
/// The number of firings in an hour.
const FIRINGS: u64 = 60;
/// The number of hours of the run in which single firings are measured.
const HOURS: u64 = 100;
/// The rounds of a measurement of `hour` by `--check`. `firing` has a tenth as many. `TRIES` is how often a median over
/// the aim is measured at most.
const ROUNDS: usize = 51;
const TRIES: usize = 3;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--check") {
        return check();
    }
    let mut criterion = figures::criterion();
    let figures = Figures::default();
    let hour = figures.add("an hour of virtual time, 60 firings", Some(Aim::AtMost(HOUR)));
    criterion.bench_function("hour", |bencher| {
        bencher
            .iter_custom(|times| figures.time(hour, (0..times).map(|_| run(&Setup::new(), 1)).sum(), times));
    });
    let firing = figures.add("a firing", Some(Aim::AtMost(FIRING)));
    criterion.bench_function("firing", |bencher| {
        // An iteration is one firing, but a run has this many firings.
        let firings = HOURS * FIRINGS;
        bencher.iter_custom(|times| {
            let runs = times.div_ceil(firings);
            let spent: Duration = (0..runs).map(|_| run(&Setup::new(), HOURS)).sum();
            let spent = spent.mul_f64(times as f64 / (runs * firings) as f64);
            figures.time(firing, spent, times)
        });
    });
    let seed = figures.add("an hour with a seed", None);
    criterion.bench_function("seed", |bencher| {
        bencher.iter_custom(|times| {
            figures.time(seed, (0..times).map(|seed| run(&testing::seed(seed), 1)).sum(), times)
        });
    });
    criterion.final_summary();
    figures.print();
    ExitCode::SUCCESS
}

/// Exits with 1 if virtual time takes too long.
fn check() -> ExitCode {
    let holds = |name: &str, hours: u64, each: u64, aim: f64| {
        let measure = || {
            let rounds = if hours > 1 { ROUNDS / 10 } else { ROUNDS };
            let mut rounds: Vec<_> = (0..rounds).map(|_| run(&Setup::new(), hours)).collect();
            rounds.sort();
            let median = rounds[rounds.len() / 2].as_secs_f64() / each as f64;
            println!(
                "{name}: {:.1} us, the median of {} runs; aim: {:.0} us",
                median * 1e6,
                rounds.len(),
                aim * 1e6
            );
            median <= aim
        };
        (0..TRIES).any(|_| measure())
    };
    let hour = holds("an hour with 60 firings", 1, 1, HOUR);
    let firing = holds("a firing", HOURS, HOURS * FIRINGS, FIRING);
    if hour && firing { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs this many hours of debouncing and of periodic work, and returns the real time that they take.
fn run(setup: &Setup, hours: u64) -> Duration {
    let (begin, secs) = (Instant::now(), Duration::from_secs);
    let fired = setup.run(move || {
        let (queue, fired) = (WorkQueue::new("hour"), Arc::new(AtomicU64::new(0)));
        let count = || {
            let fired = Arc::clone(&fired);
            move || _ = fired.fetch_add(1, Relaxed)
        };
        let save = Work::new(count());
        let tick = queue.item(count()).spawn_every(secs(120)).expect("the queue is open");
        let end = clock::now() + secs(3600 * hours);
        while clock::now() < end {
            // There are three changes, ten seconds apart, and one save a minute after the last change.
            for _change in 0..3 {
                queue.item(&save).after(secs(60)).reschedule().expect("the queue is open");
                advance(secs(10));
            }
            advance(secs(90));
        }
        assert_eq!(tick.runs(), 30 * hours);
        fired.load(Relaxed)
    });
    assert_eq!(fired, FIRINGS * hours);
    begin.elapsed()
}
