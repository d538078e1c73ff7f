//! Waiting for everything that was queued before.
//!
//! One flush of a queue runs at a time. Whoever comes while it runs cannot join it, since items may have been
//! queued after it flipped; all of them share the next one.

use crate::protocol::flush::FlushCount;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::wait::Until;

use super::shard::Gate;

/// The flushes of one queue.
#[derive(Debug)]
pub(crate) struct Flush {
    count: FlushCount,
    turn: Mutex<Turn>,
    ended: Condvar,
}

/// Flushes are numbered from 1.
#[derive(Debug, Default)]
struct Turn {
    begun: u64,
    done: u64,
}

impl Flush {
    pub(crate) fn new() -> Self {
        Self { count: FlushCount::new(), turn: Mutex::new(Turn::default()), ended: Condvar::new() }
    }

    /// An item that the running flush waits for is done.
    #[cold]
    pub(crate) fn report(&self) {
        if self.count.report() {
            self.end();
        }
    }

    /// Waits until every item that is in flight in one of the gates now is done. False if the time ran out first; a
    /// flush that was begun goes on without anybody, and the next one follows it.
    pub(crate) fn wait<'a>(&self, gates: impl Iterator<Item = &'a Gate> + Clone, until: Until) -> bool {
        let mut turn = self.turn.lock();
        let mine = turn.begun + 1;
        while turn.done < mine {
            if turn.begun == turn.done {
                // Nobody flushes: the first of those who share the number begins it.
                turn.begun += 1;
                drop(turn);
                self.begin(gates.clone());
                turn = self.turn.lock();
            } else if !until.wait(&self.ended, &mut turn) {
                return turn.done >= mine;
            }
        }
        true
    }

    fn begin<'a>(&self, gates: impl Iterator<Item = &'a Gate>) {
        let in_flight = gates.map(|gate| gate.cell.flip()).sum();
        if self.count.flipped(in_flight) {
            self.end();
        }
    }

    fn end(&self) {
        let mut turn = self.turn.lock();
        turn.done = turn.begun;
        drop(turn);
        // The queue is still in place: an item reports before it gives its slot up, a flusher holds a handle.
        self.ended.notify_all();
    }
}
