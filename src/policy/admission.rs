//! The slots of a limiter: at most `max` items of a queue are active, and the others wait in order.
//!
//! An item is *active* from the moment it is given a slot until it is done: it lies on a pool's worklist, or
//! it runs. Before that, it is *coming* (counted, on its way to the waiting list) and then *listed*. One word
//! counts all three. So admitting an item, handing a slot over and freeing it are one atomic step each, and a
//! flush learns in one step how many items are in flight.
//!
//! The issuer counts an item before it puts it on the list, so a flush that begins meanwhile finds it. A slot
//! is handed over to listed items only, so the list is not empty when a thread takes the item for it. If a
//! slot becomes free while items are only coming, the first of them takes it when it is listed.
//!
//! The counts do not say which item is which. A slot that is handed to a listed item goes to the first item
//! on the list. That item may have been pushed by an issuer that has not counted it as listed yet. The items
//! that remain on the list are then counted as coming. So a new item stays behind coming items as well as
//! behind listed ones.
//!
//! The limit may change at any time. Active items finish after it is lowered. After it is raised there are
//! free slots beside listed items, until the thread that raised it has started these one by one
//! ([`Admission::start_listed`]). New items wait behind them meanwhile.
//!
//! A limiter has an *intake*, which closes when its queue ends. The intake is part of the word, so after it changes
//! no item is admitted by the old rule.
//!
//! While a flush counts the items in flight, the limiter is *flushing*: an item takes a ticket before it is
//! counted, and an item that is listed, or leaves, learns in the same step that it may have been counted. See
//! [`policy::flush`](super::flush).

#![forbid(unsafe_code)]

mod many;

use std::fmt;
use std::iter::Sum;

pub(crate) use self::many::{AdmitMany, Admitted, Arrived};

/// The highest `max_active` (the kernel's documented WQ_MAX_ACTIVE).
pub(crate) const MAX_ACTIVE_LIMIT: usize = 512;

/// `max_active` if the user sets none.
pub(crate) const MAX_ACTIVE_DEFAULT: usize = 256;

/// The limit of a limiter that admits every item at once. The items keep their order on the worklist.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// How many items that a flush holds back may be counted as coming in their limiter, as all other items on their way to
/// the list are. Further ones are not counted: otherwise issuers would find the limiter full.
pub(crate) const HELD_AS_COMING: u64 = COMING_MASK / 8;

const COUNT: u32 = 10;
const COUNT_MASK: u64 = (1 << COUNT) - 1;
const ACTIVE: u32 = 0;
const MAX: u32 = COUNT;
const CLOSED: u64 = 1 << 20;
const COMING: u32 = 21;
const COMING_MASK: u64 = (1 << 12) - 1;
/// This bit and the intake lie between the counts of coming and listed items. So one comparison tells that
/// nothing holds a new item back.
const FLUSHING: u64 = 1 << 33;
const INTAKE: u32 = 34;
const INTAKE_MASK: u64 = (1 << 2) - 1;
const LISTED: u32 = 36;
const LISTED_MASK: u64 = (1 << 28) - 1;

/// The slots of one limiter, and the number of items that wait for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(u64);

/// Which items are admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intake {
    /// All.
    Open,
    /// Items that continue work in flight: [`Admission::admit_chained`].
    Draining,
    /// None.
    Shut,
}

/// What the issuer does with its item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// The item has a slot: put it on the pool's worklist.
    Start,
    /// Put it on the waiting list, then call [`Admission::list`].
    Wait,
    /// The limiter is flushing: take a ticket, and repeat the call through [`Admission::beside_flush`]. The word
    /// is unchanged.
    Flushing,
    /// More items wait, or are on their way to the list, than the word can count. The word is unchanged. An
    /// issuer that asks [`Admission::is_full`] first gets this answer only if two thousand other threads have
    /// asked at the same time.
    Full,
    /// The intake does not admit it. The word is unchanged.
    Refused,
}

/// Why an item was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The intake does not admit it.
    Intake,
    /// See [`Admit::Full`].
    Full,
}

/// What happens to a slot.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It belongs to the first item of the waiting list: start that one.
    Handed,
    /// Nothing is to be done.
    Free,
    /// It was the last slot in use of a closed limiter: tell the limiter's owner.
    Last,
}

