//! The header of every item, and the entries of lists. An entry names an item and the shard to which the item was
//! queued.
//!
//! Lists hold items of all types, so an entry points at the item's [`Header`], which holds the functions for the item's
//! type. Pools contain lists of entries, and both shards and workers refer to pools. To avoid a dependency cycle, this
//! file knows shards and workers only by their addresses. `queue::shard` and `worker::worker_thread` turn these
//! addresses into typed references.
#![allow(unsafe_code, reason = "lists hold items of all types through thin pointers")]

use std::any::type_name;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::policy::flush::Ticket;
use crate::policy::one_shot::Take;
use crate::protocol::item::HasTicket;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::sync::{AtomicU64, Ordering};

use crate::engine::refusal::Cancelled;

use super::latency::{Begun, Timing};

/// The first field of every item.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) operations: &'static ItemOperations,
    /// The [`Stamp`](crate::policy::sampling::Stamp) of the item's last submission if that submission is timed, and 0
    /// otherwise. The issuer writes the stamp before it pushes the entry, and the worker that executes the entry resets
    /// the stamp to 0. If an item is queued again just as a run begins, the run may find either no stamp or the stamp
    /// of the new submission. So one sample may be missing, or may show a wait that is too short.
    stamp: AtomicU64,
}

impl Header {
    #[inline]
    pub(crate) const fn new(operations: &'static ItemOperations) -> Self {
        Self { operations, stamp: AtomicU64::new(0) }
    }

    /// Stamps an item that is being queued, if sampling selects the item.
    #[inline]
    pub(crate) fn stamp(&self, timing: &Timing) {
        self.stamp.store(timing.stamp(), Ordering::Relaxed);
    }
}

/// The part of a one-shot's cell that does not depend on the item's type. Because of `repr(C)`, a pointer to the cell
/// also points to the head, and to the header.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) header: Header,
    pub(crate) cell: OneShotCell,
}

/// Returns the state of the one-shot with this header.
///
/// # Safety
///
/// The header belongs to a one-shot, whose cell stays in memory as long as the result is used.
pub(crate) unsafe fn state_of<'a>(item: NonNull<Header>) -> &'a OneShotCell {
    // SAFETY: the caller promises that the pointer leads to a head, and that the head stays in memory.
    unsafe { &item.cast::<Head>().as_ref().cell }
}

/// The functions for the items of one type.
///
/// # Safety
///
/// Each function is called only with an item of the type for which the function was made. The caller keeps the item in
/// memory during the call of `item_type`.
pub(crate) struct ItemOperations {
    /// Executes an entry that a worker popped. Runs the item unless this submission was cancelled, and completes the
    /// entry. If another worker is running the item, leaves the entry with the item instead.
    pub(crate) execute: unsafe fn(Entry, ByWorker<'_>),
    /// Gives up the entry's share of an item without running the item, and tells the item's owner and the threads that
    /// wait for the item. The caller still has to complete the entry, if there is one.
    pub(crate) abandon: unsafe fn(NonNull<Header>, Share<'_>) -> Abandoned,
    /// Returns the item's type.
    pub(crate) item_type: unsafe fn(NonNull<Header>) -> &'static ItemType,
}

/// The entry's share of an item that a thread gives up without a run.
#[derive(Debug)]
pub(crate) enum Share<'entry> {
    /// The entry was popped from a list.
    Listed(&'entry Entry),
    /// The item is a one-shot that was on no list yet. A thread has taken the item. The field is the answer that the
    /// item's state gave to this thread.
    Taken(Take),
}

/// The state in which an item was when it was given up.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Abandoned {
    /// The item would have run for this entry.
    Ready,
    /// The item would not have run, because its token was cancelled or its deadline had passed. The item's owner learns
    /// only now that the item does not run.
    Obstructed(Cancelled),
    /// The submission had already been cancelled when the item was given up. `late` says whether the reason was the
    /// item's deadline.
    Cancelled { late: bool },
}

impl Abandoned {
    pub(crate) fn is_late(self) -> bool {
        matches!(self, Self::Obstructed(Cancelled::DeadlinePassed) | Self::Cancelled { late: true })
    }
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
        // SAFETY: the callers of `new` and of this function promise that the address points to a `W`, which is borrowed
        // for this lifetime.
        unsafe { self.address.cast().as_ref() }
    }
}

/// One submission of an item. The entry is on a worklist or on a waiting list, or a worker holds it.
///
/// An entry owns a share of its item, which keeps the item in memory. (The share is the entry bit of a one-shot, or the
/// part of a reusable item's word that records the entry.) An entry also counts as in flight in its shard's limiter,
/// and so keeps the shard and the queue in memory. An entry must be executed or completed, and never just dropped.
///
/// A marker (see `queue::route`) is an entry that is not a submission. No limiter counts a marker. Instead, the marker
/// holds a reference to the queue.
#[derive(Debug)]
pub(crate) struct Entry {
    item: NonNull<Header>,
    /// The address of the shard, or of the entry's own [`Ticketed`]. The three lowest bits of the address are tags.
    shard: NonNull<()>,
}

