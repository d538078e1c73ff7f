//! The answers of the transitions of an item's word.

#![forbid(unsafe_code)]

/// The next step of an item's issuer after a submission.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The item is pending now. Push an entry.
    Push,
    /// The item is pending now, by an entry that a cancelled submission left on a list. Push no entry.
    Revived,
    /// The item was pending already. The pending run sees everything that the issuer wrote before this call.
    Coalesced,
    /// The item is disabled.
    Refused,
    /// Take the slow-path state's lock and ask again.
    Slow,
}

/// The next step of a worker with an entry that it has popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The item is running now. Call its function.
    Run,
    /// Another worker runs the item. Leave the entry in the slow-path state.
    Meet,
    /// The entry was cancelled. Complete the entry without a run.
    Stale,
    /// The entry was cancelled, and the slow-path state names its shard. Remove one mention of the shard from the
    /// slow-path state, and complete the entry without a run.
    Strike,
    /// Take the slow-path state's lock and ask again.
    Slow,
}

/// The next step of the runner after the item's function has returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Do nothing.
    Idle,
    /// Take the entry out of the slow-path state and put it back at the front of its pool.
    PutBack,
    /// Take the slow-path state's lock and ask again.
    Slow,
}

/// The result of cancelling an item's pending submission.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// The item was not pending.
    NotPending,
    /// The item was pending. If the item has an entry on a list, the entry stays there. A worker completes that entry
    /// without a run, unless a later submission revives it.
    Done,
    /// Take the slow-path state's lock and ask again.
    Slow,
}

/// The result of arming a timer.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The item is pending by the timer now. `was_pending` says whether the item was pending before, by a submission
    /// that is cancelled now.
    Armed { was_pending: bool },
    /// The item was pending already.
    Coalesced,
    /// The item is disabled.
    Refused,
}

/// The room that the timer's queue must have within its bound (`max_pending`) when a timer is armed.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The timer's item takes no place, and is accepted even beyond the bound.
    None,
    /// The timer's item takes no place yet, but the queue must have room. A cancelled entry of the item stays on a list
    /// until a worker pops it, and the timer will add another entry.
    Left,
    /// The timer's item takes a place, because a new entry is pushed immediately.
    Place,
}

/// The submission or the run for which a thread can wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// The pending submission.
    Pending,
    /// The run that has begun.
    Running,
    /// The item has no submission or run for which the thread could wait.
    None,
}
