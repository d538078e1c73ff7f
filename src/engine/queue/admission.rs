//! Admission, waiting and completion: how an item enters its limiter, waits there for a slot, and leaves.
//!
//! 1. [`Queue::admit_unless_full`] counts the item, in one read-modify-write of the limiter's word. If a slot is free
//!    and no other item waits, the item gets the slot. Otherwise the item waits for a slot.
//! 2. [`Shard::wait`] puts the item's entry on the limiter's waiting list, and counts the entry as listed.
//! 3. [`complete`] takes the item out of the limiter, and passes the item's slot on to the first entry of the list.
//!
//! While a flush of the queue counts items or waits for items, each of the three steps has a second form, which takes
//! the lock of the queue's flushes (see `flush`). A limiter whose *intake* is open accepts items from all issuers. If
//! the intake is not open, `drain` decides from which callers the queue accepts items.
#![allow(unsafe_code, reason = "an item that leaves its limiter may be the last user of its queue")]

use std::ptr::NonNull;

use crate::policy::admission::{AdmitMany, Admitted, Arrived, Intake, NotAdmitted, Slot};
use crate::policy::flush::Ticket;
use crate::protocol::flush::Rest;
use crate::protocol::limiter::{Came, Left, LimiterCell};

use crate::engine::item::entry::Entry;
use crate::engine::item::token::Token;
use crate::engine::refusal::QueueError;
use crate::engine::trace;
use crate::engine::worker::worker_thread;

use super::route;
use super::shard::{Limiter, Shard};
use super::workqueue::Queue;

/// The admission of an item to a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) ticket: Option<Ticket>,
    /// Whether the item has a slot. An item without a slot goes to the limiter's waiting list.
    pub(crate) has_slot: bool,
}

/// The admission of several items in one step.
#[derive(Debug)]
pub(crate) struct BatchPass {
    pub(crate) ticket: Option<Ticket>,
    pub(crate) admitted: Admitted,
}

impl BatchPass {
    pub(crate) fn one(pass: Pass) -> Self {
        Self { ticket: pass.ticket, admitted: Admitted::one(pass.has_slot) }
    }
}

impl Queue {
    /// Admits an item, unless the limiter is full.
    #[inline]
    pub(crate) fn admit_unless_full(&self, limiter: &Limiter) -> Result<Pass, QueueError> {
        match limiter.cell.admit_unless_full() {
            Came::Started => Ok(Pass { ticket: None, has_slot: true }),
            Came::Waits => Ok(Pass { ticket: None, has_slot: false }),
            Came::Not(NotAdmitted::Full) => Err(QueueError::Full),
            Came::Flushing | Came::Not(NotAdmitted::Intake) => self.admit(limiter),
        }
    }

    /// Admits an item, even if the limiter counts as full. Fails for lack of room only if the limiter's word cannot
    /// count one more item. The manager calls this function for the items of timers, which the queue has already
    /// accepted. Issuers call this function only off the common path.
    #[cold]
    pub(crate) fn admit(&self, limiter: &Limiter) -> Result<Pass, QueueError> {
        match self.pass(limiter, None) {
            Ok(pass) => Ok(pass),
            Err(NotAdmitted::Intake) => self.admit_counted(limiter),
            Err(NotAdmitted::Full) => Err(QueueError::Full),
        }
    }

    /// Admits an item, unless the limiter refuses it. If the caller counts the item, `by` is the intake with which the
    /// queue answered the caller. The limiter then refuses the item if its own intake is shut or stricter than `by`.
    pub(crate) fn pass(&self, limiter: &Limiter, by: Option<Intake>) -> Result<Pass, NotAdmitted> {
        let came = by.map_or_else(|| limiter.cell.admit(), |by| limiter.cell.admit_counted(by));
        let (came, ticket) = match came {
            Came::Flushing => {
                self.flush.admit(|| limiter.cell.admit_beside_flush(by), |came| came.admitted())
            }
            came => (came, None),
        };
        match came {
            Came::Started => Ok(Pass { ticket, has_slot: true }),
            Came::Waits => Ok(Pass { ticket, has_slot: false }),
            Came::Not(reason) => Err(reason),
            Came::Flushing => unreachable!("a limiter asks for the lock of the flushes while it is held"),
        }
    }

