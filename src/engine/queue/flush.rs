//! A flush waits for all items that were queued before the flush began. For this purpose, a flush counts items when
//! they arrive at the queue and when they leave the queue.
//!
//! [`policy::flush`](crate::policy::flush) decides which items a flush waits for, and
//! [`protocol::flush`](crate::protocol::flush) counts them. While no flush counts items, flushes cost an item nothing.
//! While a flush counts items, each new entry gets a ticket. A thread takes the lock of the flushes when an entry with
//! a ticket arrives, and when the entry leaves. A flush's count lasts until the counted items are done, even if the
//! flushing thread no longer waits.
//!
//! An item that was admitted without a slot reaches the waiting list a little later, because its issuer may be
//! preempted or may run a subscriber first. If a flush begins before the item is on the list, the queue's `FlushCell`
//! holds later entries back until the item is on the list. So no later entry takes the slot that the item needs.
//!
//! A flush may wait for the old entry of a cancelled item. If a new submission of this item used the old entry again,
//! the flush would also wait for the new submission. So the new submission gets a new entry, unless the flush would
//! wait for a new entry, too. One deadlock remains possible:
//!
//! * First thread: queues an item. The thread has an admission, which the flush counts, but has not changed the item's
//!   state yet.
//! * Second thread: queues the same item, after the flush has begun. The item begins to run.
//! * First thread: changes the item's state to pending, and pushes the entry that has this admission. A worker pops the
//!   entry, and stores the entry in the item for the next run. If the present run waits for the flush, the run and the
//!   flush wait for each other for ever.
//!
//! This deadlock cannot be avoided. The item's state decides which submission comes first, but this state does not show
//! the admission of the first thread. The run cannot wait for the first thread either, because that thread may never
//! continue.
#![allow(unsafe_code, reason = "an item that leaves its limiter may be the last user of its queue")]

use crate::protocol::flush::Flush;
use crate::sys::machine;
use crate::sys::wait::Until;

use crate::engine::item::waits;
use crate::engine::item::waits::register::Target;
use crate::engine::refusal::WaitError;

use super::admission::settle;
use super::workqueue::Queue;

impl Queue {
    /// Waits until all items that are in flight now are done.
    pub(crate) fn flush_until(&self, until: Until) -> Result<(), WaitError> {
        machine::step_to(|| (self.executor.machine, self.name()));
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)?;
        waits::check_rescuers(self);
        let Some(flush) = self.begin_flush() else { return Ok(()) };
        // Another thread may have queued the calling item to this queue after the first check. If the item was queued
        // before the flush began, the flush waits for the item's next run. If the item was queued later, the flush does
        // not wait for that run. This thread cannot tell the two cases apart, so it refuses the wait in both cases.
        let waited = waits::check_queue(self).and_then(|()| {
            let target = Target::Flush { queue: self, flush: &flush };
            waits::wait(target, until, || flush.is_over(), |until| flush.wait(until))
        });
        if waited.is_err() {
            self.flush.abandon(flush);
        }
        waited
    }

    /// Begins a flush. Returns `None` if the flush is over immediately.
    pub(super) fn begin_flush(&self) -> Option<Flush> {
        let (flush, rest) = self.flush.begin(self.limiter_cells(), || _ = self.count_reference());
        // SAFETY: the caller keeps the queue in memory.
        unsafe { settle(self.this(), rest) };
        flush
    }
}
