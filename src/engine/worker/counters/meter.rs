//! The meter of a worker, which counts the worker's items and charges queues for the worker's CPU time.
//!
//! [`policy::metering`](crate::policy::metering) decides when the worker reads its clocks, and which queue it charges.
//! The worker publishes its last reading of the CPU clock, and the time at which the present *window* began. From these
//! two values, other threads learn the CPU time and the age of the present item. (A window is a group of items whose
//! CPU time the worker measures as a whole.)
#![allow(unsafe_code, reason = "a worker finds the cell of its item's shard once, and keeps its address")]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::metering::{Metering, as_nanos};
use crate::policy::time::Time;
use crate::protocol::counters::{CounterCell, Start};
use crate::sys::{clock, thread_state};

use crate::engine::COUNTED;
use crate::engine::worker::shared::Worker;

use super::Account;
use super::held::{AccountId, Held};

/// The course of a worker's item, as far as the worker's state word shows the course.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// The item has not slept for long.
    Straight,
    /// The item may have slept.
    Unknown,
    /// The item has blocked, or the manager has found that the item takes long.
    Interrupted,
}

/// The counts of a worker's items, and the windows in which the worker measures CPU time. Only the worker's own thread
/// uses the meter.
pub(crate) struct Meter {
    held: RefCell<Held>,
    worker: Arc<Worker>,
    metering: Cell<Metering>,
    /// The counter cell of the item that began last.
    last: Cell<Option<Place>>,
    /// The account of the cell in `last`, or `None` if the next item begins a window.
    goes_on: Cell<Option<AccountId>>,
    /// The place (home, away or stolen) at which items of the account in `goes_on` start during the present window.
    start: Cell<Start>,
    /// Whether the window has items of several shards.
    is_mixed: Cell<bool>,
    /// The account of the item that was running at the last noted tick of the coarse clock. The number says how many of
    /// this account's items the worker had begun before the present window.
    met: Cell<Option<(AccountId, u64)>>,
    /// The time that the coarse clock showed when the worker last read it.
    tick: Cell<Time>,
    /// Whether a turn of a weighted queue has begun on this worker and has not ended. The item of a turn has a window
    /// of its own.
    is_turn: Cell<bool>,
    /// The CPU time that the item of the turn has used, or `None` if the item's window has not ended.
    used_in_turn: Cell<Option<Duration>>,
}

/// A cell that the thread holds, and the cell's account.
#[derive(Clone, Copy)]
struct Place {
    account: AccountId,
    cell: NonNull<CounterCell>,
}

