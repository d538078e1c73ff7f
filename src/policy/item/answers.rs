//! What the transitions of an item's word tell those who make them.

#![forbid(unsafe_code)]

/// What somebody does who queues the item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// It is pending now: push an entry.
    Push,
    /// It is pending now: the entry of a cancelled queueing serves again.
    Revived,
    /// It was pending already: that run sees everything written before this call.
    Coalesced,
    /// It is disabled.
    Refused,
    /// Look into the ledger first.
    Ledger,
}

/// What a worker does with an entry it popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It is running now: call its function.
    Run,
    /// It runs elsewhere: leave the entry in the ledger.
    Meet,
    /// The entry was cancelled: complete it without a run.
    Stale,
    /// The entry was cancelled, and the ledger names it: strike its shard out once, and complete it without a run.
    Strike,
    /// Ask again holding the ledger's lock.
    Ledger,
}

/// What the runner does after the function returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing more.
    Idle,
    /// Take the entry out of the ledger and put it back at the front of its pool.
    PutBack,
    /// Ask again holding the ledger's lock.
    Ledger,
}

/// What a cancel did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It was not pending.
    NotPending,
    /// It was pending; its entry, if one is listed, stays on the list and will be passed over.
    Done,
    /// Ask again holding the ledger's lock.
    Ledger,
}

/// What became of an attempt to arm a timer.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// It is pending by the timer now. `was_pending`: it was pending before, and that queueing is taken back.
    Armed { was_pending: bool },
    /// It was pending already.
    Coalesced,
    /// It is disabled.
    Refused,
}

/// What an arming takes of the bound of the queue that the timer leads to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing: the timer's item is accepted beyond the bound.
    None,
    /// Nothing, but there must be some: an entry of the item stays on a list until its place is reached, and one more will
    /// come.
    Left,
    /// A place: a new entry comes at once.
    Place,
}

/// What there is to wait for.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// The queueing that is pending.
    Pending,
    /// The run that has begun.
    Running,
    /// Nothing.
    None,
}
