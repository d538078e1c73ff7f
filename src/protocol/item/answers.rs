//! The answers of an item's cell, and the property of entries that it uses.

use crate::policy::flush::Ticket;

/// An entry that may have a ticket.
pub(crate) trait HasTicket {
    fn ticket(&self) -> Option<Ticket>;
}

/// The answer to a submission.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// The item is pending now: push an entry.
    Push,
    /// The item is pending now, by an entry that lies on a list already.
    Revived,
    /// The item was pending already.
    Coalesced,
    /// The item is disabled.
    Refused,
}

/// What a worker does with an entry that it popped.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<E> {
    /// The item is running now by this entry: call its function.
    Run(E),
    /// The item runs elsewhere, and keeps the entry. The item may be freed at any moment.
    Kept,
    /// The item kept the entry, and has run by it meanwhile. The item is over: free it.
    KeptLast,
    /// Complete the entry without a run. The item may be freed at any moment.
    Stale(E),
    /// Complete the entry without a run, and free the item: it is over.
    Last(E),
}

/// What a worker does after the item's function has returned.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// Nothing. The item may be freed at any moment.
    Idle,
    /// Put this entry at the front of its pool: the item runs next by it.
    PutBack(E),
    /// The item is over: free it.
    Last,
}

/// What is left of a cancelled submission.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TakenBack<E, T> {
    pub(crate) was_pending: bool,
    /// An entry that was popped already. The caller completes it at once, without a run.
    pub(crate) kept: Option<E>,
    /// A timer, which the caller takes off the list of timers, if it is still there.
    pub(crate) timer: Option<T>,
}

/// The item was enabled more often than disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDisabled;
