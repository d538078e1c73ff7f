//! Models of [`CounterCell`](crate::protocol::counters::CounterCell) and
//! [`Account`](crate::protocol::counters::Account): a reader adds up the counters of a worker.
//!
//! The number of items in flight is never negative. While a worker *settles* a cell (moves the cell's numbers into the
//! account), a reader counts no number twice and misses no number. No CPU time is counted twice. An item's age is
//! counted from a time before the item began.
//!
//! Red under: `counters-without-acquire`, `counters-without-release`, `counters-settle-in-two-steps`,
//! `counters-leave-before-they-are-settled`, `counters-charge-first`, `reading-tells-the-time-first`.

use std::sync::Arc;

use loom::thread;

use super::{check, check_all};
use crate::policy::time::Time;
use crate::policy::worker::Phase;
use crate::protocol::counters::{Account, CounterCell, Counts, ReadingCell, Start};
use crate::protocol::worker::WorkerCell;

/// spec: O1.1 (started − completed = in flight)
#[test]
fn an_end_is_never_seen_without_its_beginning() {
    check(3, || {
        let cell = Arc::new(CounterCell::new());
        let owner = {
            let cell = cell.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    cell.start(Start::Home);
                    cell.complete();
                }
            })
        };
        let seen = cell.load();
        assert!(seen.started >= seen.completed, "{seen:?}");
        let later = cell.load();
        assert!(
            later.started >= seen.started && later.completed >= seen.completed,
            "{later:?} after {seen:?}"
        );
        owner.join().unwrap();
        let last = cell.load();
        assert_eq!((last.started, last.completed), (2, 2));
    });
}

/// spec: O1.3 (nothing is lost, no number falls): a worker settles a cell that it has used, and opens another cell,
/// while a reader adds up the numbers.
#[test]
fn a_settled_cell_is_counted_once() {
    check(3, || {
        let account = Arc::new(Account::new());
        let first = Arc::new(CounterCell::new());
        account.open(first.clone(), ());
        let owner = {
            let account = account.clone();
            thread::spawn(move || {
                first.start(Start::Stolen);
                first.complete();
                account.settle(&first);
                let second = Arc::new(CounterCell::new());
                account.open(second.clone(), ());
                second.start(Start::Home);
            })
        };
        let total = || account.total(|()| ());
        let (seen, later) = (total(), total());
        for one in [seen, later] {
            assert!(one.started >= one.completed && one.started <= 2 && one.completed <= 1, "{one:?}");
        }
        assert!(
            later.started >= seen.started && later.completed >= seen.completed && later.stolen >= seen.stolen,
            "{later:?} after {seen:?}"
        );
        owner.join().unwrap();
        let last = Counts { started: 2, completed: 1, stolen: 1, ..Counts::default() };
        assert_eq!(total(), last);
    });
}

/// spec: C8.2, O1.4 (no queue is charged for the CPU time of a worker's search for work)
#[test]
fn time_that_is_left_out_is_not_charged() {
    check_all(|| {
        let (cell, reading) = (CounterCell::new(), ReadingCell::new());
        reading.begin(100);
        reading.leave_out(20);
        reading.charge(123, &cell);
        assert_eq!((cell.load().cpu_time, reading.since(124)), (3, 1));
    });
}

/// spec: O1.4 (CPU time): the owner charges a cell with 5 ns of CPU time while a reader adds up the time, and the
/// reader counts the 5 ns at most once.
#[test]
fn cpu_time_is_counted_once() {
    check_all(|| {
        let shared = Arc::new((CounterCell::new(), ReadingCell::new()));
        shared.0.start(Start::Home);
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || shared.1.charge(5, &shared.0))
        };
        let (cell, reading) = &*shared;
        let counted = cell.load().cpu_time;
        let added = reading.since(5);
        assert!(counted + added <= 5, "{counted} and {added}");
        owner.join().unwrap();
        assert_eq!((cell.load().cpu_time, reading.since(7)), (5, 2));
    });
}

/// spec: S3.2: an item ends, and the worker's next item begins, while a reader asks for the age of the present item.
#[test]
fn an_age_is_counted_from_a_time_before_the_item_began() {
    check_all(|| {
        let shared = Arc::new((WorkerCell::new(Phase::Between), ReadingCell::new()));
        shared.1.publish(Time::from_nanos(1), 1);
        shared.0.begin_item(Phase::Running);
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (word, reading) = &*shared;
                reading.publish(Time::from_nanos(2), 2);
                word.end_item();
                word.begin_item(Phase::Running);
            })
        };
        let (word, reading) = &*shared;
        let seen = word.load();
        let since = reading.time_before(seen.sequence());
        match seen.sequence() {
            1 => assert!(since.is_none_or(|since| since == Time::from_nanos(1)), "{since:?}"),
            _ => assert_eq!(since, Some(Time::from_nanos(2))),
        }
        owner.join().unwrap();
    });
}