    /// Admits an item that the calling thread then runs at once. Returns `None` if no slot is free, or if the intake is
    /// not open.
    #[cold]
    pub(crate) fn pass_here(&self, limiter: &Limiter) -> Option<Pass> {
        let (came, ticket) = match limiter.cell.admit_here() {
            Came::Flushing => {
                self.flush.admit(|| limiter.cell.admit_here_beside_flush(), |came| came.admitted())
            }
            came => (came, None),
        };
        (came == Came::Started).then_some(Pass { ticket, has_slot: true })
    }

    /// Admits at least one of these items. Admits further items as long as the queue has room for them and one step can
    /// admit them. The first of the admitted items get the free slots. The other admitted items go to the waiting list.
    /// `token` is the token of the batch. A wait for room ends when the batch's token counts as cancelled.
    pub(crate) fn admit_many(
        &self,
        limiter: &Limiter,
        items: usize,
        token: Option<&Token>,
    ) -> Result<BatchPass, QueueError> {
        // While the intake is not open, the limiter admits one item at a time. So this call then takes only one place,
        // because other issuers may need the other places.
        let items = if limiter.cell.load().intake() == Intake::Open { items } else { 1 };
        let mut room = self.take_places(items);
        if room == 0 {
            self.when_full(QueueError::Full, token)?.leave();
            room = 1;
        }
        let admitted = match limiter.cell.is_full() {
            true => Err(QueueError::Full),
            false => match self.pass_many(limiter, room) {
                Ok(admitted) => Ok(admitted),
                // The intake is not open, so only one item is admitted.
                Err(NotAdmitted::Intake) => self.admit_counted(limiter).map(BatchPass::one),
                Err(NotAdmitted::Full) => Err(QueueError::Full),
            },
        };
        let came = admitted.as_ref().map_or(0, |pass| pass.admitted.items());
        if came < room {
            self.left_pending_many(room - came);
        }
        admitted
    }

    /// Admits at least one of these items, and further items as long as one step can admit them.
    pub(crate) fn pass_many(&self, limiter: &Limiter, items: usize) -> Result<BatchPass, NotAdmitted> {
        let (answer, ticket) = match limiter.cell.admit_many(items) {
            AdmitMany::Flushing => self.flush.admit(
                || limiter.cell.admit_many_beside_flush(items),
                |answer| if let AdmitMany::In(admitted) = answer { Some(*admitted) } else { None },
            ),
            answer => (answer, None),
        };
        match answer {
            AdmitMany::In(admitted) => Ok(BatchPass { ticket, admitted }),
            AdmitMany::Refused => Err(NotAdmitted::Intake),
            AdmitMany::Full => Err(NotAdmitted::Full),
            AdmitMany::Flushing => {
                unreachable!("a limiter asks for the lock of the flushes while it is held")
            }
        }
    }

    /// Undoes the admission of an item that is not queued after all, for example because another thread has queued it
    /// first. Starts the item that gets the slot of the undone admission, if there is such an item.
    #[cold]
    pub(crate) fn take_back(&self, limiter: &Limiter, pass: Pass) {
        if self.give_back(limiter, pass) == Slot::Handed {
            route::submit(limiter.next_active());
        }
    }

    /// Undoes the admission of an item that is not queued after all. Returns what happens to the item's slot. The
    /// caller holds a handle to the queue.
    #[cold]
    pub(crate) fn give_back(&self, limiter: &Limiter, pass: Pass) -> Slot {
        match pass.ticket {
            _ if pass.has_slot => {
                // SAFETY: the caller keeps the queue in memory.
                unsafe { leave_limiter(self.this(), &limiter.cell, pass.ticket, LimiterCell::complete) }
            }
            None => {
                let left = limiter.cell.withdraw();
                if left.was_counted {
                    // SAFETY: a flush has counted the item, and this is the item's only report.
                    unsafe { report(self.this()) };
                    self.arrived(1);
                }
                left.slot
            }
            Some(ticket) => {
                let leave = || limiter.cell.withdraw();
                let (left, rest) = self.flush.withdraw(ticket, leave, self.limiter_cells(), list);
                // SAFETY: the caller keeps the queue in memory.
                unsafe { settle(self.this(), rest) };
                left.slot
            }
        }
    }

