//! What a worker counts, item by item, and how it comes to its CPU time.
//!
//! When clocks are read, and who is charged, says [`policy::metering`](crate::policy::metering). Up to where the CPU clock
//! was read, and since when the present window goes on, is published for whoever asks about the present item: its CPU
//! time so far, and its age.
#![allow(
    unsafe_code,
    reason = "the cell of the shard that a worker works for is found once, and kept by its address"
)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::metering::Metering;
use crate::policy::time::Time;
use crate::protocol::tally::{Start, TallyCell};
use crate::sys::{clock, thread_state};

use super::super::worker::Worker;
use super::held::{AccountId, Held};
use super::{Account, COUNTED};

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
    held: RefCell<Held>,
    worker: Arc<Worker>,
    metering: Cell<Metering>,
    /// Whose item has begun last.
    last: Cell<Option<Place>>,
    /// The account of that one; `None` if the next item ends the window whose ever it is.
    goes_on: Cell<Option<AccountId>>,
    /// The window has items of several shards.
    is_mixed: Cell<bool>,
    /// Whose item a tick has met last, and how many had begun there when this window began.
    met: Cell<Option<(AccountId, u64)>>,
    /// The coarse clock when it was looked at last.
    tick: Cell<Time>,
}

/// The cell of an account that is held. It is found anew before it is given up.
#[derive(Clone, Copy)]
struct Place {
    account: AccountId,
    cell: NonNull<TallyCell>,
}

impl Meter {
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        let meter = Self {
            held: RefCell::new(Held::new(Arc::clone(&worker))),
            worker,
            metering: Cell::new(Metering::new()),
            last: Cell::new(None),
            goes_on: Cell::new(None),
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

    /// An item of the shard with this account is about to begin. Before others can see that.
    #[inline]
    pub(crate) fn approaches(&self, account: &Arc<Account>) {
        if COUNTED && self.goes_on.get() != Some(AccountId::of(account)) {
            self.turns_to(account);
        }
    }

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

    /// It holds no cell of this account.
    #[cold]
    fn opens(&self, account: &Arc<Account>) -> NonNull<TallyCell> {
        // A worker begins no item inside of another one, so this cell may be given up.
        debug_assert!(self.cell().is_none_or(|cell| !cell.load().is_in_flight()));
        self.last.set(None);
        let mut held = self.held.borrow_mut();
        let cell = place_of(held.open(account));
        // Once its cell is given up, its address may be another account's.
        self.met.set(self.met.get().filter(|(met, _)| held.find(*met).is_some()));
        cell
    }

    /// It begins, after it was [approached](Self::approaches).
    #[inline]
    pub(crate) fn begins(&self, start: impl FnOnce() -> Start) {
        if let Some(cell) = self.cell() {
            cell.start(start());
        }
    }

    /// The cell of the shard whose item has begun last, or was approached.
    #[inline]
    fn cell(&self) -> Option<&TallyCell> {
        let place = self.last.get().filter(|_| COUNTED)?;
        // SAFETY: the cell is one of `held`, which gives cells up in `opens` only, after `last` has forgotten this one. No
        // caller keeps the reference until the next item is approached.
        Some(unsafe { place.cell.as_ref() })
    }

    /// It has ended. Before its entry is completed, and its result known.
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

    #[inline(never)]
    fn look(&self, course: Course) {
        let now = clock::coarse();
        let ticked = now != self.tick.get();
        if course == Course::Interrupted {
            // Ticks do not meet who sleeps.
            self.end_window(now, course);
        } else if ticked {
            self.meets_last();
            self.end_window(now, course);
        } else {
            let mut metering = self.metering.get();
            if metering.looked() {
                // Not here: somebody may wait for this item.
                self.goes_on.set(None);
            }
            self.metering.set(metering);
        }
    }

    /// A tick has met an item of the shard whose item has begun last.
    fn meets_last(&self) {
        // Whatever has begun there: it has a part in this window.
        self.met.set(self.last.get().map(|last| (last.account, 0)));
    }

    /// The worker has nothing to do.
    pub(crate) fn rests(&self) {
        if COUNTED && !self.metering.get().is_empty() {
            self.end_window(clock::coarse(), Course::Straight);
        }
    }

    /// The worker was woken, with nothing to account for.
    pub(crate) fn wakes(&self) {
        if COUNTED {
            self.publish_time(clock::coarse());
        }
    }

    /// Reads the CPU clock. What was used since the last time goes to the shard whose item has begun last, unless the
    /// window is mixed. `course`: of the last item, if the window ends with it.
    fn end_window(&self, now: Time, course: Course) {
        let total = thread_state::own_cpu_time().map(as_nanos);
        let used = match total {
            Some(total) => Duration::from_nanos(self.worker.reading.since(total)),
            None => now.since(self.tick.get()),
        };
        let mut metering = self.metering.get();
        let is_own = course == Course::Interrupted && metering.is_of_the_interrupted(used);
        let held = self.held.borrow();
        let met = if is_own { None } else { self.met_in_window(&held) };
        if let (Some(total), Some(cell)) = (total, met.or_else(|| self.cell())) {
            self.worker.reading.charge(total, cell);
        }
        if course == Course::Interrupted {
            // What comes next is told apart from it, whatever it is.
            metering = Metering::new();
        } else {
            metering.ended(used);
        }
        self.metering.set(metering);
        self.is_mixed.set(false);
        self.goes_on.set(self.last.get().map(|last| last.account));
        let begun = |(id, _)| Some((id, held.find(id)?.started()));
        self.met.set(self.met.get().and_then(begun));
        self.publish_time(now);
    }

    /// The cell of the one that a tick has met, if it has a part in a mixed window.
    fn met_in_window<'held>(&self, held: &'held Held) -> Option<&'held TallyCell> {
        let (id, before) = self.met.get().filter(|_| self.is_mixed.get())?;
        held.find(id).map(Arc::as_ref).filter(|cell| cell.started() != before)
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

fn place_of(cell: &Arc<TallyCell>) -> NonNull<TallyCell> {
    NonNull::from(&**cell)
}

/// CPU time, which fits.
pub(crate) fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
