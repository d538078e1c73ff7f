//! Waiting for everything that was queued before, and what that asks of items that come and leave meanwhile.
//!
//! Which items a flush waits for says [`policy::flush`](crate::policy::flush); how they are counted
//! [`protocol::flush`](crate::protocol::flush). While no flush counts, an item pays nothing for this. Until what a flush has
//! counted is done, also if the flush was given up, a new item takes the lock of its queue's flushes when it comes and when it
//! leaves, and its entry has a ticket.
//!
//! An item that was admitted to wait for a slot is not on the list yet. Its issuer may be preempted, or a subscriber may run. If
//! a flush begins meanwhile, later entries are held in the cell of the flushes until that item is on the list, so that none
//! takes the slot that it needs.
//!
//! While a flush waits, a reusable item that was cancelled does not take its former place again, since the flush waits for
//! that. One case is left. A thread queues an item: it has an admission, which the flush counts, and has not told the item's
//! state. Another thread queues the same item first, after the flush has begun, and it runs. Then the first thread queues it
//! for the next run, and the entry with the admission is kept by the run that goes on. If that run waits for the flush, both
//! wait for ever. Who comes first is decided by the item's state, which does not know that an admission is on its way; and the
//! run of the item cannot be put off until that thread goes on, since the thread may come to nothing.
#![allow(unsafe_code, reason = "an item that leaves its gate may be the last user of its queue")]

use std::ptr::NonNull;

use crate::policy::admission::{AdmitMany, Admitted, NotAdmitted, Slot};
use crate::policy::flush::Ticket;
use crate::protocol::flush::Rest;
use crate::protocol::gate::{Came, GateCell, Left};
use crate::sys::wait::Until;

use super::entry::Entry;
use super::queue::Queue;
use super::refusal::WaitError;
use super::route;
use super::shard::{Gate, Shard};
use super::trace;
use super::waits;

/// An item was admitted to a gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) ticket: Option<Ticket>,
    /// False: it goes to the waiting list.
    pub(super) has_slot: bool,
}

/// The same for items that came in one step.
#[derive(Debug)]
pub(super) struct BatchPass {
    pub(super) ticket: Option<Ticket>,
    pub(super) admitted: Admitted,
}

impl BatchPass {
    pub(super) fn one(pass: Pass) -> Self {
        Self { ticket: pass.ticket, admitted: Admitted::one(pass.has_slot) }
    }
}

impl Queue {
    /// Waits until everything is done that is in flight now.
    pub(crate) fn flush_until(&self, until: Until) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)?;
        waits::check_rescuers(self);
        let (flush, rest) = self.flush.begin(self.gate_cells(), || _ = self.held());
        // SAFETY: the caller keeps the queue in place.
        unsafe { settle(self.this(), rest) };
        let Some(flush) = flush else { return Ok(()) };
        let target = waits::Target::Flush { queue: self, flush: &flush };
        let waited = waits::wait(target, until, |until| flush.wait(until));
        if waited.is_err() {
            self.flush.abandon(flush);
        }
        waited
    }

    fn gate_cells(&self) -> impl Iterator<Item = &GateCell> + Clone {
        self.gates().map(|gate| &*gate.cell)
    }

    /// An item comes, if it may.
    pub(super) fn pass(&self, gate: &Gate, chained: bool) -> Result<Pass, NotAdmitted> {
        let came = if chained { gate.cell.admit_chained() } else { gate.cell.admit() };
        let (came, ticket) = match came {
            Came::Flushing => {
                self.flush.admit(|| gate.cell.admit_beside_flush(chained), |came| came.admitted())
            }
            came => (came, None),
        };
        match came {
            Came::Started => Ok(Pass { ticket, has_slot: true }),
            Came::Waits => Ok(Pass { ticket, has_slot: false }),
            Came::Not(reason) => Err(reason),
            Came::Flushing => unreachable!("the lock of the flushes is held"),
        }
    }

    /// Items come, as many as fit into one step, but at least one.
    pub(super) fn pass_many(&self, gate: &Gate, items: usize) -> Result<BatchPass, NotAdmitted> {
        let (answer, ticket) = match gate.cell.admit_many(items) {
            AdmitMany::Flushing => self.flush.admit(
                || gate.cell.admit_many_beside_flush(items),
                |answer| if let AdmitMany::In(admitted) = answer { Some(*admitted) } else { None },
            ),
            answer => (answer, None),
        };
        match answer {
            AdmitMany::In(admitted) => Ok(BatchPass { ticket, admitted }),
            AdmitMany::Refused => Err(NotAdmitted::Door),
            AdmitMany::Full => Err(NotAdmitted::Full),
            AdmitMany::Flushing => unreachable!("the lock of the flushes is held"),
        }
    }

    /// An item that was admitted does not come after all. The caller has a handle. Returns what becomes of its slot.
    #[cold]
    pub(super) fn give_back(&self, gate: &Gate, pass: Pass) -> Slot {
        match pass.ticket {
            _ if pass.has_slot => {
                // SAFETY: the caller keeps the queue in place.
                unsafe { leave_gate(self.this(), &gate.cell, pass.ticket, GateCell::complete) }
            }
            None => {
                let left = gate.cell.withdraw();
                if left.was_counted {
                    // SAFETY: it was counted, and reports once.
                    unsafe { report(self.this()) };
                    self.arrived(1);
                }
                left.slot
            }
            Some(ticket) => {
                let leave = || gate.cell.withdraw();
                let (left, rest) = self.flush.withdraw(ticket, leave, self.gate_cells(), list);
                // SAFETY: the caller keeps the queue in place.
                unsafe { settle(self.this(), rest) };
                left.slot
            }
        }
    }

    /// So many items that a flush had found coming are on the list, or do not come after all. The caller has a handle.
    #[cold]
    fn arrived(&self, items: usize) {
        let rest = self.flush.arrived(items as u64, self.gate_cells(), list);
        // SAFETY: the caller keeps the queue in place.
        unsafe { settle(self.this(), rest) };
    }
}

