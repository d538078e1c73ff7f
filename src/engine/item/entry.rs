//! What every item begins with, and the entries of lists: each is an item, and the shard to which it was queued.
//!
//! Lists hold items of all types, so an entry points at the item's [`Header`], which has the functions of its type.
//! Pools are made of lists, workers serve pools, and shards lead to pools. So an entry knows its shard and its worker by
//! their addresses only; `queue::shard` and `worker::worker_thread` give these their types.
#![allow(unsafe_code, reason = "lists hold items of all types by a thin pointer")]

use std::any::type_name;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crossbeam_deque::{Injector, Steal};

use crate::policy::flush::Ticket;
use crate::protocol::item::HasTicket;
use crate::sys::sync::{AtomicU64, Ordering};

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
    pub(crate) execute: unsafe fn(Entry, ByWorker<'_>),
    /// Gives up this entry of the item, popped from a list, without a run, and tells the item's owner. `None`: the
    /// item had no entry yet. This ends the entry's share of the item; the caller still has to complete the entry.
    /// Returns whether the item would have run for it.
    pub(crate) abandon: unsafe fn(NonNull<Header>, Option<&Entry>) -> bool,
    /// Returns the item's type.
    pub(crate) item_type: unsafe fn(NonNull<Header>) -> &'static ItemType,
}

/// The worker that executes an entry.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ByWorker<'worker> {
    address: NonNull<()>,
    worker: PhantomData<&'worker ()>,
}

impl<'worker> ByWorker<'worker> {
    /// # Safety
    ///
    /// `W` is the type of workers.
    #[inline]
    pub(crate) unsafe fn new<W>(worker: &'worker W) -> Self {
        Self { address: NonNull::from(worker).cast(), worker: PhantomData }
    }

    /// # Safety
    ///
    /// `W` is the type of workers.
    #[inline]
    pub(crate) unsafe fn worker<W>(self) -> &'worker W {
        // SAFETY: the caller of `new` and this one promise that it is a `W`, which is borrowed for this lifetime.
        unsafe { self.address.cast().as_ref() }
    }
}

/// One submission of an item, on a worklist, on a waiting list, or with a worker.
///
/// An entry owns its share of the item (a reference of a reusable one, the entry bit of a one-shot), and counts as
/// in flight in its shard's limiter, which keeps the shard and the queue in memory. It is never dropped, but executed
/// or completed. A marker (see `queue::route`) is an entry without an item; it counts in no limiter, and has a
/// reference to the queue.
#[derive(Debug)]
pub(crate) struct Entry {
    item: NonNull<Header>,
    /// The address of the shard, or of the entry's own [`Ticketed`]; its three lowest bits are tags.
    shard: NonNull<()>,
}

/// The shard and the ticket of an entry that has one, which owns this. It is a box of its own, because few items are
/// queued while a flush waits: the entries of all others need no third word.
#[repr(align(8))]
struct Ticketed {
    shard: NonNull<()>,
    ticket: Ticket,
}

/// Tag: the entry has a ticket.
const TICKETED: usize = 1;
/// Tag: the entry's issuer named a place, so the entry stays in its pod.
const BOUND: usize = 2;
/// Tag: the entry is a marker.
const MARKER: usize = 4;
const TAGS: usize = TICKETED | BOUND | MARKER;

// SAFETY: an entry is handed from thread to thread like the item it owns; items are `Send` by the bounds of the
// functions that make them, and a shard is shared by all threads.
unsafe impl Send for Entry {}

impl Ticketed {
    #[cold]
    fn leak(shard: NonNull<()>, ticket: Ticket) -> NonNull<()> {
        NonNull::from(Box::leak(Box::new(Self { shard, ticket }))).cast()
    }
}

impl HasTicket for Entry {
    fn ticket(&self) -> Option<Ticket> {
        Self::ticket(self)
    }
}

impl Entry {
    /// Makes the entry of an item that is queued to the shard at this address. Its lowest bits are free for tags.
    #[inline]
    pub(crate) fn at<S>(shard: &S, item: NonNull<Header>, ticket: Option<Ticket>, bound: bool) -> Self {
        const { assert!(align_of::<S>() > TAGS && align_of::<Ticketed>() > TAGS) };
        let shard = NonNull::from(shard).cast();
        let (shard, tag) = match ticket {
            None => (shard, 0),
            Some(ticket) => (Ticketed::leak(shard, ticket), TICKETED),
        };
        let tag = tag | if bound { BOUND } else { 0 };
        Self { item, shard: shard.map_addr(|address| address | tag) }
    }

    /// Makes a marker, which is bound to the shard's pool.
    pub(crate) fn marker_at<S>(shard: &S, item: NonNull<Header>) -> Self {
        let Self { item, shard } = Self::at(shard, item, None, true);
        Self { item, shard: shard.map_addr(|address| address | MARKER) }
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
        self.shard.as_ptr().map_addr(|address| address & !TAGS)
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
    pub(crate) fn is_marker(&self) -> bool {
        self.shard.addr().get() & MARKER != 0
    }

    /// Returns the address of its shard.
    #[inline]
    pub(crate) fn shard_address(&self) -> *const () {
        match self.ticketed() {
            None => self.untagged(),
            Some(ticketed) => ticketed.shard.as_ptr().cast_const(),
        }
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
    pub(crate) fn execute(self, by: ByWorker<'_>) {
        // SAFETY: the entry owns a share of the item, which keeps it in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type.
        unsafe { (operations.execute)(self, by) }
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

/// Takes the first entry of a list. Returns `None` only if the list was seen empty.
#[inline]
pub(crate) fn steal(list: &Injector<Entry>) -> Option<Entry> {
    loop {
        match list.steal() {
            Steal::Success(entry) => return Some(entry),
            Steal::Empty => return None,
            // Another thread took one meanwhile.
            Steal::Retry => {}
        }
    }
}

/// The type of an item, in one word: a static for each type. Items carry its address, since the name of a type is not known at compile time.
#[derive(Debug)]
pub(crate) struct ItemType {
    name: fn() -> &'static str,
}

impl ItemType {
    /// For destructors that a worker runs for an item that does not run.
    pub(crate) const LEFT_BEHIND: &'static Self = &Self { name: || "the destructor of an item" };

    /// For markers, which are entries without an item.
    pub(crate) const MARKER: &'static Self = &Self { name: || "a marker" };

    /// The type of items whose function is an `F`.
    pub(crate) const fn of<F>() -> &'static Self {
        const { &Self { name: type_name::<F> } }
    }

    /// The name that the compiler gives to the type.
    pub(crate) fn name(&self) -> &'static str {
        (self.name)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_the_name_that_the_compiler_gives_it() {
        fn name_of<F>(_: &F) -> &'static str {
            ItemType::of::<F>().name()
        }
        // The closures of one function may share a name.
        let closure = || 1;
        assert!(name_of(&closure).contains("a_type_has_the_name"), "{}", name_of(&closure));
        assert_eq!(ItemType::of::<Vec<u8>>().name(), type_name::<Vec<u8>>());
        assert_ne!(ItemType::of::<Vec<u8>>().name(), ItemType::of::<Vec<u16>>().name());
    }
}
