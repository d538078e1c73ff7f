//! The reasons why a queue does not accept an item, why a wait fails, and why a shutdown does not begin.

use std::fmt;

/// The reason why a queue did not accept an item. The refusal leaves the item unchanged.
///
/// # Examples
///
/// ```
/// let error = cmwq::QueueError::UnknownCpu { cpu: 4096 };
/// assert_eq!(error.to_string(), "there is no CPU 4096; `Executor::cpus` returns the CPUs");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QueueError {
    /// The number of pending items has reached `max_pending`. A queue without `max_pending` is full when a hundred
    /// million items wait for a slot. The queue counts its waiting items together, or separately for each CPU if
    /// `max_active` applies per CPU. The queue also counts as full while the executor has no room for further items or
    /// bytes of this queue ([`max_pending`](crate::ExecutorBuilder::max_pending),
    /// [`max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes)).
    Full,
    /// The item is disabled, or a thread is cancelling the item and waits until the item's run ends.
    Disabled,
    /// The queue is being drained, so only its own items may submit to it.
    Draining,
    /// The queue was destroyed.
    Destroyed,
    /// The executor was shut down, or it is being shut down and the caller is not one of its items.
    ShutDown,
    /// The executor belongs to the process from which this process was forked.
    Forked,
    /// The calling item holds the only slot in which the new item could run, and would wait for the new item.
    WouldDeadlock,
    /// The permit of the submission was reserved on another queue.
    ForeignPermit,
    /// The period of a periodic item is zero.
    ZeroPeriod,
    /// The [window](crate::Map::window) of a map is zero.
    ZeroWindow,
    /// The [chunks](crate::Scope::chunks) of a slice would have no elements.
    ZeroChunk,
    /// The topology has no CPU with the given number.
    UnknownCpu {
        /// The number that was given.
        cpu: usize,
    },
    /// The topology has no NUMA node with the given number.
    UnknownNode {
        /// The number that was given.
        node: usize,
    },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "the queue is full; try again when it has run something"),
            Self::Disabled => write!(f, "the item is disabled; enable it as many times as it was disabled"),
            Self::Draining => {
                write!(f, "the queue is being drained: until that ends, only its own items may queue to it")
            }
            Self::Destroyed => write!(f, "the queue was destroyed"),
            Self::ShutDown => write!(f, "the executor was shut down"),
            Self::Forked => {
                write!(
                    f,
                    "the executor belongs to the process that this one was forked from; make a new one here"
                )
            }
            Self::WouldDeadlock => {
                write!(
                    f,
                    "the caller holds the only slot in which the item could run, and would wait for the item for ever"
                )
            }
            Self::ForeignPermit => write!(f, "the permit reserves a place in another queue; use it there"),
            Self::ZeroPeriod => write!(f, "the period is zero; a periodic item needs at least a nanosecond"),
            Self::ZeroWindow => write!(f, "the window is 0; a map needs at least one item in flight"),
            Self::ZeroChunk => write!(f, "the size of a chunk is 0; a chunk needs at least one element"),
            Self::UnknownCpu { cpu } => {
                write!(f, "there is no CPU {cpu}; `Executor::cpus` returns the CPUs")
            }
            Self::UnknownNode { node } => {
                write!(f, "there is no NUMA node {node}; the topology in `Executor::dump` has the nodes")
            }
        }
    }
}

impl std::error::Error for QueueError {}

