//! The error types, one for each operation. Each error message names the wrong value and says which values are
//! accepted.

pub(crate) mod attrs;
pub(crate) mod batch;
pub(crate) mod join;
pub(crate) mod limit;
pub(crate) mod refused;
pub(crate) mod scope;

use std::fmt;
use std::io;
use std::time::Duration;

use crate::engine::refusal::QueueError;
use crate::policy::cpu_set::CpuSet;
use crate::sys::topology::TopologyError;

use self::join::JoinError;

/// Why an executor could not be built.
///
/// # Examples
///
/// ```
/// use cmwq::{BuildExecutorError, CpuSet, Executor};
///
/// let error = Executor::builder().cpus(CpuSet::new()).build().unwrap_err();
/// assert!(matches!(error, BuildExecutorError::NoCpu));
/// println!("{error}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildExecutorError {
    /// The set of CPUs that was given is empty.
    NoCpu,
    /// The set of CPUs contains a CPU that the topology does not have.
    UnknownCpu {
        /// The number of that CPU.
        cpu: usize,
        /// The CPUs that the topology has.
        known: CpuSet,
    },
    /// The CPUs that the process may use cannot be read.
    Cpus(io::Error),
    /// The topology cannot be loaded.
    Topology(TopologyError),
    /// The executor's default scope is [`AffinityScope::Default`](crate::AffinityScope::Default). That scope stands for
    /// the executor's default, so the default itself must be another scope.
    DefaultScope,
    /// The nice level is outside the range −20 to 19.
    Nice(i32),
    /// `max_threads` must be at least 1.
    MaxThreads,
    /// `max_pending` must be at least 1.
    MaxPending,
    /// `max_pending_bytes` must be at least 1.
    MaxPendingBytes,
    /// `min_idle` must be at least 2.
    MinIdle(usize),
    /// The thread name prefix is empty, or contains a NUL.
    ThreadName(String),
    /// `stack_size` is above the limit, or below 16 KiB. A worker needs a stack of at least 16 KiB.
    StackSize {
        /// The size that was given, in bytes.
        bytes: usize,
        /// The largest size that is accepted, in bytes: 1 GiB, or 64 MiB on 32-bit systems.
        limit: usize,
    },
    /// The time given to `progress_check` is below one millisecond.
    #[cfg(any(test, feature = "__testing"))]
    #[doc(hidden)]
    ProgressCheck(Duration),
    /// `hog_threshold` is below one millisecond. To search for no hogs, give `None`.
    HogThreshold(Duration),
    /// `watchdog_threshold` is below one millisecond. To turn the watchdog off, give `None`.
    WatchdogThreshold(Duration),
    /// The manager's thread cannot be made.
    Thread(io::Error),
    /// The global executor exists already.
    GlobalExists,
}

impl fmt::Display for BuildExecutorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpu => write!(f, "an executor needs at least one CPU, but the set of its CPUs is empty"),
            Self::UnknownCpu { cpu, known } => write!(f, "there is no CPU {cpu}; the topology has {known}"),
            Self::Cpus(_) => {
                write!(f, "the CPUs that the process may use cannot be read; set the CPUs with `cpus`")
            }
            Self::Topology(_) => write!(f, "the topology cannot be loaded"),
            Self::Nice(nice) => write!(f, "nice level {nice} does not exist; levels go from -20 to 19"),
            Self::DefaultScope => {
                write!(f, "the scope `default` stands for the executor's default, which must be another one")
            }
            Self::MaxThreads => write!(f, "max_threads is 0; an executor needs at least one thread"),
            Self::MaxPending => {
                write!(f, "max_pending is 0; an executor must hold at least one pending item")
            }
            Self::MaxPendingBytes => {
                write!(f, "max_pending_bytes is 0; an executor must have room for at least one byte")
            }
            Self::MinIdle(threads) => write!(
                f,
                "min_idle is {threads}; it must be at least 2: a worker, and one that takes its place if it blocks"
            ),
            Self::ThreadName(prefix) => {
                write!(f, "{prefix:?} cannot be the prefix of thread names: it is empty or contains a NUL")
            }
            Self::StackSize { bytes, limit } => {
                write!(f, "stack_size is {bytes}; it must be 16384 to {limit} bytes")
            }
            #[cfg(any(test, feature = "__testing"))]
            Self::ProgressCheck(patience) => {
                write!(f, "progress_check after {patience:?} is too soon; it must be at least 1ms")
            }
            Self::HogThreshold(threshold) => write!(
                f,
                "hog_threshold is {threshold:?}; it must be at least 1ms; `None` turns the search off"
            ),
            Self::WatchdogThreshold(threshold) => {
                write!(f, "watchdog_threshold is {threshold:?}; it must be at least 1ms; `None` turns it off")
            }
            Self::Thread(_) => write!(f, "the manager's thread cannot be made"),
            Self::GlobalExists => {
                write!(f, "the global executor exists already; configure it before anything uses it")
            }
        }
    }
}

