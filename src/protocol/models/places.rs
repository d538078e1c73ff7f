//! Models of [`PlacesCell`](crate::protocol::places::PlacesCell): issuers wait for a place for their items in a queue.
//!
//! A place that is given back goes to an issuer that waits in line, or stays free if no issuer waits. No place is lost
//! or handed out twice, even if an issuer gives up waiting at the moment at which it gets a place. If the queue is
//! shut, each issuer in line learns this.
//!
//! Red under: `line-joined-in-two-steps`, `place-handed-to-no-line`, `turn-ended-keeps-the-place`,
//! `shut-line-is-looked-at-first`, `line-joined-after-the-check`.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::protocol::places::{PlacesCell, Reserve};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::Until;

const MAX: u64 = 1;

/// Stands for the check of a queue that stays open.
fn is_open() -> Result<(), ()> {
    Ok(())
}

/// Waits for a place, which the caller then owns.
fn reserve(cell: &PlacesCell) {
    if let Ok(Reserve::Wait(turn)) = cell.reserve(MAX, is_open) {
        assert!(turn.signal().wait(Until::FOREVER));
        assert!(cell.end_turn(&turn), "the turn is over, and the queue is open");
    }
}

/// Takes a place, or gives up immediately if no place is free. Returns whether the caller owns a place.
fn reserve_now(cell: &PlacesCell) -> bool {
    match cell.reserve(MAX, is_open).unwrap() {
        Reserve::Place => true,
        Reserve::Wait(turn) => {
            let _in_time = turn.signal().wait(Until::Expired);
            cell.end_turn(&turn)
        }
    }
}

/// Takes the only place, and gives it back while the `issuers` run. When all threads have ended, exactly one place must
/// be free.
fn while_a_place_is_given_back(preemptions: usize, issuers: [fn(&PlacesCell); 2]) {
    check(preemptions, move || {
        let cell = Arc::new(PlacesCell::new());
        assert!(cell.take(MAX));
        let threads = issuers.map(|issuer| {
            let cell = cell.clone();
            thread::spawn(move || issuer(&cell))
        });
        cell.give_back(MAX, 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(cell.take(MAX), "a place was lost, or the line stays");
        assert!(!cell.take(MAX), "a place was given back twice");
    });
}

fn waits(cell: &PlacesCell) {
    reserve(cell);
    cell.give_back(MAX, 1);
}

fn gives_up(cell: &PlacesCell) {
    if reserve_now(cell) {
        cell.give_back(MAX, 1);
    }
}

fn takes(cell: &PlacesCell) {
    if cell.take(MAX) {
        cell.give_back(MAX, 1);
    }
}

/// spec: B1.3
#[test]
fn two_issuers_wait_for_one_place() {
    while_a_place_is_given_back(2, [waits, waits]);
}

/// spec: B1.4
#[test]
fn an_issuer_gives_up_beside_one_that_waits() {
    while_a_place_is_given_back(2, [waits, gives_up]);
}

/// spec: B1.3
#[test]
fn a_submission_takes_a_place_beside_an_issuer_that_waits() {
    while_a_place_is_given_back(3, [waits, takes]);
}

/// spec: B1.5
#[test]
fn an_issuer_in_line_is_told_that_the_queue_shuts() {
    check(3, || {
        let shared = Arc::new((PlacesCell::new(), AtomicU64::new(0)));
        assert!(shared.0.take(MAX));
        let shuts = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.refuse_line();
            })
        };
        let check = || if shared.1.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err("shut") };
        match shared.0.reserve(MAX, check) {
            Ok(Reserve::Place) => unreachable!("the only place is taken"),
            Ok(Reserve::Wait(turn)) => {
                assert!(turn.signal().wait(Until::FOREVER));
                assert!(!shared.0.end_turn(&turn));
            }
            Err((error, has_place)) => assert_eq!((error, has_place), ("shut", false)),
        }
        shuts.join().unwrap();
        shared.0.give_back(MAX, 1);
        assert!(shared.0.take(MAX), "the line is gone");
    });
}
