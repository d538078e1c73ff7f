//! The cost of delayed submissions, cancels and waits. The bench ends with a table of figures and their aims.
//!
//! ```text
//! cargo bench --bench timers -- --quick
//! make timers-check
//! ```
//!
//! | group | one iteration |
//! |---|---|
//! | `timer` | one `enqueue` with a delay, or one `cancel`, of one of 100 000 items armed for random times in an hour |
//! | `move` | one `reschedule` of an armed item, as for debouncing |
//! | `lateness` | the p99 of 2000 delays of timers, from the requested time to the run, on an idle machine |
//! | `returns` | the p99 of 500 times from the cancel of a sleeping item until its sleep returns, on an idle machine |
//! | `cancel` | one `cancel` of a pending item |
//! | `flush` | one `flush` of a queue, or of an item, with nothing to wait for |
//! | `wait` | one `cancel_and_wait` of an idle item |
//!
//! With `--check`, the bench measures only `lateness` and `returns`. A measurement is the median of several rounds. The
//! bench exits with 1 if `lateness` or `returns` is over its limit in each of up to three measurements.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cmwq::blocking::thread::sleep_cancellable;
use cmwq::{Work, WorkQueue, WorkQueueBuilder};
use criterion::Criterion;

use figures::{Aim, Figures};

const ARMED: usize = 100_000;
const UNLIMITED: &str = "the queue has no limit";
const HOUR: u64 = 3_600_000_000;
/// The number of timers of a round of `lateness`.
const TIMERS: usize = 2000;
/// The number of items of a round of `returns`.
const WAITS: usize = 500;
/// The aim for the 99th percentile of a round, in seconds.
const LATE: f64 = 1e-3;
/// The rounds of a measurement of `--check`. `TRIES` is how often a value over the limit is measured at most.
const ROUNDS: usize = 5;
const TRIES: usize = 3;

fn main() {
    if std::env::args().any(|argument| argument == "--check") {
        return check();
    }
    let mut criterion = figures::criterion();
    let figures = Figures::default();
    timers(&mut criterion, &figures);
    moves(&mut criterion, &figures);
    lateness(&mut criterion, &figures);
    cancels(&mut criterion, &figures);
    flushes(&mut criterion, &figures);
    criterion.final_summary();
    figures.print();
}

fn build(queue: WorkQueueBuilder) -> WorkQueue {
    queue.build().expect("a queue can be made")
}

/// Returns delays within an hour that look random, from the high bits of a linear congruential generator.
fn delays() -> impl Iterator<Item = Duration> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(1_000_000 + (state >> 33) % HOUR)
    })
}

fn timers(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("timer");
    let queue = build(WorkQueue::builder("timers"));
    let items: Vec<Work> = (0..2 * ARMED).map(|_| Work::new(|| ())).collect();
    let (stay, measured) = items.split_at(ARMED);
    for (item, delay) in stay.iter().zip(delays()) {
        queue.item(item).after(delay).enqueue().expect(UNLIMITED);
    }
    let arm = figures.add("arm one more than 100 000 timers", Some(Aim::AtMost(2e-6)));
    let cancel = figures.add("cancel one of more than 100 000 timers", Some(Aim::AtMost(2e-6)));
    let mut delays = delays();
    let mut round = |items: &[Work]| {
        let begin = Instant::now();
        for (item, delay) in items.iter().zip(&mut delays) {
            queue.item(item).after(delay).enqueue().expect(UNLIMITED);
        }
        let armed = begin.elapsed();
        let begin = Instant::now();
        for item in items {
            assert!(item.cancel());
        }
        (armed, begin.elapsed())
    };
    let mut run = |which: fn((Duration, Duration)) -> Duration, iterations: u64| {
        let mut left = iterations as usize;
        let mut spent = Duration::ZERO;
        while left > 0 {
            let batch = left.min(1000);
            spent += which(round(&measured[..batch]));
            left -= batch;
        }
        spent
    };
    group.bench_function("arm", |bencher| {
        bencher.iter_custom(|n| figures.time(arm, run(|spent| spent.0, n), n));
    });
    group.bench_function("cancel", |bencher| {
        bencher.iter_custom(|n| figures.time(cancel, run(|spent| spent.1, n), n));
    });
    group.finish();
    stay.iter().for_each(|item| assert!(black_box(item.cancel())));
}

fn moves(criterion: &mut Criterion, figures: &Figures) {
    let queue = build(WorkQueue::builder("moves"));
    let item = Work::new(|| ());
    let figure = figures.add("move an armed item to later", None);
    criterion.bench_function("move", |bencher| {
        bencher.iter_custom(|iterations| {
            let begin = Instant::now();
            for _ in 0..iterations {
                black_box(queue.item(&item).after(Duration::from_secs(60)).reschedule().expect(UNLIMITED));
            }
            figures.time(figure, begin.elapsed(), iterations)
        });
    });
    item.cancel();
}

/// A function that measures one round on a queue of an idle executor.
type Round = fn(&WorkQueue) -> Duration;

/// The measures that have an aim.
const MEASURES: [(&str, Round); 2] =
    [("lateness of a timer, p99", late_by), ("return of a cancelled wait, p99", returns_after)];

