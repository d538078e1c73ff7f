//! Why a queue does not accept an item, why a wait does not wait, and why a shutdown does not begin.

use std::fmt;

/// Why a queue did not accept an item. The item is as it was before.
///
/// # Examples
///
/// ```
/// let error = cmwq::QueueError::UnknownCpu { cpu: 4096 };
/// assert_eq!(error.to_string(), "there is no CPU 4096; `Executor::cpus` tells which there are");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QueueError {
    /// As many items are pending as `max_pending` permits. Without `max_pending`, too, there is an end: a hundred
    /// million items that wait for a slot, in the whole queue or, where `max_active` counts per CPU, on one CPU.
    Full,
    /// The item is disabled, or somebody waits for the end of its cancellation.
    Disabled,
    /// The queue is being drained: only its own items may queue to it.
    Draining,
    /// The queue was destroyed.
    Destroyed,
    /// The executor was shut down, or is being shut down and the caller is none of its items.
    ShutDown,
    /// The executor belongs to the process that this one was forked from.
    Forked,
    /// The calling item holds the only slot that the new one could run in, and would wait for it.
    WouldDeadlock,
    /// A periodic item needs a period.
    ZeroPeriod,
    /// The topology has no such CPU.
    UnknownCpu {
        /// The number that was given.
        cpu: usize,
    },
    /// The topology has no such NUMA node.
    UnknownNode {
        /// The number that was given.
        node: usize,
    },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "the queue is full; try again when it has run something"),
            Self::Disabled => write!(f, "the item is disabled; enable it as often as it was disabled"),
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
                    "the caller holds the only slot that the item could run in, and would wait for it for ever"
                )
            }
            Self::ZeroPeriod => write!(f, "the period is zero; a periodic item needs at least a nanosecond"),
            Self::UnknownCpu { cpu } => {
                write!(f, "there is no CPU {cpu}; `Executor::cpus` tells which there are")
            }
            Self::UnknownNode { node } => write!(f, "there is no NUMA node {node}"),
        }
    }
}

impl std::error::Error for QueueError {}

/// Why a wait did not wait, or not to the end. Nothing that was waited for is changed by this.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{WaitError, WorkQueue};
///
/// let queue = WorkQueue::new("selfish").build()?;
/// let same = queue.clone();
/// let error = queue.spawn(move || same.flush().unwrap_err())?.join()?;
/// assert_eq!(error, WaitError::WouldDeadlock);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait would never end: it is for the calling item itself, or for something that can only come after it. In a
    /// debug build also where several items wait for each other: the last of them to wait gets this, and the log says
    /// who waits for whom. Waits with a timeout, which end by themselves, are not counted among those.
    ///
    /// A release build does not notice, and waits for ever:
    ///
    /// * a wait that closes a cycle of several items;
    /// * a scope with an item that needs the only slot of a queue, if the scope's opener was given that slot for its own next
    ///   run;
    /// * a wait for an item that needs the only slot of the caller's queue, if
    ///   [`set_max_active`](crate::WorkQueue::set_max_active) made it the only one after the caller had begun.
    ///
    /// In any build, the end of a scope that closes a cycle is not refused: a scope cannot return before its items are over.
    WouldDeadlock,
    /// The time ran out.
    TimedOut,
    /// The executor belongs to the process that this one was forked from, and so do the threads that would have
    /// ended the wait.
    Forked,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldDeadlock => {
                write!(
                    f,
                    "waiting here would never end: it is for the calling item, or for what comes after it"
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

/// Why an executor was not shut down. Nothing was changed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use cmwq::{Executor, ShutdownError, WorkQueue};
///
/// // All of the process uses it, and this code has not configured it.
/// assert_eq!(Executor::global().shutdown(Duration::ZERO), Err(ShutdownError::Global));
///
/// let executor = Executor::builder().build()?;
/// let queue = WorkQueue::new("jobs").build_on(&executor)?;
/// let error = queue.spawn(move || executor.shutdown(Duration::from_secs(1)).unwrap_err())?.join()?;
/// assert_eq!(error, ShutdownError::WouldDeadlock);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It is the process-wide executor. Only the [`GlobalExecutor`](crate::GlobalExecutor) that
    /// [`build_global`](crate::ExecutorBuilder::build_global) has returned can end it; if it was made by its first use,
    /// it stays until the process ends.
    Global,
    /// The shutdown would wait for the calling item itself, or for what can only come after it.
    WouldDeadlock,
    /// The executor belongs to the process that this one was forked from.
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
