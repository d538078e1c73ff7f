//! The answers of an item's cell, and the trait through which the cell reads the ticket of an entry.

use crate::policy::flush::Ticket;

/// An entry that may have a ticket.
pub(crate) trait HasTicket {
    fn ticket(&self) -> Option<Ticket>;
}

/// The answer to a submission.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// The item is pending now, and the caller pushes an entry.
    Push,
    /// The item is pending now, with an entry that lies on a list already.
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
    /// The item is running now with this entry. The worker calls the item's function.
    Run(E),
    /// Another worker runs the item, and the item keeps the entry. The item may be freed at any moment.
    Kept,
    /// The item kept the entry. Meanwhile the entry has run or was cancelled, and the item is over. The worker frees
    /// the item.
    KeptLast,
    /// The worker completes the entry without a run. The item may be freed at any moment.
    Stale(E),
    /// The item is over. The worker completes the entry without a run, and frees the item.
    Last(E),
}

/// What a worker does after the item's function has returned.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// The worker does nothing more with the item, which may be freed at any moment.
    Idle,
    /// The worker puts this entry at the front of the entry's pool, where the item runs next.
    PutBack(E),
    /// The item is over. The worker frees it.
    Last,
}

/// The remains of a cancelled submission.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TakenBack<E, T> {
    pub(crate) was_pending: bool,
    /// The entry, if a worker has already popped it. The caller immediately completes the entry without a run.
    pub(crate) kept: Option<E>,
    /// The timer, if the item was armed. The caller takes the timer off the list of timers, if it is still there.
    pub(crate) timer: Option<T>,
}

/// The error that an item was enabled more often than it was disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDisabled;
