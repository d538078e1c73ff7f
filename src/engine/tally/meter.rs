//! What a worker counts, item by item, and how it comes to its CPU time.
//!
//! When clocks are read, and who is charged, says [`policy::metering`](crate::policy::metering). Up to where the CPU clock
//! was read, and since when the present window goes on, is published for whoever asks about the present item: its CPU
//! time so far, and its age.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::metering::Metering;
use crate::policy::time::Time;
use crate::protocol::tally::{Start, TallyCell};
use crate::sys::{clock, thread_state};

use super::super::worker::Worker;
use super::{COUNTED, OwnedTable, TallyId};

/// How a worker's item went, as far as its word tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// It has not slept for long.
    Straight,
    /// It may have slept.
    Unknown,
    /// It has blocked, or was found to be long.
    Interrupted,
}

/// What a worker counts with. Used by its thread only.
pub(crate) struct Meter {
    table: OwnedTable,
    worker: Arc<Worker>,
    metering: Cell<Metering>,
    /// Whose item has begun last.
    last: Cell<TallyId>,
    /// The serial of that one; 0 if the next item ends the window whose ever it is.
    goes_on: Cell<u64>,
    /// The window has items of several shards.
    is_mixed: Cell<bool>,
    /// Whose item a tick has met last, and what had begun there when this window began.
    met: Cell<Option<(TallyId, (u64, u64))>>,
    /// The coarse clock when it was looked at last.
    tick: Cell<Time>,
}

impl Meter {
    pub(crate) fn new(table: OwnedTable, worker: Arc<Worker>) -> Self {
        let meter = Self {
            table,
            worker,
            metering: Cell::new(Metering::new()),
            last: Cell::new(TallyId { number: 0, serial: 0 }),
            goes_on: Cell::new(0),
            is_mixed: Cell::new(false),
            met: Cell::new(None),
            tick: Cell::new(Time::NEVER),
        };
        if COUNTED {
            if let Some(used) = thread_state::own_cpu_time() {
                meter.worker.reading.begin(as_nanos(used));
            }
            meter.wakes();
        }
        meter
    }

    /// An item of this shard is about to begin. Before others can see that.
    #[inline]
    pub(crate) fn approaches(&self, shard: TallyId) {
        if COUNTED && self.goes_on.get() != shard.serial {
            self.turns_to(shard);
        }
    }

    #[inline(never)]
    fn turns_to(&self, shard: TallyId) {
        let last = self.last.replace(shard);
        if !self.metering.get().is_empty() {
            let now = clock::coarse();
            let is_full = self.goes_on.get() == 0;
            if now != self.tick.get() {
                self.meets(last);
                self.end_window(last, now);
            } else if is_full {
                self.end_window(last, now);
            } else {
                self.is_mixed.set(true);
            }
        }
        self.goes_on.set(shard.serial);
    }

    /// It begins. The cell is for when it has ended.
    #[inline]
    pub(crate) fn begins(&self, shard: TallyId, start: impl FnOnce() -> Start) -> Option<&TallyCell> {
        if !COUNTED {
            return None;
        }
        let cell = self.table.cell(shard.number);
        cell.start(shard.serial, start());
        Some(cell)
    }

    /// It has ended. Before its entry is completed, and its result known.
    #[inline]
    pub(crate) fn ended(&self, cell: Option<&TallyCell>, course: impl FnOnce() -> Course) {
        let Some(cell) = cell else { return };
        cell.complete();
        let mut metering = self.metering.get();
        let is_time = metering.item_ended();
        self.metering.set(metering);
        let course = course();
        if is_time || course != Course::Straight {
            self.look(course);
        }
    }

    #[inline(never)]
    fn look(&self, course: Course) {
        let (last, now) = (self.last.get(), clock::coarse());
        let ticked = now != self.tick.get();
        if course == Course::Interrupted {
            // Ticks do not meet who sleeps.
            self.end_window(last, now);
        } else if ticked {
            self.meets(last);
            self.end_window(last, now);
        } else {
            let mut metering = self.metering.get();
            if metering.looked() {
                // Not here: somebody may wait for this item.
                self.goes_on.set(0);
            }
            self.metering.set(metering);
        }
    }

    /// A tick has met an item of this shard.
    fn meets(&self, shard: TallyId) {
        // Whatever has begun there: it has a part in this window.
        self.met.set(Some((shard, (0, 0))));
    }

    /// The worker has nothing to do.
    pub(crate) fn rests(&self) {
        if COUNTED && !self.metering.get().is_empty() {
            self.end_window(self.last.get(), clock::coarse());
        }
    }

    /// The worker was woken, with nothing to account for.
    pub(crate) fn wakes(&self) {
        if COUNTED {
            self.publish_time(clock::coarse());
        }
    }

    /// Reads the CPU clock. What was used since the last time goes to the one that began last, unless the window is mixed.
    fn end_window(&self, last: TallyId, now: Time) {
        let met = self.met.get().filter(|(shard, before)| {
            let begun = self.table.cell(shard.number).last_start();
            self.is_mixed.get() && begun.0 == shard.serial && begun != *before
        });
        let whose = met.map_or(last, |(shard, _)| shard);
        let used = match thread_state::own_cpu_time() {
            Some(used) => {
                let cell = self.table.cell(whose.number);
                Duration::from_nanos(self.worker.reading.charge(as_nanos(used), cell))
            }
            None => now.since(self.tick.get()),
        };
        let mut metering = self.metering.get();
        metering.ended(used);
        self.metering.set(metering);
        self.is_mixed.set(false);
        self.goes_on.set(self.last.get().serial);
        let begun = |(shard, _): (TallyId, _)| (shard, self.table.cell(shard.number).last_start());
        self.met.set(self.met.get().map(begun));
        self.publish_time(now);
    }

    /// A window begins with the worker's next item.
    fn publish_time(&self, now: Time) {
        self.tick.set(now);
        self.worker.reading.publish(now, self.worker.cell.load().sequence() + 1);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.rests();
    }
}

/// CPU time, which fits.
pub(crate) fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