impl std::error::Error for BuildExecutorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cpus(error) | Self::Thread(error) => Some(error),
            Self::Topology(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a queue could not be built. A failed build makes nothing.
///
/// # Examples
///
/// ```
/// use cmwq::{BuildQueueError, WorkQueue};
///
/// let error = WorkQueue::builder("q").max_active(513).build().unwrap_err();
/// assert!(matches!(error, BuildQueueError::MaxActive { setter: "max_active", value: 513, limit: 512 }));
/// assert_eq!(error.to_string(), "max_active is 513; it must be 1 to 512");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildQueueError {
    /// The queue's name is empty.
    EmptyName,
    /// `max_active` or `max_active_total` is 0, or above the limit.
    MaxActive {
        /// The setter: `max_active` or `max_active_total`.
        setter: &'static str,
        /// The value that was given.
        value: usize,
        /// The highest value that is accepted.
        limit: usize,
    },
    /// `max_pending` is 0, so the queue would refuse every item.
    MaxPending,
    /// `weight` is 0, or above the limit.
    Weight {
        /// The value that was given.
        value: u32,
        /// The highest value that is accepted.
        limit: u32,
    },
    /// Two flags or limits exclude each other.
    Contradiction {
        /// The first flag or limit.
        this: &'static str,
        /// The flag or limit that excludes the first one.
        with: &'static str,
        /// The reason why the two flags or limits exclude each other.
        because: &'static str,
    },
    /// The set of CPUs in the attributes is empty.
    NoCpu,
    /// The set of CPUs in the attributes contains a CPU that the executor does not use.
    UnknownCpu {
        /// The number of that CPU.
        cpu: usize,
        /// The CPUs that the executor uses.
        known: CpuSet,
    },
    /// The nice level is outside the range −20 to 19.
    Nice(i32),
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The queue's rescuer cannot be made. One cause is that the system or the executor's `before_spawn` hook refused
    /// the rescuer's thread. The other cause is that a hook tried to build the queue on the manager's thread, which
    /// makes the rescuers and so cannot wait for one.
    Rescuer {
        /// The kind of the error. It is [`io::ErrorKind::Deadlock`] if a hook builds the queue on the manager's thread.
        kind: io::ErrorKind,
        /// The text of the error.
        message: String,
    },
    /// The executor belongs to the process from which this process was forked.
    Forked,
}

