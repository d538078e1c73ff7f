//! The answers of the transitions of an item's word.

#![forbid(unsafe_code)]

/// What the issuer of an item does.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The item is pending now: push an entry.
    Push,
    /// The item is pending now by the entry of a cancelled submission, which is on a list: push none.
    Revived,
    /// The item was pending already. That run sees everything written before this call.
    Coalesced,
    /// The item is disabled.
    Refused,
    /// Ask again holding the slow-path state's lock.
    Slow,
}

/// What a worker does with an entry it popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The item is running now: call its function.
    Run,
    /// The item runs elsewhere: leave the entry in the slow-path state.
    Meet,
    /// The entry was cancelled: complete it without a run.
    Stale,
    /// The entry was cancelled, and the slow-path state names its shard: strike the shard out once, and complete the
    /// entry without a run.
    Strike,
    /// Ask again holding the slow-path state's lock.
    Slow,
}

/// What the runner does after the function returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is to be done.
    Idle,
    /// Take the entry out of the slow-path state and put it back at the front of its pool.
    PutBack,
    /// Ask again holding the slow-path state's lock.
    Slow,
}

/// What a cancel did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// The item was not pending.
    NotPending,
    /// The item was pending. Its entry, if one is listed, stays on the list, and a worker will pass over it.
    Done,
    /// Ask again holding the slow-path state's lock.
    Slow,
}

/// The result of arming a timer.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The item is pending by the timer now. `was_pending`: it was pending before, and that submission is
    /// cancelled.
    Armed { was_pending: bool },
    /// The item was pending already.
    Coalesced,
    /// The item is disabled.
    Refused,
}

/// What arming a timer takes of the bound of the timer's queue.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing: the timer's item is accepted beyond the bound.
    None,
    /// Nothing, but the queue must have room: an entry of the item stays on a list until its place is reached, and
    /// the timer will add one.
    Left,
    /// A place: a new entry is pushed at once.
    Place,
}

/// What a thread can wait for.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// The pending submission.
    Pending,
    /// The run that has begun.
    Running,
    /// Nothing.
    None,
}
