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
#![allow(unsafe_code, reason = "an item that leaves its limiter may be the last user of its queue")]

use crate::sys::wait::Until;

use crate::engine::item::waits;
use crate::engine::item::waits::register::Target;
use crate::engine::refusal::WaitError;

use super::admission::settle;
use super::workqueue::Queue;

impl Queue {
    /// Waits until all items are done that are in flight now.
    pub(crate) fn flush_until(&self, until: Until) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)?;
        waits::check_rescuers(self);
        let (flush, rest) = self.flush.begin(self.limiter_cells(), || _ = self.count_reference());
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(self.this(), rest) };
        let Some(flush) = flush else { return Ok(()) };
        let target = Target::Flush { queue: self, flush: &flush };
        let waited = waits::wait(target, until, |until| flush.wait(until));
        if waited.is_err() {
            self.flush.abandon(flush);
        }
        waited
    }
}