/// The shard and the ticket of an entry that has a ticket. The entry owns this struct in a box. Only the few items that
/// are queued while a flush waits have a ticket. If `Entry` had a field for the ticket, all other entries would be one
/// word larger, too.
#[repr(align(8))]
struct Ticketed {
    shard: NonNull<()>,
    ticket: Ticket,
}

/// The tag of an entry that has a ticket.
const TICKETED: usize = 1;
/// The tag of an entry whose issuer named a place. An entry with this tag stays in its pod.
const BOUND: usize = 2;
/// The tag of a marker.
const MARKER: usize = 4;
const TAGS: usize = TICKETED | BOUND | MARKER;

// SAFETY: threads hand an entry on together with its share of the item. The functions that make items require the items
// to be `Send`, and all threads share the shard.
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
    /// Makes the entry of an item that is queued to this shard. The lowest bits of the shard's address are free for
    /// tags.
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
        // SAFETY: with the tag `TICKETED`, the address comes from `Ticketed::leak`. The `Ticketed` is freed with the
        // entry.
        Some(unsafe { &*self.untagged().cast() })
    }

    #[inline]
    fn untagged(&self) -> *const () {
        self.shard.as_ptr().map_addr(|address| address & !TAGS)
    }

    /// Ends an entry that was completed. The entry's item and shard may be gone by now.
    #[inline]
    pub(crate) fn end(self) {
        if self.has_ticket() {
            // SAFETY: with the tag `TICKETED`, the address comes from `Ticketed::leak`. The entry owns the box, and
            // ends here.
            drop(unsafe { Box::from_raw(self.untagged().cast::<Ticketed>().cast_mut()) });
        }
    }

    /// Returns whether the entry must stay in the pool of its shard.
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        self.shard.addr().get() & BOUND != 0
    }

    #[inline]
    pub(crate) fn is_marker(&self) -> bool {
        self.shard.addr().get() & MARKER != 0
    }

    /// Returns the address of the entry's shard.
    #[inline]
    pub(crate) fn shard_address(&self) -> *const () {
        match self.ticketed() {
            None => self.untagged(),
            Some(ticketed) => ticketed.shard.as_ptr().cast_const(),
        }
    }

    /// Returns the type of the item.
    pub(crate) fn item_type(&self) -> &'static ItemType {
        // SAFETY: the entry owns a share of the item, which keeps the item in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type. The entry keeps the item in memory.
        unsafe { (operations.item_type)(self.item) }
    }

    /// Stamps the item of an entry that is about to be pushed. `timing` belongs to the entry's shard.
    #[inline]
    pub(crate) fn stamp(&self, timing: &Timing) {
        // SAFETY: the entry owns a share of the item, which keeps the item in memory.
        unsafe { self.item.as_ref() }.stamp(timing);
    }

    /// Begins the timing of an item that is about to run. Returns `None` if the item is not timed. `timing` belongs to
    /// the entry's shard.
    #[inline]
    pub(crate) fn begins(&self, timing: &Timing) -> Option<Begun> {
        // SAFETY: the entry owns a share of the item, which keeps the item in memory.
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
        // SAFETY: the entry owns a share of the item, which keeps the item in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type.
        unsafe { (operations.execute)(self, by) }
    }

    /// Gives up the entry without running the item. The caller still has to complete the entry.
    pub(crate) fn abandon(&self) -> Abandoned {
        // SAFETY: the entry owns a share of the item, which keeps the item in memory.
        let operations = unsafe { self.item.as_ref() }.operations;
        // SAFETY: an item's header has the functions for the item's own type.
        unsafe { (operations.abandon)(self.item, Share::Listed(self)) }
    }
}

/// The type of an item. Each type has a static `ItemType`, and an item carries the address of that static in one word.
/// The struct holds a function instead of the name itself, because the name of a type is not known at compile time.
#[derive(Debug)]
pub(crate) struct ItemType {
    name: fn() -> &'static str,
}

impl ItemType {
    /// The type that a worker reports while it drops an item that does not run.
    pub(crate) const LEFT_BEHIND: &'static Self = &Self { name: || "the destructor of an item" };

    /// The type of markers, which are entries that are not submissions.
    pub(crate) const MARKER: &'static Self = &Self { name: || "a marker" };

    /// Returns the type of items whose function is an `F`.
    pub(crate) const fn of<F>() -> &'static Self {
        const { &Self { name: type_name::<F> } }
    }

    /// Returns the name that the compiler gives to the type.
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
        // Several closures inside one function may share a name.
        let closure = || 1;
        assert!(name_of(&closure).contains("a_type_has_the_name"), "{}", name_of(&closure));
        assert_eq!(ItemType::of::<Vec<u8>>().name(), type_name::<Vec<u8>>());
        assert_ne!(ItemType::of::<Vec<u8>>().name(), ItemType::of::<Vec<u16>>().name());
    }
}