/// What a flush finds in a limiter when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) in_flight: u64,
    /// How many of these are coming.
    pub(crate) coming: u64,
}

impl Sum for Found {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, found| Self {
            in_flight: sum.in_flight + found.in_flight,
            coming: sum.coming + found.coming,
        })
    }
}

impl Admission {
    /// A limiter with `max` slots, all free; with 0 every item waits.
    pub(crate) fn new(max: usize) -> Self {
        Self(max_field(max))
    }

    pub(crate) const fn active(self) -> u64 {
        self.0 >> ACTIVE & COUNT_MASK
    }

    pub(crate) const fn max(self) -> u64 {
        self.0 >> MAX & COUNT_MASK
    }

    /// Items that are counted and on their way to the list.
    pub(crate) const fn coming(self) -> u64 {
        self.0 >> COMING & COMING_MASK
    }

    /// Items on the list that have no slot.
    pub(crate) const fn listed(self) -> u64 {
        self.0 >> LISTED & LISTED_MASK
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Returns whether a flush counts the items that were in flight when it set the bit.
    pub(crate) const fn is_flushing(self) -> bool {
        self.0 & FLUSHING != 0
    }

    /// Returns whether every item is admitted at once. Then the list stays empty, and `listed` counts the
    /// items that do not fit the count of active ones.
    const fn has_no_limit(self) -> bool {
        self.max() == COUNT_MASK
    }

    /// Items that wait for a slot.
    pub(crate) const fn waiting(self) -> u64 {
        if self.has_no_limit() { 0 } else { self.coming() + self.listed() }
    }

    /// Items that were admitted and are not done.
    pub(crate) const fn in_flight(self) -> u64 {
        self.active() + self.coming() + self.listed()
    }

    pub(crate) const fn intake(self) -> Intake {
        match self.0 >> INTAKE & INTAKE_MASK {
            0 => Intake::Open,
            1 => Intake::Draining,
            _ => Intake::Shut,
        }
    }

    /// Returns whether so many items wait that the queue should refuse more: half of what the word can count,
    /// a hundred million.
    pub(crate) const fn is_full(self) -> bool {
        self.listed() >= LISTED_MASK / 2 || self.coming() >= COMING_MASK / 2
    }

    /// Admits an item. It never overtakes one that is on the list.
    #[inline]
    pub(crate) const fn admit(self) -> (Self, Admit) {
        debug_assert!(!self.is_closed(), "an item was queued to a queue without handles");
        // No item is coming or listed, no flush counts, and the intake is open.
        if self.0 >> COMING == 0 && self.active() < self.max() {
            (self.plus(ACTIVE), Admit::Start)
        } else if self.0 >> INTAKE & INTAKE_MASK != 0 {
            (self, Admit::Refused)
        } else if self.is_flushing() {
            (self, Admit::Flushing)
        } else {
            self.wait_or_pass()
        }
    }

    /// Admits an item that continues work in flight: only a shut intake refuses it.
    pub(crate) const fn admit_chained(self) -> (Self, Admit) {
        match self.intake() {
            Intake::Shut => (self, Admit::Refused),
            _ if self.is_flushing() => (self, Admit::Flushing),
            _ if self.listed() + self.coming() == 0 && self.active() < self.max() => {
                (self.plus(ACTIVE), Admit::Start)
            }
            _ => self.wait_or_pass(),
        }
    }

    /// Applies an admission as if the limiter were not flushing, and keeps the flushing bit. The issuer holds the lock
    /// of the flushes.
    pub(crate) fn beside_flush<A>(self, admit: impl Fn(Self) -> (Self, A)) -> (Self, A) {
        let (next, answer) = admit(Self(self.0 & !FLUSHING));
        (Self(next.0 | self.0 & FLUSHING), answer)
    }

    const fn wait_or_pass(self) -> (Self, Admit) {
        if self.listed() + self.coming() >= LISTED_MASK || self.coming() == COMING_MASK {
            (self, Admit::Full)
        } else if self.has_no_limit() {
            (self.plus(LISTED), Admit::Start)
        } else {
            (self.plus(COMING), Admit::Wait)
        }
    }

    /// Changes the limit. After raising it, the caller calls [`start_listed`](Self::start_listed) until no
    /// slot is handed out.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self(self.0 & !(COUNT_MASK << MAX) | max_field(max))
    }

