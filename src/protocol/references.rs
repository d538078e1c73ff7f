//! The count of references to a queue. A reference keeps the queue in memory. All handles share one reference. Each of
//! the following has a reference of its own: a `QueueRef`; a closed limiter that has an item in flight; a flush's count
//! of items; and an item with a ticket, while the item leaves its limiter. (A ticket is a number from which a flush
//! tells whether it waits for the item.)
//!
//! A thread that has a reference can take another reference. A thread without a reference finds the queue in the
//! executor's register. After the last reference was given up, the queue leaves the register, under the register's
//! lock, and is then freed. So until the queue has left the register, a thread may find the queue although the queue
//! has no reference left. A thread that finds a queue without references gets no reference.
//!
//! The step that gives up a reference is a release and an acquire:
//!
//! * first owner: uses the queue, then gives up its reference;
//! * last owner: gives up its reference, then frees the queue, after the first owner's last use.

use crate::sys::sync::{AtomicU64, Ordering};

/// The number of references to a queue.
#[derive(Debug)]
pub(crate) struct ReferenceCount(AtomicU64);

impl ReferenceCount {
    /// Makes the count of a new queue, which has one reference.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Adds this many references. The caller already keeps the queue in memory with a reference or an entry.
    pub(crate) fn add(&self, references: usize) {
        self.0.fetch_add(references as u64, Ordering::Relaxed);
    }

    /// Takes a reference for a caller that has none. Returns false if no reference is left, because the queue is being
    /// freed.
    pub(crate) fn try_ref(&self) -> bool {
        let count = |references: u64| (references > 0).then_some(references + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// Gives up a reference. Returns true if this was the last reference. The caller then frees the queue. If this was
    /// not the last reference, another thread may free the queue at any moment.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "more references were given up than taken");
        before == 1
    }
}
