//! Models of a handle that asks its item to stop, and of a joining thread that waits for both an item and a token.
//!
//! A running item that listens for a request to stop is told of the request, no matter when the item begins to listen.
//! After the end of the item or of its handle, the item's alarm is gone. The alarm of the next item in the same cell
//! stays.
//!
//! Red under: `stop-forgets-the-listener`, `listens-after-the-look`, `finish-leaves-the-alarm`,
//! `handle-leaves-the-alarm`, `joiner-looks-once-for-the-token`.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::thread;

use super::super::{Event, check};
use super::{Cell, Shared, detach};
use crate::policy::one_shot::{Finish, Take};
use crate::protocol::cancel::CancelNode;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::wait::{self, Until};
use crate::sys::wakers::{self, Alarm, Watcher};

struct Ring(Event);

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self(Event::new()))
    }

    fn alarm(self: &Arc<Self>) -> Alarm {
        Alarm { waker: Waker::from(Arc::clone(self)), ring: Waker::wake }
    }
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// Ends the run of an item. Returns whether the worker has freed the cell.
fn finish(cell: &Shared) -> bool {
    let key = cell.state.key();
    cell.result.write(|slot| *slot = Some(7));
    match cell.state.finish() {
        Finish::Leave => false,
        Finish::Wake(waiting) => {
            OneShotCell::wake(key, waiting);
            false
        }
        Finish::Free => {
            cell.free();
            true
        }
        Finish::Unlisten => unreachable!("`finish` removes the alarm"),
    }
}

/// spec: I3.3 (a running item that listens is told of a request to stop)
#[test]
fn an_item_that_listens_is_told() {
    check(4, || {
        let cell = Cell::shared();
        let worker = {
            let cell = cell.clone();
            thread::spawn(move || {
                if cell.state.take() != Take::Run {
                    return;
                }
                cell.consume();
                let ring = Ring::new();
                if cell.state.listen(ring.alarm()) {
                    ring.0.wait();
                }
                assert!(cell.state.load().is_stopped());
                finish(&cell);
            })
        };
        if cell.state.stop().is_some() {
            cell.consume();
        }
        worker.join().unwrap();
        detach(&cell);
    });
}

/// spec: I3.3 (a request to stop reaches only the item for which it was made)
#[test]
fn an_alarm_does_not_outlive_its_item() {
    check(3, || {
        let cell = Cell::shared();
        let (key, own) = (cell.state.stop_key(), Ring::new());
        // The thread that frees the cell may make the next item in the same cell. The next item also listens for a
        // request to stop.
        let next = move |freed: bool| {
            let next = freed.then(Ring::new)?;
            assert!(wakers::watch(key, Watcher::ONLY, next.alarm(), || true));
            Some(next)
        };
        let worker = {
            let (cell, own) = (cell.clone(), own.clone());
            thread::spawn(move || {
                assert_eq!(cell.state.take(), Take::Run);
                cell.consume();
                cell.state.listen(own.alarm());
                next(finish(&cell))
            })
        };
        let freed = cell.state.leave();
        if freed {
            cell.free();
        }
        let mine = next(freed);
        let theirs = worker.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "one thread frees the cell");
        wakers::ring(key);
        let next = mine.or(theirs).expect("the next item listens");
        assert!(next.0.has_happened(), "the alarm of the next item is lost");
        assert!(!own.0.has_happened(), "the alarm of the first item was left behind");
    });
}

/// spec: I3.2 (an item that has ended leaves no alarm behind)
#[test]
fn an_item_leaves_no_alarm_behind() {
    check(3, || {
        let (cell, own) = (Cell::shared(), Ring::new());
        let worker = {
            let (cell, alarm) = (cell.clone(), own.alarm());
            thread::spawn(move || {
                assert_eq!(cell.state.take(), Take::Run);
                cell.consume();
                cell.state.listen(alarm);
                finish(&cell);
            })
        };
        detach(&cell);
        worker.join().unwrap();
        assert_eq!(Arc::strong_count(&own), 1, "the alarm of the item was left behind");
    });
}

/// Wakes the threads that sleep on a key.
struct Nudge(usize);

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        wait::wake_all(self.0);
    }
}

/// spec: I3.6 (a joining thread that waits with a token learns that the token was cancelled)
#[test]
fn a_joiner_gives_up_when_a_token_is_cancelled() {
    check(4, || {
        let (cell, token) = (Cell::shared(), CancelNode::new());
        let cancels = {
            let token = token.clone();
            thread::spawn(move || token.cancel())
        };
        let nudge = Alarm { waker: Waker::from(Arc::new(Nudge(cell.state.key()))), ring: Waker::wake };
        if token.watch(Watcher::ONLY, nudge) {
            assert!(!cell.state.wait_unless(Until::FOREVER, || token.is_cancelled()), "no worker ends it");
        }
        assert!(cell.state.cancel(false).is_some_and(|waiting| !waiting.has_thread()));
        cell.consume();
        assert_eq!(cell.state.take(), Take::Leave { late: false });
        cancels.join().unwrap();
        detach(&cell);
    });
}
