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
    /// The item is pending now. The submission uses a cancelled entry again, which still lies on a list.
    Revived,
    /// The item was pending already.
    Coalesced,
    /// The item is disabled.
    Refused,
}

/// The next step of a worker that has popped an entry of the item.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<E> {
    /// The item is running now with this entry. The worker calls the item's function.
    Run(E),
    /// The item is running now with this entry, and the submission carries a value. The worker takes the value before
    /// it calls the item's function.
    RunCarrying(E),
    /// Another worker runs the item, and the item keeps the entry for its next run. The item may be freed at any
    /// moment.
    Kept,
    /// The item kept the entry for its next run. Since then, the entry has run or was cancelled, and the item is over.
    /// The worker frees the item.
    KeptLast,
    /// The worker completes the entry without a run. The item may be freed at any moment.
    Stale(E),
    /// The item is over. The worker completes the entry without a run, and frees the item.
    Last(E),
}

/// The next step of a worker after the item's function has returned.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// The worker does nothing more with the item, which may be freed at any moment.
    Idle,
    /// The worker puts this entry in front of all other entries of the entry's pool. The item then runs in that pool.
    PutBack(E),
    /// The item is over. The worker frees it.
    Last,
}

/// The remains of a cancelled submission.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TakenBack<E, T, C = ()> {
    pub(crate) was_pending: bool,
    /// The submission's entry, if a worker has already popped this entry. The caller completes the entry immediately,
    /// without a run.
    pub(crate) kept: Option<E>,
    /// The timer, if the item was armed. If the timer is still on the list of timers, the caller takes the timer off.
    pub(crate) timer: Option<T>,
    /// The value that the submission carried.
    pub(crate) carried: Option<C>,
}

/// The error for an attempt to enable an item that is not disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDisabled;
