//! Waiting for everything that was queued before.
//!
//! One flush of a queue runs at a time. Whoever comes while it runs cannot join it, since items may have been
//! queued after it flipped; all of them share the next one.

use crate::protocol::flush::FlushCount;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::wait::Until;

use super::shard::Gate;
use super::waits;

/// The flushes of one queue.
#[derive(Debug)]
pub(crate) struct Flush {
    count: FlushCount,
    turn: Mutex<Turn>,
    ended: Condvar,
}

/// Flushes are numbered from 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
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

    /// The number of the first flush that waits for everything which is in flight now.
    pub(crate) fn next(&self) -> u64 {
        self.turn.lock().begun + 1
    }

    pub(crate) fn progress(&self) -> Turn {
        *self.turn.lock()
    }

    /// Waits until the flush of this number has ended, after which every item is done that was in flight in one of the
    /// gates when it began. False if the time ran out first; a flush that was begun goes on without anybody, and the
    /// next one follows it.
    pub(crate) fn wait<'a>(
        &self,
        number: u64,
        gates: impl Iterator<Item = &'a Gate> + Clone,
        until: Until,
    ) -> bool {
        loop {
            let flipping = waits::flipping();
            let mut turn = self.turn.lock();
            if turn.done >= number {
                return true;
            }
            if turn.begun == turn.done {
                // Nobody flushes: the first of those who share the number begins it.
                turn.begun += 1;
                drop(turn);
                let in_flight = gates.clone().map(|gate| gate.cell.flip()).sum();
                drop(flipping);
                if self.count.flipped(in_flight) {
                    self.end();
                }
                continue;
            }
            drop(flipping);
            if !until.wait(&self.ended, &mut turn) {
                return turn.done >= number;
            }
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

impl Turn {
    /// Does the flush of this number wait for an item that is in flight? `is_old`: does the flush that has begun?
    pub(crate) fn waits_for(self, number: u64, is_old: impl FnOnce() -> bool) -> bool {
        self.done < number && (self.begun < number || is_old())
    }
}
