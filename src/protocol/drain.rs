//! Finds out whether a queue with several limiters is empty.
//!
//! A thread reads the limiters, which count the items in flight, one after the other. If the thread only read the
//! limiters, it could miss an item:
//!
//! * thread: reads the first limiter, which is empty;
//! * item in the second limiter: puts another item into the first limiter, and completes;
//! * thread: reads the second limiter, which is empty. So the thread misses the item in the first limiter.
//!
//! Therefore the thread first sets all intakes so that issuers count the items that they add. The count is a
//! [`CountedItems`]. During a drain, only the queue's own items can add items. During a shutdown, all items of the
//! executor can add items. If the thread only checks whether the queue is empty ([`Intake::Counted`]), all issuers can
//! add items. The thread reads the count, then the limiters, and then the count again. An issuer raises the count
//! *after* its item is admitted, and *before* the submission returns. So an item that adds another item raises the
//! count before it gives up its own slot:
//!
//! * If the first reading of the count includes the added item, the thread finds this item in its limiter, unless the
//!   item has completed by then. The reason is that `admit` raises the count with release, and `load` reads the count
//!   with acquire.
//! * Suppose that the first reading does not include the added item, but the thread finds all limiters empty. Then the
//!   thread has read the limiter of the adding item after the adding item gave up its slot. The adding item had raised
//!   the count before it gave up its slot. So the second reading of the count is higher than the first reading.
//!
//! Such a mere check may miss an item of an issuer that is not itself an item of the queue. The check misses the item
//! if the issuer adds its item after the thread has read the item's limiter, and raises the count after the second
//! reading. The miss does no harm: the submission has not returned by then, so it may count as a submission that comes
//! after the check.
//!
//! [`Intake::Counted`]: crate::policy::admission::Intake::Counted

use crate::sys::sync::{AtomicU64, Ordering};

use super::limiter::LimiterCell;

/// The number of items that issuers have added while the queue's intake made the issuers count their items.
#[derive(Debug)]
pub(crate) struct CountedItems(AtomicU64);

impl CountedItems {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Calls `admit`, which admits an item. Counts the item if it was admitted.
    #[cold]
    pub(crate) fn admit<A, E>(&self, admit: impl FnOnce() -> Result<A, E>) -> Result<A, E> {
        let admitted = admit()?;
        self.0.fetch_add(1, Ordering::Release);
        Ok(admitted)
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Returns true only if there was a moment at which no item was in flight in any of these limiters. If the result is
/// true, the caller sees the effects of all items that have ended. `counted` returns the sum of the [`CountedItems`] of
/// the limiters' queues. The caller has set the intakes of all limiters to count the items that issuers add.
pub(crate) fn were_empty<'a>(
    counted: impl Fn() -> u64,
    mut limiters: impl Iterator<Item = &'a LimiterCell>,
) -> bool {
    let before = counted();
    limiters.all(LimiterCell::is_empty) && counted() == before
}