    pub(crate) const fn with_intake(self, intake: Intake) -> Self {
        Self(self.0 & !(INTAKE_MASK << INTAKE) | (intake as u64) << INTAKE)
    }

    /// Takes a free slot after the limit was raised. `Handed`: give it to the list's first item, and call
    /// again.
    pub(crate) const fn start_listed(self) -> (Self, Slot) {
        if self.listed() > 0 && !self.has_no_limit() && self.active() < self.max() && !self.is_shut() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    /// Takes an item off the list after the intake was shut. `Handed`: take the list's first item, which counts
    /// as active now whatever the limit is, and complete it without a run.
    pub(crate) const fn recall(self) -> (Self, Slot) {
        debug_assert!(self.is_shut());
        if self.listed() > 0 && self.active() < COUNT_MASK && !self.has_no_limit() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    const fn is_shut(self) -> bool {
        matches!(self.intake(), Intake::Shut)
    }

    /// Counts a coming item as listed, after it was put on the list. `Handed`: a slot is free, give it to the
    /// list's first item. The answer is the same if the intake was shut meanwhile: then the thread that empties
    /// the list may have finished, and no other thread takes that item.
    pub(crate) const fn list(self) -> (Self, Slot) {
        let arrived = self.minus(COMING);
        if arrived.active() < arrived.max() || self.is_shut() && arrived.active() < COUNT_MASK {
            (arrived.plus(ACTIVE), Slot::Handed)
        } else {
            (arrived.plus(LISTED), Slot::Free)
        }
    }

    /// Lists an item that is no longer counted as coming.
    pub(crate) const fn list_uncounted(self) -> (Self, Slot) {
        self.plus(COMING).list()
    }

    /// Takes the count of a coming item back: it will not be listed.
    pub(crate) const fn withdraw(self) -> Self {
        debug_assert!(self.coming() > 0);
        self.minus(COMING)
    }

    /// Completes an active item: its slot goes to the first item on the list, or is freed. While the intake is shut
    /// no further item starts.
    pub(crate) const fn complete(self) -> (Self, Slot) {
        if self.listed() > 0 && self.has_no_limit() {
            return self.minus(LISTED).freed();
        }
        debug_assert!(self.active() > 0, "an item without a slot completed");
        if self.listed() > 0 && self.active() <= self.max() && !self.is_shut() {
            return (self.minus(LISTED), Slot::Handed);
        }
        self.minus(ACTIVE).freed()
    }

    const fn freed(self) -> (Self, Slot) {
        let last = self.is_closed() && self.in_flight() == 0;
        (self, if last { Slot::Last } else { Slot::Free })
    }

    /// Begins a flush. Returns the items that it finds in flight.
    pub(crate) fn begin_flush(self) -> (Self, Found) {
        debug_assert!(!self.is_flushing());
        (Self(self.0 | FLUSHING), Found { in_flight: self.in_flight(), coming: self.coming() })
    }

    /// Ends the flush: all items that it counted are done, and new items need no ticket.
    pub(crate) fn end_flush(self) -> (Self, ()) {
        debug_assert!(self.is_flushing());
        (Self(self.0 & !FLUSHING), ())
    }

    /// Closes the limiter when the last handle is dropped. No item comes after it. Returns `Last` if none is in
    /// flight.
    pub(crate) const fn close(self) -> (Self, Slot) {
        let slot = if self.in_flight() == 0 { Slot::Last } else { Slot::Free };
        (Self(self.0 | CLOSED), slot)
    }

    const fn plus(self, field: u32) -> Self {
        Self(self.0 + (1 << field))
    }

    const fn minus(self, field: u32) -> Self {
        Self(self.0 - (1 << field))
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

fn max_field(max: usize) -> u64 {
    debug_assert!(max <= MAX_ACTIVE_LIMIT || max == NO_LIMIT);
    (max as u64).min(COUNT_MASK) << MAX
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("active", &self.active())
            .field("max", &self.max())
            .field("coming", &self.coming())
            .field("listed", &self.listed())
            .field("flushing", &self.is_flushing())
            .field("closed", &self.is_closed())
            .field("intake", &self.intake())
            .finish()
    }
}

#[cfg(test)]
mod tests;