/// The reason why a wait was refused, or ended too early. The failure itself does not change the awaited items and
/// queues.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{WaitError, WorkQueue};
///
/// let queue = WorkQueue::new("selfish");
/// let same = queue.clone();
/// let error = queue.spawn(move || same.flush().unwrap_err())?.join()?;
/// assert_eq!(error, WaitError::WouldDeadlock);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait would never end, because the caller waits for its own item, or for an item that can run only after the
    /// caller's item. A debug build also detects cycles of several items that wait for each other. The item whose wait
    /// closes the cycle gets this error, and the log tells which item waits for which. The check for cycles ignores
    /// waits with a timeout and waits that a cancel can end, because a cycle with such a wait can come to an end. The
    /// check for cycles also ignores waits for room in a full queue, and futures that a task awaits. While an item has
    /// an open scope, the check for cycles assumes that the item waits for all items of the scope, even for those that
    /// the item will cancel. So a debug build also refuses a wait that would end only because an item cancels items of
    /// its own scope.
    ///
    /// A release build does not detect the following cases, and the caller waits for ever:
    ///
    /// * a wait that closes a cycle of several items;
    /// * a scope whose item needs the only slot of a queue, while the item that opened the scope already owns this slot
    ///   for its next run.
    ///
    /// A wait deadlocks if the awaited item needs a slot of the caller's queue, while all slots belong to the caller
    /// and to items that cannot end before the caller. A scope with an item that needs such a slot deadlocks, too.
    /// In two cases, no build detects this deadlock after [`set_max_active`](crate::WorkQueue::set_max_active) has
    /// lowered the limit. In the first case, the limit was lowered after the wait began, or after the item was spawned
    /// into the scope. In the second case, another item still had a slot when the wait began, or when the item was
    /// spawned into the scope.
    ///
    /// No build refuses the join of an item whose timer cannot queue the item yet because another thread drains the
    /// queue. If the caller is an item of that queue, the drain waits for the caller, and the caller waits for the
    /// drain.
    ///
    /// No build refuses the wait at the end of a scope, even if this wait closes a cycle, because a scope cannot return
    /// before its items are over.
    WouldDeadlock,
    /// The time ran out.
    TimedOut,
    /// The executor belongs to the process from which this process was forked. The threads that could end the wait
    /// exist only in the parent process.
    Forked,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldDeadlock => {
                write!(
                    f,
                    "the wait would never end: the caller waits for itself, or for an item that can only run after it"
                )
            }
            Self::TimedOut => write!(f, "the time ran out"),
            Self::Forked => {
                write!(
                    f,
                    "the executor belongs to the process that this one was forked from; it runs nothing here"
                )
            }
        }
    }
}

impl std::error::Error for WaitError {}

/// The reason why an item should stop, or why a wait ended early.
///
/// # Examples
///
/// ```
/// use cmwq::{CancelToken, Cancelled};
/// use std::time::Duration;
///
/// let token = CancelToken::new();
/// assert_eq!(token.child_within(Duration::ZERO).check(), Err(Cancelled::DeadlinePassed));
/// token.cancel();
/// assert_eq!(token.check(), Err(Cancelled::Requested));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cancelled {
    /// The token or one of its ancestors was cancelled, the item's handle has asked the item to stop, or the item's
    /// queue or executor has ended.
    Requested,
    /// The deadline of the token has passed.
    DeadlinePassed,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => write!(f, "the item was asked to stop"),
            Self::DeadlinePassed => write!(f, "the deadline has passed"),
        }
    }
}

impl std::error::Error for Cancelled {}

/// The reason why an executor was not shut down. The failed call does not change the executor.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use cmwq::{Executor, ShutdownError, WorkQueue};
///
/// // The whole process uses the global executor, and this code has not configured it.
/// assert_eq!(Executor::global().shutdown(Duration::ZERO), Err(ShutdownError::Global));
///
/// let executor = Executor::builder().build()?;
/// let queue = WorkQueue::builder("jobs").build_on(&executor)?;
/// let error = queue.spawn(move || executor.shutdown(Duration::from_secs(1)).unwrap_err())?.join()?;
/// assert_eq!(error, ShutdownError::WouldDeadlock);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShutdownError {
    /// This is the process-wide executor. Only the [`GlobalExecutor`](crate::GlobalExecutor) that
    /// [`build_global`](crate::ExecutorBuilder::build_global) has returned can shut the process-wide executor down. If
    /// the process-wide executor was made by its first use, it lives until the process ends.
    Global,
    /// The shutdown would wait for the calling item itself, or for an item that can run only after the calling item.
    WouldDeadlock,
    /// The executor belongs to the process from which this process was forked.
    Forked,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => {
                write!(
                    f,
                    "this is the process-wide executor; only the `GlobalExecutor` that `build_global` returned may \
                     shut it down"
                )
            }
            Self::WouldDeadlock => {
                write!(f, "the shutdown would never end: it would wait for the calling item")
            }
            Self::Forked => {
                write!(
                    f,
                    "the executor belongs to the process that this one was forked from; it runs nothing here"
                )
            }
        }
    }
}

impl std::error::Error for ShutdownError {}