    /// Notes that this many items have reached the waiting list, or are not queued after all. Before this call, a flush
    /// has found these items on their way to the waiting list. The caller holds a handle to the queue.
    #[cold]
    fn arrived(&self, items: usize) {
        let rest = self.flush.arrived(items as u64, self.limiter_cells(), list);
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(self.this(), rest) };
    }

    /// Frees the queue, and calls the destructors of its hooks. A destructor may block. So if the calling thread is a
    /// worker between two items, the worker treats the destructors as an item.
    #[cold]
    #[inline(never)]
    pub(super) fn free(self: Box<Self>) {
        worker_thread::with_current(|worker| match worker {
            Some(worker) => worker.between_items(|| drop(self)),
            None => drop(self),
        });
    }

    pub(super) fn limiter_cells(&self) -> impl Iterator<Item = &LimiterCell> + Clone {
        self.limiters().map(|limiter| &*limiter.cell)
    }
}

impl Shard {
    /// Puts an entry on the limiter's waiting list. The entry was admitted without a slot. The caller holds a handle to
    /// the queue.
    pub(crate) fn wait(&self, entry: Entry) {
        if entry.has_ticket() {
            return self.bring(entry);
        }
        let limiter = self.limiter();
        limiter.push_waiting(entry);
        let listed = limiter.cell.list();
        if listed.handed {
            self.start_first_waiting();
        }
        if listed.was_counted {
            self.queue().arrived(1);
        }
    }

    /// Starts the first entry of the waiting list. This function is separate from its caller, to keep the common path
    /// short.
    #[cold]
    fn start_first_waiting(&self) {
        route::submit(self.limiter().next_active());
    }

    /// Passes an entry with a ticket to the queue's flushes. The flushes put the entry on the waiting list as soon as
    /// all earlier items are on that list.
    #[cold]
    fn bring(&self, entry: Entry) {
        let Some(ticket) = entry.ticket() else { return };
        let (queue, limiter) = (self.queue(), &self.limiter().cell);
        let rest = queue.flush.bring((ticket, limiter), entry, queue.limiter_cells(), list);
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(queue.this(), rest) };
    }

    /// Notes that this many of the shard's entries have reached the waiting list. Before this call, a flush has found
    /// these entries on their way to the waiting list. The caller holds a handle to the queue.
    pub(crate) fn arrived(&self, items: usize) {
        if items > 0 {
            self.queue().arrived(items);
        }
    }
}

impl Limiter {
    /// Counts this many entries as listed. The caller has put these entries on the waiting list, and the entries have
    /// no tickets. Calls `start` with each entry that is to be started. Returns how many of the listed entries a flush
    /// had found on their way to the waiting list. The caller holds a handle to the queue.
    pub(crate) fn list_many(&self, entries: usize, mut start: impl FnMut(Entry)) -> usize {
        let mut coming = entries;
        let mut counted = 0;
        while coming > 0 {
            let (Arrived { arrived, handed }, were_counted) = self.cell.list_many(coming);
            coming -= arrived;
            counted += if were_counted { arrived } else { 0 };
            (0..handed).for_each(|_| start(self.next_active()));
        }
        counted
    }

    /// Takes the first entry off the limiter's waiting list, and traces its activation. The entry has been given a
    /// slot, and the caller starts it.
    pub(crate) fn next_active(&self) -> Entry {
        let next = self.first_waiting();
        trace::activate_work(&next);
        next
    }
}

/// Puts an entry on its limiter's waiting list. Returns the entry that must be started, if any. The caller holds the
/// lock of the flushes.
fn list(entry: Entry) -> Option<Entry> {
    let shard: *const Shard = entry.shard();
    // SAFETY: the thread that holds the lock keeps the queue in memory, and the queue keeps its shards.
    let limiter = unsafe { &*shard }.limiter();
    limiter.push_waiting(entry);
    limiter.cell.list_held().then(|| limiter.first_waiting())
}

