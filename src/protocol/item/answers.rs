//! What an item's cell asks of entries, and what it tells its callers.

use crate::policy::flush::Ticket;

/// An entry, as far as the item that it is of asks.
pub(crate) trait HasTicket {
    fn ticket(&self) -> Option<Ticket>;
}

/// What a queueing came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Push an entry.
    Push,
    /// It is pending now, by an entry that lies there already.
    Revived,
    /// It was pending before.
    Coalesced,
    /// It is disabled.
    Refused,
}

/// What a popped entry is good for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<E> {
    /// The item is running now, in the name of this entry.
    Run(E),
    /// The item runs elsewhere and has the entry. The item may be gone.
    Kept,
    /// The item had the entry, and has run in its name meanwhile: it is over, free it.
    KeptLast,
    /// Complete the entry without a run. The item may be gone.
    Stale(E),
    /// The same, and free the item: it is over.
    Last(E),
}

/// What becomes of an item whose run has ended.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// Nothing. The item may be gone.
    Idle,
    /// Put this entry at the front of its pool: it is the item's next run.
    PutBack(E),
    /// It is over: free it.
    Last,
}

/// What is left of a queueing that was taken back.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TakenBack<E, T> {
    pub(crate) was_pending: bool,
    /// To be completed without a run at once: it was popped already.
    pub(crate) kept: Option<E>,
    /// To be taken off the list of timers, if it is still there.
    pub(crate) timer: Option<T>,
}

/// The item was enabled more often than disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDisabled;
