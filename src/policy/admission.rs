//! The slots of a limiter: at most `max` items of a queue are active, and its other items wait in order.
//!
//! An item is *active* from the moment it gets a slot until it is done. An active item is on a pool's worklist, or it
//! runs. An item that must wait for a slot is first *coming*, while it is on its way to the list, and then *listed*.
//! One 64-bit word contains the limiter's counts of active, coming and listed items. So a thread admits an item, hands
//! over a slot or frees a slot in one atomic step. A flush learns in one step how many items are in flight.
//!
//! An issuer counts an item as coming before it puts the item on the list. So a flush that begins between these two
//! steps finds the item. A slot is handed over only while an item counts as listed, so the list then holds an item that
//! can take the slot. If a slot becomes free while items are coming but none is listed, the next item that is listed
//! takes the slot.
//!
//! The word counts items but does not identify them. A slot that is handed over goes to the first item on the list,
//! even if that item's issuer has not counted the item as listed yet. If an item gets a slot before it counts as
//! listed, another item remains on the list and counts as coming. So a new item must wait behind coming items as well
//! as behind listed items.
//!
//! The limit can change at any time. After the limit is lowered, all active items still finish. After a thread has
//! raised the limit, this thread starts listed items one by one ([`Admission::start_listed`]). Until this thread has
//! finished, slots can be free while items are listed, but new items still wait behind the listed items.
//!
//! The *intake* of a limiter says which new items the limiter admits. When the queue ends, the intake is shut. The
//! intake is part of the word, so once the intake has changed, every admission follows the new intake.
//!
//! While a flush waits for the items in flight that it has counted, the limiter is *flushing*. While the limiter is
//! flushing, an issuer takes a ticket for a new item before it counts the item. When a thread lists an item, or takes
//! an item out of the limiter, the same step tells the thread whether the limiter is flushing. If the limiter is
//! flushing, the flush may have counted the item. See [`policy::flush`](super::flush).

#![forbid(unsafe_code)]

mod many;

use std::fmt;
use std::iter::Sum;

pub(crate) use self::many::{AdmitMany, Admitted, Arrived};

/// The highest `max_active` of any queue that is not plain unbound (the kernel's documented WQ_MAX_ACTIVE).
pub(crate) const MAX_ACTIVE_LIMIT: usize = 512;

/// The highest `max_active` of a plain unbound queue, whose items are meant to block.
pub(crate) const MAX_ACTIVE_UNBOUND: usize = 2000;

/// The `max_active` of a queue whose user sets no limit.
pub(crate) const MAX_ACTIVE_DEFAULT: usize = 256;

/// The limit of a limiter that gives every item a slot immediately. The worklist then keeps the items in order.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// The maximum number of items that a limiter counts as coming while flushes hold them back. Any further items that
/// flushes hold back do not count as coming, because otherwise issuers would find the limiter full.
pub(crate) const HELD_AS_COMING: u64 = COMING_MASK / 8;

const COUNT: u32 = 11;
const COUNT_MASK: u64 = (1 << COUNT) - 1;
const ACTIVE: u32 = 0;
const MAX: u32 = COUNT;
const CLOSED: u64 = 1 << 22;
const COMING: u32 = 23;
const COMING_MASK: u64 = (1 << 11) - 1;
/// In the word, the flushing bit and the intake lie between the count of coming items and the count of listed items. So
/// a single comparison shows whether anything holds a new item back: a coming or listed item, a flush, or the intake.
const FLUSHING: u64 = 1 << 34;
const INTAKE: u32 = 35;
const INTAKE_MASK: u64 = (1 << 2) - 1;
const LISTED: u32 = 37;
const LISTED_MASK: u64 = (1 << 27) - 1;
/// A limiter with this many listed items is full. The word can count more listed items than this, so items that were
/// accepted before the limiter became full still find room.
const LISTED_LIMIT: u64 = 100_000_000;

/// The slots of one limiter, and the number of items that wait for a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(u64);

/// The rule by which a limiter admits items. A later variant is stricter than an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Intake {
    /// All items are admitted.
    Open,
    /// All items are admitted, and their issuers count them: see [`protocol::drain`](crate::protocol::drain).
    Counted,
    /// Only items that continue work in flight are admitted, and their issuers count them.
    Draining,
    /// No item is admitted.
    Shut,
}

/// The answer to an attempt to admit an item. The answer tells the issuer what to do with the item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// The item has a slot: the issuer puts it on the pool's worklist.
    Start,
    /// The item has no slot: the issuer puts it on the waiting list, then calls [`Admission::list`].
    Wait,
    /// The limiter is flushing: the issuer takes a ticket, and repeats the call through [`Admission::beside_flush`].
    /// The word is unchanged.
    Flushing,
    /// The item is not admitted, and the word is unchanged. From [`Admission::admit_unless_full`], this answer means
    /// that the limiter is [full](Admission::is_full). From `admit_here`, this answer means that the item would have to
    /// wait for a slot. From any other transition, this answer means that the word cannot count another item.
    Full,
    /// The intake does not admit the item. The word is unchanged.
    Refused,
}

