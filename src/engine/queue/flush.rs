//! Flushes wait for all items that were queued before. So items are counted when they come and when they leave.
//!
//! [`policy::flush`](crate::policy::flush) decides which items a flush waits for, and
//! [`protocol::flush`](crate::protocol::flush) counts them. While no flush counts, an item pays nothing for this.
//! While one counts, each new entry gets a ticket, and takes the lock of its queue's flushes when it comes and when
//! it leaves. The count goes on until the counted items are done, even if the flushing thread has given up.
//!
//! An item that was admitted to wait for a slot is not on the list yet: its issuer may be preempted, or may run a
//! subscriber. If a flush begins meanwhile, the cell of the flushes holds later entries back until that item is on
//! the list. So none of them takes the slot that the item needs.
//!
//! While a flush waits, a cancelled item does not use its old entry again, since the flush waits for that entry. One
//! deadlock remains:
//!
//! * First thread: queues an item. It has an admission, which the flush counts, and has not changed the item's state
//!   yet.
//! * Second thread: queues the same item, after the flush has begun. The item begins to run.
//! * First thread: changes the item's state to pending, and pushes the entry with the admission. A worker pops it,
//!   and leaves it with the item for the next run. If the present run waits for the flush, both wait for ever.
//!
//! This cannot be avoided. The item's state decides which submission is the first one, and does not show the
//! admission. Nor can the run wait for the first thread, which may never go on.
#![allow(unsafe_code, reason = "an item that leaves its gate may be the last user of its queue")]

use std::ptr::NonNull;

use crate::policy::admission::{AdmitMany, Admitted, NotAdmitted, Slot};
use crate::policy::flush::Ticket;
use crate::protocol::flush::Rest;
use crate::protocol::gate::{Came, GateCell, Left};
use crate::sys::wait::Until;

use crate::engine::item::entry::Entry;
use crate::engine::item::waits;
use crate::engine::refusal::WaitError;
use crate::engine::trace;

use super::route;
use super::shard::{Gate, Shard};
use super::workqueue::Queue;

/// The admission of an item to a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) ticket: Option<Ticket>,
    /// False: the item goes to the waiting list.
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
    /// Waits until all items are done that are in flight now.
    pub(crate) fn flush_until(&self, until: Until) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)?;
        waits::check_rescuers(self);
        let (flush, rest) = self.flush.begin(self.gate_cells(), || _ = self.held());
        // SAFETY: the caller keeps the queue in memory.
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

    /// Admits an item, if the gate lets it in. `chained`: the item continues work that is in flight.
    pub(crate) fn pass(&self, gate: &Gate, chained: bool) -> Result<Pass, NotAdmitted> {
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
            Came::Flushing => unreachable!("a gate asks for the lock of the flushes while it is held"),
        }
    }

    /// Admits as many of these items as fit into one step, but at least one.
    pub(crate) fn pass_many(&self, gate: &Gate, items: usize) -> Result<BatchPass, NotAdmitted> {
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
            AdmitMany::Flushing => unreachable!("a gate asks for the lock of the flushes while it is held"),
        }
    }

    /// Undoes the admission of an item that is not queued after all. Returns what becomes of its slot. The caller has a
    /// handle.
    #[cold]
    pub(crate) fn give_back(&self, gate: &Gate, pass: Pass) -> Slot {
        match pass.ticket {
            _ if pass.has_slot => {
                // SAFETY: the caller keeps the queue in memory.
                unsafe { leave_gate(self.this(), &gate.cell, pass.ticket, GateCell::complete) }
            }
            None => {
                let left = gate.cell.withdraw();
                if left.was_counted {
                    // SAFETY: the item was counted, and this is its only report.
                    unsafe { report(self.this()) };
                    self.arrived(1);
                }
                left.slot
            }
            Some(ticket) => {
                let leave = || gate.cell.withdraw();
                let (left, rest) = self.flush.withdraw(ticket, leave, self.gate_cells(), list);
                // SAFETY: the caller keeps the queue in memory.
                unsafe { settle(self.this(), rest) };
                left.slot
            }
        }
    }

    /// Notes that this many items, which a flush had found on their way to the waiting list, are on the list, or are
    /// not queued after all. The caller has a handle.
    #[cold]
    fn arrived(&self, items: usize) {
        let rest = self.flush.arrived(items as u64, self.gate_cells(), list);
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(self.this(), rest) };
    }
}