impl Meter {
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        let meter = Self {
            held: RefCell::new(Held::new(Arc::clone(&worker))),
            worker,
            metering: Cell::new(Metering::new()),
            last: Cell::new(None),
            goes_on: Cell::new(None),
            start: Cell::new(Start::Home),
            is_mixed: Cell::new(false),
            met: Cell::new(None),
            tick: Cell::new(Time::NEVER),
            is_turn: Cell::new(false),
            used_in_turn: Cell::new(None),
        };
        if COUNTED {
            if let Some(used) = thread_state::own_cpu_time() {
                meter.worker.reading.begin(as_nanos(used));
            }
            meter.wakes();
        }
        meter
    }

    /// Prepares the meter for an item of the shard to which `account` belongs. The worker calls this before other
    /// threads can see that the item begins. Returns whether the item begins a window, or follows an item of another
    /// shard. In both cases, the caller says with [`starts`](Self::starts) at which place this item and the following
    /// items start.
    #[inline]
    pub(crate) fn approaches(&self, account: &Arc<Account>) -> bool {
        if COUNTED && self.goes_on.get() == Some(AccountId::of(account)) {
            return false;
        }
        if COUNTED {
            self.turns_to(account);
        }
        true
    }

    /// Notes the place at which items of the present shard start during the present window.
    pub(crate) fn starts(&self, start: Start) {
        self.start.set(start);
    }

    /// Switches to the cell of this account. Before that, ends the window if the window is full or if the coarse clock
    /// has ticked.
    #[inline(never)]
    fn turns_to(&self, account: &Arc<Account>) {
        if !self.metering.get().is_empty() {
            let now = clock::coarse();
            let is_full = self.goes_on.get().is_none();
            if now != self.tick.get() {
                self.meets_last();
                self.end_window(now, Course::Straight);
            } else if is_full {
                self.end_window(now, Course::Straight);
            } else {
                self.is_mixed.set(true);
            }
        }
        let id = AccountId::of(account);
        let known = self.held.borrow().find(id).map(place_of);
        let cell = known.unwrap_or_else(|| self.opens(account));
        self.last.set(Some(Place { account: id, cell }));
        self.goes_on.set(Some(id));
    }

    /// Opens a cell for an account of which the thread holds no cell.
    #[cold]
    fn opens(&self, account: &Arc<Account>) -> NonNull<CounterCell> {
        // No item of the cell in `last` is in flight, since a worker begins no item inside another item. So the cell
        // may be given up.
        debug_assert!(self.cell().is_none_or(|cell| !cell.load().is_in_flight()));
        self.last.set(None);
        let mut held = self.held.borrow_mut();
        let cell = place_of(held.open(account));
        // Once an account's cell is given up, another account may be made at the same address. So `met` forgets an
        // account whose cell was given up.
        self.met.set(self.met.get().filter(|(met, _)| held.find(*met).is_some()));
        cell
    }

    /// Counts an item that begins. The meter was [prepared](Self::approaches) for this item before.
    #[inline]
    pub(crate) fn begins(&self) {
        if let Some(cell) = self.cell() {
            cell.start(self.start.get());
        }
    }

    /// Returns the cell of the item that is about to begin. If there is no such item, returns the cell of the item that
    /// began last.
    #[inline]
    fn cell(&self) -> Option<&CounterCell> {
        let place = self.last.get().filter(|_| COUNTED)?;
        // SAFETY: the cell is one of `held`, and cells of `held` are given up only in `opens`, after `last` was
        // cleared. Every caller drops the reference before the next call of `approaches`.
        Some(unsafe { place.cell.as_ref() })
    }

    /// Counts an item that has ended. The worker calls this before it completes the entry, and before other threads
    /// learn the item's result.
    #[inline]
    pub(crate) fn ended(&self, course: impl FnOnce() -> Course) {
        let Some(cell) = self.cell() else { return };
        cell.complete();
        let mut metering = self.metering.get();
        let is_time = metering.item_ended();
        self.metering.set(metering);
        let course = course();
        if is_time || course != Course::Straight {
            self.look(course);
        }
    }

    /// Returns the number of this worker's items that are expected to take a tenth of a millisecond together.
    #[inline]
    pub(crate) fn span(&self) -> u32 {
        self.metering.get().span()
    }

    /// Returns whether the worker's items may be shorter than the [span](Self::span) says.
    pub(crate) fn span_grows(&self) -> bool {
        self.metering.get().grows()
    }

    /// Reads the coarse clock after an item. Ends the window if the item was interrupted or the clock has ticked.
    #[inline(never)]
    fn look(&self, course: Course) {
        let now = clock::coarse();
        let ticked = now != self.tick.get();
        if course == Course::Interrupted {
            // A tick during an item that may have slept does not count, so `meets_last` is not called.
            self.end_window(now, course);
        } else if ticked {
            self.meets_last();
            self.end_window(now, course);
        } else {
            let mut metering = self.metering.get();
            if metering.looked() {
                // A full window does not end here but later, because a thread may be waiting for the present item.
                self.goes_on.set(None);
            }
            self.metering.set(metering);
        }
    }

    /// Notes that the coarse clock ticked while the item that began last was running.
    fn meets_last(&self) {
        // Because the number is 0, `met_in_window` finds that the window has an item of this account.
        self.met.set(self.last.get().map(|last| (last.account, 0)));
    }

    /// Ends the window, because the worker has no more items.
    pub(crate) fn rests(&self) {
        if COUNTED && !self.metering.get().is_empty() {
            self.end_window(clock::coarse(), Course::Straight);
        }
    }

    /// Gives the next item a window of its own, which measures the CPU time of a weighted queue's turn.
    pub(crate) fn begins_turn(&self) {
        self.rests();
        self.metering.set(Metering::new());
        self.is_turn.set(true);
        self.used_in_turn.set(None);
    }

    /// Returns whether a turn has begun and has not ended.
    #[inline]
    pub(crate) fn is_turn(&self) -> bool {
        self.is_turn.get()
    }

    /// Ends the turn and the window. Returns the CPU time that the item of the turn has used, or `None` if the item did
    /// not run.
    pub(crate) fn ends_turn(&self) -> Option<Duration> {
        self.rests();
        self.is_turn.set(false);
        self.used_in_turn.take()
    }

    /// Notes that the thread has used this much CPU time for something other than the worker's items, such as a search
    /// for work. No queue is charged for this time.
    pub(crate) fn leaves_out(&self, used: Duration) {
        if COUNTED {
            self.worker.reading.leave_out(as_nanos(used));
        }
    }

    /// Begins a window, because the worker was woken. Charges no CPU time.
    pub(crate) fn wakes(&self) {
        if COUNTED {
            self.publish_time(clock::coarse());
        }
    }

    /// Reads the CPU clock, ends the window, and charges one shard for the window's CPU time. Usually, the meter
    /// charges the shard whose item began last. A mixed window has items of several shards. The meter charges a mixed
    /// window to the shard whose item was running at the last tick, if that shard has an item in the window. There is
    /// one exception: the meter charges the shard of the last item if this item was interrupted, and the earlier items
    /// cannot have used so much CPU time. `course` is the course of the last item, if the window ends with that item.
    fn end_window(&self, now: Time, course: Course) {
        let total = thread_state::own_cpu_time().map(as_nanos);
        // Reading the CPU clock is a system call. A kernel that preempts lazily often preempts a thread during a system
        // call. A tick during this call must count for no item, so the next window begins after the call.
        let after = clock::coarse();
        let used = match total {
            Some(total) => Duration::from_nanos(self.worker.reading.since(total)),
            None => now.since(self.tick.get()),
        };
        if self.is_turn.get() && self.used_in_turn.get().is_none() {
            self.used_in_turn.set(Some(used));
        }
        let mut metering = self.metering.get();
        let is_own = course == Course::Interrupted && metering.is_of_the_interrupted(used);
        let held = self.held.borrow();
        let met = if is_own { None } else { self.met_in_window(&held) };
        if let (Some(total), Some(cell)) = (total, met.or_else(|| self.cell())) {
            self.worker.reading.charge(total, cell);
        }
        if course == Course::Interrupted {
            // The next item gets a window of its own.
            metering = Metering::new();
        } else {
            metering.ended(used);
        }
        self.metering.set(metering);
        self.is_mixed.set(false);
        self.goes_on.set(None);
        let begun = |(id, _)| Some((id, held.find(id)?.started()));
        self.met.set(self.met.get().and_then(begun));
        self.publish_time(after);
    }

    /// Returns the cell of the account whose item was running at the last tick. Returns `None` if the window is not
    /// mixed, or has no item of that account.
    fn met_in_window<'held>(&self, held: &'held Held) -> Option<&'held CounterCell> {
        let (id, before) = self.met.get().filter(|_| self.is_mixed.get())?;
        held.find(id).map(Arc::as_ref).filter(|cell| cell.started() != before)
    }

    /// Publishes the time at which a window begins, and the sequence number of the worker's next item.
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

fn place_of(cell: &Arc<CounterCell>) -> NonNull<CounterCell> {
    NonNull::from(&**cell)
}

#[cfg(all(test, target_os = "linux", not(any(cmwq_portable, cmwq_uncounted))))]
mod tests;