/// The reason why an item was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The intake does not admit the item.
    Intake,
    /// See [`Admit::Full`].
    Full,
}

/// The state of a slot after a transition. The state tells the caller what to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The slot belongs to the first item on the waiting list: the caller starts that item.
    Handed,
    /// No slot was handed over: the caller does nothing.
    Free,
    /// The limiter is closed, and no item is in flight any more: the caller tells the limiter's owner.
    Last,
}

/// The items that a flush finds in a limiter when the flush begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) in_flight: u64,
    /// The number of items in flight that count as coming.
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
    /// Returns a limiter with `max` slots, all free. If `max` is 0, every item waits.
    pub(crate) fn new(max: usize) -> Self {
        Self(max_field(max))
    }

    pub(crate) const fn active(self) -> u64 {
        self.0 >> ACTIVE & COUNT_MASK
    }

    pub(crate) const fn max(self) -> u64 {
        self.0 >> MAX & COUNT_MASK
    }

    /// Returns the number of coming items, which are on their way to the list.
    pub(crate) const fn coming(self) -> u64 {
        self.0 >> COMING & COMING_MASK
    }

    /// Returns the number of items on the list that have no slot.
    pub(crate) const fn listed(self) -> u64 {
        self.0 >> LISTED & LISTED_MASK
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Returns whether a flush is under way. The flush waits for the items that were in flight when it set the flushing
    /// bit.
    pub(crate) const fn is_flushing(self) -> bool {
        self.0 & FLUSHING != 0
    }

    /// Returns whether every item gets a slot immediately. In a limiter without a limit, the list stays empty, and the
    /// `listed` field counts the active items for which the `active` field has no room.
    const fn has_no_limit(self) -> bool {
        self.max() == COUNT_MASK
    }

    /// Returns the number of items that have a slot.
    pub(crate) const fn with_slot(self) -> u64 {
        if self.has_no_limit() { self.active() + self.listed() } else { self.active() }
    }

    /// Returns the number of items that wait for a slot.
    pub(crate) const fn waiting(self) -> u64 {
        if self.has_no_limit() { 0 } else { self.coming() + self.listed() }
    }

    /// Returns the number of items that were admitted and are not done.
    pub(crate) const fn in_flight(self) -> u64 {
        self.active() + self.coming() + self.listed()
    }

    pub(crate) const fn intake(self) -> Intake {
        match self.0 >> INTAKE & INTAKE_MASK {
            0 => Intake::Open,
            1 => Intake::Counted,
            2 => Intake::Draining,
            _ => Intake::Shut,
        }
    }

    /// Returns whether the queue should refuse more items. The answer is true if at least a hundred million items are
    /// listed, or if the count of coming items has reached half of its maximum.
    pub(crate) const fn is_full(self) -> bool {
        // Usually no item waits, which the first comparison shows at once.
        self.0 >> COMING != 0 && (self.listed() >= LISTED_LIMIT || self.coming() >= COMING_MASK / 2)
    }

    /// Returns whether a slot is free and the intake is open, so that another worker could run a fork (the second
    /// closure of a `join`) now.
    #[inline]
    pub(crate) fn takes_fork(self) -> bool {
        self.active() < self.max() && self.intake() == Intake::Open
    }

    /// Admits an item. The item never overtakes an item on the list. The issuer must hold a handle to the queue.
    #[inline]
    pub(crate) const fn admit(self) -> (Self, Admit) {
        debug_assert!(!self.is_closed(), "an item was queued to a queue without handles");
        self.admit_open_or_closed()
    }

    /// Admits an item as [`admit`](Self::admit) does, even if the limiter is closed.
    #[inline]
    const fn admit_open_or_closed(self) -> (Self, Admit) {
        // The comparison shows that no item is coming or listed, no flush is under way, and the intake is open.
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

    /// Admits an item as [`admit`](Self::admit) does, unless the limiter is [full](Self::is_full).
    #[inline]
    pub(crate) const fn admit_unless_full(self) -> (Self, Admit) {
        if self.is_full() { (self, Admit::Full) } else { self.admit() }
    }

    /// Admits an item that its issuer counts (see [`Intake::Counted`]). `by` is the strictest intake that admits this
    /// item: if the limiter's intake is stricter than `by`, or is shut, the item is refused.
    pub(crate) fn admit_counted(self, by: Intake) -> (Self, Admit) {
        match self.intake() {
            intake if intake > by || intake == Intake::Shut => (self, Admit::Refused),
            _ if self.is_flushing() => (self, Admit::Flushing),
            _ if self.listed() + self.coming() == 0 && self.active() < self.max() => {
                (self.plus(ACTIVE), Admit::Start)
            }
            _ => self.wait_or_pass(),
        }
    }

    /// Admits an item that the issuer itself runs without delay. The item gets a free slot if no other item waits for
    /// one. Otherwise, the item is not admitted, and the answer is [`Admit::Full`]. A thread that runs a fork need not
    /// hold a handle to the queue, so the limiter may be closed. The item that made the fork is still in flight in the
    /// limiter.
    pub(crate) const fn admit_here(self) -> (Self, Admit) {
        match self.admit_open_or_closed() {
            (_, Admit::Wait) => (self, Admit::Full),
            answer => answer,
        }
    }

    /// Applies `admit` as if the limiter were not flushing, but keeps the flushing bit set. The issuer must hold the
    /// lock of the queue's flushes.
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

    /// Changes the limit. After the caller has raised the limit, it calls [`start_listed`](Self::start_listed) until no
    /// slot is handed out.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self(self.0 & !(COUNT_MASK << MAX) | max_field(max))
    }

    pub(crate) const fn with_intake(self, intake: Intake) -> Self {
        Self(self.0 & !(INTAKE_MASK << INTAKE) | (intake as u64) << INTAKE)
    }

    /// Takes a free slot for a listed item after the limit was raised. On `Handed`, the caller gives the slot to the
    /// list's first item, and calls this function again.
    pub(crate) const fn start_listed(self) -> (Self, Slot) {
        if self.listed() > 0 && !self.has_no_limit() && self.active() < self.max() && !self.is_shut() {
            (self.minus(LISTED).plus(ACTIVE), Slot::Handed)
        } else {
            (self, Slot::Free)
        }
    }

    /// Counts a listed item as active after the intake was shut, even beyond the limit. On `Handed`, the caller takes
    /// the list's first item and completes it without running it.
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

    /// Counts a coming item as listed after the issuer has put it on the list. On `Handed`, a slot is free, and the
    /// caller gives the slot to the list's first item. The answer is also `Handed` if the intake was shut in the
    /// meantime. The thread that empties a shut limiter's list may have finished already, so the caller must take the
    /// first item off the list.
    pub(crate) const fn list(self) -> (Self, Slot) {
        let arrived = self.minus(COMING);
        if arrived.active() < arrived.max() || self.is_shut() && arrived.active() < COUNT_MASK {
            (arrived.plus(ACTIVE), Slot::Handed)
        } else {
            (arrived.plus(LISTED), Slot::Free)
        }
    }

    /// Counts an item as listed after [`withdraw`](Self::withdraw) has taken it out of the count of coming items.
    pub(crate) const fn list_uncounted(self) -> (Self, Slot) {
        self.plus(COMING).list()
    }

    /// Stops counting an item as coming. After a withdrawal, only [`list_uncounted`](Self::list_uncounted) can count
    /// the item as listed.
    pub(crate) const fn withdraw(self) -> Self {
        debug_assert!(self.coming() > 0);
        self.minus(COMING)
    }

    /// Completes an active item. Hands the item's slot to the first item on the list, or frees the slot. While the
    /// intake is shut, [`recall`](Self::recall) empties the list, so the slot is usually freed. But if more items are
    /// active than any limit allows, `recall` may have left items on the list. If items are left, the slot goes to the
    /// first item on the list, and a worker completes that item without running it.
    pub(crate) const fn complete(self) -> (Self, Slot) {
        if self.listed() > 0 && self.has_no_limit() {
            return self.minus(LISTED).freed();
        }
        debug_assert!(self.active() > 0, "an item without a slot completed");
        if self.listed() > 0 && self.hands_on() {
            return (self.minus(LISTED), Slot::Handed);
        }
        self.minus(ACTIVE).freed()
    }

    /// Returns whether the slot of an item that completes goes to an item on the list.
    const fn hands_on(self) -> bool {
        if self.is_shut() { self.active() > MAX_ACTIVE_UNBOUND as u64 } else { self.active() <= self.max() }
    }

    const fn freed(self) -> (Self, Slot) {
        let last = self.is_closed() && self.in_flight() == 0;
        (self, if last { Slot::Last } else { Slot::Free })
    }

    /// Begins a flush. Returns the items that the flush finds in flight.
    pub(crate) fn begin_flush(self) -> (Self, Found) {
        debug_assert!(!self.is_flushing());
        (Self(self.0 | FLUSHING), Found { in_flight: self.in_flight(), coming: self.coming() })
    }

    /// Ends the flush, because all items that it counted are done. After the end of the flush, new items need no
    /// ticket.
    pub(crate) fn end_flush(self) -> (Self, ()) {
        debug_assert!(self.is_flushing());
        (Self(self.0 & !FLUSHING), ())
    }

    /// Closes the limiter when the queue's last handle is dropped. A closed limiter still admits forks of items in
    /// flight, but no other items arrive. Returns `Last` if no item is in flight.
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

/// Returns the highest `max_active` of a queue.
pub(crate) const fn most_active(is_plain_unbound: bool) -> usize {
    if is_plain_unbound { MAX_ACTIVE_UNBOUND } else { MAX_ACTIVE_LIMIT }
}

fn max_field(max: usize) -> u64 {
    debug_assert!(max <= MAX_ACTIVE_UNBOUND || max == NO_LIMIT);
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
