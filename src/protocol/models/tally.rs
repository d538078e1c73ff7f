//! Models of [`TallyCell`](crate::protocol::tally::TallyCell): somebody adds up what a worker counts.
//!
//! Nothing is in flight below none, nothing is inherited from a shard that is gone, and no CPU time is told of twice.
//!
//! Red under: `tally-without-acquire`, `tally-without-release`, `tally-serial-first`, `tally-charges-first`.

use std::sync::Arc;

use loom::thread;

use super::{check, check_all};
use crate::protocol::tally::{ReadingCell, Start, TallyCell};

/// spec: O1 (started − completed = in flight)
#[test]
fn an_end_is_never_seen_without_its_beginning() {
    check(3, || {
        let cell = Arc::new(TallyCell::new());
        let owner = {
            let cell = cell.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    cell.start(1, Start::Home);
                    cell.complete();
                }
            })
        };
        let seen = cell.load(1);
        assert!(seen.started >= seen.completed, "{seen:?}");
        let later = cell.load(1);
        assert!(
            later.started >= seen.started && later.completed >= seen.completed,
            "{later:?} after {seen:?}"
        );
        owner.join().unwrap();
        let last = cell.load(1);
        assert_eq!((last.started, last.completed), (2, 2));
    });
}

/// spec: O1 (a number that is given again begins anew)
#[test]
fn a_shard_does_not_inherit_counts() {
    check_all(|| {
        let cell = Arc::new(TallyCell::new());
        cell.start(1, Start::Stolen);
        cell.complete();
        let owner = {
            let cell = cell.clone();
            thread::spawn(move || cell.start(2, Start::Home))
        };
        let seen = cell.load(2);
        assert!((seen.started, seen.completed, seen.stolen) <= (1, 0, 0), "{seen:?}");
        owner.join().unwrap();
        assert_eq!(cell.load(2).started, 1);
        assert_eq!(cell.load(1).started, 0, "it is gone");
    });
}

/// spec: O1 (CPU time): the thread has used 5, of which nothing was in a cell before.
#[test]
fn cpu_time_is_in_a_cell_or_added() {
    check_all(|| {
        let shared = Arc::new((TallyCell::new(), ReadingCell::new()));
        shared.0.start(1, Start::Home);
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || assert_eq!(shared.1.charge(5, &shared.0), 5))
        };
        let (cell, reading) = &*shared;
        let counted = cell.load(1).cpu_time;
        let (added, _) = reading.since(5, 1);
        assert!(counted + added <= 5, "{counted} and {added}");
        owner.join().unwrap();
        assert_eq!((cell.load(1).cpu_time, reading.since(7, 1).0), (5, 2));
    });
}
