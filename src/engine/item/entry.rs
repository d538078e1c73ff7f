//! The entries of lists: each is an item, and the shard to which it was queued.
#![allow(
    unsafe_code,
    reason = "lists hold items of all types by a thin pointer; entries point at their shard"
)]

use std::ptr::NonNull;

use crate::policy::flush::Ticket;
use crate::protocol::item::HasTicket;
use crate::sys::sync::{AtomicU64, Ordering};

use crate::engine::queue::shard::Shard;
use crate::engine::worker::worker_thread::WorkerThread;

use super::item_type::ItemType;
use super::latency::{Begun, Timing};

/// The first field of every item.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) operations: &'static ItemOperations,
    /// The [`Stamp`](crate::policy::sampling::Stamp) of the item's last submission, if that is timed; 0 otherwise.
    /// The issuer writes it before it pushes the entry, and the worker that pops the entry resets it. If an item is
    /// queued again just as it begins, its run may find no stamp, or the new one: then one sample is missing, or
    /// shows too short a wait.
    stamp: AtomicU64,
}

impl Header {
    #[inline]
    pub(crate) const fn new(operations: &'static ItemOperations) -> Self {
        Self { operations, stamp: AtomicU64::new(0) }
    }

    /// Stamps an item that is being queued, if it is drawn to be timed.
    #[inline]
    pub(crate) fn stamp(&self, timing: &Timing) {
        self.stamp.store(timing.stamp(), Ordering::Relaxed);
    }
}

/// The functions for the items of one type.
///
/// # Safety
///
/// All functions: the item is of the type for which they were made.
pub(crate) struct ItemOperations {
    /// Executes the item for an entry that a worker popped: runs it or not, and completes the entry or leaves it with
    /// the item.
    pub(crate) execute: unsafe fn(Entry, &WorkerThread),
    /// Gives up this entry of the item, popped from a list, without a run, and tells the item's owner. `None`: the
    /// item had no entry yet. This ends the entry's share of the item; the caller still has to complete the entry.
    /// Returns whether the item would have run for it.
    pub(crate) abandon: unsafe fn(NonNull<Header>, Option<&Entry>) -> bool,
    /// Returns the item's type.
    pub(crate) item_type: unsafe fn(NonNull<Header>) -> &'static ItemType,
}

/// One submission of an item, on a worklist, on a waiting list, or with a worker.
///
/// An entry owns its share of the item (a reference of a reusable one, the entry bit of a one-shot), and counts as
/// in flight in its shard's gate, which keeps the shard and the queue in memory. It is never dropped, but executed or
/// completed. A marker (see `route`) is an entry without an item; it counts in no gate, and has a pin of the queue.
#[derive(Debug)]
pub(crate) struct Entry {
    item: NonNull<Header>,
    /// The address of the shard, or of the entry's own [`Ticketed`]; its two lowest bits are tags.
    shard: NonNull<()>,
}

/// The shard and the ticket of an entry that has one, which owns this. It is a box of its own, because few items are
/// queued while a flush waits: the entries of all others need no third word.
struct Ticketed {
    shard: NonNull<Shard>,
    ticket: Ticket,
}

/// Tag: the entry has a ticket.
const TICKETED: usize = 1;
/// Tag: the entry's issuer named a place, so the entry stays in its pod.
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
    pub(crate) fn has_ticket(&self) -> bool {
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
        // SAFETY: with this tag, the address is one of `Ticketed::leak`. It is freed with the entry.
        Some(unsafe { &*self.untagged().cast() })
    }

    #[inline]
    fn untagged(&self) -> *const () {
        self.shard.as_ptr().map_addr(|address| address & !(TICKETED | BOUND))
    }

    /// Ends an entry that was completed. Its item and its shard may be gone.
    #[inline]
    pub(crate) fn end(self) {
        if self.has_ticket() {
            // SAFETY: as in `ticketed`; the entry owns the box, and ends here.
            drop(unsafe { Box::from_raw(self.untagged().cast::<Ticketed>().cast_mut()) });
        }
    }

    /// Returns whether it must not leave the pool of its shard.
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
        // SAFETY: this entry is in flight in the shard's gate, or is a marker with a pin. A queue frees its shards
        // only when nothing is in flight in its gates and it has no pin. So the shard outlives the entry, and with it
        // the reference.
        unsafe { &*shard }
    }

    /// The type of the item.
    pub(crate) fn item_type(&self) -> &'static ItemType {
        // SAFETY: the entry owns a share of the item, which keeps it in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type.
        unsafe { (operations.item_type)(self.item) }
    }

    /// Stamps the item of an entry that is about to be pushed. `timing` is that of its shard.
    #[inline]
    pub(crate) fn stamp(&self, timing: &Timing) {
        // SAFETY: the entry owns a share of the item, which keeps it in memory.
        unsafe { self.item.as_ref() }.stamp(timing);
    }

    /// Begins the timing of an item that is about to run. Returns `None` if it is not timed. `timing` is that of its
    /// shard.
    #[inline]
    pub(crate) fn begins(&self, timing: &Timing) -> Option<Begun> {
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
        // SAFETY: the entry owns a share of the item, which keeps it in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type.
        unsafe { (operations.execute)(self, worker) }
    }

    /// Gives the entry up without a run. Returns whether the item would have run. The caller still has to complete
    /// the entry.
    pub(crate) fn abandon(&self) -> bool {
        // SAFETY: as in `execute`.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: as in `execute`.
        unsafe { (operations.abandon)(self.item, Some(self)) }
    }
}