impl Shard {
    /// Puts an entry that was admitted to wait on the gate's list. The caller has a handle of the queue.
    pub(crate) fn wait(&self, entry: Entry) {
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

    /// A function of its own, to keep the common path short.
    #[cold]
    fn start_first_waiting(&self) {
        route::submit(self.gate().next_active());
    }

    /// Passes an entry with a ticket to the flushes, which list it as soon as all earlier items are listed.
    #[cold]
    fn bring(&self, entry: Entry) {
        let Some(ticket) = entry.ticket() else { return };
        let (queue, gate) = (self.queue(), &self.gate().cell);
        let rest = queue.flush.bring((ticket, gate), entry, queue.gate_cells(), list);
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(queue.this(), rest) };
    }

    /// Notes that this many of its entries, which a flush had found on their way to the list, are listed now. The
    /// caller has a handle of the queue.
    pub(crate) fn arrived(&self, items: usize) {
        if items > 0 {
            self.queue().arrived(items);
        }
    }
}

/// Puts an entry on its gate's list, under the lock of the flushes. Returns the entry to start, if any.
fn list(entry: Entry) -> Option<Entry> {
    let shard: *const Shard = entry.shard();
    // SAFETY: the thread that has the lock keeps the queue in memory, and the queue its shards.
    let gate = unsafe { &*shard }.gate();
    gate.push_waiting(entry);
    gate.cell.list_held().then(|| gate.first_waiting())
}

/// Takes an item out of its gate by `leave`, and tells the flushes that wait for it. Returns what becomes of its slot.
///
/// # Safety
///
/// The item was admitted to this gate of the queue, with this ticket. Afterwards the item keeps the queue in memory
/// only if its slot was handed on, or if it was the last one of a closed gate.
#[inline]
pub(crate) unsafe fn leave_gate(
    queue: NonNull<Queue>,
    gate: &GateCell,
    ticket: Option<Ticket>,
    leave: impl FnOnce(&GateCell) -> Left,
) -> Slot {
    match ticket {
        None => {
            let left = leave(gate);
            if left.was_counted {
                // SAFETY: the item was counted, and this is its only report.
                unsafe { report(queue) };
            }
            left.slot
        }
        // SAFETY: the caller promises it.
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
    // SAFETY: the item keeps the queue in memory until it has left the gate. The lock is released after that; until
    // then the hold that is taken here keeps the queue.
    let queue = unsafe { queue.as_ref() }.held();
    // SAFETY: the hold keeps the queue.
    let (left, rest) = unsafe { queue.as_ref() }.flush.complete(ticket, || leave(gate));
    debug_assert!(!rest.ends_count, "an item with a ticket is not counted");
    rest.wake();
    // SAFETY: this gives up the hold from above.
    unsafe { Queue::let_go(queue) };
    left.slot
}

/// Reports that a counted item has left its gate. The last report ends the count.
///
/// # Safety
///
/// To be called once for each counted item.
#[cold]
unsafe fn report(queue: NonNull<Queue>) {
    // SAFETY: the count cannot end without this report, and has a hold of the queue. The queue may be freed before
    // the call returns; but the call refers to one atomic word only.
    if unsafe { queue.as_ref() }.flush.unreported.report() {
        // SAFETY: only this thread ends the count.
        let rest = unsafe { queue.as_ref().flush.end_count(queue.as_ref().gate_cells()) };
        // SAFETY: the hold of the count keeps the queue in memory.
        unsafe { settle(queue, rest) };
    }
}

/// Finishes a step of the flushes, without their lock: wakes threads, starts entries, lists more of them, and gives
/// up the hold of a count that is over.
///
/// # Safety
///
/// The caller keeps the queue in memory, or the hold of the count that ends here does.
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
        // SAFETY: the caller promises it.
        let queue = unsafe { queue.as_ref() };
        rest = queue.flush.list_more(queue.gate_cells(), list);
    }
    if ends_count {
        // SAFETY: this gives up the hold of the count, which ends once.
        unsafe { Queue::let_go(queue) };
    }
}