impl fmt::Display for BuildQueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => write!(f, "a queue needs a name, but the given name is empty"),
            Self::MaxActive { setter, value, limit } => {
                write!(f, "{setter} is {value}; it must be 1 to {limit}")
            }
            Self::MaxPending => write!(f, "max_pending is 0; a queue must hold at least one item"),
            Self::Weight { value, limit } => write!(f, "weight is {value}; it must be 1 to {limit}"),
            Self::Contradiction { this, with, because } => {
                write!(f, "{this} does not go with {with}: {because}")
            }
            Self::NoCpu => {
                write!(f, "the attributes have no CPU; leave the CPUs unset to use all CPUs of the executor")
            }
            Self::UnknownCpu { cpu, known } => {
                write!(f, "the executor does not use CPU {cpu}; it uses {known}")
            }
            Self::Nice(nice) => write!(f, "nice level {nice} does not exist; levels go from -20 to 19"),
            Self::ShutDown => write!(f, "the executor was shut down"),
            Self::Rescuer { message, .. } => write!(f, "the queue's rescuer cannot be made: {message}"),
            Self::Forked => write!(
                f,
                "the executor belongs to the process that this one was forked from; make a new one here"
            ),
        }
    }
}

impl std::error::Error for BuildQueueError {}

/// The error of a call that queues closures and waits for them. A closure was refused, failed, or did not end in time.
///
/// This is the error of [`WorkQueue::map`](crate::WorkQueue::map), [`WorkQueue::for_each`](crate::WorkQueue::for_each)
/// and [`ExecutorExt::run_on_cpu`](crate::kernel::ExecutorExt::run_on_cpu).
///
/// # Examples
///
/// ```
/// use cmwq::kernel::ExecutorExt;
/// use cmwq::{Executor, JoinError, QueueError, RunError};
///
/// let executor = Executor::global();
/// let error = executor.run_on_cpu(1 << 20, || ()).unwrap_err();
/// assert!(matches!(error, RunError::Refused(QueueError::UnknownCpu { .. })));
///
/// let cpu = executor.cpus().first().unwrap();
/// let error = executor.run_on_cpu(cpu, || panic!("no luck")).unwrap_err();
/// assert!(matches!(error, RunError::Failed(JoinError::Panicked(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// A closure was not accepted, and has not begun.
    Refused(QueueError),
    /// A closure panicked, a shutdown dropped a closure, or the wait for a closure would never end.
    Failed(JoinError),
    /// The time ran out. The closures that had not ended by then were detached, and the executor still runs them.
    TimedOut,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
            Self::TimedOut => write!(f, "the time ran out; the closure was detached and goes on"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<QueueError> for RunError {
    fn from(error: QueueError) -> Self {
        Self::Refused(error)
    }
}

impl From<JoinError> for RunError {
    fn from(error: JoinError) -> Self {
        Self::Failed(error)
    }
}

/// Why an item was not enabled.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{EnableError, Work};
///
/// let work = Work::new(|| ());
/// assert_eq!(work.enable(), Err(EnableError::NotDisabled));
/// work.disable();
/// assert!(work.enable()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EnableError {
    /// The item is not disabled, because it was enabled as many times as it was disabled. The call changed nothing.
    NotDisabled,
}

impl fmt::Display for EnableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDisabled => {
                write!(f, "the item is not disabled; each `enable` undoes one `disable`")
            }
        }
    }
}

impl std::error::Error for EnableError {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{
        EnqueueBatchError, JoinHandle, Refused, RefusedBatch, ScopeError, SetMaxActiveError, SetWeightError,
        ShutdownError, WaitError,
    };

    use super::*;

    /// The operator `?` converts every error into the usual boxed errors.
    #[test]
    fn errors_are_send_and_sync() {
        fn is_error<E: std::error::Error + Send + Sync + 'static>() {}
        is_error::<BuildExecutorError>();
        is_error::<BuildQueueError>();
        is_error::<QueueError>();
        is_error::<JoinError>();
        is_error::<SetMaxActiveError>();
        is_error::<SetWeightError>();
        is_error::<WaitError>();
        is_error::<ShutdownError>();
        is_error::<EnableError>();
        is_error::<ScopeError>();
        is_error::<RunError>();
        is_error::<EnqueueBatchError>();
        // A closure that owns a `Cell` is not `Sync`.
        is_error::<Refused<Cell<u8>>>();
        is_error::<RefusedBatch<Cell<u8>, Vec<JoinHandle<Cell<u8>>>>>();
        is_error::<RefusedBatch<Cell<u8>, usize>>();
    }
}