/// Completes an entry, whether its item ran or not. Tells the flushes that wait for the item, hands the item's slot on,
/// and frees the queue if no reference to the queue is left. Returns the entry that the caller must start, if any.
#[inline]
pub(crate) fn complete(entry: Entry) -> Option<Entry> {
    let shard = entry.shard();
    let queue = shard.queue;
    let limiter = shard.limiter();
    // SAFETY: the entry is in flight in this limiter until here.
    let next = match unsafe { leave_limiter(queue, &limiter.cell, entry.ticket(), LimiterCell::complete) } {
        Slot::Handed => Some(limiter.next_active()),
        Slot::Free => None,
        Slot::Last => {
            // SAFETY: the limiter is closed, and its last entry gives up the limiter's reference.
            unsafe { Queue::release(queue) };
            None
        }
    };
    entry.end();
    next
}

/// Takes an item out of its limiter with `leave`, and tells the flushes that wait for the item. Returns what happens to
/// the item's slot.
///
/// # Safety
///
/// The item was admitted to this limiter of the queue, with this ticket. After the call, the item keeps the queue in
/// memory only in two cases: the item's slot was handed on, or the item was the last item of a closed limiter.
#[inline]
pub(crate) unsafe fn leave_limiter(
    queue: NonNull<Queue>,
    limiter: &LimiterCell,
    ticket: Option<Ticket>,
    leave: impl FnOnce(&LimiterCell) -> Left,
) -> Slot {
    match ticket {
        None => {
            let left = leave(limiter);
            if left.was_counted {
                // SAFETY: a flush has counted the item, and this is the item's only report.
                unsafe { report(queue) };
            }
            left.slot
        }
        // SAFETY: the caller promises the conditions of `leave_limiter`, which are also those of this call.
        Some(ticket) => unsafe { leave_with_ticket(queue, limiter, ticket, leave) },
    }
}

/// # Safety
///
/// The conditions are those of [`leave_limiter`].
#[cold]
unsafe fn leave_with_ticket(
    queue: NonNull<Queue>,
    limiter: &LimiterCell,
    ticket: Ticket,
    leave: impl FnOnce(&LimiterCell) -> Left,
) -> Slot {
    // SAFETY: the item keeps the queue in memory until it has left the limiter. The lock is released only after the
    // item has left, so the reference that is taken here keeps the queue in memory until the release.
    let queue = unsafe { queue.as_ref() }.count_reference();
    // SAFETY: the reference keeps the queue in memory.
    let (left, rest) = unsafe { queue.as_ref() }.flush.complete(ticket, || leave(limiter));
    debug_assert!(!rest.ends_count, "an item with a ticket is not counted");
    rest.wake();
    // SAFETY: this call gives up the reference that was taken above.
    unsafe { Queue::release(queue) };
    left.slot
}

/// Reports that an item has left its limiter. A flush has counted the item. The last report ends the flush's count.
///
/// # Safety
///
/// The caller calls this function once for each counted item.
#[cold]
unsafe fn report(queue: NonNull<Queue>) {
    // SAFETY: the count holds a reference to the queue, and cannot end without this report. The queue may be freed
    // before the call returns, but the call refers to one atomic word only.
    if unsafe { queue.as_ref() }.flush.unreported.report() {
        // SAFETY: only this thread ends the count.
        let rest = unsafe { queue.as_ref().flush.end_count(queue.as_ref().limiter_cells()) };
        // SAFETY: the reference of the count keeps the queue in memory.
        unsafe { settle(queue, rest) };
    }
}

/// Finishes a step of the flushes after their lock was released: wakes threads, starts entries, lists more entries, and
/// gives up the reference of a count that has ended.
///
/// # Safety
///
/// The queue is kept in memory by the caller, or by the reference of the count that ends here.
pub(super) unsafe fn settle(queue: NonNull<Queue>, mut rest: Rest<Entry>) {
    let ends_count = rest.ends_count;
    loop {
        let (started, lists_more) = (std::mem::take(&mut rest.started), rest.lists_more);
        rest.wake();
        for entry in started {
            trace::activate_work(&entry);
            route::submit(entry);
        }
        if !lists_more {
            break;
        }
        // SAFETY: the caller promises that the queue is kept in memory.
        let queue = unsafe { queue.as_ref() };
        rest = queue.flush.list_more(queue.limiter_cells(), list);
    }
    if ends_count {
        // SAFETY: this call gives up the count's reference, and a count ends only once.
        unsafe { Queue::release(queue) };
    }
}
