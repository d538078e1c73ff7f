//! Models of [`ByteCell`](crate::protocol::bytes::ByteCell): an issuer waits for room while other threads make room or
//! shut the queue.
//!
//! Red under: `bytes-check-before-the-line`, `bytes-handed-to-none`, `bytes-left-line-hands-nothing`,
//! `bytes-overtake-the-line`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::check_all;
use crate::protocol::bytes::{ByteCell, QueueBytes};
use crate::sys::sync;
use crate::sys::wait::Until;

/// Makes a cell that permits 90 bytes, and a queue whose pending item already keeps 80 of these bytes.
fn filled() -> (Arc<ByteCell>, sync::Arc<QueueBytes>) {
    let (cell, queue) = (Arc::new(ByteCell::new(90)), sync::Arc::new(QueueBytes::new()));
    assert!(cell.take(&queue, 80));
    (cell, queue)
}

/// A pending item begins, and so makes room for other items. Meanwhile, an issuer joins the line.
///
/// spec: B4.5
#[test]
fn an_item_that_begins_makes_room() {
    check_all(|| {
        let (cell, queue) = filled();
        let begins = {
            let (cell, queue) = (cell.clone(), queue.clone());
            thread::spawn(move || cell.give_back(&queue, 80))
        };
        if let Some(turn) = cell.reserve(&queue, 50, || Ok::<_, ()>(())).unwrap() {
            assert!(turn.signal().wait(Until::FOREVER));
            assert!(cell.end_turn(&turn));
        }
        begins.join().unwrap();
        assert_eq!(cell.pending(), 50);
    });
}

/// The first issuer in line stops waiting for room. The second issuer needs less room, and gets the room that it needs.
///
/// spec: B4.5
#[test]
fn an_issuer_that_gives_up_lets_the_next_one_in() {
    check_all(|| {
        let (cell, queue) = filled();
        let Some(large) = cell.reserve(&queue, 60, || Ok::<_, ()>(())).unwrap() else { unreachable!() };
        cell.give_back(&queue, 40);
        let gives_up = {
            let cell = cell.clone();
            thread::spawn(move || assert!(!cell.end_turn(&large)))
        };
        if let Some(small) = cell.reserve(&queue, 10, || Ok::<_, ()>(())).unwrap() {
            assert!(small.signal().wait(Until::FOREVER));
            assert!(cell.end_turn(&small));
        }
        gives_up.join().unwrap();
        assert_eq!(cell.pending(), 50);
    });
}

/// There is room for the item of the second issuer, but an earlier issuer of the same queue waits in line. So the
/// second issuer has to wait, too.
///
/// spec: B4.5
#[test]
fn no_issuer_overtakes_another_one_of_its_queue() {
    check_all(|| {
        let (cell, queue) = (Arc::new(ByteCell::new(90)), sync::Arc::new(QueueBytes::new()));
        assert!(cell.take(&queue, 70));
        let Some(large) = cell.reserve(&queue, 60, || Ok::<_, ()>(())).unwrap() else { unreachable!() };
        let begins = {
            let (cell, queue) = (cell.clone(), queue.clone());
            thread::spawn(move || cell.give_back(&queue, 70))
        };
        if let Some(small) = cell.reserve(&queue, 1, || Ok::<_, ()>(())).unwrap() {
            assert!(small.signal().wait(Until::FOREVER));
            assert!(cell.end_turn(&small));
        }
        assert!(cell.end_turn(&large), "it got its room before the small one");
        begins.join().unwrap();
        assert_eq!(cell.pending(), 61);
    });
}

/// A thread shuts the queue while an issuer joins the line.
///
/// spec: B4.5
#[test]
fn no_issuer_waits_for_room_in_a_queue_that_is_shut() {
    check_all(|| {
        let (cell, queue) = filled();
        let is_shut = Arc::new(AtomicBool::new(false));
        let shuts = {
            let (cell, queue, is_shut) = (cell.clone(), queue.clone(), is_shut.clone());
            thread::spawn(move || {
                is_shut.store(true, Ordering::SeqCst);
                cell.refuse_line(&queue);
            })
        };
        let check = || if is_shut.load(Ordering::SeqCst) { Err(()) } else { Ok(()) };
        match cell.reserve(&queue, 50, check) {
            Ok(turn) => {
                let turn = turn.expect("there is no room");
                assert!(turn.signal().wait(Until::FOREVER));
                assert!(!cell.end_turn(&turn));
            }
            Err(((), has_room)) => assert!(!has_room),
        }
        shuts.join().unwrap();
        assert_eq!(cell.pending(), 80);
    });
}