/// Exits with 1 if timers are late, or if cancelled waits return late.
fn check() {
    let queue = build(WorkQueue::builder("lateness"));
    let missed = MEASURES.iter().filter(|(name, round)| {
        let holds = (0..TRIES).any(|_| {
            let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| round(&queue)).collect();
            rounds.sort();
            let median = rounds[ROUNDS / 2];
            println!("{name}: {median:?}, the median of {rounds:?}");
            median.as_secs_f64() <= LATE
        });
        if !holds {
            println!("{name}: over {LATE} s, {TRIES} times of {TRIES}");
        }
        !holds
    });
    if missed.count() > 0 {
        std::process::exit(1);
    }
}

/// Arms timers on an idle executor, and returns the lateness that 99 % of them do not exceed.
fn late_by(queue: &WorkQueue) -> Duration {
    let (tell, told) = channel();
    let handles: Vec<_> = (0..TIMERS)
        .map(|n| {
            // One timer fires every 400 µs, and no timer fires before all are armed.
            let delay = Duration::from_millis(20) + n as u32 * Duration::from_micros(400);
            let (due, tell) = (Instant::now() + delay, tell.clone());
            let item = move || tell.send(due.elapsed()).expect("the bench listens");
            queue.item(item).after(delay).spawn().expect(UNLIMITED)
        })
        .collect();
    let mut late: Vec<Duration> = told.iter().take(TIMERS).collect();
    drop(handles);
    late.sort();
    late[TIMERS * 99 / 100]
}

/// Cancels sleeping items, one after the other, on an idle executor. Returns the time after the cancel within which 99
/// % of the sleeps have returned.
fn returns_after(queue: &WorkQueue) -> Duration {
    let return_of_one = || {
        let (asked, (begin, begun)) = (Arc::new(OnceLock::<Instant>::new()), channel());
        let asked_at = Arc::clone(&asked);
        let waits = move || {
            begin.send(()).expect("the bench listens");
            sleep_cancellable(Duration::from_micros(HOUR)).expect_err("it is asked to stop");
            asked_at.get().expect("the time was noted before the cancel").elapsed()
        };
        let waits = queue.spawn(waits).expect(UNLIMITED);
        begun.recv().expect("the item begins");
        // The item falls asleep during this pause.
        std::thread::sleep(Duration::from_micros(400));
        asked.set(Instant::now()).expect("it was not set before");
        waits.stop();
        waits.join().expect("it has begun")
    };
    let mut returned: Vec<Duration> = (0..WAITS).map(|_| return_of_one()).collect();
    returned.sort();
    returned[WAITS * 99 / 100]
}

fn lateness(criterion: &mut Criterion, figures: &Figures) {
    let queue = build(WorkQueue::builder("lateness"));
    for ((name, round), group) in MEASURES.iter().zip(["lateness", "returns"]) {
        let figure = figures.add(*name, Some(Aim::AtMost(LATE)));
        let mut group = criterion.benchmark_group(group);
        group.sample_size(10);
        group.bench_function("p99", |bencher| {
            bencher.iter_custom(|iterations| {
                let worst = (0..iterations).map(|_| round(&queue)).sum();
                figures.time(figure, worst, iterations)
            });
        });
        group.finish();
    }
}

fn cancels(criterion: &mut Criterion, figures: &Figures) {
    let queue = build(WorkQueue::ordered("cancels"));
    let (release, released) = channel::<()>();
    let busy = queue.spawn(move || cmwq::blocking(|| released.recv()).is_ok()).expect(UNLIMITED);
    let items: Vec<Work> = (0..1024).map(|_| Work::new(|| ())).collect();
    let figure = figures.add("cancel a pending item", Some(Aim::AtMost(300e-9)));
    criterion.bench_function("cancel", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut left = iterations as usize;
            let mut spent = Duration::ZERO;
            while left > 0 {
                let batch = &items[..left.min(items.len())];
                for item in batch {
                    queue.enqueue(item).expect(UNLIMITED);
                }
                let begin = Instant::now();
                for item in batch {
                    assert!(item.cancel());
                }
                spent += begin.elapsed();
                left -= batch.len();
            }
            figures.time(figure, spent, iterations)
        });
    });
    release.send(()).expect("it waits");
    assert!(busy.join().expect("it does not panic"));
}

fn flushes(criterion: &mut Criterion, figures: &Figures) {
    let queue = build(WorkQueue::builder("flushes"));
    let item = Work::new(|| ());
    queue.enqueue(&item).expect(UNLIMITED);
    queue.flush().expect("the bench is no item");
    let flush = || queue.flush().expect("the bench is no item");
    measure(criterion, figures, "flush an empty queue", Some(Aim::AtMost(200e-9)), flush);
    measure(criterion, figures, "flush an idle item", None, || assert_eq!(item.flush(), Ok(false)));
    measure(criterion, figures, "cancel_and_wait an idle item", None, || {
        assert_eq!(item.cancel_and_wait(), Ok(false));
    });
}

fn measure(criterion: &mut Criterion, figures: &Figures, name: &str, aim: Option<Aim>, wait: impl Fn()) {
    let figure = figures.add(name, aim);
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let begin = Instant::now();
            for _ in 0..iterations {
                wait();
            }
            figures.time(figure, begin.elapsed(), iterations)
        });
    });
}
