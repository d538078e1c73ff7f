//! What lies on a list: an item, and the shard in whose name it was queued.
#![allow(
    unsafe_code,
    reason = "lists hold items of all types by a thin pointer; entries point at their shard"
)]

use std::ptr::NonNull;

use crate::policy::flush::Ticket;
use crate::protocol::item::HasTicket;
use crate::sys::sync::{AtomicU64, Ordering};

use super::item_type::ItemType;
use super::latency::{Begun, Timing};
use super::shard::Shard;
use super::worker::WorkerThread;

/// The first field of every item.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) operations: &'static ItemOperations,
    /// The [`Stamp`](crate::policy::sampling::Stamp) of the item's last queueing, if it is timed; 0 otherwise. Written
    /// before the entry is pushed, and by the worker that has popped it. An item that is queued again just as it begins may
    /// lose a stamp, or begin with that of the next time: a sample less, or a wait that looks shorter.
    stamp: AtomicU64,
}

impl Header {
    #[inline]
    pub(crate) const fn new(operations: &'static ItemOperations) -> Self {
        Self { operations, stamp: AtomicU64::new(0) }
    }

    /// The item is being queued: it is timed, or not.
    #[inline]
    pub(super) fn stamp(&self, timing: &Timing) {
        self.stamp.store(timing.stamp(), Ordering::Relaxed);
    }
}

/// What is done with an item of one type.
///
/// # Safety
///
/// Of all functions: the item is of the type that they were made for.
pub(crate) struct ItemOperations {
    /// Executes the item for an entry that a worker popped: runs it or not, and completes the entry.
    pub(crate) execute: unsafe fn(Entry, &WorkerThread),
    /// This entry of the item, popped from a list, comes to nothing: the item is not run for it, and its owner is told.
    /// `None`: there was no entry yet. The entry's share of the item is given up; the entry itself is still to be
    /// completed. True if that was a queueing that would have run.
    pub(crate) abandon: unsafe fn(NonNull<Header>, Option<&Entry>) -> bool,
    /// What the item's type is called.
    pub(crate) item_type: unsafe fn(NonNull<Header>) -> &'static ItemType,
}

/// One queueing of an item, on a worklist, on a waiting list, or in the hands of a worker.
///
/// An entry owns its share of the item (a reference of a reusable one, the entry bit of a one-shot), and counts as
/// in flight in its shard's gate, which keeps the shard and the queue in place. It is never dropped, always
/// executed or completed. A marker (see `route`) is no item, and has a pin of the queue instead.
#[derive(Debug)]
pub(crate) struct Entry {
    item: NonNull<Header>,
    /// The address of the shard, or of the entry's own [`Ticketed`]; its two lowest bits are tags.
    shard: NonNull<()>,
}

/// What an entry with a ticket has beside its item. The entry owns it. Items that are queued while a flush waits are few,
/// so all others are spared a third word.
struct Ticketed {
    shard: NonNull<Shard>,
    ticket: Ticket,
}

/// Tag: the entry has a ticket.
const TICKETED: usize = 1;
/// Tag: the entry was placed by its issuer, so it stays in its pod.
const BOUND: usize = 2;

// SAFETY: an entry is handed from thread to thread like the item it owns; items are `Send` by the bounds of the
// functions that make them, and a shard is shared by all threads.
unsafe impl Send for Entry {}

impl Ticketed {
    #[cold]
    fn leak(shard: NonNull<Shard>, ticket: Ticket) -> NonNull<()> {
        NonNull::from(Box::leak(Box::new(Self { shard, ticket }))).cast()
    }
}

impl HasTicket for Entry {
    fn ticket(&self) -> Option<Ticket> {
        Self::ticket(self)
    }
}

impl Entry {
    #[inline]
    pub(crate) fn new(item: NonNull<Header>, shard: &Shard, ticket: Option<Ticket>, bound: bool) -> Self {
        const { assert!(align_of::<Shard>() > (TICKETED | BOUND) && align_of::<Ticketed>() > (TICKETED | BOUND)) };
        let shard = NonNull::from(shard);
        let (shard, tag) = match ticket {
            None => (shard.cast(), 0),
            Some(ticket) => (Ticketed::leak(shard, ticket), TICKETED),
        };
        let tag = tag | if bound { BOUND } else { 0 };
        Self { item, shard: shard.map_addr(|address| address | tag) }
    }

    #[inline]
    pub(crate) fn item(&self) -> NonNull<Header> {
        self.item
    }

    #[inline]
    pub(super) fn has_ticket(&self) -> bool {
        self.shard.addr().get() & TICKETED != 0
    }

    #[inline]
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.ticketed().map(|ticketed| ticketed.ticket)
    }

    #[inline]
    fn ticketed(&self) -> Option<&Ticketed> {
        if !self.has_ticket() {
            return None;
        }
        // SAFETY: with this tag it was made by `Ticketed::leak`, and is freed with the entry only.
        Some(unsafe { &*self.untagged().cast() })
    }

    #[inline]
    fn untagged(&self) -> *const () {
        self.shard.as_ptr().map_addr(|address| address & !(TICKETED | BOUND))
    }

    /// The entry was completed. What it pointed to may be gone.
    #[inline]
    pub(super) fn end(self) {
        if self.has_ticket() {
            // SAFETY: as in `ticketed`; the entry, which owns it, ends here.
            drop(unsafe { Box::from_raw(self.untagged().cast::<Ticketed>().cast_mut()) });
        }
    }

    /// May it not leave the pool of its shard?
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        self.shard.addr().get() & BOUND != 0
    }

    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        let shard = match self.ticketed() {
            None => self.untagged().cast(),
            Some(ticketed) => ticketed.shard.as_ptr().cast_const(),
        };
        // SAFETY: this entry is in flight in the shard's gate, and a queue frees its shards only once nothing is in
        // flight in any of its gates, nor anybody has a pin; so the shard outlives the entry, to which the reference is
        // bound.
        unsafe { &*shard }
    }

    /// The type of the item.
    pub(crate) fn item_type(&self) -> &'static ItemType {
        // SAFETY: the item is in place, since the entry owns its share of it.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: whoever made the item put the functions for its own type into the header.
        unsafe { (operations.item_type)(self.item) }
    }

    /// The entry is about to be pushed: its item is timed, or not. `timing` is that of its shard.
    #[inline]
    pub(super) fn stamp(&self, timing: &Timing) {
        // SAFETY: the item is in place, since the entry owns its share of it.
        unsafe { self.item.as_ref() }.stamp(timing);
    }

    /// The item is about to run. If it is timed, that begins. `timing` is that of its shard.
    #[inline]
    pub(super) fn begins(&self, timing: &Timing) -> Option<Begun> {
        // SAFETY: as in `stamp`.
        let header = unsafe { self.item.as_ref() };
        match header.stamp.load(Ordering::Relaxed) {
            0 => None,
            stamp => {
                header.stamp.store(0, Ordering::Relaxed);
                timing.begins(stamp)
            }
        }
    }

    /// Executes the item.
    #[inline]
    pub(crate) fn execute(self, worker: &WorkerThread) {
        // SAFETY: the item is in place, since the entry owns its share of it.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: whoever made the item put the functions for its own type into the header.
        unsafe { (operations.execute)(self, worker) }
    }

    /// Gives the item up without a run. The entry is still to be completed. True if it would have run.
    pub(crate) fn abandon(&self) -> bool {
        // SAFETY: as in `execute`.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: as in `execute`.
        unsafe { (operations.abandon)(self.item, Some(self)) }
    }
}