impl Shard {
    /// An entry that was told to wait goes to the gate's list. The caller has a handle of the queue.
    pub(super) fn wait(&self, entry: Entry) {
        if entry.has_ticket() {
            return self.bring(entry);
        }
        let gate = self.gate();
        gate.push_waiting(entry);
        let listed = gate.cell.list();
        if listed.handed {
            self.start_first_waiting();
        }
        if listed.was_counted {
            self.queue().arrived(1);
        }
    }

    /// Apart, so that the common way is short.
    #[cold]
    fn start_first_waiting(&self) {
        route::submit(self.gate().next_active());
    }

    #[cold]
    fn bring(&self, entry: Entry) {
        let Some(ticket) = entry.ticket() else { return };
        let (queue, gate) = (self.queue(), &self.gate().cell);
        let rest = queue.flush.bring((ticket, gate), entry, queue.gate_cells(), list);
        // SAFETY: the caller keeps the queue in place.
        unsafe { settle(queue.this(), rest) };
    }

    /// So many of its entries, which were listed, had been found coming. The caller has a handle of the queue.
    pub(super) fn arrived(&self, items: usize) {
        if items > 0 {
            self.queue().arrived(items);
        }
    }
}

/// Puts an entry on its gate's list, under the lock of the flushes. Returns the one to start, if any.
fn list(entry: Entry) -> Option<Entry> {
    let shard: *const Shard = entry.shard();
    // SAFETY: the caller of the step under the lock has a handle of the queue, which keeps its shards.
    let gate = unsafe { &*shard }.gate();
    gate.push_waiting(entry);
    gate.cell.list_held().then(|| gate.first_waiting())
}

/// An item leaves its gate, by `leave`. Returns what becomes of its slot.
///
/// # Safety
///
/// The item has been admitted to this gate of the queue, with this ticket. The caller must not use the queue afterwards
/// because of the item, unless a slot was handed on or the item was the last one of a closed gate.
#[inline]
pub(super) unsafe fn leave_gate(
    queue: NonNull<Queue>,
    gate: &GateCell,
    ticket: Option<Ticket>,
    leave: impl FnOnce(&GateCell) -> Left,
) -> Slot {
    match ticket {
        None => {
            let left = leave(gate);
            if left.was_counted {
                // SAFETY: it was counted, and reports once.
                unsafe { report(queue) };
            }
            left.slot
        }
        // SAFETY: as told by the caller.
        Some(ticket) => unsafe { leave_with_ticket(queue, gate, ticket, leave) },
    }
}

/// # Safety
///
/// As of [`leave_gate`].
#[cold]
unsafe fn leave_with_ticket(
    queue: NonNull<Queue>,
    gate: &GateCell,
    ticket: Ticket,
    leave: impl FnOnce(&GateCell) -> Left,
) -> Slot {
    // SAFETY: the item keeps the queue in place until it has left the gate, and this hold does from here on: the lock is
    // released after that.
    let queue = unsafe { queue.as_ref() }.held();
    // SAFETY: the hold.
    let (left, rest) = unsafe { queue.as_ref() }.flush.complete(ticket, || leave(gate));
    debug_assert!(!rest.ends_count, "an item with a ticket is not counted");
    rest.wake();
    // SAFETY: the hold from above.
    unsafe { Queue::let_go(queue) };
    left.slot
}

/// A counted item has left its gate.
///
/// # Safety
///
/// To be called once for each counted item.
#[cold]
unsafe fn report(queue: NonNull<Queue>) {
    // SAFETY: the count cannot end without this report, and has a hold of the queue. The call may return after the queue is
    // freed; what it refers to is one atomic word.
    if unsafe { queue.as_ref() }.flush.unreported.report() {
        // SAFETY: only this thread ends the count.
        let rest = unsafe { queue.as_ref().flush.end_count(queue.as_ref().gate_cells()) };
        // SAFETY: the hold of the count keeps the queue in place.
        unsafe { settle(queue, rest) };
    }
}

/// Does what a step of the flushes has left to do.
///
/// # Safety
///
/// Something keeps the queue in place: the hold of the count that ends here, or the caller.
unsafe fn settle(queue: NonNull<Queue>, mut rest: Rest<Entry>) {
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
        // SAFETY: as told by the caller.
        let queue = unsafe { queue.as_ref() };
        rest = queue.flush.list_more(queue.gate_cells(), list);
    }
    if ends_count {
        // SAFETY: the hold of the count, which ends once.
        unsafe { Queue::let_go(queue) };
    }
}
