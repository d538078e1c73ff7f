//! Models of [`OneShotCell`](crate::protocol::one_shot::OneShotCell): two owners share one closure and one result.
//!
//! A worker takes the entry while the handle joins, cancels, gives up waiting, or is dropped. The closure is consumed
//! exactly once, the joiner sees the result, and a sleeping joiner is woken. Only the last owner frees the cell. When
//! an owner frees the cell, loom checks that all accesses by the other owner are ordered before the free.
//!
//! Red under: `one-shot-without-acquire`, `detached-without-acquire`, `detached-though-cancelled`,
//! `sleep-without-a-look`, `finish-forgets-the-waiter`, `finish-in-two-steps`.

mod awaited;
mod stops;

use std::sync::Arc;

use loom::thread;

use super::{Data, Owned, check};
use crate::policy::one_shot::{Finish, Take};
use crate::protocol::one_shot::OneShotCell;
use crate::sys::wait::Until;

struct Cell {
    state: OneShotCell,
    closure: Data<Option<u32>>,
    result: Data<Option<u32>>,
}

type Shared = Arc<Owned<Cell>>;

impl Cell {
    fn shared() -> Shared {
        Arc::new(Owned::new(Self {
            state: OneShotCell::new(),
            closure: Data::new(Some(7)),
            result: Data::new(None),
        }))
    }

    fn consume(&self) -> u32 {
        self.closure.write(|closure| closure.take().expect("the closure is consumed once"))
    }
}

/// Does what a worker does with the entry. Returns whether the worker has freed the cell.
fn run(cell: &Shared) -> bool {
    let key = cell.state.key();
    if cell.state.load().is_detached() {
        cell.consume();
        cell.free();
        return true;
    }
    let frees = match cell.state.take() {
        Take::Run => {
            let result = cell.consume();
            cell.result.write(|slot| *slot = Some(result));
            match cell.state.finish() {
                Finish::Leave => false,
                Finish::Wake(waiting) => {
                    OneShotCell::wake(key, waiting);
                    false
                }
                Finish::Free => true,
                Finish::Unlisten => unreachable!("`finish` removes the alarm"),
            }
        }
        Take::Leave { .. } => false,
        Take::Free { .. } => true,
    };
    if frees {
        cell.free();
    }
    frees
}

fn detach(cell: &Shared) {
    if cell.state.leave() {
        cell.free();
    }
}

fn join(cell: &Shared) {
    assert!(cell.state.wait(Until::FOREVER));
    take_result(cell);
    detach(cell);
}

fn take_result(cell: &Shared) {
    assert_eq!(cell.result.write(Option::take), Some(7));
}

/// Runs the entry on a worker while this thread calls `handle`, which does what the owner of the handle does.
fn against_a_worker(handle: impl Fn(&Shared) + Send + Sync + 'static) {
    check(4, move || {
        let cell = Cell::shared();
        let worker = {
            let cell = cell.clone();
            thread::spawn(move || {
                run(&cell);
            })
        };
        handle(&cell);
        worker.join().unwrap();
        assert!(cell.is_freed(), "no owner freed the cell");
    });
}

/// spec: W4.2
#[test]
fn a_joiner_gets_the_result() {
    against_a_worker(join);
}

#[test]
fn a_handle_is_dropped() {
    against_a_worker(|cell| {
        detach(cell);
    });
}

/// spec: W1.3
#[test]
fn a_handle_cancels_or_joins() {
    against_a_worker(|cell| {
        if let Some(waiting) = cell.state.cancel(false) {
            assert!(!waiting.has_thread() && !waiting.has_task(), "the handle itself cancels");
            cell.consume();
            assert!(cell.state.wait(Until::FOREVER), "a cancelled item has ended");
            detach(cell);
        } else {
            join(cell);
        }
    });
}

#[test]
fn a_handle_gives_up_and_is_dropped() {
    against_a_worker(|cell| {
        if cell.state.wait(Until::Expired) {
            take_result(cell);
        }
        detach(cell);
    });
}

#[test]
fn a_handle_gives_up_and_joins_later() {
    against_a_worker(|cell| {
        let _ended = cell.state.wait(Until::Expired);
        join(cell);
    });
}
